"""Clusters of one node each in memory, federated over upstream ends that do in another broker what a link asks there.

Ends can be cut. Everything happens in the order of one clock that tests hold.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from broker.broker import Broker
from broker.catalog.commands import catalog_commands as commands
from broker.errors import AccessRefused, BrokerError, NotFound
from broker.messages.message import Run
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice
from broker.records import NodeRecord, ParameterRecord, PolicyRecord
from links.amqp.conversation import ChannelRefused, Steps
from links.amqp.events import Delivered
from links.federation.copied_bindings import CopiedBindings
from links.federation.exchange_link import ExchangeLink
from links.federation.exchange_setup import ExchangeLinkTerms
from links.federation.federation_link import FederationLink
from links.federation.federation_status import LinkState
from links.federation.local_exit import LocalExit
from links.federation.node_federation import CLAIMED_AS, NodeFederation
from links.federation.queue_link import QueueLink, QueueLinkTerms
from links.federation.wanted_links import WantedLink
from links.link_claims import LinkClaims
from native.content import body_bytes, one, skip
from native.frame_split import look_at
from tests.unit.broker.broker_world import Client, World
from tests.unit.links.hand_clock import HandClock
from wire.amqp.tables import decode_table, encode_table

MOMENT_S = 0.001
CODES = {NotFound: 404, AccessRefused: 403}


class MemoryUpstream:
    """Fulfils UpstreamEnd and SessionSink. Each request and delivery takes a moment of the clock."""

    writable = True

    def __init__(self, link: FederationLink, net: FederatedClusters, there: Cluster, steps: Steps) -> None:
        self.uri = f"amqp://{there.name}"
        self.cluster: str | None = there.name
        self.client = there.world.client()
        self._link = link
        self._net = net
        self._there = there
        self._closed = False
        self._session = there.world.broker.open_session(self.client.connection, self, there.world.now)
        self._later(lambda: self._run(steps, None))

    def _later(self, call: Callable[[], None]) -> None:
        self._net.clock.call_later(MOMENT_S, lambda: None if self._closed else call())

    def ask(self, steps: Steps) -> None:
        self._later(lambda: self._run(steps, None))

    def _run(self, steps: Steps, answer: Any) -> None:
        """One request after another, those that are not answered too."""
        try:
            request = steps.throw(answer) if isinstance(answer, ChannelRefused) else steps.send(answer)
        except StopIteration as end:
            self._link.upstream_ready(end.value)
            return
        except ChannelRefused as refused:
            self.cut(str(refused))
            return
        self._net.asked.append((self._there.name, request[1]))
        answer = self._answer(request[1], dict(request[2]))
        self._later(lambda: self._run(steps, answer))

    def _answer(self, method: str, given: dict[str, Any]) -> Any:
        try:
            return self._do(method, given)
        except BrokerError as error:
            return ChannelRefused(CODES.get(type(error), 406), error.text)

    def _do(self, method: str, given: dict[str, Any]) -> Any:
        world, topology = self._there.world, self._session.topology
        given.pop("no_wait", None)
        if "arguments" in given:
            given["arguments"] = decode_table(encode_table(given["arguments"]))[0]
        match method:
            case "queue.declare":
                declared = world.answer(topology.declare_queue(given.pop("queue"), now=world.now, **given))
                return {"queue": declared.name, "message_count": declared.ready}
            case "queue.delete":
                return world.answer(topology.delete_queue(given.pop("queue"), now=world.now, **given))
            case "queue.bind":
                return world.answer(topology.bind_queue(given["queue"], given["exchange"], "", {}, world.now))
            case "exchange.declare":
                kind, name = given.pop("type"), given.pop("exchange")
                return world.answer(topology.declare_exchange(name, kind, now=world.now, **given))
            case "exchange.delete":
                return world.answer(topology.delete_exchange(given["exchange"], if_unused=False, now=world.now))
            case "exchange.bind" | "exchange.unbind":
                change = topology.bind_exchange if method == "exchange.bind" else topology.unbind_exchange
                names = (given["destination"], given["source"], given["routing_key"], given["arguments"])
                return world.answer(change(*names, world.now))
            case "basic.qos":
                return self._session.set_prefetch(given["prefetch_count"], False)
            case "basic.consume":
                queue, tag = given.pop("queue"), given.pop("consumer_tag")
                return world.answer(self._session.consume(queue, tag, now=world.now, **given))
            case "basic.cancel":
                return self._session.cancel(given["consumer_tag"], world.now)
        assert method in ("channel.open", "channel.close"), f"a link asks for {method}"
        return {}

    # what the broker there says

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        position = piece.position
        for tag in range(first_tag, first_tag + piece.count):
            end = skip(content, position, 1)
            self._send(tag, piece, content[position:end])
            position = end

    def _send(self, tag: int, piece: Slice, content: bytes) -> None:
        names = piece.exchange.encode(), piece.routing_key.encode()
        size, look = body_bytes(content, 0, 1), look_at(one(content, 0)[0])
        run = Delivered(1, b"", tag, piece.redelivered, *names, 1, content, size, *look)
        self._later(lambda: self._link.delivered(run))

    def cancelled(self, consumer_tag: str) -> None:
        self.cut("its queue is gone")

    def timed_out(self, consumer_tag: str) -> None:
        self.cut("not settled in time")

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        raise AssertionError("a link publishes nothing at its upstream")

    def returned(self, run: Run, code: int, text: str) -> None:
        raise AssertionError("a link publishes nothing at its upstream")

    # what the link says

    def acknowledge(self, first: int, last: int, *, multiple: bool) -> None:
        self._later(lambda: self._session.acknowledge(first, last, multiple, self._there.world.now))

    def give_back(self, first: int, last: int) -> None:
        for tag in range(first, last + 1):
            self._later(lambda tag=tag: self._session.nack(tag, False, True, self._there.world.now))  # type: ignore[misc]

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._there.world.disconnect(self.client)

    def cut(self, reason: str = "the connection was lost") -> None:
        if not self._closed:
            self.close()
            self._link.upstream_ended(reason)


class Cluster:
    """One node, with a client `here`. Fulfils LinkMaker and LinkEnds."""

    def __init__(self, name: str, net: FederatedClusters) -> None:
        self.name = name
        self.world = World()
        self.here: Client = self.world.client()
        self.upstreams: deque[MemoryUpstream] = deque()
        self.links: list[FederationLink] = []
        self._net = net
        self._numbers = 0
        self.nodes = [self.broker.node]  # that may run links
        self.world.submit(commands.AddNode(NodeRecord(self.broker.node, 0, 1, "here:1")))
        self.begin_again()

    def begin_again(self) -> None:
        node, catalog, submit = self.broker.node, self.world.catalog, self.world.metadata.submit
        self.claims = LinkClaims(CLAIMED_AS, node, catalog, lambda: self.nodes, submit, self._net.clock)
        self.federation = NodeFederation(
            self.broker, self.claims, lambda: self.nodes, self, self._net.clock, logging.getLogger("test")
        )
        self.world.metadata.subscribe(self.federation.applied)
        self.federation.start()

    @property
    def broker(self) -> Broker:
        return self.world.broker

    def federate(self, upstream: str, pattern: str = "^x$", apply_to: str = "exchanges", **value: Any) -> None:
        terms = {"uri": f"amqp://{upstream}", **{key.replace("_", "-"): one for key, one in value.items()}}
        self.world.submit(
            commands.SetParameter(ParameterRecord("/", "federation-upstream", upstream, terms)),
            commands.PutPolicy(PolicyRecord("/", "fed", pattern, apply_to, 0, {"federation-upstream-set": "all"})),
        )

    @staticmethod
    def unpolicy() -> commands.DeletePolicy:
        return commands.DeletePolicy("/", "fed")

    def exchange_link(
        self, wanted: WantedLink, bindings: CopiedBindings, on_error: Callable[[str], None]
    ) -> ExchangeLink:
        terms = ExchangeLinkTerms(wanted.upstream, wanted.record, self.name, "/")  # type: ignore[arg-type]
        terms.check_names()
        link = ExchangeLink(terms, bindings, self, self._net.clock, lambda: 0.5, on_error)
        self.links.append(link)
        return link

    def queue_link(
        self, wanted: WantedLink, is_wanting: Callable[[], bool], on_error: Callable[[str], None]
    ) -> QueueLink:
        terms = QueueLinkTerms(wanted.upstream, wanted.record)  # type: ignore[arg-type]
        link = QueueLink(terms, is_wanting, self, self._net.clock, lambda: 0.5, on_error)
        self.links.append(link)
        return link

    def open_upstream(self, link: FederationLink, steps: Steps) -> MemoryUpstream:
        end = MemoryUpstream(link, self._net, self._net.clusters[link.upstream.name], steps)
        self.upstreams.append(end)
        return end

    def open_downstream(self, link: FederationLink) -> LocalExit:
        self._numbers += 1
        name = f"link-{self._numbers}"
        return LocalExit(link, self.broker, "/", name, name, lambda: self.world.now)

    def states(self) -> list[LinkState]:
        return [LinkState(one.status) for one in self.federation.facts()]

    def copied_keys(self) -> set[tuple[str, str]]:
        """Of the bindings that lead to other clusters: the internal exchange and the key."""
        found = self.world.catalog.bindings_of_source("/", "x")
        return {(one.destination, one.routing_key) for one in found if "x-bound-from" in one.arguments}

    def publish(self, key: str, body: bytes, **properties: Any) -> None:
        self.here.publish("x", key, body, **properties)


class FederatedClusters:
    """All clusters, and the one clock."""

    def __init__(self, *names: str) -> None:
        self.clock = HandClock()
        self.asked: list[tuple[str, str]] = []  # cluster and method
        self.clusters: dict[str, Cluster] = {}
        for name in names:
            self.clusters[name] = Cluster(name, self)

    def run(self, seconds: float = 2.0, step: float = 0.1) -> None:
        """Everything that happens within so much time."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            self._end_turns()

    def _end_turns(self) -> None:
        for cluster in self.clusters.values():
            cluster.world.end_turn()
