"""classic/fence.py around a queue: what is said behind it is carried out when it is opened, or answered when all is gone."""

from __future__ import annotations

from typing import Any

import pytest

from broker.errors import NotFound, ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Outcome
from broker.queues.waiting_publishes import HELD_BYTES_MAX
from classic.fence import Fence
from tests.unit.classic.classic_world import Sink, World, record_of


class Fenced(World):
    """With one queue that has three messages, of which the first is out."""

    def __init__(self) -> None:
        super().__init__([record_of("q", 1)])
        self.publish(["q"], [b"1", b"2", b"3"])
        got = self.get("q")
        assert got is not None
        self.out = got.piece
        self.queues["q"].fence = Fence()


@pytest.fixture
def node() -> Fenced:
    return Fenced()


def unfence(node: World) -> None:
    queue = node.queues["q"]
    queue.unfence(lambda run, receipt: node.kind.publish([queue], run, receipt, node.now), node.now)
    node.turn()


def test_nothing_comes_in_and_nothing_goes_out_behind_it(node: Fenced) -> None:
    sink, queue = Sink(), node.queues["q"]
    queue.consume(Consumer("c", queue, sink), node.now)
    node.publish(["q"], [b"4"], confirm=1)
    node.turn()
    assert (sink.got, node.confirmed.accepted, queue.ready_count) == ([], set(), 2)
    assert node.get("q") is None


def test_what_was_published_behind_it_is_there_and_confirmed_when_the_queue_goes_on(node: Fenced) -> None:
    node.publish(["q"], [b"4", b"5"], confirm=1)
    node.publish(["q"], [b"6"], confirm=3)
    unfence(node)
    node.tick()
    assert node.confirmed.accepted == {1, 2, 3}
    assert [body for body, _ in node.waiting("q")] == [b"2", b"3", b"4", b"5", b"6"]


def test_consumers_go_on_and_who_asked_is_answered_when_the_queue_goes_on(node: Fenced) -> None:
    queue = node.queues["q"]
    asked: list[Any] = []
    counts: list[Any] = []
    queue.get(True, node.now).then(asked.append, asked.append)
    unfence(node)
    assert [got.content for got in asked] and queue.ready_count == 1
    queue.fence = Fence()
    queue.purge(node.now).then(counts.append, counts.append)
    sink = Sink()
    queue.consume(Consumer("c", queue, sink), node.now)
    node.turn()
    assert (counts, sink.got) == ([], [])
    unfence(node)
    node.tick()
    assert counts == [1] and queue.ready_count == 0
    node.publish(["q"], [b"7"])
    node.turn()
    assert [body for body, _ in sink.got] == [b"7"]


def test_a_consumer_that_waited_is_given_what_is_there_without_anything_else_happening(node: Fenced) -> None:
    sink, queue = Sink(), node.queues["q"]
    queue.consume(Consumer("c", queue, sink), node.now)
    node.turn()
    unfence(node)
    assert [body for body, _ in sink.got] == [b"2", b"3"]


@pytest.mark.parametrize(
    ("outcome", "left"), [(Outcome.ACKNOWLEDGED, [b"2", b"3"]), (Outcome.REQUEUED, [b"1", b"2", b"3"])]
)
@pytest.mark.parametrize("sealed", [False, True])
def test_what_is_settled_behind_it_counts_when_the_queue_goes_on(
    node: Fenced, outcome: Outcome, left: list[bytes], sealed: bool
) -> None:
    """At once as long as it is not sealed: what is out is to be copied."""
    queue = node.queues["q"]
    assert queue.fence is not None
    if sealed:
        queue.fence.sealed = True
    queue.settle(node.out, outcome, node.now)
    assert bool(queue.out) is sealed
    unfence(node)
    assert not queue.out
    assert [body for body, _ in node.waiting("q")] == left
    node.restart()
    assert [body for body, _ in node.waiting("q")] == left


def test_a_queue_without_a_fence_goes_on_as_it_was(node: Fenced) -> None:
    unfence(node)
    unfence(node)
    assert [body for body, _ in node.waiting("q")] == [b"2", b"3"]


def test_what_expires_behind_it_dies_when_the_queue_goes_on(node: Fenced) -> None:
    node.publish(["q"], [b"brief"], expiration_ms=200)
    unfence(node)
    queue = node.queues["q"]
    queue.purge(node.now)
    node.publish(["q"], [b"brief"], expiration_ms=200)
    queue.fence = Fence()
    node.tick(5)
    assert (queue.ready_count, node.host.dead) == (1, []), "a copy of it may be on its way"
    unfence(node)
    assert queue.ready_count == 0


@pytest.mark.parametrize("deleted_by", ["queue", "conversion"])
def test_who_waits_behind_it_is_answered_when_the_queue_is_deleted(node: Fenced, deleted_by: str) -> None:
    queue = node.queues["q"]
    asked: list[Any] = []
    node.publish(["q"], [b"4"], confirm=1)
    node.publish(["q"], [b"5"])
    queue.get(False, node.now).then(asked.append, asked.append)
    queue.purge(node.now).then(asked.append, asked.append)
    node.kind.delete(queue, node.now)
    if deleted_by == "conversion":
        queue.deleted_behind_fence()
        queue.deleted_behind_fence()
        assert [type(one) for one in asked] == [NotFound, NotFound]
        assert node.confirmed.accepted == {1}, "as of any queue that is gone"
    else:
        unfence(node)
        assert asked == [], "what has its place answers"


def test_what_has_its_place_answers_who_waits_and_may_refuse(node: Fenced) -> None:
    queue, other = node.queues["q"], World([record_of("other", 2)])
    other.publish(["other"], [b"x"])
    asked: list[Any] = []
    taken: list[tuple[int, Receipt | None]] = []
    node.publish(["q"], [b"4"], confirm=1)
    queue.get(False, node.now).then(asked.append, asked.append)
    fence = queue.fence
    assert fence is not None
    fence.later(lambda _: refuse()).then(asked.append, asked.append)
    fence.open(other.queues["other"], lambda run, receipt: taken.append((run.count, receipt)))
    assert [count for count, _ in taken] == [1] and taken[0][1] is not None
    assert asked[0].piece.queue is other.queues["other"]
    assert isinstance(asked[1], NotFound)
    fence.open(other.queues["other"], lambda run, receipt: taken.append((run.count, receipt)))
    assert (len(taken), len(asked)) == (1, 2), "each once"


def refuse() -> Any:
    raise NotFound("no queue")


def test_what_waits_behind_it_has_a_bound_and_what_is_beyond_is_refused() -> None:
    node = World([record_of("q", 1)])
    node.queues["q"].fence = Fence()
    run = Run("x", "key", b"\0" * (HELD_BYTES_MAX // 2), 1, 1)
    queue = node.queues["q"]
    for tag in (1, 2, 3):
        node.kind.publish([queue], run, Receipt(node.confirmed, tag, tag, 1), node.now)
    assert (node.confirmed.accepted, node.confirmed.refused) == (set(), {3})
    with pytest.raises(ResourceExhausted):
        node.kind.publish([queue], run, None, node.now)
