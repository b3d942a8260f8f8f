"""What this node says to one queue's group, in portions of one entry each, which are said again until they are answered.

    portions     cut and not answered yet, in order; the first `sent` of them are on their way, the rest will be (again)

Nothing waits for a portion to grow: `flush` at the end of a turn sends what there is, a lone message at once. While a portion
is on its way the next one gathers, so portions grow with the load. What gathers, and when it may overtake an answer, a kind of
queue says by itself (quorum/session.py).

An answer counts only if everything before it was answered too. When one portion fails (its leader is gone, its fate unknown),
all from the first unanswered one on are said again, in the old order: the first alone, the rest once that is answered. Said
together, a leader that has room for the first but not for both would refuse the second each time, and each time the answer to
the first would be that of an attempt that is over. What was applied already is recognised by the machine, by the sequences of
messages and the like. So a channel's order holds whatever happens to leaders, and nothing said later takes effect for good
before what was said earlier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from broker.messages.confirms import Receipt

PORTION_BYTES_MAX = 512 << 10  # of one entry; a single operation may be larger
IN_FLIGHT_MAX = 4
# A portion costs each node a record, two messages and its share of an fsync, whatever it holds. Three nodes on two cores, one
# publisher with 1000 unconfirmed and one consumer: 79,000 messages a second with one portion on its way, 55,000 with two,
# 57,000 with three, 43,000 with eight. With 100 unconfirmed: 19,000, 15,000, 17,000, 13,000.
AMPLE_BYTES = 128 << 10  # that gather: what waits for nothing, see `_may_cut`

Asker = Callable[[Any], None] | list[Receipt] | None
"""Who waits for an operation's result: receipts of publishers, a function that is given the result, or nobody."""


class Portion:
    """What one entry holds."""

    __slots__ = ("askers", "ops", "publishes", "results", "sequence_end", "size")

    def __init__(self, ops: list[bytes], askers: list[Asker], size: int, sequence_end: int, *, publishes: bool) -> None:
        self.ops = ops  # their bytes, one behind the other; an operation may be several of these
        self.askers = askers  # one for each operation
        self.size = size
        self.sequence_end = sequence_end  # of the first message that is not in it, nor in one before it
        self.publishes = publishes  # and is not only what consumers say
        self.results: Sequence[Any] | None = None  # known, while those of a portion before it are not


class Owner:
    """Whose session it is: the queue."""

    def send(self, portion: Portion, attempt: int) -> None:
        """Bring it to the leader; then call `answered` or `failed` with this attempt, once."""
        raise NotImplementedError

    def enqueued(self, receipts: list[Receipt], result: Any) -> None:
        """What became of runs; these are the receipts of those whose publishers wait for it."""
        raise NotImplementedError

    def lost_touch(self) -> None:
        """What was sent will not be answered. Set `open` again when there is somebody to say it to."""
        raise NotImplementedError


class Pipeline:
    """This node's, of one queue, in one life of the process. What it says, a kind of queue adds."""

    __slots__ = (
        "_answered", "_doubts", "_owner", "attempt", "open", "portions", "sent", "waiting_bytes", "waiting_messages",
    )  # fmt: skip

    def __init__(self, owner: Owner) -> None:
        self.open = True  # False while there is nobody to say anything to: then all gathers
        self.attempt = 0  # counts how often all was said anew; answers to an earlier one are late
        self.sent = 0
        self.portions: deque[Portion] = deque()
        self.waiting_bytes = 0  # said and not answered, sent or not
        self.waiting_messages = 0
        self._owner = owner
        self._doubts = False  # since the last failure nothing was answered
        self._answered = 1  # sequence of the first message that has no answer

    # What a kind of queue adds.

    def _gather(self) -> None:
        """What is still kept elsewhere joins what gathers: it may be cut now."""

    def _may_cut(self) -> bool:
        """Whether anything gathers, and need not wait until what was sent is answered."""
        raise NotImplementedError

    def _cut(self) -> Portion:
        """Of what gathers, from its beginning."""
        raise NotImplementedError

    def _forget(self) -> list[Asker]:
        """All that gathers; returns who waits for it."""
        raise NotImplementedError

    def _has_gap(self, results: Sequence[Any]) -> bool:
        """Whether one of them says that what came before is missing."""
        raise NotImplementedError

    # To the leader.

    def flush(self) -> None:
        """Send what waits, as far as the pipeline has room."""
        if not self.open:
            return
        self._gather()
        while self.open and self.sent < (1 if self._doubts else IN_FLIGHT_MAX):
            if self.sent == len(self.portions):
                if not self._may_cut():
                    return
                self.portions.append(self._cut())
            self.sent += 1
            self._owner.send(self.portions[self.sent - 1], self.attempt)

    def answered(self, portion: Portion, attempt: int, results: Sequence[Any]) -> None:
        """The portion was applied."""
        if attempt != self.attempt:
            return
        if len(results) != len(portion.askers) or self._has_gap(results):
            self.failed(attempt)  # what came before it is missing; or it was made by nobody who knows what was asked
            return
        portion.results = results
        while self.portions and self.portions[0].results is not None:
            self._tell(self.portions.popleft())
        self.flush()

    def _tell(self, portion: Portion) -> None:
        self.sent -= 1
        self._doubts = False
        self.waiting_bytes -= portion.size
        self.waiting_messages -= portion.sequence_end - self._answered
        self._answered = portion.sequence_end
        assert portion.results is not None, "a portion is told its results before they are known"
        for asker, result in zip(portion.askers, portion.results, strict=True):
            if type(asker) is list:
                self._owner.enqueued(asker, result)
            elif asker is not None:
                assert callable(asker), f"{asker!r} waits for a result"
                asker(result)

    def failed(self, attempt: int) -> None:
        """A portion of this attempt was not applied, or nobody knows."""
        if attempt != self.attempt:
            return
        self.attempt += 1
        self.sent = 0
        self.open = False
        self._doubts = True
        for portion in self.portions:
            portion.results = None
        self._owner.lost_touch()

    def close(self) -> list[Asker]:
        """The queue is gone: nothing is said any more. Returns who still waited."""
        self.open = False
        self.attempt += 1
        waiting: list[Asker] = [asker for portion in self.portions for asker in portion.askers if asker is not None]
        waiting += [asker for asker in self._forget() if asker is not None]
        self.portions.clear()
        self.sent = self.waiting_bytes = self.waiting_messages = 0
        return waiting
