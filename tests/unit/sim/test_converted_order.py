"""The order in which a queue hands out its messages, while it becomes another one: what is judged, and what is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.pending import ignore
from quorum.fifo.commands import ConsumerKey
from tests.sim.brokers.channel import Channel
from tests.sim.brokers.classics import ClassicBook
from tests.sim.brokers.conversions import told_by_its_clients
from tests.sim.brokers.invariants import About
from tests.sim.brokers.ledger import Known, Ledger
from tests.sim.brokers.numbered_clients import NumberingPublisher
from tests.sim.invariants import Violation

IN_ORDER = "first_deliveries_are_in_order"


def book_of_a_classic_queue() -> ClassicBook:
    return ClassicBook(About("turning-1", {}), 1, ignore, lambda _: True)


# Publishers


class _Publisher(NumberingPublisher):
    """Its connections are opened and lost as the test says."""

    def __init__(self) -> None:
        loop = SimpleNamespace(call_later=ignore_call)
        world = SimpleNamespace(sim=SimpleNamespace(loop=loop), queue="turning-1", at_rest=False, pause_s=0.1)
        super().__init__(cast(Any, world), 2)

    def connect(self) -> None:
        self.channel = cast(Channel, SimpleNamespace(is_lost=False, say=ignore_call))
        self.opened(self.channel)

    def publish(self) -> bytes:
        self._publish(cast(Channel, self.channel))
        return self.newest

    @property
    def newest(self) -> bytes:
        return self._open[max(self._open)]


def ignore_call(*args: object) -> None: ...


def test_what_a_lost_connection_has_sent_may_come_behind_what_the_next_one_has_and_keeps_its_own_order() -> None:
    """Seed 39: its node was drained while the link to the queue's home was slow."""
    publisher, book = _Publisher(), book_of_a_classic_queue()
    first, second, third = publisher.newest, publisher.publish(), publisher.publish()
    publisher.connect()
    others = [publisher.newest, publisher.publish()]
    assert len({first, second, third, *others}) == 5
    book.hands_out(0, [first, *others, third], {})
    with pytest.raises(Violation, match=IN_ORDER):
        book.hands_out(0, [second], {})


# The quorum queue


class Copies:
    """Its ledger, with copies of messages 1 to 4 of one publisher, that were held in another order."""

    def __init__(self) -> None:
        self.ledger = told_by_its_clients(
            Ledger("turning-1", About("turning-1", {}), lambda *_: True, ignore, ignore, lambda _: True, ignore)
        )
        for number in (1, 2, 3, 4):
            self.ledger.known[64, 0, number] = Known((64, 0, number), body_of(number), 0)
        self._ids = iter(range(1, 100))
        self.hand_out(4, 1, 3, 2)

    def hand_out(self, *numbers: int) -> None:
        for number in numbers:
            self.ledger.hand_out((ConsumerKey(1, 1, 1), next(self._ids)), (64, 0, number), 0, 1)


def body_of(number: int) -> bytes:
    return b"2/1:%06d:" % number


@pytest.fixture
def copies() -> Copies:
    return Copies()


def test_what_the_classic_queue_has_never_handed_out_is_given_in_order(copies: Copies) -> None:
    copies.ledger.takes_over(set(), {})
    copies.hand_out(1, 3)
    with pytest.raises(Violation, match=IN_ORDER):
        copies.hand_out(2)


def test_what_the_classic_queue_has_handed_out_may_come_behind_others(copies: Copies) -> None:
    book = book_of_a_classic_queue()
    book.hands_out(0, [body_of(1), body_of(2)], {})
    copies.ledger.takes_over(book.handed_out.keys(), book.lanes)
    copies.hand_out(3, 2, 4, 1)


def test_nothing_is_given_for_the_first_time_behind_what_the_classic_queue_has_handed_out(copies: Copies) -> None:
    book = book_of_a_classic_queue()
    book.hands_out(0, [body_of(3)], {})
    copies.ledger.takes_over(book.handed_out.keys(), book.lanes)
    with pytest.raises(Violation, match=IN_ORDER):
        copies.hand_out(1)
