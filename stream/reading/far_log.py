"""A stream's log as readers see it on a node without a member, or whose member is far behind: by way of another node's member.

Readers ask for what lies at or behind an entry. What has come is kept for a while, within KEPT_BYTES_MAX; what has not is asked
for, ASKS_MAX at a time and READ_BYTES_MAX each, and readers are told of news when the answer is there. An ask waits there until
there is something to answer it with (stream/reading/serving.py), so readers at the end are as fast as one way over the link.

Any member's node will do, for committed entries are the same on all. The one that is asked stays the one until it goes, hangs,
has no member any more, or does not know who leads. Then others are asked for the same entries, and readers notice nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from raft.core.errors import BadBytes
from raft.core.messages import NodeId
from replicated.leader_route import LeaderRoute
from replicated.letters import BadLetter
from replicated.ports import QueuePorts
from storage.disk import Buffer
from stream.chunks.chunk import CHUNK_HEADER_BYTES, must_be_sound
from stream.chunks.entries import ChunkEntry, decode
from stream.reading import letters

READ_BYTES_MAX = 1 << 20  # of one answer, unless its first chunk is larger
ASKS_MAX = 8  # that wait for answers: readers at the end share one, and more than these take turns
KEPT_BYTES_MAX = 4 << 20


class FarStream(Protocol):
    """The stream that is read."""

    @property
    def group(self) -> int: ...

    @property
    def route(self) -> LeaderRoute: ...

    def member_nodes(self) -> Sequence[NodeId]: ...


class FarLog:
    """See the module. Fulfils ReadableLog."""

    def __init__(self, stream: FarStream, ports: QueuePorts, on_news: Callable[[], None]) -> None:
        """`on_news` is told when readers should look again."""
        self.next_offset = 0  # of the stream, as was heard last
        self._last_chunk = -1
        self._stream = stream
        self._ports = ports
        self._on_news = on_news
        self._node: NodeId = 0  # that is asked
        self._tried = 0  # nodes, one after the other
        self._asks: dict[int, object] = {}  # what waits for an answer, by the entry that it is for
        self._wants = False  # something could not be asked for
        self._entries: dict[
            int, tuple[int, Buffer]
        ] = {}  # by index, the oldest first: no chunk is between the first and it
        self._indexes: list[int] = []  # the same, sorted
        self._bytes = 0

    # ReadableLog

    def at_or_behind(self, index: int) -> int | None:
        at = bisect_left(self._indexes, index)
        if at < len(self._indexes) and self._entries[self._indexes[at]][0] <= index:
            return self._indexes[at]
        self._ask(index)
        return None

    def read(self, index: int) -> bytes:
        return bytes(self._entries[index][1])

    def in_file(self, index: int) -> None:
        return None

    def last_chunk(self) -> int:
        return self._last_chunk

    # While it is used.

    @property
    def can_be_read(self) -> bool:
        """Whether there is a node to ask."""
        return bool(self._nodes())

    def go_on(self) -> bool:
        """Called some ten times a second while it says so."""
        if self._node and self._node not in self._nodes():
            self._leave(self._node)
        if self._wants:
            self._wants = False
            self._on_news()
        return self._wants or bool(self._asks)

    def rest(self) -> None:
        """Nobody reads."""
        self._asks.clear()
        self._entries.clear()
        self._indexes.clear()
        self._bytes = 0
        self._wants = False

    def _nodes(self) -> Sequence[NodeId]:
        ports = self._ports
        return [
            node
            for node in self._stream.member_nodes()
            if node != ports.node and ports.calls.connected(node) and ports.groups.trusts(node)
        ]

    def _leave(self, node: NodeId) -> None:
        """What it was asked is asked elsewhere, when readers ask again."""
        if node == self._node:
            self._node = 0
            self._asks.clear()
            self._wants = True

    def _choose(self) -> NodeId:
        nodes = self._nodes()
        if not nodes:
            return 0
        leader = self._stream.route.leader()
        self._tried += 1
        return leader if leader in nodes and self._tried == 1 else nodes[self._tried % len(nodes)]

    def _ask(self, index: int) -> None:
        if index in self._asks:
            return
        self._node = self._node or self._choose()
        if not self._node or len(self._asks) >= ASKS_MAX:
            self._wants = True
            return
        ask = self._asks[index] = object()
        letter = letters.read(self._stream.group, index, READ_BYTES_MAX)
        answered = partial(self._answered, index, ask, self._node)
        self._ports.calls.ask(self._node, self._ports.topic, letter, answered)

    def _answered(self, index: int, ask: object, node: NodeId, data: bytes | None) -> None:
        if self._asks.get(index) is not ask:
            return
        del self._asks[index]
        try:
            answer = letters.decode_read_answer(data) if data is not None else None
            if isinstance(answer, letters.ReadAnswer):
                self._take(index, answer)
        except BadBytes:  # its version has another format, or its disk lies
            answer = None
        if isinstance(answer, letters.ReadAnswer) and (answer.entries or answer.leader):
            self._tried = 0
            self._on_news()
        else:
            self._leave(node)

    def _take(self, index: int, answer: letters.ReadAnswer) -> None:
        for at, data in answer.entries:
            entry = decode(data)
            if not isinstance(entry, ChunkEntry) or at < index:
                raise BadLetter(f"entry {at} is no chunk behind entry {index}")
            must_be_sound(entry.header, memoryview(entry.chunk)[CHUNK_HEADER_BYTES:])
            self._keep(index, at, data)
            index = at + 1
        self.next_offset, self._last_chunk = answer.next_offset, answer.last_chunk

    def _keep(self, begins: int, index: int, data: Buffer) -> None:
        self._forget_between(begins, index)
        if index in self._entries:
            begins = min(begins, self._entries[index][0])
            self._forget(index)
        self._entries[index] = begins, data
        insort(self._indexes, index)
        self._bytes += len(data)
        while self._bytes > KEPT_BYTES_MAX and len(self._entries) > 1:
            self._forget(next(iter(self._entries)))

    def _forget_between(self, begins: int, end: int) -> None:
        """No chunk lies there any more: retention has removed what was. A reader before it would ask without end, for what is
        kept does not say that nothing comes before it."""
        for index in self._indexes[bisect_left(self._indexes, begins) : bisect_left(self._indexes, end)]:
            self._forget(index)

    def _forget(self, index: int) -> None:
        self._bytes -= len(self._entries.pop(index)[1])
        del self._indexes[bisect_left(self._indexes, index)]
