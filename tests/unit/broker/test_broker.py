"""One node's broker: who may log in and connect, what goes with what, turns and timers, and its figures."""

from __future__ import annotations

import pytest

from broker.broker import LOGIN_REFUSED
from broker.catalog.commands.catalog_commands import (
    AddNode,
    Bind,
    DeclareQueue,
    DeletePolicy,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    NodeStarted,
    PutPermission,
    PutPolicy,
    PutUser,
    PutVhost,
    SetUserLimits,
    SetVhostLimits,
)
from broker.errors import AccessRefused, InternalError, NotAllowed, NotFound, ResourceExhausted
from broker.limits import Limits
from broker.login.audit import Audit
from broker.login.client_address import ClientAddress
from broker.node_queues import DELETE_AGAIN_MS
from broker.records import (
    BindingRecord,
    NodeRecord,
    PermissionRecord,
    PolicyRecord,
    QueueRecord,
    UserRecord,
    VhostRecord,
)
from tests.unit.broker.broker_world import SECRET, Client, World, refused

HERE = ClientAddress("127.0.0.1", 40_000, True, "AMQP 0-9-1")
ELSEWHERE = ClientAddress("192.0.2.1", 40_000, False, "AMQP 0-9-1")


@pytest.fixture
def world() -> World:
    return World()


# ------------------------------------------------------------------------- logging in


def test_the_right_password_answers_the_users_record(world: World) -> None:
    world.add_user("app")
    assert world.answer(world.broker.authenticate("app", SECRET, ELSEWHERE)) == world.catalog.users["app"]


@pytest.mark.parametrize(("user", "password"), [("app", b"wrong"), ("app", b""), ("nobody", SECRET)])
def test_a_refusal_does_not_say_what_was_wrong(world: World, user: str, password: bytes) -> None:
    world.add_user("app")
    refused(AccessRefused, LOGIN_REFUSED, lambda: world.answer(world.broker.authenticate(user, password, HERE)))


@pytest.mark.parametrize(("user", "named"), [("app", "user 'app'"), ("nobody", "an unknown user")])
def test_the_audit_says_who_could_not_log_in_and_why(world: World, user: str, named: str) -> None:
    """Names of unknown users are not written down: they may be passwords, typed into the wrong field."""
    world.add_user("app")
    lines: list[str] = []
    world.broker.audit = Audit(pytest.fail, lines.append)
    refused(AccessRefused, LOGIN_REFUSED, lambda: world.answer(world.broker.authenticate(user, b"wrong", ELSEWHERE)))
    world.broker.authenticate_external("nobody", ELSEWHERE)
    assert len(lines) == 2
    assert named in lines[0] and "192.0.2.1:40000" in lines[0] and "wrong user or password" in lines[0]
    assert "certificate" in lines[1]


def test_guest_comes_from_this_machine_only(world: World) -> None:
    broker = world.broker
    assert world.answer(broker.authenticate("guest", SECRET, HERE)).name == "guest"
    assert world.answer(broker.authenticate_external("guest", HERE)).name == "guest"
    refused(AccessRefused, LOGIN_REFUSED, lambda: world.answer(broker.authenticate("guest", SECRET, ELSEWHERE)))
    refused(AccessRefused, LOGIN_REFUSED, lambda: world.answer(broker.authenticate_external("guest", ELSEWHERE)))


def test_whom_a_certificate_names_must_exist(world: World) -> None:
    world.add_user("app")
    assert world.answer(world.broker.authenticate_external("app", ELSEWHERE)).name == "app"
    refused(AccessRefused, LOGIN_REFUSED, lambda: world.answer(world.broker.authenticate_external("nobody", HERE)))


# ------------------------------------------------------------------------- connecting


def test_a_vhost_that_is_not_there_or_not_permitted(world: World) -> None:
    refused(NotAllowed, "vhost nope not found", lambda: world.connect(vhost="nope"))
    world.submit(PutVhost(VhostRecord("other")))
    text = "access to vhost 'other' refused for user 'guest'"
    refused(NotAllowed, text, lambda: world.connect(vhost="other"))
    assert not list(world.broker.connections())


def test_limits_of_the_node_the_vhost_and_the_user(world: World) -> None:
    world.add_user("app")
    world.submit(SetVhostLimits("/", {"max-connections": 1}))
    one = world.connect()
    text = "access to vhost '/' refused for user 'app': connection limit (1) is reached"
    refused(NotAllowed, text, lambda: world.connect("app"))
    world.submit(SetVhostLimits("/", {"max-connections": -1}), SetUserLimits("app", {"max-connections": 1}))
    world.connect("app")
    text = "connection refused for user 'app': user connection limit (1) is reached"
    refused(NotAllowed, text, lambda: world.connect("app"))
    world.connect()
    world.broker.connection_closed(one, world.now)


def test_a_limit_of_zero_lets_nobody_in_and_closing_makes_room(world: World) -> None:
    world.submit(SetVhostLimits("/", {"max-connections": 0}))
    text = "access to vhost '/' refused for user 'guest': connection limit (0) is reached"
    refused(NotAllowed, text, lambda: world.connect())
    world.submit(SetVhostLimits("/", {"max-connections": 1}))
    for _ in range(3):
        world.broker.connection_closed(world.connect(), world.now)


def test_the_limit_of_the_node() -> None:
    world = World(Limits(connections=1))
    world.connect()
    text = "access to vhost '/' refused for user 'guest': connection limit (1) of node 'leveret@test' is reached"
    refused(NotAllowed, text, lambda: world.connect())


def test_a_users_channels_are_counted_over_all_its_connections(world: World) -> None:
    world.add_user("app")
    world.submit(SetUserLimits("app", {"max-channels": 2}))
    first, second = world.client("app"), world.client("app")
    text = "number of channels opened for user 'app' has reached the maximum allowed user limit of 2"
    refused(NotAllowed, text, lambda: Client(world, first.connection))
    world.client()
    second.close()
    Client(world, first.connection)


def test_the_channels_of_a_node_are_counted_over_everybody() -> None:
    world = World(Limits(channels_per_node=2))
    client = world.client()
    world.client().close()
    world.client()
    text = "number of channels opened on node 'leveret@test' has reached the maximum allowed limit of 2"
    refused(NotAllowed, text, lambda: Client(world, client.connection))


def test_a_connection_closes_once_and_one_that_was_refused_never_opened(world: World) -> None:
    client = world.client()
    for _ in range(2):
        world.disconnect(client)
    world.broker.connection_closed(world.connection(), world.now)
    totals = world.broker.totals
    assert (totals.connections_opened, totals.connections_closed) == (1, 1)
    assert (totals.channels_opened, totals.channels_closed) == (1, 1)


# ------------------------------------------------------------------------- what goes takes its own with it


def test_a_deleted_vhost_closes_its_connections_and_its_queues(world: World) -> None:
    world.submit(PutVhost(VhostRecord("other")), PutPermission(PermissionRecord("guest", "other", ".*", ".*", ".*")))
    inside, outside = world.client(vhost="other"), world.client()
    inside.declare("q")
    inside.declare("mine", exclusive=True)
    inside.consume("q", "c")
    outside.declare("q")
    world.submit(DeleteVhost("other"))
    assert world.closed == [(inside.connection.id, "vhost 'other' is deleted")]
    assert inside.cancelled_tags == ["c"]
    assert [queue.record.vhost for queue in world.broker.queues()] == ["/"]
    world.disconnect(inside)


def test_a_deleted_user_loses_its_connections(world: World) -> None:
    world.add_user("app")
    app, other = world.client("app"), world.client()
    app.declare("q")
    world.submit(DeleteUser("app"))
    assert world.closed == [(app.connection.id, "user 'app' is deleted")]
    refused(AccessRefused, "read access to queue 'q' in vhost '/' refused for user 'app'", lambda: app.get("q"))
    assert other.get("q") is None


def test_a_tag_that_changes_disturbs_nobody(world: World) -> None:
    world.add_user("app")
    world.client("app")
    world.submit(PutUser(UserRecord("app", "hash", ("monitoring",))))
    assert world.closed == []


def test_a_lost_read_permission_ends_consumers_within_the_turn(world: World) -> None:
    world.add_user("app")
    app = world.client("app")
    app.declare("q")
    app.consume("q", "c")
    world.submit(PutPermission(PermissionRecord("app", "/", ".*", ".*", "^other$")))
    world.client().publish("", "q", b"a")
    assert app.bodies == []
    assert world.broker.queue("/", "q").consumer_count == 0


# ------------------------------------------------------------------------- queues


def test_a_deleted_queue_is_gone_whoever_deleted_it(world: World) -> None:
    client = world.client()
    client.declare("q")
    world.submit(DeleteQueue("/", "q"))
    refused(NotFound, "no queue 'q' in vhost '/'", lambda: world.broker.queue("/", "q"))
    world.submit(DeleteQueue("/", "q"))
    totals = world.broker.totals
    assert (totals.queues_declared, totals.queues_created, totals.queues_deleted) == (1, 1, 1)


def test_a_declaration_that_changes_nothing_opens_nothing(world: World) -> None:
    client = world.client()
    client.declare("q")
    queue = world.broker.queue("/", "q")
    client.declare("q")
    totals = world.broker.totals
    assert world.broker.queue("/", "q") is queue
    assert (totals.queues_declared, totals.queues_created) == (2, 1)


def test_recovery_opens_every_queue_that_is_declared(world: World) -> None:
    client = world.client()
    client.declare("a")
    client.declare("b")
    again = World()
    for name in ("a", "b"):
        record = world.catalog.queue("/", name)
        assert record is not None
        again.catalog.load(record)
    again.broker.recover(again.now)
    assert [queue.record.name for queue in again.broker.queues()] == ["a", "b"]


def test_a_queue_of_a_kind_that_is_missing_stops_the_recovery(world: World) -> None:
    world.catalog.load(QueueRecord("/", "q", "stream", True, False, False, {}, id=7))
    text = "queue 'q' in vhost '/' is declared as a stream queue, a kind that this node does not have"
    refused(InternalError, text, lambda: world.broker.recover(world.now))


def test_a_policy_holds_at_once_for_queues_it_names_and_goes_at_once(world: World) -> None:
    client = world.client()
    client.declare("orders")
    client.declare("other")
    for queue in ("orders", "other"):
        client.publish("", queue, b"a", b"b", b"c")
    world.submit(PutPolicy(PolicyRecord("/", "short", "^orders$", "queues", 0, {"max-length": 1})))
    assert (world.ready("orders"), world.ready("other")) == (1, 3)
    world.submit(DeletePolicy("/", "short"))
    client.publish("", "orders", b"d")
    assert client.bodies_of("orders") == [b"c", b"d"]


def test_a_policy_that_refuses_messages_holds_for_publishers_that_knew_the_queue(world: World) -> None:
    client = world.client()
    client.declare("q")
    client.session.publisher.select_confirms()
    client.publish("", "q", b"a")
    definition = {"max-length": 2, "overflow": "reject-publish"}
    world.submit(PutPolicy(PolicyRecord("/", "short", "^q$", "queues", 0, definition)))
    client.publish("", "q", b"b", b"c")
    assert client.take_confirms() == [(1, 1, True, True), (2, 2, False, True), (3, 3, False, False)]


# ------------------------------------------------------------------------- turns and timers


def test_a_turn_is_asked_for_once_until_it_has_come(world: World) -> None:
    client = world.client()
    client.declare("q")
    client.declare("r")
    asked = world.turns_requested
    with world.one_turn():
        client.publish("", "q", b"a")
        client.publish("", "r", b"b")
        client.publish("", "q", b"c")
        assert world.turns_requested == asked + 1


def test_a_timer_of_a_queue_asks_for_a_turn_of_its_own(world: World) -> None:
    client = world.client()
    client.declare("q", message_ttl=100)
    client.publish("", "q", b"a")
    asked = world.turns_requested
    world.pass_ms(100)
    assert (world.turns_requested, world.ready("q")) == (asked + 1, 0)


def test_deliveries_of_a_turn_come_before_its_confirms(world: World) -> None:
    client = world.client()
    client.declare("q")
    client.session.publisher.select_confirms()
    client.consume("q")
    client.publish("", "q", b"a")
    assert client.told == ["deliver", "confirm"]


def test_a_long_chain_of_dead_letters_is_walked_without_end_of_the_stack(world: World) -> None:
    """Each queue has room for nothing, and hands on what it is given."""
    client = world.client()
    length = 250
    for number in range(length):
        client.declare(
            f"q{number}", max_length=0, dead_letter_exchange="", dead_letter_routing_key=f"q{number + 1}"
        )  # fmt: skip
    client.declare(f"q{length}")
    client.publish("", "q0", b"a")
    assert client.bodies_of(f"q{length}") == [b"a"]


# ------------------------------------------------------------------------- figures


def test_counters_stay_when_their_session_is_gone(world: World) -> None:
    client = world.client()
    client.declare("q")
    client.publish("", "q", b"a", b"b")
    client.publish("amq.direct", "none", b"c")
    world.disconnect(client)
    other = world.client()
    other.publish("", "q", b"d")
    other.get("q")
    other.ack(1)
    counted = world.broker.counters()["AMQP 0-9-1"]
    assert (counted.published, counted.routed, counted.dropped) == (4, 3, 1)
    assert (counted.got, counted.acknowledged) == (1, 1)


def test_what_is_open_is_listed(world: World) -> None:
    client = world.client()
    client.declare("q")
    client.consume("q", "c", prefetch=7)
    assert list(world.broker.connections()) == [client.connection]
    assert list(world.broker.sessions()) == [client.session]
    assert [consumer.tag for consumer in world.broker.consumers()] == ["c"]
    statistics = client.session.statistics()
    assert (statistics["consumers"], statistics["prefetch"], statistics["unconfirmed"]) == (1, 7, 0)


def test_queues_that_went_with_a_process_of_their_node_are_closed(world: World) -> None:
    node = world.broker.node
    world.submit(AddNode(NodeRecord(node, 0, 1, "127.0.0.1:1")))
    client = world.client()
    client.declare("transient", durable=False)
    client.declare("kept")
    client.consume("transient", "t")
    world.submit(NodeStarted(node, 1, 1))
    assert [queue.record.name for queue in world.broker.queues()] == ["kept"]
    assert client.cancelled_tags == ["t"]


# ------------------------------------------------------------------------- a cluster that cannot decide


def test_exclusive_queues_of_a_closed_connection_go_as_soon_as_it_can_be_decided(world: World) -> None:
    client = world.client()
    client.declare("mine", exclusive=True)
    world.metadata.refusal = ResourceExhausted("no majority")
    world.disconnect(client)
    assert world.catalog.queue("/", "mine") is not None
    world.pass_ms(DELETE_AGAIN_MS)
    assert world.catalog.queue("/", "mine") is not None
    world.metadata.refusal = None
    world.pass_ms(DELETE_AGAIN_MS)
    assert world.catalog.queue("/", "mine") is None and not list(world.broker.queues())
    world.pass_ms(10 * DELETE_AGAIN_MS)


def test_what_took_the_place_of_a_queue_that_was_to_go_stays(world: World) -> None:
    client, other = world.client(), world.client()
    client.declare("q", exclusive=True)
    world.metadata.refusal = ResourceExhausted("no majority")
    world.disconnect(client)
    world.metadata.refusal = None
    world.submit(DeleteQueue("/", "q"))
    other.declare("q")
    world.pass_ms(2 * DELETE_AGAIN_MS)
    assert world.ready("q") == 0


def test_an_auto_delete_queue_that_could_not_go_goes_later_unless_it_is_consumed_from_again(world: World) -> None:
    client = world.client()
    for name in ("left", "used"):
        client.declare(name, auto_delete=True)
        client.consume(name, name)
    world.metadata.refusal = ResourceExhausted("no majority")
    client.session.cancel("left", world.now)
    client.session.cancel("used", world.now)
    client.consume("used", "again")
    world.metadata.refusal = None
    world.pass_ms(DELETE_AGAIN_MS)
    assert [queue.record.name for queue in world.broker.queues()] == ["used"]


def test_an_exclusive_queue_whose_connection_went_before_it_was_there_goes_at_once(world: World) -> None:
    connection = world.connect()
    owner = world.broker.owner_of(connection)
    world.broker.connection_closed(connection, world.now)
    world.submit(DeclareQueue("/", "late", exclusive=True, owner=owner))
    assert world.catalog.queue("/", "late") is None and not list(world.broker.queues())


def test_what_clients_hold_comes_back_when_all_connections_are_ended(world: World) -> None:
    """At a stop, whatever the fronts did with them; a front that notices later has nothing left to do."""
    holders = [world.client(), world.client()]
    holders[0].declare("q")
    holders[0].publish("", "q", b"1", b"2", b"3", b"4")
    for holder in holders:
        holder.session.set_prefetch(2, False)
        holder.consume("q", "c")
        world.end_turn()
    assert [len(holder.delivered) for holder in holders] == [2, 2] and world.ready("q") == 0
    world.broker.end_connections(world.now)
    assert world.ready("q") == 4 and not list(world.broker.connections())
    for holder in holders:
        world.disconnect(holder)
    assert world.broker.totals.connections_closed == 2


def test_exclusive_queues_of_other_nodes_connections_are_their_matter(world: World) -> None:
    connection = world.connect()
    world.submit(DeclareQueue("/", "far", exclusive=True, owner=f"2.7.{connection.id}"))
    world.broker.connection_closed(connection, world.now)
    assert world.catalog.queue("/", "far") is not None


def test_a_route_that_was_found_before_a_new_queue_was_opened_is_found_again(world: World) -> None:
    """The catalog is ahead of what the broker was told: a route cached in between must not leave the queue out for ever."""
    client = world.client()
    client.publish("amq.fanout", "", b"none")
    record = world.catalog.apply(DeclareQueue("/", "q"))
    world.catalog.apply(Bind(BindingRecord("/", "amq.fanout", "q", "queue", "")))
    client.publish("amq.fanout", "", b"too early")
    world.broker._applied(DeclareQueue("/", "q"), record)
    client.publish("amq.fanout", "", b"in time")
    assert client.bodies_of("q") == [b"in time"]


def test_a_route_to_a_deleted_queue_whose_name_was_declared_again_is_found_again(world: World) -> None:
    """Both were applied before anybody followed the first. The route led to the old one, and a quorum queue or stream that was
    published to when it was closed never answered.
    """
    client = world.client()
    first = world.catalog.apply(DeclareQueue("/", "q"))
    world.broker._applied(DeclareQueue("/", "q"), first)
    old = world.broker.find_queue("/", "q")
    assert old is not None
    world.catalog.apply(DeleteQueue("/", "q"))
    second = world.catalog.apply(DeclareQueue("/", "q"))
    client.publish("", "q", b"to the old one")
    world.broker._applied(DeleteQueue("/", "q"), first)
    client.publish("", "q", b"to none")
    world.broker._applied(DeclareQueue("/", "q"), second)
    client.publish("", "q", b"to the new one")
    assert old.queue.statistics().published == 1
    assert client.bodies_of("q") == [b"to the new one"]
