"""Delayed messages that wait are listed by any node, and cancelled one at a time."""

from __future__ import annotations

from typing import Any

import pytest

from broker.errors import PreconditionFailed
from broker.pending import Pending
from broker.queues.holding_contract import FIRST_PLACE, ListOrder, WaitingMessage, WaitingPlace
from native.content import one
from quorum.fifo.ready_rows import BLOCK_ROWS
from quorum.fifo.versions import WITHDRAWS
from tests.unit.quorum.holding_world import HoldingWorld

MINUTE_MS = 60_000
NODES = (1, 2, 3, 4)  # the last has no member


class WaitingWorld(HoldingWorld):
    def __init__(self) -> None:
        super().__init__(nodes=4)
        self.cluster.run(6)  # all know which version of the machine they have

    def answer(self, pending: Pending[Any]) -> Any:
        answers: list[Any] = []
        pending.then(answers.append, answers.append)
        self.cluster.run(1)
        return answers[0]

    def listed(
        self, node: int, order: ListOrder = ListOrder.DUE, after: WaitingPlace = FIRST_PLACE, limit: int = 100
    ) -> list[WaitingMessage]:
        _, queue = self.clients.of(node, self.record)
        found: list[WaitingMessage] = self.answer(queue.waiting(order, after, limit, self.clients.now))
        return found

    def cancelled(self, node: int, place: WaitingPlace) -> Any:
        _, queue = self.clients.of(node, self.record)
        return self.answer(queue.withdraw(place, self.clients.now))


@pytest.fixture
def world() -> WaitingWorld:
    return WaitingWorld()


def bodies(found: list[WaitingMessage]) -> list[bytes]:
    return [one(waiting.message.content, 0)[1] for waiting in found]


@pytest.mark.parametrize("node", NODES)
def test_what_is_due_next_comes_first_with_its_time(world: WaitingWorld, node: int) -> None:
    began = world.clients.now
    for minutes in (3, 1, 2):
        world.publish(minutes * MINUTE_MS, str(minutes).encode())
    world.cluster.run(0.2)
    found = world.listed(node)
    assert bodies(found) == [b"1", b"2", b"3"]
    for minutes, waiting in enumerate(found, 1):
        assert abs(waiting.due_ms - began - minutes * MINUTE_MS) < 1_000
    assert [(waiting.message.exchange, waiting.message.routing_key) for waiting in found] == [("x", "key")] * 3
    assert bodies(world.listed(node, limit=2)) == [b"1", b"2"]


@pytest.mark.parametrize("node", NODES)
def test_pages_in_the_order_of_publishing_show_each_message_once(world: WaitingWorld, node: int) -> None:
    wanted = [str(number).encode() for number in range(7)]
    for number, body in enumerate(wanted):
        world.publish((9 - number) * MINUTE_MS, body)
    world.cluster.run(0.2)
    seen: list[bytes] = []
    after = FIRST_PLACE
    while page := world.listed(node, ListOrder.PUBLISHED, after, 3):
        seen += bodies(page)
        after = page[-1].place
    assert seen == wanted


def test_the_next_of_very_many_are_found_wherever_they_stand(world: WaitingWorld) -> None:
    count = 4 * BLOCK_ROWS
    for number in range(count):
        world.publish(MINUTE_MS + 1_000 * (number * 389 % count), str(number * 389 % count).encode())
    world.cluster.run(2)
    assert bodies(world.listed(1, limit=300)) == [str(number).encode() for number in range(300)]


@pytest.mark.parametrize("node", NODES)
def test_one_that_is_cancelled_is_never_routed_and_the_others_are(world: WaitingWorld, node: int) -> None:
    for number in range(3):
        world.publish(5_000, str(number).encode())
    world.cluster.run(0.2)
    place = world.listed(node)[1].place
    assert world.cancelled(node, place) == 1
    assert bodies(world.listed(node)) == [b"0", b"2"]
    assert world.cancelled(node, place) == 0
    world.cluster.run(6)
    assert sorted(world.exchange.bodies) == [b"0", b"2"]


def test_one_that_is_cancelled_stays_so_whoever_leads_next(world: WaitingWorld) -> None:
    world.publish(5_000, b"gone")
    world.publish(5_000, b"kept")
    world.cluster.run(0.2)
    assert world.cancelled(2, world.listed(2)[0].place) == 1
    world.cluster.leader(world.record).kill()
    world.cluster.run(9)
    assert world.exchange.bodies == [b"kept"]


def test_a_queue_that_has_a_node_of_an_earlier_version_says_so() -> None:
    world = HoldingWorld(version=WITHDRAWS - 1)
    world.publish(MINUTE_MS, b"stays")
    world.cluster.run(6)
    _, queue = world.clients.of(1, world.record)
    errors: list[Any] = []
    queue.withdraw(WaitingPlace(2, 9, 0), world.clients.now).then(errors.append, errors.append)
    world.cluster.run(1)
    assert isinstance(errors[0], PreconditionFailed)
    assert "update all nodes" in errors[0].text
