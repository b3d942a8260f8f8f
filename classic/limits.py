"""How long a queue may get. Only ready messages count, and what consumers hold does not. Arithmetic only."""

from __future__ import annotations

from broker.catalog.policy import EffectiveArguments

DROP_HEAD = "drop-head"
REJECT_PUBLISH_DLX = "reject-publish-dlx"


def over(effective: EffectiveArguments, count: int, size: int) -> bool:
    """Whether so many messages, of so many bytes, are too many."""
    if effective.max_length is not None and count > effective.max_length:
        return True
    return effective.max_length_bytes is not None and count > 0 and size > effective.max_length_bytes


def excess(effective: EffectiveArguments, count: int, size: int) -> int:
    """How many messages are to leave at the head now: all that are too many by number, one at a time by bytes. None where
    publishes are rejected instead: what comes back, or was there before the limit, has been confirmed."""
    if effective.overflow != DROP_HEAD or not over(effective, count, size):
        return 0
    by_count = 0 if effective.max_length is None else count - effective.max_length
    return max(1, by_count)


def refuses(effective: EffectiveArguments, count: int, size: int) -> bool:
    """Whether a run is kept out because the queue would get so long with it."""
    return effective.overflow != DROP_HEAD and over(effective, count, size)


def dead_letters_refused(effective: EffectiveArguments) -> bool:
    return effective.overflow == REJECT_PUBLISH_DLX and effective.dead_letter_exchange is not None
