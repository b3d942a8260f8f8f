"""Handing out ahead: a consumer whose client is fast is handed out more messages than that may hold, and the rest waits on its
node. So what the client settles makes room at once, and not when the group has committed that; and what it settles within a
round trip shares an entry.

The client holds no more than its prefetch: that is counted on its node. To the group what waits is out to the consumer like all
that its client holds, whoever leads. It is as if the client were a little slower, as long as nobody sees a difference: a
consumer is ahead only

- while it is the queue's only one, and no rule has ready messages die, wait, or overtake each other;
- after its client took all that it would be handed out within AHEAD_MS, and as much was ready.

That ends when something has waited for AHEAD_MS, or one of these is no longer so. The group is told of the smaller window; what
waits then is given to the client as it makes room, and what has waited too long goes back as never seen.
"""

from __future__ import annotations

from collections.abc import Callable

from quorum.fifo.queue_state import QueueState
from quorum.fifo.rules import Retry

AHEAD_TIMES = 4  # windows, beside the one that the client may hold
AHEAD_MESSAGES_MAX = 2_000  # as many as a consumer without prefetch holds (quorum/fifo/consumers.py)
AHEAD_MS = 50  # much longer than an entry takes to be committed, shorter than a message may be seen to be stuck


class Ahead:
    """Of one consumer."""

    __slots__ = ("_ends", "_given", "_given_at", "_known_at", "_since", "_timed", "messages")

    def __init__(self) -> None:
        self.messages = 0  # that the group may hand out beyond what the client may hold
        self._ends = False  # the group has not said yet that it knows
        self._known_at: int | None = None  # index of a state that knows; None: nothing waits that was ahead
        self._given = 0  # to the client, since then
        self._since = 0
        self._given_at = 0
        self._timed = False

    def given(self, count: int, now: int) -> None:
        """To the client."""
        self._given += count
        self._given_at = now

    def keep(self, window: int, state: QueueState | None, waits: bool, now: int) -> None:
        """Begin, go on or end. `window`: what the client may hold; 0: there is nothing to be ahead of. `waits`: there is
        something that it has no room for."""
        messages = min(window * AHEAD_TIMES, AHEAD_MESSAGES_MAX)
        if self.messages:
            may_be = messages and state is not None and _makes_no_difference(state)
            self.messages = messages if may_be and not (waits and self._is_slow(now)) else 0
            self._ends = not self.messages
        elif messages and self._is_fast(window + messages, now) and _would_help(state, messages):
            self.messages = messages
            self._ends, self._known_at = False, None

    def ended(self, known_at: int) -> None:
        """The group has the smaller window since this index, or a later one than that."""
        if self._ends:
            self._ends, self._known_at = False, known_at

    def gives_back(self, applied: int, now: int) -> bool:
        """Something waits. Whether it goes back now."""
        if self._known_at is None or self._known_at > applied or not self._is_slow(now):
            return False
        self._known_at = None
        return True

    def look_again(self, call_after: Callable[[int, Callable[[int], None]], object], wake: Callable[[], None]) -> None:
        """Something waits: have it looked at when it may have waited for too long."""
        if self._timed or not (self.messages or self._known_at is not None):
            return

        def look(_: int) -> None:
            self._timed = False
            wake()

        self._timed = True
        call_after(AHEAD_MS, look)

    def _is_slow(self, now: int) -> bool:
        return not 0 <= now - self._given_at < AHEAD_MS

    def _is_fast(self, messages: int, now: int) -> bool:
        """Whether it took so many in a short time."""
        short = 0 <= now - self._since <= AHEAD_MS
        if short and self._given < messages:
            return False
        self._given, self._since = 0, now
        return short


def _would_help(state: QueueState | None, messages: int) -> bool:
    return state is not None and state.ready.count >= messages and _makes_no_difference(state)


def _makes_no_difference(state: QueueState) -> bool:
    """To anybody, whether messages are ready or out to the consumer for a moment."""
    rules = state.rules
    return (
        state.consumers.count == 1
        and state.ready.alike
        and rules.message_ttl_ms is None
        and rules.max_length is None
        and rules.max_length_bytes is None
        and rules.retry is Retry.DISABLED
        and not rules.single_active
    )
