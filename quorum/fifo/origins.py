"""Who published the messages of an entry, part after part, as bytes: what an ORIGINS holds (quorum/fifo/commands.py)."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

ORIGIN = Struct("<IQIB")
DEATH = Struct("<QQIIB")
_LONE = Struct("<BI" + ORIGIN.format.removeprefix("<"))  # behind the head of an operation
_WAITED_FOR, _DIED = 1, 2


class DeathPlace(NamedTuple):
    """Where a dead letter died, and why."""

    queue_id: int
    pos: int
    off: int
    nth: int
    reason: int


class OriginPart(NamedTuple):
    """Consecutive messages of one publisher, or one dead letter."""

    actor: int
    number: int
    messages: int
    waited_for: bool = False
    died_in: DeathPlace | None = None


def encode_part(
    actor: int,
    number: int,
    messages: int,
    waited_for: bool = False,
    died_in: tuple[int, int, int, int, int] | None = None,
) -> bytes:
    """A part, whose fields are those of OriginPart."""
    if died_in is None:
        return ORIGIN.pack(actor, number, messages, waited_for)
    return ORIGIN.pack(actor, number, messages, waited_for | _DIED) + DEATH.pack(*died_in)


def encode_lone(kind: int, actor: int, number: int, messages: int, waited_for: bool) -> bytes:
    """The whole operation, of this kind, where one publisher's messages are all: as most are, so in one go."""
    return _LONE.pack(kind, ORIGIN.size, actor, number, messages, waited_for)


def read_parts(data: bytes, start: int, end: int) -> list[OriginPart]:
    """Raises ValueError where the bytes end within a part."""
    parts = []
    while start < end:
        actor, number, messages, flags = ORIGIN.unpack_from(data, start)
        start += ORIGIN.size
        died_in = None
        if flags & _DIED:
            died_in = DeathPlace(*DEATH.unpack_from(data, start))
            start += DEATH.size
        if start > end:
            raise ValueError(f"the parts of an ORIGINS reach to {start}, and it ends at {end}")
        parts.append(OriginPart(actor, number, messages, bool(flags & _WAITED_FOR), died_in))
    return parts
