"""links/shovel/node_shovels.py: which shovels a node runs, and what becomes of them when that changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

import pytest

from broker.catalog.commands import catalog_commands as commands
from broker.errors import ResourceExhausted
from broker.operations.shovel_facts import COMPONENT, ShovelFacts
from broker.records import NodeRecord, ParameterRecord
from links.link_claims import LEASE_S, LinkClaims
from links.shovel.doors import PortMaker
from links.shovel.node_shovels import SHOWN_IN, NodeShovels
from links.shovel.shovel import AUTODELETE
from links.shovel.shovel_status import ShovelState
from links.world import LinkNet
from tests.unit.broker.broker_world import Client, World
from tests.unit.links.hand_clock import HandClock
from tests.unit.links.test_local_conversation import HERE, NoNet

OTHER = "leveret@other"
MOVES = {"src-uri": HERE, "src-queue": "from", "dest-uri": HERE, "dest-queue": "to", "reconnect-delay": 1}


class Bench:
    """A node that may run shovels, and a client of it; queues `from`, `to` and `elsewhere` are there."""

    def __init__(self, static: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.world, self.clock = World(), HandClock()
        self.clock.now = self.world.now / 1000
        self.client: Client = self.world.client()
        for queue in ("from", "to", "elsewhere"):
            self.client.declare(queue)
        node, catalog = self.world.broker.node, self.world.catalog
        self.world.submit(commands.AddNode(NodeRecord(node, 0, 1, "here:1")))
        self.nodes = [node]
        self.claims = LinkClaims(COMPONENT, node, catalog, lambda: self.nodes, self.world.metadata.submit, self.clock)
        self.shovels = NodeShovels(
            node,
            catalog,
            self.claims,
            self.world.metadata.submit,
            PortMaker(self.world.broker, cast("LinkNet", NoNet()), self.clock),
            self.clock,
            lambda: 0.0,
            logging.getLogger("test"),
            "here",
            static or {},
        )
        self.world.metadata.subscribe(self.shovels.applied)
        self.shovels.start()

    def put(self, name: str = "s", vhost: str = "/", **value: Any) -> None:
        given = {**MOVES, **{key.replace("_", "-"): one for key, one in value.items()}}
        self.world.submit(commands.SetParameter(ParameterRecord(vhost, COMPONENT, name, given)))

    def clear(self, name: str = "s") -> None:
        self.world.submit(commands.ClearParameter("/", COMPONENT, name))

    def run(self, seconds: float = 0.0) -> Bench:
        for _ in range(30):
            self.clock.advance(seconds / 30)
            self.world.end_turn()
        return self

    def publish(self, *bodies: bytes) -> None:
        for body in bodies:
            self.client.publish("", "from", body)

    def waiting(self) -> dict[str, int]:
        return {queue: self.world.ready(queue) for queue in ("from", "to", "elsewhere")}

    def facts(self, name: str = "s") -> ShovelFacts | None:
        return next((one for one in self.shovels.facts() if one.name == name), None)

    def states(self) -> dict[str, str]:
        return {one.name: one.state for one in self.shovels.facts()}

    def parameters(self) -> set[str]:
        return {one.name for one in self.world.catalog.parameters() if one.component == COMPONENT}


def test_one_that_is_declared_runs_and_one_that_is_cleared_ends() -> None:
    bench = Bench()
    bench.publish(b"a")
    bench.put()
    bench.run()
    assert bench.waiting() == {"from": 0, "to": 1, "elsewhere": 0}
    bench.clear()
    bench.run()
    bench.publish(b"b")
    bench.run(10)
    assert (bench.shovels.facts(), bench.waiting()["from"]) == ([], 1)
    assert list(bench.world.catalog.claims()) == []


def test_one_that_is_declared_otherwise_goes_on_as_it_is_declared_now() -> None:
    bench = Bench()
    bench.put()
    bench.run()
    bench.put(dest_queue="elsewhere")
    bench.run()
    bench.publish(b"a")
    bench.run()
    assert bench.waiting() == {"from": 0, "to": 0, "elsewhere": 1}


def test_what_changes_nothing_of_it_does_not_interrupt_it() -> None:
    """Its connections would be closed, and what is on its way would come twice."""
    bench = Bench()
    bench.put()
    bench.run()
    connections = {one.id for one in bench.world.broker.connections()}
    bench.put()
    bench.put("other", src_queue="elsewhere")
    bench.run(3)
    assert connections <= {one.id for one in bench.world.broker.connections()}


def test_parameters_of_other_components_are_no_shovels() -> None:
    bench = Bench()
    bench.world.submit(commands.SetParameter(ParameterRecord("/", "federation-upstream", "u", {"uri": HERE})))
    bench.run(3)
    assert bench.shovels.facts() == []


@pytest.mark.parametrize("nodes", [[], [OTHER]], ids=["no majority", "drained"])
def test_a_node_that_may_run_none_takes_no_message_more(nodes: list[str]) -> None:
    bench = Bench()
    bench.put()
    bench.run()
    bench.nodes[:] = nodes
    bench.run(2)
    bench.publish(b"a")
    bench.run(2)
    assert (bench.states(), bench.waiting()["from"]) == ({}, 1)


def test_one_ends_before_another_node_may_begin_it_where_nothing_is_renewed() -> None:
    """At the moment when the claim has run out, and not at the next look behind it."""
    bench = Bench()
    bench.put()
    bench.run()
    bench.world.metadata.refusal = ResourceExhausted("no majority")
    begun = bench.clock.now
    while bench.states():
        bench.clock.advance(0.01)
        assert bench.clock.now <= begun + LEASE_S + 0.02


def test_a_node_that_stops_ends_its_shovels_and_releases_them() -> None:
    bench = Bench()
    bench.put()
    bench.run()
    bench.shovels.stop()
    assert (bench.states(), list(bench.world.catalog.claims())) == ({}, [])
    bench.put("later")
    bench.publish(b"a")
    bench.run(10)
    assert (bench.states(), bench.waiting()["from"]) == ({}, 1)


class TestItsEnd:
    def test_one_that_has_moved_all_is_cleared(self) -> None:
        bench = Bench()
        bench.publish(b"a", b"b")
        bench.put(src_delete_after="queue-length")
        bench.run(2)
        assert (bench.waiting()["to"], bench.parameters(), bench.states()) == (2, set(), {})

    def test_it_stays_ended_until_it_can_be_cleared(self) -> None:
        """Begun again it would move what came to its queue meanwhile, which it was not to move."""
        bench = Bench()
        bench.publish(b"a")
        bench.put(src_delete_after="queue-length")
        bench.clock.advance(0)  # it is taken and begins
        assert bench.parameters() == {"s"}
        bench.world.metadata.refusal = ResourceExhausted("no majority")
        bench.run(0.5)
        facts = bench.facts()
        assert facts is not None
        assert (facts.state, facts.reason) == (ShovelState.TERMINATED.value, AUTODELETE)
        bench.publish(b"b")
        assert bench.shovels.restart("/", "s"), "it is here, and over"
        bench.run(2)
        assert (bench.waiting()["from"], bench.parameters()) == (1, {"s"})
        bench.world.metadata.refusal = None
        bench.run(3)
        assert (bench.waiting()["from"], bench.parameters(), bench.states()) == (1, set(), {})

    def test_what_was_declared_anew_meanwhile_is_not_cleared(self) -> None:
        bench = Bench()
        bench.publish(b"a")
        bench.put(src_delete_after="queue-length")
        bench.clock.advance(0)
        bench.world.metadata.refusal = ResourceExhausted("no majority")
        bench.run(0.5)
        bench.world.metadata.refusal = None
        bench.put()
        bench.run(5)
        assert (bench.parameters(), bench.states()) == ({"s"}, {"s": ShovelState.RUNNING.value})

    def test_a_node_that_has_stopped_clears_nothing(self) -> None:
        """Another one may run it by now."""
        bench = Bench()
        bench.publish(b"a")
        bench.put(src_delete_after="queue-length")
        bench.clock.advance(0)
        bench.world.metadata.refusal = ResourceExhausted("no majority")
        bench.run(0.5)
        bench.shovels.stop()
        bench.world.metadata.refusal = None
        bench.run(5)
        assert bench.parameters() == {"s"}


class TestOfTheConfigurationFile:
    def test_it_runs_and_is_shown_in_the_default_vhost(self) -> None:
        bench = Bench({"filed": MOVES})
        bench.publish(b"a")
        bench.run(2)
        facts = bench.facts("filed")
        assert facts is not None
        assert (facts.vhost, facts.type, facts.state, bench.waiting()["to"]) == (SHOWN_IN, "static", "running", 1)

    def test_the_log_says_that_it_is_of_that_file(self, caplog: pytest.LogCaptureFixture) -> None:
        """It said `in vhost ''`, which there is not."""
        with caplog.at_level(logging.INFO, "test"):
            bench = Bench({"filed": MOVES})
            bench.put("declared")
            bench.run(2)
            bench.shovels.stop()
        both = ("shovel 'filed' of the configuration file", "shovel 'declared' in vhost '/'")
        expected = {f"{one} {what} on this node" for one in both for what in ("starts", "ends")}
        assert set(caplog.messages) == expected

    def test_it_is_restarted_by_the_name_under_which_it_is_shown(self) -> None:
        bench = Bench({"filed": MOVES})
        bench.run(2)
        assert bench.shovels.restart(SHOWN_IN, "filed")
        facts = bench.facts("filed")
        assert facts is not None and facts.restarts == 1
        assert not bench.shovels.restart("other", "filed")

    def test_one_of_the_default_vhost_with_its_name_is_restarted_instead(self) -> None:
        bench = Bench({"s": MOVES})
        bench.put(src_queue="elsewhere")
        bench.run(2)
        assert bench.shovels.restart("/", "s")
        assert {one.type: one.restarts for one in bench.shovels.facts()} == {"static": 0, "dynamic": 1}


def test_what_is_no_shovel_says_why_and_does_not_run() -> None:
    bench = Bench()
    bench.world.submit(commands.SetParameter(ParameterRecord("/", COMPONENT, "s", {"src-uri": HERE})))
    bench.run(2)
    facts = bench.facts()
    assert facts is not None
    assert facts.state == ShovelState.TERMINATED.value
    assert facts.reason.startswith("not a valid shovel: ")
    assert facts.since_ms > 0
    assert bench.shovels.restart("/", "s"), "it is known here"
    bench.put()
    bench.run(2)
    assert bench.states() == {"s": ShovelState.RUNNING.value}


def test_what_operators_see_of_one() -> None:
    bench = Bench()
    bench.put(src_delete_after=5)
    bench.publish(b"a", b"b")
    bench.run()
    facts = bench.facts()
    assert facts is not None
    assert (facts.source.queue, facts.destination.queue) == ("from", "to")
    assert (facts.source.exchange_key, facts.remaining, facts.forwarded, facts.type) == (None, 3, 2, "dynamic")


def test_forwarded_messages_say_which_shovel_moved_them_and_from_where() -> None:
    bench = Bench()
    bench.client.declare_exchange("x", "topic")
    given = {key: one for key, one in MOVES.items() if key != "src-queue"}
    value = {**given, "src-exchange": "x", "src-exchange-key": "k", "dest-add-forward-headers": True}
    bench.world.submit(commands.SetParameter(ParameterRecord("/", COMPONENT, "s", value)))
    bench.run()
    bench.client.publish("x", "k", b"a")
    bench.run()
    entry = bench.client.properties_of("to")["headers"]["x-shovelled"][0]
    assert entry == {
        "shovelled-by": "here",
        "shovel-type": "dynamic",
        "shovel-name": "s",
        "shovel-vhost": "/",
        "src-uri": "amqp://",
        "dest-uri": "amqp://",
        "src-exchange": "x",
        "src-exchange-key": "k",
        "dest-queue": "to",
    }
