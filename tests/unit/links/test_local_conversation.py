"""A shovel whose both ends are this broker: links/local_conversation.py, and links/shovel/doors.py, which chooses it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from broker.catalog.commands.catalog_commands import DeletePermission, DeleteQueue, PutPermission, SetUserLimits
from broker.errors import ResourceExhausted
from broker.records import PermissionRecord
from links.local_conversation import PROTOCOL
from links.shovel.definition import read_definition
from links.shovel.doors import AmqpPort, Doors, PortMaker
from links.shovel.shovel import STALL_S, Shovel
from links.shovel.shovel_status import ShovelState
from links.world import LinkNet
from native.content import encode
from tests.unit.broker.broker_world import SECRET, Client, World
from tests.unit.broker.later_turns import LaterTurns
from tests.unit.links.hand_clock import HandClock

HERE = f"amqp://guest:{SECRET.decode()}@/%2f"


class NoNet:
    """Fulfils LinkNet for links that need none."""

    def connect(self, *given: Any) -> Any:
        raise AssertionError(f"a connection to {given[:2]}")


class Bench:
    """A broker with the queues `from` and `to`, and a shovel between them."""

    def __init__(self, *bodies: bytes, uri: str = HERE, user: str = "guest", **value: Any) -> None:
        self.world, self.clock = World(), HandClock()
        self.clock.now = self.world.now / 1000
        self.client: Client = self.world.client()
        for queue in ("from", "to"):
            self.client.declare(queue)
        for body in bodies:
            self.publish(body)
        given = {"src-uri": uri, "src-queue": "from", "dest-uri": uri, "dest-queue": "to", "reconnect-delay": 1}
        given |= {key.replace("_", "-"): one for key, one in value.items()}
        definition = read_definition("s", {key: one for key, one in given.items() if one is not None})
        self.ports = PortMaker(self.world.broker, cast("LinkNet", NoNet()), self.clock)
        self.finished = 0
        doors = Doors("s", definition, self.ports, self.clock, lambda: 0.0)
        self.shovel = Shovel(definition, doors, lambda: {"by": "me"}, self.clock, lambda: 0.0, self._finish)

    def _finish(self) -> None:
        self.finished += 1

    def publish(self, body: bytes, key: str = "from", exchange: str = "", **properties: Any) -> None:
        self.client.publish(exchange, key, body, **{"delivery_mode": 2, **properties})
        self.world.end_turn()

    def run(self, seconds: float = 0.0) -> Bench:
        """Starts the shovel, or goes on, until nothing is left to do."""
        if (
            not self.shovel.status().restarts
            and self.shovel.doors.source_uri == self.shovel.doors.destination_uri == ""
        ):
            self.shovel.start()
        for _ in range(30):
            self.clock.advance(seconds / 30)
            self.world.end_turn()
        return self

    def links(self) -> list[Any]:
        return [one for one in self.world.broker.connections() if one.protocol == PROTOCOL]

    def bodies(self, queue: str) -> list[bytes]:
        return self.client.bodies_of(queue)


def test_messages_come_in_order_and_leave_their_source_once_they_are_confirmed() -> None:
    bench = Bench(b"a", b"b", b"c").run()
    status = bench.shovel.status()
    assert (status.state, status.forwarded, status.unconfirmed) == (ShovelState.RUNNING, 3, 0)
    bench.publish(b"d")
    assert bench.run().bodies("to") == [b"a", b"b", b"c", b"d"]
    bench.shovel.stop()
    assert bench.bodies("from") == []
    assert bench.links() == []


def test_a_port_that_was_closed_is_kept_by_nobody() -> None:
    """Each try of a shovel opens two."""
    bench = Bench().run()
    assert len(bench.ports._local) == 2
    for _ in range(3):
        bench.shovel.restart()
        bench.run(1)
    assert len(bench.ports._local) == 2
    bench.shovel.stop()
    assert bench.ports._local == set()


def test_what_is_said_to_a_port_that_was_closed_is_not_done() -> None:
    """A shovel may say more within the turn in which it ended."""
    bench = Bench(b"a", b"b").run()
    source, destination = sorted(bench.ports._local, key=lambda one: one._id, reverse=True)
    bench.shovel.stop()
    ready = bench.world.ready("from"), bench.world.ready("to")
    for port in (source, destination):
        port.acknowledge(1, 2, multiple=True)
        port.give_back(1, 2)
        port.publish(b"", b"to", encode(b"\0\0", b"c"), 1, mandatory=True)
        port.resume()
    bench.run(1)
    assert (bench.world.ready("from"), bench.world.ready("to")) == ready


def test_properties_that_cannot_be_read_end_it_with_the_reason() -> None:
    bench = Bench().run()
    destination = min(bench.ports._local, key=lambda one: one._id)
    destination.publish(b"", b"to", encode(b"\x80\0", b"a"), 1, mandatory=True)
    bench.world.end_turn()
    status = bench.shovel.status()
    assert status.state is ShovelState.TERMINATED
    assert status.reason.startswith("destination: ")


def test_an_acknowledgement_of_nothing_ends_it_with_the_reason() -> None:
    bench = Bench().run()
    source = max(bench.ports._local, key=lambda one: one._id)
    source.acknowledge(7, 7, multiple=False)
    bench.world.end_turn()
    status = bench.shovel.status()
    assert status.reason.startswith("source: 406 PRECONDITION_FAILED")


@pytest.mark.parametrize("uri", [HERE, "amqp://elsewhere"])
def test_one_that_is_stopped_before_it_has_connected_connects_no_more(uri: str) -> None:
    bench = Bench(b"a", uri=uri)
    bench.shovel.start()
    bench.shovel.stop()
    bench.clock.advance(1)
    assert (bench.links(), bench.bodies("from")) == ([], [b"a"])


def test_properties_and_what_messages_are_stored_by_stay_as_they_were() -> None:
    bench = Bench()
    bench.publish(b"a", priority=4, expiration="60000", message_id="m", headers={"own": 1})
    bench.publish(b"b", delivery_mode=1)
    bench.run()
    assert bench.client.properties_of("to") == {
        "delivery_mode": 2,
        "priority": 4,
        "expiration": "60000",
        "message_id": "m",
        "headers": {"own": 1},
    }
    assert bench.client.properties_of("to") == {"delivery_mode": 1}


def test_one_that_a_shovel_rewrites_is_stored_by_what_it_says_then() -> None:
    properties = {"expiration": "100", "delivery_mode": 1}
    bench = Bench(b"a", dest_publish_properties=properties, dest_add_forward_headers=True).run()
    bench.shovel.stop()
    found = bench.world.broker.queue("/", "to")
    assert found.ready_count == 1
    bench.world.pass_ms(101)
    assert bench.bodies("to") == []


@pytest.mark.parametrize("ack_mode", ["on-publish", "no-ack"])
def test_without_confirms_too(ack_mode: str) -> None:
    bench = Bench(b"a", b"b", ack_mode=ack_mode).run()
    assert bench.bodies("to") == [b"a", b"b"]
    bench.shovel.stop()
    assert bench.bodies("from") == []


def test_what_no_queue_wants_is_said_and_goes_back() -> None:
    bench = Bench(dest_queue=None, dest_exchange="amq.direct")
    bench.publish(b"a")
    bench.run()
    assert "NO_ROUTE: no queue takes messages for exchange 'amq.direct' with key 'from'" in bench.shovel.status().reason
    bench.client.bind("to", "amq.direct", "from")
    bench.run(2)
    assert bench.bodies("to") == [b"a"]


def test_what_a_full_queue_refuses_goes_back_and_comes_later() -> None:
    bench = Bench()
    bench.client.delete("to")
    bench.client.declare("to", max_length=1, overflow="reject-publish")
    bench.publish(b"a")
    bench.publish(b"b")
    bench.run()
    assert bench.bodies("to") == [b"a"]
    bench.run(2)
    assert bench.bodies("to") == [b"b"]


def test_queues_that_are_missing_are_declared_durable_unless_they_should_be_there() -> None:
    bench = Bench(src_queue="new.from", dest_queue="new.to").run()
    assert [bench.world.broker.queue("/", name).record.durable for name in ("new.from", "new.to")] == [True, True]
    missing = Bench(dest_queue="missing", dest_predeclared=True).run()
    assert missing.shovel.status().reason == "destination: 404 NOT_FOUND - no queue 'missing' in vhost '/'"


def test_from_an_exchange_over_a_queue_that_goes_with_the_shovel() -> None:
    bench = Bench(src_queue=None, src_exchange="amq.topic", src_exchange_key="a.#").run()
    before = len(list(bench.world.catalog.namespace("/").queues))
    bench.publish(b"a", "a.b", "amq.topic")
    bench.publish(b"x", "b.b", "amq.topic")
    assert bench.run().bodies("to") == [b"a"]
    bench.shovel.stop()
    bench.world.end_turn()
    assert len(list(bench.world.catalog.namespace("/").queues)) == before - 1


def test_so_many_and_no_more() -> None:
    bench = Bench(b"a", b"b", b"c", src_delete_after=2).run()
    assert (bench.finished, bench.bodies("to"), bench.bodies("from")) == (1, [b"a", b"b"], [b"c"])


class TestRights:
    def test_a_wrong_password_opens_nothing(self) -> None:
        bench = Bench(b"a", uri="amqp://guest:wrong@/").run()
        assert bench.shovel.status().reason == "destination: 403 ACCESS_REFUSED - Login was refused"
        assert (bench.links(), bench.bodies("from")) == ([], [b"a"])

    def test_its_user_has_to_have_the_right_to_what_it_does(self) -> None:
        bench = Bench(b"a", uri=HERE.replace("guest", "app"))
        bench.world.add_user("app", read="^from$", write="^other$")
        bench.run()
        assert "403 ACCESS_REFUSED" in bench.shovel.status().reason
        assert bench.shovel.status().forwarded == 0
        bench.world.submit(PutPermission(PermissionRecord("app", "/", "", "^(to|amq.default|)$", "^from$")))
        bench.run(3)
        assert bench.bodies("to") == [b"a"]

    def test_a_right_that_is_taken_away_ends_it(self) -> None:
        bench = Bench(uri=HERE.replace("guest", "app"))
        bench.world.add_user("app")
        bench.run()
        bench.world.submit(DeletePermission("app", "/"))
        bench.run()
        assert "CONNECTION_FORCED - access to vhost '/' was taken from user 'app'" in bench.shovel.status().reason
        assert bench.links() == []

    def test_its_connections_count_for_the_limits_of_its_user(self) -> None:
        bench = Bench()
        bench.world.submit(SetUserLimits("guest", {"max-connections": 2}))
        bench.run()
        assert "user connection limit (2) is reached" in bench.shovel.status().reason

    def test_an_operator_sees_them_by_name_and_may_end_them(self) -> None:
        bench = Bench(b"a").run()
        first, second = bench.links()
        assert {one.client_properties["connection_name"] for one in (first, second)} == {"Shovel s"}
        assert first.name != second.name
        bench.world.broker.send_clients_away("maintenance")
        bench.run()
        assert "320 CONNECTION_FORCED - maintenance" in bench.shovel.status().reason
        bench.world.broker.let_clients_in()
        bench.publish(b"b")
        assert bench.run(3).bodies("to") == [b"a", b"b"]


def test_a_source_that_is_deleted_ends_it_and_it_begins_again() -> None:
    bench = Bench(b"a").run()
    record = bench.world.catalog.queue("/", "from")
    assert record is not None
    bench.world.submit(DeleteQueue("/", "from", record.id))
    bench.run()
    assert "source: the broker cancelled the consumer" in bench.shovel.status().reason
    bench.run(3)
    bench.publish(b"b")
    assert bench.run().bodies("to") == [b"a", b"b"]


def test_an_alarm_stops_it_until_it_is_over() -> None:
    bench = Bench()
    bench.world.broker.alarms.raise_alarm("memory", "low on memory", bench.world.now)
    bench.publish(b"a")
    bench.publish(b"b")
    bench.run()
    assert bench.shovel.status().state is ShovelState.BLOCKED
    bench.world.broker.alarms.clear_alarm("memory")
    bench.publish(b"c")
    assert bench.run().bodies("to") == [b"a", b"b", b"c"]


def test_a_limit_of_a_rate_holds_for_messages_of_many_keys_as_for_a_run() -> None:
    """Each run that is too fast has an answer of its own: the first was taken for all of them."""
    bench = Bench(dest_queue=None, dest_exchange="amq.fanout", src_prefetch_count=10)
    bench.client.bind("from", "amq.topic", "key.#")
    bench.client.bind("to", "amq.fanout", "")
    for number in range(40):
        bench.publish(b"%d" % number, f"key.{number}", "amq.topic")
    bench.world.submit(SetUserLimits("guest", {"max-message-rate": 10}))
    bench.run()
    came = [bench.world.ready("to")]
    for _ in range(3):
        for _ in range(10):
            bench.world.pass_ms(100)
            bench.run(0.1)
        came.append(bench.world.ready("to"))
    assert came == [10, 20, 30, 40]
    assert bench.shovel.status().stalls == 0


def test_one_that_waits_for_a_limit_is_not_taken_for_stalled() -> None:
    bench = Bench(b"a")
    bench.world.submit(SetUserLimits("guest", {"max-message-rate": 0}))
    bench.run()
    bench.publish(b"b")
    bench.run(10 * STALL_S)
    status = bench.shovel.status()
    assert (status.state, status.stalls, status.restarts) == (ShovelState.FLOW, 0, 0)
    assert bench.bodies("to") == [b"a"]


def test_it_is_held_with_all_publishers_of_its_node_also_if_it_begins_meanwhile() -> None:
    bench = Bench(b"a", ack_mode="no-ack")
    bench.ports.hold_publishers(True)
    bench.run()
    assert (bench.shovel.status().state, bench.bodies("to")) == (ShovelState.FLOW, [])
    bench.ports.hold_publishers(False)
    assert bench.run().bodies("to") == [b"a"]
    bench.ports.hold_publishers(True)
    bench.publish(b"b")
    assert bench.run().bodies("to") == []
    bench.ports.hold_publishers(False)
    assert bench.run().bodies("to") == [b"b"]
    bench.shovel.stop()
    bench.ports.hold_publishers(True)  # nobody is left to be told


def test_what_fails_on_its_way_to_very_many_queues_ends_it_and_it_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without confirms that is said by what the publish waits for. It was not heard, and the shovel waited for a minute."""
    bench = Bench(b"a", ack_mode="on-publish", dest_queue=None, dest_exchange="amq.fanout")
    monkeypatch.setattr(bench.world.broker, "queues_per_step", 1)
    for name in ("to", "to.2", "to.3"):
        bench.client.declare(name)
        bench.client.bind(name, "amq.fanout", "")
    turns = LaterTurns(bench.world, steps_max=1)
    publish = bench.world.kind.publish

    def refuses_one(queues: Any, run: Any, *rest: Any) -> None:
        if queues[0].record.name == "to.3":
            raise ResourceExhausted("no room")
        publish(queues, run, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(bench.world.kind, "publish", refuses_one)
        bench.run()
        assert bench.shovel.status().state is ShovelState.FLOW
        turns.all()
        bench.run()
    assert bench.shovel.status().reason == "destination: 506 RESOURCE_ERROR - no room"
    bench.run(3)
    bench.publish(b"b")
    turns.all()
    bench.run()
    turns.all()
    assert bench.bodies("to")[-1] == b"b"


@pytest.mark.parametrize("uri", ["amqp://guest:guest@other/", HERE + "?auth_mechanism=external"])
def test_another_broker_and_a_certificate_are_for_the_port_with_frames(uri: str) -> None:
    bench = Bench(uri=uri)
    bench.shovel.start()
    destination = cast("Any", bench.shovel)._destination
    assert isinstance(destination.port, AmqpPort)


def test_bodies_travel_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """One publish for the run, not one for each message."""
    bench = Bench()
    with bench.world.one_turn():
        bench.client.publish("", "from", *(b"%d" % number for number in range(500)), delivery_mode=2)
    runs: list[int] = []
    publish = bench.world.kind.publish

    def counted(queues: Any, run: Any, *rest: Any) -> None:
        runs.append(run.count)
        publish(queues, run, *rest)

    monkeypatch.setattr(bench.world.kind, "publish", counted)
    assert bench.run().bodies("to") == [b"%d" % number for number in range(500)]
    assert runs == [500]
