"""Brokers with real streams under connections of the stream protocol: all that a node has for stream clients but sockets.

Each node of a cluster in one thread and virtual time (tests/unit/quorum/nodes.py) gets a broker. They share one catalog, whose
changes are durable at once; every stream has a member on each node.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from broker.broker import Broker
from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import Command, DeclareQueue
from broker.pending import Pending
from broker.records import NodeRecord
from broker.timers import Delays
from broker.turns import Turns
from node.anywhere.stream_groups import RemoteGroups
from raft.core.messages import NodeId, member_id
from tests.unit.broker.broker_world import Passwords
from tests.unit.broker.catalog_at_once import CatalogAtOnce
from tests.unit.front.stream.client import PEER, StreamClient
from tests.unit.front.stream.fakes import FakeStreams, entries
from tests.unit.quorum.nodes import DISK_ID
from tests.unit.stream.nodes import StreamCluster
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_keys import OffsetKind
from wire.stream.stream_commands import Command as StreamCommand
from wire.stream.stream_commands import PublishFrame

ANSWER_S = 0.3  # in which a cluster that is whole has done what it was asked for
FIRST = OffsetSpec(OffsetKind.FIRST)


class PlacingCatalog(CatalogAtOnce):
    """Gives streams their members, as node/catalog/ does."""

    def __init__(self, nodes: int) -> None:
        super().__init__(Catalog())
        self._members = tuple([member_id(node, DISK_ID) for node in range(1, nodes + 1)])

    def submit(self, command: Command) -> Pending[Any]:
        if isinstance(command, DeclareQueue):
            command = replace(command, members=self._members)
        return super().submit(command)


class PumpedBroker(Broker):
    """As the client of tests/unit/front/stream/client.py drives it."""

    world: StreamBrokers

    def pump(self, now: int) -> None:
        self.world.run()


class StreamBrokers:
    """See the module. Nodes have the numbers 1 to `count`, as names too, and are at `node-N.test`, port 5552."""

    def __init__(self, count: int = 3) -> None:
        self.metadata = PlacingCatalog(count)
        for command in default_commands("hash"):
            self.metadata.submit(command)
        self.brokers: dict[NodeId, PumpedBroker] = {}
        self._connections = 0
        self.cluster = StreamCluster(count, self._broker)
        records = {str(number): NodeRecord(str(number), number, DISK_ID, "") for number in self.brokers}
        for number, broker in self.brokers.items():
            node, groups = self.cluster.nodes[number], broker.streams.groups
            groups.elsewhere = RemoteGroups(node.calls, groups, broker.node, lambda: records)
            broker.add_kind(node.kind)
            broker.recover(0)

    def _broker(self, number: NodeId) -> Broker:
        broker = self.brokers[number] = PumpedBroker(
            node=str(number),
            catalog=self.metadata.catalog,
            metadata=self.metadata,
            authenticator=Passwords(),
            turns=Turns(
                lambda end: self.cluster.loop.call_soon(end) if self.cluster.nodes[number].alive else None,
                lambda: self.cluster.wall_ms(),
            ),
            tick_at=lambda when: None,
            delays=Delays(lambda: self.cluster.wall_ms(), lambda delay_ms: None),
            random_bytes=bytes,
        )
        broker.world = self
        broker.streams.address_of = lambda node, tls: (f"node-{node}.test", 5552)
        return broker

    def run(self, seconds: float = ANSWER_S) -> None:
        self.cluster.run(seconds)

    def connect(self, node: NodeId) -> StreamClient:
        self._connections += 1
        peer = replace(PEER, id=f"stream-{self._connections}")
        return StreamClient(cast(FakeStreams, self.brokers[node]), peer=peer).connect()

    def leader(self, stream: str) -> NodeId:
        record = self.metadata.catalog.queue("/", stream)
        assert record is not None, f"no stream {stream!r}"
        found: NodeId = self.cluster.leader(record).number
        return found

    def kill(self, node: NodeId) -> None:
        self.cluster.nodes[node].kill()


def publish(client: StreamClient, publisher: int, *messages: tuple[int, bytes]) -> list[StreamCommand]:
    return client.say(PublishFrame(1, publisher, len(messages), entries(*messages)))
