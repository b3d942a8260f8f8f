"""Sessions with queues that are kept elsewhere: what they say of themselves, and whether they can be consumed, comes later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.catalog.policy import EffectiveArguments
from broker.errors import AccessRefused, BrokerError, NotFound
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Queue, QueueHost
from broker.records import QueueRecord
from broker.session.topology import Declared
from tests.contract.memory_queue import MemoryQueue, MemoryQueues
from tests.unit.broker.broker_world import Client, World


class FarQueue(MemoryQueue):
    """Tells how it is, and lets consume, when the test says so."""

    kind: FarQueues

    @property
    def ready_count(self) -> int:
        return super().ready_count if self.kind.told else 0

    def used(self, now: int) -> Pending[None] | None:  # type: ignore[override]
        super().used(now)
        return self.kind.later()

    def consume(self, consumer: Consumer, now: int) -> Pending[None] | None:  # type: ignore[override]
        super().consume(consumer, now)
        return self.kind.later()


class FarQueues(MemoryQueues):
    told = False

    def __init__(self, host: QueueHost) -> None:
        super().__init__(host)
        self.waiting: list[Pending[None]] = []

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> Queue:
        queue = FarQueue(record, effective, self._host, now)
        queue.kind = self
        return queue

    def later(self) -> Pending[None]:
        self.waiting.append(Pending())
        return self.waiting[-1]

    def tell(self, error: BrokerError | None = None) -> None:
        self.told = True
        for pending in self.waiting:
            if error is None:
                pending.resolve(None)
            else:
                pending.fail(error)
        self.waiting.clear()


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.add_kind(FarQueues(world.broker))
    return world


def far(world: World) -> FarQueues:
    kind = world.broker._kinds["classic"]
    assert isinstance(kind, FarQueues)
    return kind


def heard(pending: Pending[object]) -> list[object]:
    """What it is answered with, once it is."""
    answers: list[object] = []
    pending.then(answers.append, lambda error: answers.append(error.text))
    return answers


def declare(world: World, client: Client, passive: bool = False) -> Pending[Declared]:
    return client.session.topology.declare_queue(
        "q", passive=passive, durable=True, exclusive=False, auto_delete=False, arguments={}, now=world.now
    )


@pytest.fixture
def client(world: World) -> Client:
    client = world.client()
    heard(declare(world, client))  # type: ignore[arg-type]
    far(world).tell()
    far(world).told = False
    return client


def test_a_declaration_is_answered_with_counts_that_are_right(world: World, client: Client) -> None:
    client.publish("", "q", b"a")
    answers = heard(declare(world, client, passive=True))  # type: ignore[arg-type]
    assert answers == []
    far(world).tell()
    assert answers == [Declared("q", 1, 0)]


def test_a_declaration_fails_with_what_asking_fails_with(world: World, client: Client) -> None:
    answers = heard(declare(world, client))  # type: ignore[arg-type]
    far(world).tell(NotFound("its node is down"))
    assert answers == ["its node is down"]


@pytest.mark.parametrize("condition", ["if_empty", "if_unused"])
def test_a_deletion_with_a_condition_waits_for_counts_that_are_right(
    world: World, client: Client, condition: str
) -> None:
    client.publish("", "q", b"a")
    wanted = {"if_unused": False, "if_empty": False, condition: True}
    answers = heard(client.session.topology.delete_queue("q", **wanted, now=world.now))  # type: ignore[arg-type]
    assert answers == []
    far(world).tell()
    assert answers == (["queue 'q' in vhost '/' not empty"] if condition == "if_empty" else [1])


def test_a_queue_whose_node_is_down_can_be_deleted_without_conditions_only(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down() -> Pending[None]:
        raise NotFound("its node is down")

    monkeypatch.setattr(far(world), "later", down)
    refused = client.session.topology.delete_queue("q", if_unused=False, if_empty=True, now=world.now)
    assert heard(refused) == ["its node is down"]  # type: ignore[arg-type]
    assert heard(client.session.topology.delete_queue("q", if_unused=False, if_empty=False, now=world.now)) == [0]  # type: ignore[arg-type]


def consume(world: World, client: Client) -> Pending[str]:
    return client.session.consume(
        "q", "tag", no_ack=False, exclusive=False, no_local=False, arguments={}, now=world.now
    )


def test_a_consumer_is_answered_when_it_consumes(world: World, client: Client) -> None:
    answers = heard(consume(world, client))  # type: ignore[arg-type]
    assert answers == []
    far(world).tell()
    assert answers == ["tag"]


@pytest.mark.parametrize("in_between", [lambda client: None, lambda client: client.session.cancel("tag", 1)])
def test_a_consumer_that_is_refused_late_is_none(
    world: World, client: Client, in_between: Callable[[Client], None]
) -> None:
    answers = heard(consume(world, client))  # type: ignore[arg-type]
    in_between(client)
    far(world).tell(AccessRefused("in exclusive use"))
    assert answers == ["in exclusive use"]
    assert list(client.session.consumers()) == []
    found = world.broker.find_queue("/", "q")
    assert found is not None
    assert not found.consumers
