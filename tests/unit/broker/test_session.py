"""A session: what it consumes and settles, in which order it is told, transactions, and its end."""

from __future__ import annotations

import weakref

import pytest

from broker.catalog.commands.catalog_commands import PutPermission
from broker.errors import AccessRefused, NotAllowed, NotFound, NotSupported, PreconditionFailed, ResourceLocked
from broker.limits import Limits
from broker.names import server_consumer_tag
from broker.pending import Pending
from broker.queues.queue_type import Got, Outcome
from broker.records import PermissionRecord
from broker.session import session as session_module
from broker.session.session import GotMessage
from broker.session.silent_sink import SilentSink
from native.content import messages
from tests.unit.broker.broker_world import Client, World, refused


@pytest.fixture(autouse=True, params=["one by one", "all at once"])
def giving_back(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many are given back in another way, which is to do the same."""
    if request.param == "all at once":
        monkeypatch.setattr(session_module, "GIVEN_BACK_ONE_BY_ONE_MAX", 0)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    client = world.client()
    client.declare("q")
    return client


def fill(client: Client, count: int = 5, queue: str = "q") -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    client.publish("", queue, *bodies)
    return bodies


# ------------------------------------------------------------------------- consuming


def test_deliveries_are_numbered_over_all_consumers_of_the_session(client: Client) -> None:
    client.declare("r")
    client.consume("q", "one")
    client.consume("r", "two")
    for queue in ("q", "r", "q"):
        client.publish("", queue, b"x", b"y")
    assert [tag for tag, _, _ in client.delivered] == [1, 2, 3, 4, 5, 6]
    assert client.consumer_tags == ["one", "one", "two", "two", "one", "one"]


def test_a_consumer_without_tag_gets_one_nobody_can_guess(client: Client) -> None:
    tags = {client.consume("q") for _ in range(3)}
    assert len(tags) == 3
    assert all(tag.startswith("amq.ctag-") and len(tag) == len(server_consumer_tag(bytes(16))) for tag in tags)


def test_a_tag_in_use_is_refused_and_one_that_was_cancelled_is_free(client: Client) -> None:
    client.consume("q", "tag")
    refused(NotAllowed, "attempt to reuse consumer tag 'tag'", lambda: client.consume("q", "tag"))
    client.session.cancel("tag", client.world.now)
    assert client.consume("q", "tag") == "tag"


def test_a_tag_belongs_to_its_session(world: World, client: Client) -> None:
    client.consume("q", "tag")
    assert Client(world, client.connection).consume("q", "tag") == "tag"


def test_cancelling_an_unknown_tag_is_fine(client: Client) -> None:
    client.session.cancel("nope", client.world.now)


def test_consuming_from_what_is_not_there(client: Client) -> None:
    refused(NotFound, "no queue 'nope' in vhost '/'", lambda: client.consume("nope"))
    refused(NotFound, "no queue 'nope' in vhost '/'", lambda: client.get("nope"))


def test_a_refused_consumer_leaves_nothing_behind(client: Client) -> None:
    client.consume("q", "one")
    text = "queue 'q' in vhost '/' in exclusive use"
    refused(AccessRefused, text, lambda: client.consume("q", "two", exclusive=True))
    assert [consumer.tag for consumer in client.session.consumers()] == ["one"]
    assert client.consume("q", "two") == "two"


def test_where_one_consumes_exclusively_no_other_may(world: World, client: Client) -> None:
    client.consume("q", exclusive=True)
    refused(AccessRefused, "queue 'q' in vhost '/' in exclusive use", lambda: world.client().consume("q"))


def test_the_number_of_consumers_on_a_channel_is_limited() -> None:
    client = World(Limits(consumers_per_channel=2)).client()
    client.declare("q")
    client.consume("q", "a")
    client.consume("q", "b")
    refused(NotAllowed, "reached maximum (2) of consumers per channel", lambda: client.consume("q", "c"))
    client.session.cancel("a", client.world.now)
    client.consume("q", "c")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"priority": "high"},
            "invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected integer, got longstr\"",
        ),
        (
            {"consumer_timeout": 1000},
            "invalid arg 'x-consumer-timeout' for queue 'q' in vhost '/' of queue type rabbit_classic_queue",
        ),
    ],
)
def test_consumer_arguments_that_make_no_sense(client: Client, arguments: dict[str, object], text: str) -> None:
    refused(PreconditionFailed, text, lambda: client.consume("q", **arguments))  # type: ignore[arg-type]


def test_prefetch_holds_for_consumers_that_come_later(client: Client) -> None:
    client.consume("q", "before")
    client.consume("q", "after", prefetch=2, priority=1)
    fill(client, 6)
    assert client.consumer_tags == ["after"] * 2 + ["before"] * 4


def test_a_global_prefetch_is_shared_by_the_consumers_of_the_channel(client: Client) -> None:
    """basic.qos: `global` set, "shared across all consumers on the channel", as RabbitMQ had it up to 4.2."""
    client.session.set_prefetch(3, True)
    client.consume("q", "a")
    client.consume("q", "b")
    bodies = fill(client, 6)
    assert client.bodies == bodies[:3]
    client.ack(1)
    assert client.bodies == bodies[:4]
    client.ack(0, multiple=True)
    assert client.bodies == bodies


def test_a_global_prefetch_holds_for_consumers_that_are_there_and_may_be_raised_and_lowered(client: Client) -> None:
    client.consume("q", prefetch=0)
    client.session.set_prefetch(1, True)
    bodies = fill(client, 6)
    assert client.bodies == bodies[:1]
    with client.world.one_turn():
        client.session.set_prefetch(3, True)
    assert client.bodies == bodies[:3]
    with client.world.one_turn():
        client.session.set_prefetch(2, True)
    client.ack(1)
    assert client.bodies == bodies[:3], "two are out, as many as may be"
    client.ack(2)
    assert client.bodies == bodies[:4]
    with client.world.one_turn():
        client.session.set_prefetch(0, True)
    assert client.bodies == bodies, "0 is no limit"


def test_both_kinds_of_prefetch_hold_at_once(client: Client) -> None:
    client.session.set_prefetch(4, True)
    client.consume("q", "a", prefetch=1)
    client.consume("q", "b", prefetch=2)
    client.consume("q", "c", prefetch=3)
    fill(client, 10)
    assert sorted(client.consumer_tags) == ["a", "b", "b", "c"]
    client.ack(client.consumer_tags.index("c") + 1)
    assert sorted(client.consumer_tags) == ["a", "b", "b", "c", "c"]


def test_automatic_acknowledgement_and_gets_do_not_count_for_a_global_prefetch(client: Client) -> None:
    client.session.set_prefetch(1, True)
    fill(client, 3)
    assert client.get("q") is not None
    client.consume("q", "counts")
    assert client.consumer_tags == ["counts"]
    client.consume("q", "does not", no_ack=True)
    assert client.consumer_tags == ["counts", "does not"]


def test_what_a_consumer_held_that_was_cancelled_counts_until_it_is_settled(client: Client) -> None:
    client.session.set_prefetch(2, True)
    client.consume("q", "a")
    bodies = fill(client, 4)
    with client.world.one_turn():
        client.session.cancel("a", client.world.now)
    client.consume("q", "b")
    assert client.bodies == bodies[:2]
    client.ack(2, multiple=True)
    assert client.bodies == bodies


def test_what_is_rejected_or_recovered_makes_room_in_a_global_prefetch(client: Client) -> None:
    client.session.set_prefetch(1, True)
    client.consume("q")
    bodies = fill(client, 2)
    client.reject(1)
    assert client.bodies == bodies
    with client.world.one_turn():
        client.session.recover(True, client.world.now)
    assert client.bodies == [*bodies, bodies[1]]


def test_acknowledging_makes_room(client: Client) -> None:
    client.consume("q", prefetch=2)
    bodies = fill(client)
    assert client.bodies == bodies[:2]
    client.ack(1)
    client.ack(2)
    assert client.bodies == bodies[:4]
    client.reject(4, multiple=True)
    assert client.bodies == bodies


def test_a_slow_socket_gets_nothing_until_it_resumes(world: World, client: Client) -> None:
    client.consume("q")
    client.writable = False
    bodies = fill(client)
    assert client.bodies == []
    client.writable = True
    client.session.resume(world.now)
    world.end_turn()
    assert client.bodies == bodies


def test_deliveries_wait_for_the_end_of_the_turn(world: World, client: Client) -> None:
    client.consume("q")
    with world.one_turn():
        fill(client)
        assert client.bodies == []
    assert len(client.bodies) == 5


# ------------------------------------------------------------------------- get


def test_get_numbers_its_messages_as_deliveries_are(client: Client) -> None:
    fill(client, 3)
    got = [client.get("q"), client.get("q", no_ack=True), client.get("q"), client.get("q")]
    assert [one and (one.tag, one.remaining) for one in got] == [(1, 2), (2, 1), (3, 0), None]
    refused(PreconditionFailed, "unknown delivery tag 2", lambda: client.ack(2))
    client.ack(1)
    client.ack(3)


def test_what_was_got_and_requeued_is_marked(client: Client) -> None:
    fill(client, 1)
    client.get("q")
    client.reject(1, requeue=True)
    got = client.get("q")
    assert got is not None and got.piece.redelivered and got.tag == 2


# ------------------------------------------------------------------------- settling


@pytest.mark.parametrize("tag", [0, 4, 99])
def test_a_tag_that_was_never_given_out_is_unknown(client: Client, tag: int) -> None:
    client.consume("q")
    fill(client, 3)
    text = f"unknown delivery tag {tag}"
    refused(PreconditionFailed, text, lambda: client.ack(tag))
    refused(PreconditionFailed, text, lambda: client.reject(tag))
    if tag:
        refused(PreconditionFailed, text, lambda: client.ack(tag, multiple=True))
        refused(PreconditionFailed, text, lambda: client.reject(tag, multiple=True))


def test_a_message_is_settled_once(client: Client) -> None:
    client.consume("q")
    fill(client, 2)
    client.ack(1)
    refused(PreconditionFailed, "unknown delivery tag 1", lambda: client.ack(1))
    refused(PreconditionFailed, "unknown delivery tag 1", lambda: client.ack(1, multiple=True))


def test_what_was_not_to_be_acknowledged_cannot_be(client: Client) -> None:
    client.consume("q", no_ack=True)
    fill(client, 1)
    refused(PreconditionFailed, "unknown delivery tag 1", lambda: client.ack(1))


def test_multiple_settles_everything_up_to_the_tag_and_zero_everything(client: Client) -> None:
    client.consume("q")
    fill(client, 6)
    client.ack(2)
    client.ack(4, multiple=True)
    assert client.session.statistics()["unacknowledged"] == 2
    client.ack(0, multiple=True)
    assert client.session.statistics()["unacknowledged"] == 0
    assert client.session.counters.acknowledged == 6


def test_everything_of_nothing_is_fine(client: Client) -> None:
    client.ack(0, multiple=True)
    client.reject(0, multiple=True)


def test_a_range_with_an_unknown_tag_in_it_settles_what_came_before_as_single_requests_would(client: Client) -> None:
    client.consume("q")
    fill(client, 6)
    client.ack(3)
    refused(PreconditionFailed, "unknown delivery tag 3", lambda: client.ack(1, 5))
    assert client.session.statistics()["unacknowledged"] == 3
    client.close()
    assert client.world.client().bodies_of("q") == [b"3", b"4", b"5"]


def test_rejected_messages_are_gone_or_back_in_their_places(client: Client) -> None:
    client.consume("q", "c")
    fill(client, 5)
    client.session.cancel("c", client.world.now)
    client.reject(3)
    client.reject(5, requeue=True)
    client.reject(2, multiple=True, requeue=True)
    client.ack(4)
    assert client.bodies_of("q") == [b"0", b"1", b"4"]


def test_messages_of_several_queues_go_back_each_to_its_own(client: Client) -> None:
    client.declare("r")
    for queue in ("q", "r"):
        client.publish("", queue, queue.encode())
        client.get(queue)
    client.reject(0, multiple=True, requeue=True)
    assert (client.bodies_of("q"), client.bodies_of("r")) == ([b"q"], [b"r"])


def test_recover_sends_everything_again_marked(client: Client) -> None:
    client.consume("q", prefetch=3)
    bodies = fill(client, 3)
    client.session.recover(True, client.world.now)
    client.world.end_turn()
    assert client.delivered == [(number + 1, bodies[number % 3], number > 2) for number in range(6)]


def test_recover_without_requeue_is_not_supported(client: Client) -> None:
    refused(NotSupported, "requeue=false", lambda: client.session.recover(False, client.world.now))


def test_what_is_held_of_a_deleted_queue_can_still_be_settled(client: Client) -> None:
    client.consume("q")
    fill(client, 3)
    client.delete("q")
    client.ack(1)
    client.reject(2, requeue=True)
    client.reject(3)
    assert client.session.statistics()["unacknowledged"] == 0


def test_a_new_queue_of_the_same_name_does_not_get_the_old_ones_messages(client: Client) -> None:
    client.consume("q")
    fill(client, 1)
    client.delete("q")
    client.declare("q")
    client.reject(1, requeue=True)
    assert client.world.ready("q") == 0


@pytest.mark.parametrize("ask", ["get", "purge", "declare", "delete"])
def test_who_asks_a_queue_in_the_turn_of_a_publish_comes_behind_the_waiting_consumer(
    world: World, client: Client, ask: str
) -> None:
    """RabbitMQ's Java suite, BindingLifecycle: a get took what a consumer with room had been waiting for."""
    client.consume("q")
    other = world.client()
    with world.one_turn():
        fill(client, 1)
        match ask:
            case "get":
                assert other.get("q") is None
            case "purge":
                assert world.answer(other.session.topology.purge_queue("q", world.now)) == 0
            case "declare":
                assert other.declare("q", passive=True).ready == 0
            case "delete":
                deleted = other.session.topology.delete_queue("q", if_unused=False, if_empty=True, now=world.now)
                assert world.answer(deleted) == 0
    assert client.bodies == [b"0"]


# ------------------------------------------------------------------------- the end of a session


def test_what_a_closed_channel_held_goes_back_to_its_old_place_in_front(world: World, client: Client) -> None:
    client.consume("q", prefetch=3)
    bodies = fill(client, 5)
    client.ack(2)
    client.close()
    other = world.client()
    other.consume("q")
    assert other.bodies == [bodies[0], *bodies[2:]]
    assert [mark for _, _, mark in other.delivered] == [True, True, True, False]


def test_a_closed_session_is_told_nothing_more(world: World, client: Client) -> None:
    client.session.publisher.select_confirms()
    with world.one_turn():
        fill(client, 1)
        client.session.close(world.now)
    assert client.told == []
    client.session.close(world.now)  # twice is fine


def test_a_closed_session_lets_its_sink_go_though_somebody_still_has_the_session(world: World, client: Client) -> None:
    """It was a cycle with the channel of its client, which only the garbage collector freed."""
    sink = SilentSink()
    session = world.broker.open_session(client.connection, sink, world.now)
    session.close(world.now)
    gone = weakref.ref(sink)
    del sink
    assert gone() is None


def test_a_consumer_of_a_closed_channel_no_longer_stands_in_the_way(world: World, client: Client) -> None:
    client.consume("q", exclusive=True)
    client.close()
    world.client().consume("q", exclusive=True)


def test_a_connection_takes_its_sessions_with_it(world: World, client: Client) -> None:
    other = Client(world, client.connection)
    client.consume("q", prefetch=1)
    other.consume("q", prefetch=1)
    bodies = fill(client, 2)
    world.disconnect(client)
    assert world.client().bodies_of("q") == bodies
    assert next(iter(world.broker.sessions())).connection is not client.connection


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_message_that_arrives_after_the_end_goes_back_unmarked(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch, no_ack: bool
) -> None:
    """A get may wait for the disk, and its client may not."""
    fill(client, 1)
    queue = world.broker.queue("/", "q")
    arrived = queue.get(no_ack, world.now)
    from_disk: Pending[Got | None] = Pending()
    monkeypatch.setattr(queue, "get", lambda no_ack, now, by: from_disk)
    answers: list[GotMessage | None] = []
    client.session.get("q", no_ack, world.now).then(answers.append, lambda error: None)
    client.close()
    arrived.then(from_disk.resolve, lambda error: None)
    monkeypatch.undo()
    world.end_turn()
    assert answers == [None]
    got = world.client().get("q")
    assert (got is None) if no_ack else (got is not None and not got.piece.redelivered)


# ------------------------------------------------------------------------- queues that go


def test_a_consumer_is_told_that_its_queue_was_deleted(world: World, client: Client) -> None:
    consumer = world.client()
    consumer.consume("q", "mine")
    client.delete("q")
    assert (consumer.cancelled_tags, list(consumer.session.consumers())) == (["mine"], [])
    client.declare("q")
    assert consumer.consume("q", "mine") == "mine"


def test_the_consumer_that_deletes_its_own_queue_is_told_too(client: Client) -> None:
    client.consume("q", "mine")
    client.delete("q")
    assert client.cancelled_tags == ["mine"]


# ------------------------------------------------------------------------- exclusive queues


def test_nobody_else_touches_an_exclusive_queue(world: World, client: Client) -> None:
    client.declare("mine", exclusive=True)
    other = world.client()
    text = (
        "cannot obtain exclusive access to locked queue 'mine' in vhost '/'. It could be originally declared on another "
        "connection or the exclusive property value does not match that of the original declaration."
    )
    for ask in (
        lambda: other.declare("mine", exclusive=True),
        lambda: other.declare("mine"),
        lambda: other.declare("mine", passive=True),
        lambda: other.bind("mine", "amq.direct", "k"),
        lambda: other.purge("mine"),
        lambda: other.delete("mine"),
        lambda: other.consume("mine"),
        lambda: other.get("mine"),
    ):
        refused(ResourceLocked, text, ask)
    world.answer(other.session.topology.unbind_queue("mine", "amq.direct", "k", {}, world.now))
    other.publish("", "mine", b"a")
    assert Client(world, client.connection).bodies_of("mine") == [b"a"]


def test_an_exclusive_queue_is_transient_and_may_be_declared_again_as_durable_or_not(
    world: World, client: Client
) -> None:
    client.declare("mine", exclusive=True, durable=True)
    client.declare("mine", exclusive=True, durable=False)
    record = world.catalog.queue("/", "mine")
    assert record is not None and not record.durable


def test_exclusive_queues_go_with_their_connection(world: World, client: Client) -> None:
    client.declare("mine", exclusive=True)
    client.declare("too", exclusive=True, durable=False)
    client.close()
    assert world.ready("mine") == 0
    world.disconnect(client)
    assert [queue.record.name for queue in world.broker.queues()] == ["q"]
    assert world.catalog.queue("/", "mine") is None


# ------------------------------------------------------------------------- figures


def test_a_session_counts_what_it_was_given(client: Client) -> None:
    client.consume("q", "c", prefetch=2)
    fill(client, 4)
    client.reject(2, multiple=True, requeue=True)
    client.ack(0, multiple=True)
    client.session.cancel("c", client.world.now)
    client.ack(0, multiple=True)
    fill(client, 2)
    client.get("q", no_ack=True)
    client.get("q")
    client.get("q")
    counters = client.session.counters
    assert (counters.delivered, counters.redelivered) == (6, 2)
    assert (counters.got, counters.got_no_ack, counters.got_empty) == (1, 1, 1)
    assert counters.acknowledged == 4


def test_who_may_read_a_queue_may_look_into_it(client: Client) -> None:
    client.declare("q")
    client.publish("", "q", b"a", b"b", b"c")
    now = client.world.now
    found = client.world.answer(client.session.looks.browse("q", 1, 5, now))
    assert [messages(one.content, 0, 1)[0][1] for one in found] == [b"b", b"c"]
    refused(NotFound, "no queue 'none' in vhost '/'", lambda: client.session.looks.browse("none", 0, 1, now))
    refused(
        PreconditionFailed,
        "1 to 1000 messages can be looked at in one go, not 1001",
        lambda: client.session.looks.browse("q", 0, 1001, now),
    )
    refused(
        PreconditionFailed,
        "at most 100000 messages can be skipped, not 100001",
        lambda: client.session.looks.browse("q", 100_001, 1, now),
    )
    text = "queue 'q' in vhost '/' has no offsets to begin at: it is no stream"
    refused(PreconditionFailed, text, lambda: client.session.looks.browse_from("q", 0, 1, now))


def test_a_consumer_that_its_queue_ended_for_being_late_is_told_so(client: Client) -> None:
    client.declare("q")
    client.consume("q", "slow")
    (consumer,) = client.session.consumers()
    consumer.timed_out = True
    client.session.consumer_cancelled(consumer)
    assert (client.timed_out_tags, client.cancelled_tags, list(client.session.consumers())) == (["slow"], [], [])


def test_very_many_are_given_back_with_one_call_for_each_queue(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "GIVEN_BACK_ONE_BY_ONE_MAX", 3)
    client.declare("r")
    client.consume("q", prefetch=4)
    client.consume("r", prefetch=4)
    for at in range(8):
        client.publish("", "qr"[at % 2], b"%d" % at)  # each a delivery of its own
    calls: list[int] = []
    for name in ("q", "r"):
        queue = world.broker.queue("/", name)
        settle_all = queue.settle_all
        monkeypatch.setattr(
            queue, "settle_all", lambda held, *how, do=settle_all: calls.append(len(held)) or do(held, *how)
        )
    client.session.nack(0, True, True, world.now)
    world.end_turn()
    assert calls == [4, 4]
    redelivered = [body for _, body, again in client.delivered if again]
    assert sorted(redelivered) == [b"%d" % at for at in range(8)], "their consumers have room again"
    assert [body for body in redelivered if int(body) % 2] == [b"1", b"3", b"5", b"7"]


def test_who_may_not_read_a_queue_may_not_look_into_it(world: World, client: Client) -> None:
    fill(client)
    world.add_user("app", read="^other$")
    app = world.client("app")
    text = "read access to queue 'q' in vhost '/' refused for user 'app'"
    refused(AccessRefused, text, lambda: app.session.looks.browse("q", 0, 1, world.now))
    refused(AccessRefused, text, lambda: app.session.looks.browse_from("q", 0, 1, world.now))
    world.submit(PutPermission(PermissionRecord("app", "/", ".*", ".*", ".*")))
    assert len(world.answer(app.session.looks.browse("q", 0, 1, world.now))) == 1


@pytest.mark.parametrize(
    ("request_name", "outcome"),
    [("nack", Outcome.RELEASED), ("recover", Outcome.RELEASED), ("reject", Outcome.REQUEUED)],
)
def test_only_a_reject_tells_the_queue_that_what_it_requeues_has_failed(
    request_name: str, outcome: Outcome, world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quorum queue counts failures, and has a limit for them."""
    fill(client, 1)
    got = client.get("q")
    assert got is not None
    queue, outcomes = world.broker.queue("/", "q"), list[Outcome]()
    monkeypatch.setattr(queue, "settle", lambda piece, how, now: outcomes.append(how))
    monkeypatch.setattr(queue, "settle_all", lambda held, how, now: outcomes.append(how))
    if request_name == "nack":
        client.session.nack(got.tag, False, True, world.now)
    elif request_name == "recover":
        client.session.recover(True, world.now)
    else:
        client.session.reject(got.tag, True, world.now)
    assert outcomes == [outcome]


def test_room_in_a_global_prefetch_goes_to_the_queue_that_was_kept_waiting_first(client: Client) -> None:
    client.declare("r")
    client.session.set_prefetch(1, True)
    client.consume("q", "of q")
    client.consume("r", "of r")
    fill(client, 1)
    fill(client, 1, "r")
    fill(client, 2)
    assert client.consumer_tags == ["of q"]
    client.ack(1)
    assert client.consumer_tags == ["of q", "of r"]


def test_room_that_a_cancelled_consumer_held_goes_to_the_queue_that_was_kept_waiting(client: Client) -> None:
    client.declare("r")
    client.session.set_prefetch(1, True)
    client.consume("q", "of q")
    client.consume("r", "of r")
    fill(client, 3)
    fill(client, 1, "r")
    with client.world.one_turn():
        client.session.cancel("of q", client.world.now)
    client.ack(1)
    assert client.consumer_tags == ["of q", "of r"]
