"""What the machine remembers of each session, so that hearing something twice changes nothing."""

from __future__ import annotations

from native.sequence_set import SequenceSet
from quorum.fifo.commands import FIRST_NUMBER, FIRST_SEQUENCE, SessionKey
from quorum.fifo.results import Gap, ResultCode

# Numbers that a later one has overtaken: what was said before it is still on its way. A session has fewer portions under way.
OVERTAKEN_MAX = 4096
NUMBER_MAX = 1 << 62


class SessionProgress:
    """One session: how far it has come."""

    __slots__ = ("last_number", "next_sequence", "overtaken", "purged", "rejected", "suspected")

    def __init__(self) -> None:
        self.next_sequence = FIRST_SEQUENCE
        self.rejected = SequenceSet()  # sequences that were refused, as far as the session may ask again
        self.last_number = FIRST_NUMBER - 1  # the highest of its consumers, gets and purges
        self.overtaken = SequenceSet()  # numbers below it that have not been heard of yet
        self.purged: dict[int, int] = {}  # purges by their number, as far as the session may ask again: what they took
        self.suspected = False  # its node seems to be down

    def hear(self, sequence: int, length: int, answered: int) -> ResultCode | Gap | None:
        """A run with these sequences; None: it is new, and its fate is to be told by `enqueued`."""
        if self.rejected:
            self.rejected.remove(0, answered)
        if sequence == self.next_sequence:
            return None
        if sequence + length <= self.next_sequence:
            return ResultCode.REJECTED if sequence in self.rejected else ResultCode.DUPLICATE
        return Gap(self.next_sequence)

    def enqueued(self, length: int, accepted: bool) -> None:
        if not accepted:
            self.rejected.add(self.next_sequence, self.next_sequence + length)
        self.next_sequence += length

    def begin(self, number: int) -> bool:
        """A consumer, get or purge with this number: whether it is heard of for the first time."""
        if number > NUMBER_MAX:
            return False
        if number > self.last_number:
            if number > self.last_number + 1:
                self.overtaken.add(max(self.last_number + 1, number - OVERTAKEN_MAX), number)
            self.last_number = number
            return True
        return self.overtaken.remove(number, number + 1) == 1

    def put_off(self, number: int) -> None:
        """What was begun with this number was not done: it is to be asked for again."""
        self.overtaken.add(number, number + 1)

    def forget_purges(self, answered: int) -> None:
        """The session has an answer to those below this number."""
        while self.purged and (first := next(iter(self.purged))) < answered:
            del self.purged[first]


class Sessions:
    """Those of all nodes, and which lives of nodes are over."""

    __slots__ = ("all", "gone")

    def __init__(self) -> None:
        self.all: dict[SessionKey, SessionProgress] = {}
        self.gone: dict[int, int] = {}  # node -> the highest of its incarnations that are known to be over

    def of(self, node: int, incarnation: int) -> SessionProgress | None:
        """None: that life is over."""
        # A plain tuple is equal to the key, and made in a third of the time; this is asked for every run.
        session: SessionProgress | None = self.all.get((node, incarnation))  # type: ignore[call-overload]
        if session is None and incarnation > self.gone.get(node, -1):
            session = self.all[SessionKey(node, incarnation)] = SessionProgress()
        return session

    def end(self, key: SessionKey) -> list[SessionKey]:
        """This life of the node is over, and so are those before it. Which of them were known."""
        self.gone[key.node] = max(key.incarnation, self.gone.get(key.node, -1))
        ended = [one for one in self.all if one.node == key.node and one.incarnation <= self.gone[key.node]]
        for one in ended:
            del self.all[one]
        return ended
