"""Classic queues used from another node than their home, beyond what tests/contract asks of every kind: links that break,
queues that one node has heard of before the other, slow clients, and letters that are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker.actors import ActorKind
from broker.catalog.policy import effective_arguments
from broker.errors import AccessRefused, BrokerError, NotFound, ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import DiedIn, Run
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import BackReason, DeathReason, Outcome, Queue, Slice
from broker.records import QueueRecord
from native.content import encode
from node.anywhere import home_node, home_queues
from node.anywhere import wire as words
from node.anywhere.away_node import PublishedAway, Subscriber
from node.anywhere.home_node import WINDOW_BYTES_MAX, WINDOW_BYTES_MIN
from node.anywhere.remote_queues import RemoteQueue
from node.peers.calls import CLASSIC
from tests.contract.far_kind import HERE, HOME, FarClassic
from tests.contract.memory_queue import MemoryQueues
from tests.contract.world import Taker, World
from tests.sim.clock import SimLoop


class Far(World):
    """Two nodes. Those at home are plain queues in memory: what they do is tested elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.far = FarClassic(self, SimLoop(), MemoryQueues)
        self.kind = self.far
        self.opened = Opened(self.far)  # type: ignore[assignment]

    def disconnect(self) -> None:
        self.far.network.disconnect(HERE, HOME)

    def connect(self) -> None:
        self.far.network.connect(HERE, HOME)

    def bytes_from_home(self) -> int:
        return self.far.network.wires[HOME].bytes_sent

    def record(self, name: str = "late") -> QueueRecord:
        self._ids += 1
        return QueueRecord("/", name, "classic", True, False, False, {}, self._ids, "home")


class Opened:
    def __init__(self, far: FarClassic) -> None:
        self.kind = far
        self.let_disk_finish = far.settle
        self.consumes_with: dict[str, Any] = {}


@pytest.fixture
def far() -> Far:
    return Far()


def error_of(pending: Pending[Any]) -> BrokerError:
    errors: list[BrokerError] = []
    pending.then(lambda value: pytest.fail(f"answered {value}"), errors.append)
    (error,) = errors
    return error


DOWN = "home node 'home' of durable queue 'queue-1' in vhost '/' is down or inaccessible"


@pytest.mark.parametrize("is_read", [True, False])
def test_where_a_dead_letter_died_is_told_to_a_home_that_reads_it(
    far: Far, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    runs: list[Run] = []
    queue = far.queue()
    monkeypatch.setattr(far.far.home.home.kind, "publish", lambda queues, run, *_: runs.append(run))
    far.far.here.remote.reads_deaths = lambda node: node == HOME and is_read
    died_in = DiedIn(7, (5, 1, 2), DeathReason.MAXLEN)
    far.far.publish([queue], Run("", "k", encode(b"\0\0", b"x"), 1, 1, died_in=died_in), None, far.now)
    far.turn()
    assert [run.died_in for run in runs] == [died_in if is_read else None]


@pytest.mark.parametrize("is_read", [True, False])
def test_messages_that_died_in_places_of_their_own_reach_their_home_with_them(
    far: Far, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    runs: list[Run] = []
    queue = far.queue()
    monkeypatch.setattr(far.far.home.home.kind, "publish", lambda queues, run, *_: runs.append(run))
    far.far.here.remote.reads_deaths = lambda node: node == HOME and is_read
    died_in = DiedIn(7, (5, 1, 2), DeathReason.EXPIRED, ((6, 0, 0),))
    far.far.publish([queue], Run("", "k", encode(b"\0\0", b"x") * 2, 2, 2, died_in=died_in), None, far.now)
    far.turn()
    one, other = DiedIn(7, (5, 1, 2), DeathReason.EXPIRED), DiedIn(7, (6, 0, 0), DeathReason.EXPIRED)
    assert [(run.count, run.died_in) for run in runs] == ([(1, one), (1, other)] if is_read else [(2, None)])


# ------------------------------------------------------------------------- links that break


def test_what_was_published_and_not_answered_is_refused_when_the_link_breaks(far: Far) -> None:
    queue = far.queue()
    answered = far.publish(queue, b"a", confirm=True)
    far.turn()
    open_ = far.publish(queue, b"b", b"c", confirm=True)
    far.disconnect()
    assert (far.answers.accepted, far.answers.refused) == (answered, open_)


def test_what_went_to_several_queues_of_a_home_is_refused_when_the_link_breaks(far: Far) -> None:
    tags = far.publish([far.queue(), far.queue(), far.queue()], b"a", confirm=True)
    far.disconnect()
    assert (far.answers.accepted, far.answers.refused) == ([], tags)


def test_without_a_link_publishes_are_refused_and_those_without_confirms_dropped(far: Far) -> None:
    queue = far.queue()
    far.disconnect()
    far.publish(queue, b"nobody wants to know")
    assert far.answers.refused == []
    tags = far.publish([queue, far.queue()], b"a", confirm=True)
    assert far.answers.refused == tags


def test_whoever_asks_for_something_is_told_that_the_home_node_is_down(far: Far) -> None:
    queue = far.queue()
    pending = [queue.get(True, far.now), queue.purge(far.now), queue.used(far.now)]
    pending.append(queue.consume(Consumer("c", queue, Taker()), far.now))
    far.disconnect()
    for one in pending:
        assert one is not None
        error = error_of(one)
        assert isinstance(error, NotFound)
        assert error.text == DOWN
    asks: list[Callable[[], object]] = [
        lambda: queue.get(True, far.now),
        lambda: queue.purge(far.now),
        lambda: queue.used(far.now),
        lambda: queue.consume(Consumer("c", queue, Taker()), far.now),
    ]
    for ask in asks:
        with pytest.raises(NotFound, match="is down or inaccessible"):
            ask()
    assert queue.statistics().state == "down"


def test_when_the_link_breaks_consumers_are_cancelled_and_what_they_held_is_there_for_others(far: Far) -> None:
    queue = far.queue()
    consumer, taker = far.consumer(queue, prefetch=2)
    far.publish(queue, b"a", b"b", b"c")
    far.turn()
    far.disconnect()
    assert taker.cancelled
    far.settle_all(consumer, taker)  # to no effect
    far.connect()
    assert queue.consumer_count == 0
    _, second = far.consumer(queue)
    far.turn()
    assert second.bodies == [b"a", b"b", b"c"]
    assert second.redelivered == [True, True, False]


def test_what_was_got_and_not_settled_comes_back_when_the_link_breaks(far: Far) -> None:
    queue = far.queue()
    far.publish(queue, b"a")
    found = far.get(queue, no_ack=False)
    assert found is not None
    far.disconnect()
    far.settle(None, found[1].piece, Outcome.ACKNOWLEDGED)
    far.connect()
    again = far.get(queue)
    assert again is not None
    assert again[1].piece.redelivered


def get_whose_link_goes(far: Far, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Pending[Any]:
    """What is found for it at home, once a test says so."""
    far.turn()
    at_home = far.far.at_home(queue)
    found: Pending[Any] = Pending()
    with monkeypatch.context() as patch:
        patch.setattr(at_home, "get", lambda no_ack, now, by: found)
        queue.get(False, far.now).then(lambda _: None, lambda _: None)
        far.turn()
        far.disconnect()
    return found


def test_what_is_found_for_a_get_whose_link_is_gone_by_then_stays(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = far.queue()
    far.publish(queue, b"a")
    found = get_whose_link_goes(far, queue, monkeypatch)
    far.far.at_home(queue).get(False, far.now).then(found.resolve, found.fail)
    far.connect()
    again = far.get(queue)
    assert again is not None
    assert (again[0], again[1].piece.redelivered) == (b"a", False)


def consumer_at_home(far: Far, queue: Queue) -> Taker:
    """Of a client that is connected there."""
    at_home, taker = far.far.at_home(queue), Taker()
    at_home.consume(Consumer("there", at_home, taker), far.now)
    far.turn()
    return taker


def test_who_waits_at_home_is_given_what_was_found_for_a_get_whose_link_is_gone_by_then(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, though nobody touches the queue any more."""
    queue = far.queue()
    far.publish(queue, b"a")
    found = get_whose_link_goes(far, queue, monkeypatch)
    at_home = far.far.at_home(queue)
    held: list[Any] = []
    at_home.get(False, far.now).then(held.append, found.fail)
    taker = consumer_at_home(far, queue)
    wakes_by_others_only(at_home, monkeypatch)
    found.resolve(held[0])
    far.turn()
    assert (taker.bodies, taker.redelivered) == ([b"a"], [False])


def test_who_waits_at_home_is_given_what_a_client_held_whose_link_is_gone(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = far.queue()
    far.publish(queue, b"a", b"b")
    far.turn()
    far.consumer(queue, prefetch=1)
    far.turn()
    assert far.get(queue, no_ack=False) is not None
    taker = consumer_at_home(far, queue)
    wakes_by_others_only(far.far.at_home(queue), monkeypatch)
    far.disconnect()
    far.turn()
    assert taker.bodies == [b"a", b"b"]


def wakes_by_others_only(at_home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue's host is told by who settles that it may have something to give: the queue need not say so itself."""
    monkeypatch.setattr(at_home, "_host", SimpleNamespace(wake=lambda queue: None, call_at=at_home._host.call_at))


def test_who_comes_as_a_consumer_is_given_what_waits(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = far.queue()
    far.publish(queue, b"a")
    far.turn()
    wakes_by_others_only(far.far.at_home(queue), monkeypatch)
    _, taker = far.consumer(queue)
    far.turn()
    assert taker.bodies == [b"a"]


def test_a_link_that_takes_letters_again_brings_what_waited_for_that(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its home kept what the link did not take. Nobody else touches the queue any more."""
    queue = far.queue()
    _, taker = far.consumer(queue)
    calls = far.far.network.wires[HOME].ears
    with monkeypatch.context() as patch:
        patch.setattr(calls, "writable", lambda node: False)
        far.publish(queue, b"a")
        far.turn()
        assert taker.bodies == []
    calls._peers[HERE].full = True  # type: ignore[attr-defined]
    calls.drained(HERE)
    far.turn()
    assert taker.bodies == [b"a"]


def test_who_gets_a_message_gets_none_that_a_consumer_before_can_take(far: Far) -> None:
    queue = far.queue()
    far.turn()
    taker = consumer_at_home(far, queue)
    got: list[Any] = []
    far.publish(queue, b"a")
    queue.get(True, far.now).then(got.append, got.append)  # both arrive before the home's turn is over
    far.turn()
    assert (taker.bodies, got) == ([b"a"], [None])


def test_a_purge_takes_none_that_a_consumer_before_can_take(far: Far) -> None:
    queue = far.queue()
    far.turn()
    taker = consumer_at_home(far, queue)
    purged: list[Any] = []
    far.publish(queue, b"a")
    queue.purge(far.now).then(purged.append, purged.append)
    far.turn()
    assert (taker.bodies, purged) == ([b"a"], [0])


def test_figures_that_are_asked_for_know_of_what_was_settled_before(far: Far) -> None:
    queue = far.queue()
    consumer, taker = far.consumer(queue, prefetch=1)
    far.publish(queue, b"a")
    far.turn()
    far.settle_all(consumer, taker)
    used = queue.used(far.now)
    far.turn()
    assert used is not None
    assert used.answered
    assert isinstance(queue, RemoteQueue)
    assert (queue.figures.unacknowledged, queue.figures.ready) == (0, 0)


def test_a_consumer_that_was_not_answered_when_the_link_broke_is_not_called_cancelled(far: Far) -> None:
    """Its client has not heard of it: it is told that the home node is down."""
    queue, taker = far.queue(), Taker()
    consuming = queue.consume(Consumer("c", queue, taker), far.now)
    far.disconnect()
    assert consuming is not None
    assert error_of(consuming).text == DOWN
    assert not taker.cancelled


def test_what_is_on_its_way_when_a_link_breaks_never_reaches_a_client_by_the_next_one(far: Far) -> None:
    queue = far.queue()
    _, taker = far.consumer(queue)
    far.far.network.stop_way(HOME, HERE)
    far.publish(queue, b"a")
    far.turn()
    far.disconnect()
    far.connect()
    far.far.network.open_way(HOME, HERE)
    far.turn()
    assert taker.bodies == []
    assert far.drain(queue) == [b"a"]


def test_a_home_that_stops_takes_back_what_was_out_and_says_nothing_more(far: Far) -> None:
    queue = far.queue()
    consumer, taker = far.consumer(queue)
    far.publish(queue, b"a")
    far.turn()
    far.far.home.close(far.now)
    at_home = far.far.at_home(queue)
    assert (at_home.ready_count, at_home.consumer_count) == (1, 0)
    tags = far.publish(queue, b"b", confirm=True)
    far.settle_all(consumer, taker)
    far.turn()
    assert far.answers.refused == []
    far.disconnect()
    assert far.answers.refused == tags
    assert taker.cancelled


# ------------------------------------------------------------------------- who has heard of what


class Late(Far):
    """The home hears of queues when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_come = True
        self.far.home.home._may_come = lambda queue_id: self.may_come

    def here_only(self) -> RemoteQueue:
        record = self.record()
        queue = self.far.here.open(record, effective_arguments(record, None, None), self.now)
        assert isinstance(queue, RemoteQueue)
        return queue

    def home_hears(self, queue: Queue) -> None:
        record = queue.record
        at_home = self.far.home.open(record, effective_arguments(record, None, None), self.now)
        self.far._queues[record.id] = queue, at_home  # type: ignore[assignment]
        self.turn()


def test_what_was_said_before_the_home_has_heard_of_a_queue_comes_before_what_is_said_when_it_just_has() -> None:
    far = Late()
    queue = far.here_only()
    far.publish(queue, b"1")
    far.turn()
    far.publish(queue, b"2")
    far.far.network.loop.run_soon()
    record = queue.record
    at_home = far.far.home.open(record, effective_arguments(record, None, None), far.now)
    far.far.network.step()  # the second arrives before the home has caught up with the first
    far.far._queues[record.id] = queue, at_home
    assert far.drain(queue) == [b"1", b"2"]


def test_what_is_said_about_a_queue_waits_until_its_home_has_heard_of_it() -> None:
    far = Late()
    queue, other = far.here_only(), far.queue()
    tags = far.publish([queue, other], b"a", b"b", confirm=True)
    taker = Taker()
    consumer = Consumer("c", queue, taker, prefetch=1)
    consuming = queue.consume(consumer, far.now)
    far.turn()
    assert consuming is not None
    assert not consuming.answered and far.answers.accepted == []
    assert far.drain(other) == [b"a", b"b"]
    far.home_hears(queue)
    assert consuming.answered
    assert (far.answers.accepted, taker.bodies) == (tags, [b"a"])
    far.settle_all(consumer, taker)
    far.turn()
    assert taker.bodies == [b"a", b"b"]


def test_a_consumer_that_is_cancelled_before_its_home_has_heard_of_the_queue_does_not_stay() -> None:
    far = Late()
    queue = far.here_only()
    consumer = Consumer("c", queue, Taker())
    queue.consume(consumer, far.now)
    queue.cancel(consumer, far.now)
    far.turn()
    far.home_hears(queue)
    assert queue.consumer_count == 0


@pytest.mark.parametrize("waits", [True, False])
def test_a_second_consumer_of_one_number_ends_the_link_also_while_the_first_one_waits(waits: bool) -> None:
    far = Late()
    queue = far.here_only()
    wish = words.encode_consume(words.RemoteConsume(queue.record.id, 7, False, 0, 0, 1 << 20, "c"))
    calls, answers = far.far.network.wires[HERE].ears, list[Any]()
    calls.ask(HOME, CLASSIC, wish, answers.append)  # type: ignore[attr-defined]
    far.turn()
    if not waits:
        far.home_hears(queue)
    calls.ask(HOME, CLASSIC, wish, answers.append)  # type: ignore[attr-defined]
    far.far.network.run()
    assert far.far.network.bad == ["consumer 7 is there already"]
    assert [answer is None for answer in answers] == [waits, True]
    far.far.network.bad.clear()
    if waits:
        far.home_hears(queue)
    assert far.far.at_home(queue).consumer_count == 0


def test_what_waits_for_a_queue_goes_with_the_link_that_it_came_by() -> None:
    far = Late()
    queue = far.here_only()
    far.publish(queue, b"old")
    far.turn()
    far.disconnect()
    far.connect()
    far.publish(queue, b"new")
    far.home_hears(queue)
    assert far.drain(queue) == [b"new"]


def test_a_queue_that_was_deleted_meanwhile_takes_everything_and_has_nothing() -> None:
    far = Late()
    queue = far.here_only()
    tags = far.publish(queue, b"a", confirm=True)
    got = queue.get(True, far.now)
    far.turn()
    far.may_come = False
    far.far.home.home.tick(far.now)
    more = far.publish(queue, b"b", confirm=True)
    consuming = queue.consume(Consumer("c", queue, Taker()), far.now)
    far.turn()
    assert far.answers.accepted == tags + more
    assert error_of(got).text == "no queue 'late' in vhost '/'"
    assert consuming is not None
    assert isinstance(error_of(consuming), NotFound)


def test_more_than_enough_for_queues_that_are_unknown_ends_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_queues, "WAITING_BYTES_MAX", 10_000)
    far = Late()
    queue = far.here_only()
    for _ in range(20):
        far.publish(queue, bytes(1_000))
    far.far.network.run()
    assert "for queues that this node has not heard of" in far.far.network.bad[0]


def test_what_waited_for_a_queue_that_came_leaves_its_room_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The link ended when so much had waited since it came, however little of it at a time."""
    monkeypatch.setattr(home_queues, "WAITING_BYTES_MAX", 10_000)
    far = Late()
    for _ in range(20):
        queue = far.here_only()
        far.publish(queue, bytes(1_000))
        far.turn()
        far.home_hears(queue)
        assert far.drain(queue) == [bytes(1_000)]
    assert far.far.network.bad == []


# ------------------------------------------------------------------------- publishing


def test_one_copy_of_the_bytes_for_all_queues_of_a_home(far: Far) -> None:
    queues = [far.queue() for _ in range(10)]
    before = far.far.network.wires[HERE].bytes_sent
    tags = far.publish(queues, bytes(100_000), confirm=True)
    far.turn()
    assert far.answers.accepted == tags
    assert far.far.network.wires[HERE].bytes_sent - before < 101_000
    assert all(queue.ready_count == 1 for queue in queues)


def test_a_refusal_of_one_queue_refuses_the_run(far: Far) -> None:
    full, other = far.queue(x_max_length=0, x_overflow="reject-publish"), far.queue()
    tags = far.publish([full, other], b"a", confirm=True)
    far.turn()
    assert far.answers.refused == tags


def test_a_home_whose_disk_failed_refuses(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(*_: object) -> None:
        raise ResourceExhausted("this node's disk failed")

    queue = far.queue()
    monkeypatch.setattr(far.far.home.home.kind, "publish", failed)
    tags = far.publish([queue, far.queue()], b"a", confirm=True)
    far.publish(queue, b"nobody wants to know")
    far.turn()
    assert far.answers.refused == tags


def test_properties_of_a_run_that_its_queue_looks_at_arrive(far: Far) -> None:
    queue = far.queue(x_max_priority=5, x_dead_letter_exchange="dlx")
    far.publish(queue, b"low", priority=1)
    far.publish(queue, b"high", priority=4, redelivered=True, persistent=False, expiration_ms=0)
    far.publish(queue, b"next", priority=4, redelivered=True, expiration_ms=10_000)
    far.turn()
    far.pass_time(1)
    assert [(body, persistent) for _, _, _, body, persistent in far.dead] == [(b"high", False)]
    found = far.get(queue)
    assert found is not None
    assert (found[0], found[1].piece.redelivered, found[1].piece.routing_key) == (b"next", True, "key")


def test_a_message_that_no_letter_can_carry_is_refused_here(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_node, "CONTENT_BYTES_MAX", 1_000)
    with pytest.raises(ResourceExhausted, match="at most 1000 can be sent there"):
        far.publish(far.queue(), bytes(1_001))


def test_publishers_are_told_when_a_home_takes_nothing_more(far: Far) -> None:
    far.far.home.home.hold(True)
    far.turn()
    assert far.far.here.remote.congested
    far.disconnect()
    assert not far.far.here.remote.congested
    far.connect()
    far.turn()
    assert far.far.here.remote.congested
    far.far.home.home.hold(False)
    far.turn()
    assert not far.far.here.remote.congested


def test_publishers_are_told_when_the_way_to_a_home_is_full(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they publish would gather on this node without a bound."""
    assert not far.far.here.remote.congested
    monkeypatch.setattr(far.far.here.remote.calls, "writable", lambda node: node != HOME)
    assert far.far.here.remote.congested


# ------------------------------------------------------------------------- consuming


def test_nobody_consumes_beside_an_exclusive_consumer_of_another_node(far: Far) -> None:
    queue = far.queue()
    at_home = far.far.at_home(queue)
    at_home.consume(Consumer("there", at_home, Taker(), exclusive=True), far.now)
    with pytest.raises(AccessRefused, match="queue 'queue-1' in vhost '/' in exclusive use"):
        far.consumer(queue)
    assert queue.consumer_count == 1


def test_who_was_refused_does_not_consume_and_a_purged_queue_is_known_to_be_empty(far: Far) -> None:
    queue: Any = far.queue()
    first = Consumer("c", queue, Taker(), exclusive=True)
    queue.consume(first, far.now)
    far.turn()
    second = queue.consume(Consumer("d", queue, Taker()), far.now)
    far.turn()
    assert isinstance(error_of(second), AccessRefused)
    assert list(queue.subscriptions) == [first]
    queue.cancel(first, far.now)
    far.publish(queue, b"a", b"b")
    queue.used(far.now)
    far.turn()
    assert queue.ready_count == 2
    queue.purge(far.now)
    far.turn()
    assert (queue.ready_count, queue.statistics().ready_bytes) == (0, 0)


def test_messages_that_are_refused_in_part_are_those_of_the_run_that_is_meant(far: Far) -> None:
    queue = far.queue()
    far.publish(queue, b"before", confirm=True)
    far.turn()
    tags = far.publish(queue, b"a", b"b", b"c", confirm=True)
    far.far.network.wires[HOME].ears.tell(HERE, CLASSIC, words.encode_partial(2, [1]))  # type: ignore[attr-defined]
    far.turn()
    assert far.answers.refused == [tags[1]]


def test_what_one_queue_refuses_as_a_whole_and_another_in_part_is_refused_as_a_whole() -> None:
    """The others of the run would have been confirmed, and one queue has none of them."""
    told: list[tuple[Any, ...]] = []
    peer: Any = SimpleNamespace(
        answer=lambda *answer: told.append(answer), refuse_part=lambda *answer: told.append((*answer, "in part"))
    )
    for whole in (False, True):
        receipt = Receipt(PublishedAway(peer, 7, in_part=True), 0, 2, 2)
        receipt.refuse_tag(1)
        receipt.accepted()
        (receipt.refused if whole else receipt.accepted)()
    assert told == [(7, [1], "in part"), (7, False)]


def test_the_last_message_of_a_run_may_be_refused_and_one_behind_it_ends_the_link(far: Far) -> None:
    queue = far.queue()
    at_home = far.far.network.wires[HOME].ears
    tags = far.publish(queue, b"a", b"b", b"c", confirm=True)
    at_home.tell(HERE, CLASSIC, words.encode_partial(1, [2]))  # type: ignore[attr-defined]
    far.turn()
    assert far.answers.refused == [tags[2]]
    far.publish(queue, b"d", b"e", b"f", confirm=True)
    at_home.tell(HERE, CLASSIC, words.encode_partial(2, [3]))  # type: ignore[attr-defined]
    far.far.network.run()
    assert far.far.network.bad == ["message 3 of publish 2 is refused, which has no such"]


def test_a_client_whose_socket_is_full_gets_nothing_and_others_get_it_instead(far: Far) -> None:
    queue = far.queue()
    _, slow = far.consumer(queue, "slow", priority=1)
    _, other = far.consumer(queue, "other")
    slow.writable = False
    far.publish(queue, b"a", b"b")
    far.turn()
    assert (slow.bodies, other.bodies, other.redelivered) == ([], [b"a", b"b"], [False, False])
    slow.writable = True
    far.wake(queue)
    far.turn()
    far.publish(queue, b"c")
    far.turn()
    assert slow.bodies == [b"c"]


def test_no_more_is_under_way_to_a_client_than_it_has_credit_for(far: Far) -> None:
    queue = far.queue()
    _, taker = far.consumer(queue)
    far.far.network.stop_way(HOME, HERE)
    before = far.bytes_from_home()
    for _ in range(20):
        far.publish(queue, bytes(1 << 20))
    far.turn()
    assert far.bytes_from_home() - before < WINDOW_BYTES_MAX + (2 << 20)
    far.far.network.open_way(HOME, HERE)
    far.turn()
    assert len(taker.bodies) == 20


def test_credit_shrinks_while_a_socket_is_often_full_and_grows_again(far: Far) -> None:
    queue = far.queue()
    _, taker = far.consumer(queue)
    assert isinstance(queue, RemoteQueue)
    (subscription,) = queue.subscriptions.values()
    for _ in range(10):
        taker.writable = False
        far.wake(queue)
        far.turn()
        taker.writable = True
        far.wake(queue)
        far.turn()
    assert subscription.window == WINDOW_BYTES_MIN
    for _ in range(20):
        far.publish(queue, bytes(1 << 20))
        far.turn()
    assert subscription.window == WINDOW_BYTES_MAX
    assert len(taker.bodies) == 20


def test_a_client_whose_socket_was_full_has_credit_for_its_window_and_no_more(far: Far) -> None:
    """What it took before it was stopped is no room: its home was told to begin anew."""
    queue = far.queue()
    _, taker = far.consumer(queue)
    assert isinstance(queue, RemoteQueue)
    (subscription,) = queue.subscriptions.values()
    far.publish(queue, bytes(WINDOW_BYTES_MAX // 4 - 1_000))
    far.turn()
    for writable in (False, True):
        taker.writable = writable
        far.wake(queue)
        far.turn()
    far.publish(queue, bytes(10_000))
    far.turn()
    assert len(taker.bodies) == 2
    (at_home,) = far.far.home.home._peers[HERE].takers.values()
    assert isinstance(at_home, Subscriber)
    assert at_home.credit + subscription.passed_bytes == subscription.window


def test_another_prefetch_holds_from_now_on(far: Far) -> None:
    queue = far.queue()
    consumer, taker = far.consumer(queue, prefetch=1)
    far.publish(queue, b"a", b"b", b"c", b"d")
    far.turn()
    consumer.prefetch = 3
    far.wake(queue)
    far.turn()
    assert taker.bodies == [b"a", b"b", b"c"]


def test_messages_under_way_to_a_consumer_that_does_not_acknowledge_come_back_when_it_is_cancelled(far: Far) -> None:
    queue = far.queue()
    consumer, taker = far.consumer(queue, no_ack=True)
    far.publish(queue, b"a")
    far.turn()
    far.far.network.stop_way(HOME, HERE)
    far.publish(queue, b"b", b"c")
    far.turn()
    queue.cancel(consumer, far.now)
    far.far.network.open_way(HOME, HERE)
    far.turn()
    assert taker.bodies == [b"a"]
    assert far.drain(queue) == [b"b", b"c"]


def test_what_a_client_has_not_seen_is_back_as_soon_as_its_consumer_is_gone(far: Far) -> None:
    """It was said to be out until it had come, and gone back: whoever counted in between missed it."""
    queue = far.queue()
    consumer, taker = far.consumer(queue, prefetch=3)
    far.publish(queue, *[b"%d" % number for number in range(10)])
    far.turn()
    far.settle(consumer, replace(taker.held[0], count=2), Outcome.ACKNOWLEDGED)
    far.far.network.run()  # the next two wait here, for the end of the turn
    queue.cancel(consumer, far.now)
    counted = queue.used(far.now)
    far.far.network.run()
    assert counted is not None and counted.answered
    assert isinstance(queue, RemoteQueue)
    assert (queue.figures.ready, queue.figures.unacknowledged, len(taker.bodies)) == (7, 1, 3)


def test_a_home_forgets_a_consumer_with_its_last_message(far: Far) -> None:
    """Clients that come and go all day leave nothing behind there while the link lives."""
    queue = far.queue()
    peer = far.far.home.home._peers[HERE]
    idle, _ = far.consumer(queue, "idle")
    queue.cancel(idle, far.now)
    far.turn()
    assert not peer.takers
    far.publish(queue, b"a")
    holds, taker = far.consumer(queue, "holds")
    far.turn()
    queue.cancel(holds, far.now)
    far.turn()
    assert len(peer.takers) == 1
    far.settle_all(holds, taker)
    far.turn()
    assert not peer.takers and not peer._of_queue


def test_a_consumer_that_has_not_seen_what_never_came_ends_the_link(far: Far) -> None:
    queue = far.queue()
    far.consumer(queue)
    assert isinstance(queue, RemoteQueue)
    (subscription,) = queue.subscriptions.values()
    calls = far.far.network.wires[HERE].ears
    calls.tell(HOME, CLASSIC, words.encode_cancel(subscription.number, 5))  # type: ignore[attr-defined]
    far.far.network.run()
    assert "5" in far.far.network.bad[0]


def test_acknowledgements_one_by_one_leave_as_ranges(far: Far) -> None:
    queue = far.queue()
    consumer, taker = far.consumer(queue)
    far.publish(queue, *[b"%d" % number for number in range(100)])
    far.turn()
    before = far.far.network.wires[HERE].bytes_sent
    (piece,) = taker.held
    for number in range(100):
        far.settle(consumer, replace(piece, sequence=piece.sequence + number, count=1), Outcome.ACKNOWLEDGED)
    far.turn()
    assert far.far.network.wires[HERE].bytes_sent - before < 100
    assert queue.statistics().unacknowledged == 0


def test_neighbours_that_come_to_different_ends_in_one_turn_do(far: Far) -> None:
    queue = far.queue()
    consumer, taker = far.consumer(queue)
    far.publish(queue, b"a", b"b", b"c")
    far.turn()
    (piece,) = taker.held
    queue.cancel(consumer, far.now)
    for number, outcome in enumerate((Outcome.ACKNOWLEDGED, Outcome.REQUEUED, Outcome.ACKNOWLEDGED)):
        far.settle(consumer, replace(piece, sequence=piece.sequence + number, count=1), outcome)
    far.turn()
    assert far.drain(queue) == [b"b"]


def test_a_client_whose_socket_is_full_when_it_begins_to_consume_has_no_credit_yet(far: Far) -> None:
    queue, taker = far.queue(), Taker()
    taker.writable = False
    queue.consume(Consumer("c", queue, taker), far.now)
    far.turn()
    (at_home,) = far.far.home.home._peers[HERE].takers.values()
    assert isinstance(at_home, Subscriber) and at_home.credit == 0


def test_what_lies_between_two_acknowledged_messages_is_not_acknowledged(far: Far) -> None:
    queue = far.queue()
    consumer, taker = far.consumer(queue)
    far.publish(queue, b"a", b"b", b"c")
    far.turn()
    (piece,) = taker.held
    for number in (0, 2):
        far.settle(consumer, replace(piece, sequence=piece.sequence + number, count=1), Outcome.ACKNOWLEDGED)
    far.turn()
    assert far.far.at_home(queue).statistics().unacknowledged == 1
    far.disconnect()
    far.connect()
    assert far.drain(queue) == [b"b"]


def test_a_consumer_learns_when_it_becomes_the_active_one(far: Far) -> None:
    queue = far.queue(x_single_active_consumer=True)
    first, _ = far.consumer(queue, "first")
    second, _ = far.consumer(queue, "second")
    assert (first.active, second.active) == (True, False)
    queue.cancel(first, far.now)
    far.turn()
    assert second.active


def test_a_deleted_queue_takes_nothing_back_and_the_link_stays(far: Far) -> None:
    queue = far.queue()
    consumer, taker = far.consumer(queue, prefetch=2)
    far.publish(queue, b"a", b"b", b"c")
    far.turn()
    far.settle(consumer, taker.held[0], Outcome.REQUEUED)  # said before it hears of the deletion
    far.far.home.delete(far.far.at_home(queue), far.now)
    far.turn()
    far.far.here.delete(queue, far.now)
    far.turn()
    assert far.far.network.bad == []


def test_a_home_forgets_who_holds_messages_of_a_deleted_queue_and_nobody_else(far: Far) -> None:
    queue, other = far.queue(), far.queue()
    far.publish([queue, other], b"a", b"b")
    far.turn()
    for one in (queue, other):
        far.consumer(one, prefetch=1)
        one.get(False, far.now)
    far.turn()
    peer = far.far.home.home._peers[HERE]
    assert len(peer.takers) == 4
    gone, stays = far.far.at_home(queue), far.far.at_home(other)
    far.far.home.delete(gone, far.now)
    assert {taker.queue for taker in peer.takers.values()} == {stays}
    assert list(peer._of_queue) == [stays], "it is woken whenever the link has room"
    far.far.here.delete(queue, far.now)
    far.disconnect()
    far.turn()
    assert (stays.ready_count, stays.consumer_count) == (2, 0)
    assert far.far.network.bad == []


# ------------------------------------------------------------------------- figures


def test_figures_that_changed_are_told_at_intervals_and_to_new_links(far: Far) -> None:
    queue = far.queue()
    assert isinstance(queue, RemoteQueue)
    home = far.far.home.home
    home.tick(far.now)
    far.turn()
    before = far.bytes_from_home()
    home.tick(far.now + 5_000)
    far.turn()
    assert far.bytes_from_home() == before, "nothing has changed"
    far.publish(queue, b"a")
    far.turn()
    home.tick(far.now + 10_000)
    far.turn()
    assert queue.figures.ready == 1
    queue.figures = replace(queue.figures, ready=0)
    far.disconnect()
    far.connect()
    far.turn()
    assert queue.figures.ready == 1


def test_figures_of_deleted_queues_are_told_to_nobody(far: Far) -> None:
    queue = far.queue()
    home = far.far.home.home
    home.tick(far.now)
    far.turn()
    assert [queue_id for queue_id, _ in home._figures.all()] == [queue.record.id]
    far.far.home.delete(far.far.at_home(queue), far.now)
    assert not list(home._figures.all())


# ------------------------------------------------------------------------- letters that are none

PUBLISH = words.encode_publish([1], 1, Run("", "k", bytes(8), 1, 0))
DEAD_LETTER = words.encode_publish(
    [1], 1, Run("", "k", bytes(8), 1, 0, died_in=DiedIn(7, (5, 0, 0), 1)), tells_death=True
)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0",
        bytes([99]),
        bytes([words.Op.CONFIRM]) + bytes(17),
        words.encode_confirm([(1, 1, True)]),
        words.encode_settle(7, 1, 1, 2),
        words.encode_settle(0, 1, 2, 2),
        words.encode_number(words.Op.PURGE, 1),  # told, not asked
        b"".join(PUBLISH)[:-1],
        b"".join(PUBLISH) + b"x",
        b"".join(words.encode_publish([], 1, Run("", "k", bytes(8), 1, 0))),
        b"".join(words.encode_publish([1], 1, Run("", "k", bytes(8), 2, 0))),
        b"".join(words.encode_publish([1], 1, Run("", "k", bytes(8), 1, 5))),
        b"".join(DEAD_LETTER[:2]) + bytes(24),
        b"".join(words.encode_deliver(False, 1, 1, 2, "", "k", bytes(8))),
        words.encode_figures([])[:-1],
        bytes([words.Op.FIGURES]) + b"\x93\1\2\3",
    ],
)
def test_what_no_node_would_say_ends_the_link_and_nothing_else(far: Far, payload: bytes) -> None:
    queue = far.queue()
    far.far.network.wires[HERE].ears.tell(HOME, CLASSIC, payload)  # type: ignore[attr-defined]
    far.far.network.run()
    assert len(far.far.network.bad) == 1
    far.far.network.bad.clear()
    far.connect()
    far.publish(queue, b"a")
    assert far.drain(queue) == [b"a"]


def test_tags_that_are_not_out_end_the_link(far: Far) -> None:
    queue = far.queue()
    consumer, taker = far.consumer(queue)
    far.publish(queue, b"a")
    far.turn()
    (piece,) = taker.held
    far.settle(consumer, replace(piece, count=2), Outcome.ACKNOWLEDGED)
    far.far.network.run()
    assert "not all of the tags from 1 on and before 3 are out" in far.far.network.bad[0]


def test_a_home_knows_the_node_of_a_client_and_why_messages_come_back(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = far.queue()
    at_home: Any = far.far.at_home(queue)
    settle = at_home.settle
    seen: list[tuple[Outcome, BackReason]] = []
    publishers: list[Any] = []

    def note(piece: Slice, outcome: Outcome, now: int) -> None:
        seen.append((outcome, piece.back))
        settle(piece, outcome, now)

    def note_publisher(queues: Any, run: Run, receipt: Any, now: int) -> None:
        publishers.append(run.publisher)
        publish(queues, run, receipt, now)

    publish = far.far.home.home.kind.publish
    monkeypatch.setattr(at_home, "settle", note)
    monkeypatch.setattr(far.far.home.home.kind, "publish", note_publisher)
    far.publish(queue, b"a", b"b")
    far.far.settle()
    (publisher,) = publishers
    assert (publisher.kind, publisher.address) == (ActorKind.NODE, str(HERE))
    found = far.get(queue, no_ack=False)
    assert found is not None
    far.settle(None, found[1].piece, Outcome.RELEASED)
    far.turn()
    assert seen == [(Outcome.RELEASED, BackReason.NACKED)]
    assert far.get(queue, no_ack=False) is not None
    far.disconnect()
    assert seen[1:] == [(Outcome.REQUEUED, BackReason.CONNECTION_LOST)]
