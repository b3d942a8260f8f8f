"""What nodes tell each other of themselves, whenever a link comes and whenever it changes: version, listeners, alarms.

Everybody keeps the last that each node said, for operators. An alarm of any node holds the publishers of all: what one node
cannot take would otherwise be forwarded to it by the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from broker.alarms import Alarms
from broker.operations.node_facts import AlarmFacts, ListenerFacts
from node.addresses import BadAddress, host_and_port
from node.peers.calls import CLUSTER, Answer, PeerCalls
from raft.core.errors import BadBytes
from raft.core.messages import NodeId

NEWS_BYTES_MAX = 64 << 10


class ToldListener(msgspec.Struct, frozen=True, array_like=True):
    protocol: str
    address: str
    tls: bool


class ToldAlarm(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    reason: str
    since_ms: int


class News(msgspec.Struct, frozen=True):
    """Of one node. Fields may be added; who does not know them leaves them out."""

    version: str
    started_at_ms: int
    listeners: tuple[ToldListener, ...] = ()
    alarms: tuple[ToldAlarm, ...] = ()
    notices: tuple[str, ...] = ()  # node/kernel.py, `sentences`
    stream_address: str = ""  # HOST:PORT where clients of the stream protocol reach it; empty: nowhere
    stream_tls_address: str = ""  # the same for those within TLS
    incarnation: int = 0  # of the process that says this
    catalog_entries: int = 1  # the newest version of the metadata log's entries that it reads
    reads_deaths: bool = False  # in what is published to its classic queues: node/anywhere/wire.py

    def listener_facts(self) -> list[ListenerFacts]:
        return [ListenerFacts(one.protocol, one.address, one.tls) for one in self.listeners]

    def alarm_facts(self) -> list[AlarmFacts]:
        return [AlarmFacts(one.kind, one.reason, one.since_ms) for one in self.alarms]


class OthersNews:
    """This node's news, and those of the others."""

    def __init__(
        self,
        number: NodeId,
        calls: PeerCalls,
        alarms: Alarms,
        name_of: Callable[[NodeId], str],
        now_ms: Callable[[], int],
        make_news: Callable[[Sequence[ToldAlarm]], News],
    ) -> None:
        """`make_news`: what there is to say of this node, with these alarms."""
        self._number = number
        self._calls = calls
        self._alarms = alarms
        self._name_of = name_of
        self._now_ms = now_ms
        self._make_news = make_news
        self._heard: dict[NodeId, News] = {}
        self._linked: set[NodeId] = set()
        self._told: set[NodeId] = set()  # those of them that have said something since their link came
        self._mine = self._now()
        calls.serve(CLUSTER, self._serve)
        calls.on_link(self._link_changed)

    def of(self, number: NodeId) -> News | None:
        """The last that this node said; None: nothing yet."""
        return self._mine if number == self._number else self._heard.get(number)

    def catalog_entries(self, number: NodeId, incarnation: int) -> int:
        """The newest version of the metadata log's entries that this process of the node reads, as far as it has told."""
        news = self.of(number)
        return news.catalog_entries if news is not None and news.incarnation == incarnation else 1

    def reads_deaths(self, number: NodeId) -> bool:
        """Whether the process to which there is a link has said so; that before it may have been of a newer build."""
        return number in self._told and self._heard[number].reads_deaths

    def stream_address(self, number: NodeId, *, tls: bool = False) -> tuple[str, int] | None:
        """Where clients of the stream protocol reach this node; None: it says nowhere, or cannot be asked now."""
        news = self.of(number)
        if news is None or (number != self._number and number not in self._linked):
            return None
        address = news.stream_tls_address if tls else news.stream_address
        return host_and_port(address) if address else None

    def tick(self) -> None:
        """Tell what is new."""
        mine = self._now()
        if mine != self._mine:
            self._mine = mine
            for node in self._linked:
                self._tell(node)

    def _now(self) -> News:
        own = [
            ToldAlarm(alarm.kind, alarm.reason, alarm.since) for alarm in self._alarms.raised() if "@" not in alarm.kind
        ]
        return self._make_news(own)

    def _tell(self, node: NodeId) -> None:
        self._calls.tell(node, CLUSTER, msgspec.json.encode(self._mine))

    def _link_changed(self, node: NodeId, came: bool) -> None:
        if came:
            self._linked.add(node)
            self._tell(node)
        else:
            self._linked.discard(node)
            self._told.discard(node)
            self._hold_publishers(node, ())

    def _serve(self, node: NodeId, payload: bytes, answer: Answer | None) -> None:
        if answer is not None or len(payload) > NEWS_BYTES_MAX:
            raise BadBytes(f"node {node} sends {len(payload)} bytes that are no news of it")
        try:
            news = msgspec.json.decode(payload, type=News)
            for address in filter(None, (news.stream_address, news.stream_tls_address)):
                host_and_port(address)
        except (msgspec.DecodeError, UnicodeDecodeError, BadAddress) as error:
            raise BadBytes(f"what node {node} tells of itself cannot be read: {error}") from error
        self._heard[node] = news
        self._told.add(node)
        self._hold_publishers(node, news.alarms)

    def _hold_publishers(self, node: NodeId, alarms: Sequence[ToldAlarm]) -> None:
        """As long as that node, which is linked to this one, has them."""
        raised = {f"{alarm.kind}@{node}": alarm for alarm in alarms}
        for before in self._alarms.raised():
            if before.kind.endswith(f"@{node}") and before.kind not in raised:
                self._alarms.clear_alarm(before.kind)
        for kind, alarm in raised.items():
            self._alarms.raise_alarm(kind, f"{alarm.reason} (on node {self._name_of(node)})", self._now_ms())
