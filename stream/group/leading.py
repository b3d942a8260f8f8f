"""What only the leader's node does for a stream: it seals what nodes publish and store, removes what is too old.

tail         where the next chunk goes (stream/group/tail.py); it is found once all of earlier leaders is applied
retention    proposes where the stream is to begin
group        what the leader's node does for any group, in replicated/leader_duties.py
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from raft.core.errors import RaftError
from raft.core.messages import NodeId
from replicated.leader_duties import LeaderDuties
from replicated.ports import CatalogPorts, QueuePorts
from replicated.queue import ReplicatedQueue
from replicated.verdicts import Verdicts
from storage.disk import Buffer
from storage.interval import Interval
from stream.chunks.entries import RetentionCut, encode
from stream.chunks.publish_ops import read_publishing
from stream.chunks.store_ops import STORE, read_storing
from stream.group.member import StreamMember
from stream.group.rules import StreamRules
from stream.group.tail import StreamTail

FORGET_MS = 3_600_000  # how often names are looked for that nobody has used for long


class LedStream(ReplicatedQueue, Protocol):
    """The stream that is led."""

    @property
    def rules(self) -> StreamRules: ...


class StreamLeading:
    """One leadership of this node. `begin` it, then `end` it."""

    def __init__(
        self, queue: LedStream, member: StreamMember, ports: QueuePorts, catalog: CatalogPorts, verdicts: Verdicts
    ) -> None:
        driver = queue.route.driver
        assert driver is not None, f"{queue.record.name} is led without a driver"
        self._queue = queue
        self._machine = member.machine
        self._ports = ports
        self._driver = driver
        self._found_at = driver.core.status().last  # entries up to here are of earlier leaders
        self._tail: StreamTail | None = None
        self._cutting = False
        self._forgetting = Interval(FORGET_MS)
        self.group = LeaderDuties(queue, ports, catalog, verdicts, _no_later_version)

    def begin(self) -> None:
        self.group.begin()

    def end(self) -> None:
        self.group.end()

    # Publishing.

    def seal(self, ops: Sequence[Buffer], now_ms: int) -> bytes | None:
        """The entry for what a node says. None: it has no place now, and is to be said again."""
        tail = self._tail or self._find_tail()
        if tail is None:
            return None
        if ops[0][0] == STORE:
            return tail.seal_stored(read_storing(b"".join(ops)), now_ms)
        return tail.seal(read_publishing(ops), now_ms, self._queue.rules.segment_bytes_max)

    def _find_tail(self) -> StreamTail | None:
        """None: something that may count is in the log, and not applied yet."""
        if self._driver.applied >= self._found_at:
            self._tail = StreamTail(self._machine, self._driver.core.status().term)
        return self._tail

    def knows_end(self) -> bool:
        """Whether all of earlier leaders is applied."""
        return (self._tail or self._find_tail()) is not None

    def out_of_place(self) -> None:
        """Something that was sealed did not come into the log. What is on its way counts for nothing."""
        self._tail = None
        self._found_at = self._driver.core.status().last

    # Now and then.

    def check(self, now: int) -> None:
        """Called about once a second."""
        self.group.check(now)
        self._keep_to_retention(now)
        self._forget_names(now)

    def _forget_names(self, now: int) -> None:
        if not self._forgetting.due(now):
            return
        entry = self._tail.seal_forgotten(now, self._machine.state.first_offset) if self._tail is not None else None
        if entry is not None:
            self._ports.groups.propose(self._queue.group, [entry], lambda results, error: None)

    def _keep_to_retention(self, now: int) -> None:
        first = self._queue.rules.first_to_keep(self._machine.state, now)
        if first <= self._machine.state.first_offset or self._cutting:
            return
        self._cutting = True

        def told(results: Sequence[Any] | None, error: RaftError | None) -> None:
            self._cutting = False

        self._ports.groups.propose(self._queue.group, [encode(RetentionCut(now, first))], told)

    def check_record(self) -> None:
        self.group.check_record()

    # Nodes without a member publish, and nothing more: they are told nothing, and served nothing.

    attendants: Collection[NodeId] = ()

    def tell_news(self) -> None: ...

    def attend(self, node: NodeId, incarnation: int, consumers: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        return ()

    def writable(self, node: NodeId) -> None: ...

    def link_went(self, node: NodeId) -> None:
        self.group.link_went(node)


def _no_later_version(version: int) -> None:
    raise AssertionError(f"machine version {version} of a stream is announced, and this code knows only the first")
