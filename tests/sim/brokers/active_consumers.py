"""Of a queue with a single active consumer: what was on its way to one that left, and was never seen, comes before whatever the
next one is given.

A consumer's node may say that it never passed a message on, and the queue hands that out again as if it had never left. Where
it has given newer ones to somebody else by then, clients see them in the wrong order, and no flag says so.

Excused are consumers whose node was not heard of, or who were late: the next one is active at once then, whatever they hold;
and those of a queue whose machine does not know how to take back what is on its way.
"""

from __future__ import annotations

from quorum.fifo.commands import ConsumerKey, SessionKey
from tests.sim.brokers import invariants
from tests.sim.brokers.invariants import About

Lane = tuple[bytes, int]  # a publisher, and a priority
Where = tuple[int, int, int]


class ActiveConsumers:
    """See the module. It is told of each message that is handed out, in order."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._holders: dict[Where, ConsumerKey] = {}
        self._newest: dict[Lane, dict[ConsumerKey, int]] = {}  # number that each may have seen
        self._doubted: set[SessionKey] = set()
        self._excused: set[ConsumerKey] = set()

    def doubt(self, session: SessionKey) -> None:
        self._doubted.add(session)

    def excuse(self, consumer: ConsumerKey) -> None:
        self._excused.add(consumer)

    def forget(self) -> None:
        """For now the queue has no such rule, or another one that changes the order."""
        self._holders.clear()
        self._newest.clear()

    def hand_out(self, where: Where, lane: Lane, number: int, consumer: ConsumerKey, *, unseen: bool) -> None:
        """`unseen`: though it was handed out before, it comes as if it had not."""
        newest = self._newest.setdefault(lane, {})
        before = self._holders.get(where)
        if unseen and before is not None:
            newest[before] = min(newest.get(before, -1), number - 1)
            if before in self._excused or SessionKey(*before[:2]) in self._doubted:
                newest.clear()
            elif before != consumer:
                others = max((one for who, one in newest.items() if who != before), default=-1)
                invariants.next_active_consumer_overtakes_nothing(self._about, lane, number, others)
        self._holders[where] = consumer
        newest[consumer] = max(newest.get(consumer, -1), number)
