"""What a node with a member gives to readers on other nodes: a few chunks for each ask, when there are some.

An ask that finds nothing waits, WAIT_S at most: then it is answered with nothing, so that the asking node may notice that no
leader is known here. While the link to its node is full it waits, too. So what is on its way to a node is bounded by the link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from raft.core.errors import Damaged
from raft.core.messages import NodeId
from replicated.leader_route import LeaderRoute
from replicated.letters import AnswerStatus, refusal
from replicated.ports import Payload, QueuePorts
from storage.disk import Buffer
from stream.group.member import StreamMember
from stream.reading import letters

WAIT_S = 5.0
WAITING_MAX = 256  # asks about one stream: so many readers at different places, far more than anybody has
TURN_BYTES_MAX = 4 << 20  # read for all of them in one turn

OnAnswer = Callable[[Payload], None]


class ServedStream(Protocol):
    """The stream that is read from elsewhere."""

    @property
    def group(self) -> int: ...

    @property
    def route(self) -> LeaderRoute: ...

    @property
    def member(self) -> StreamMember | None: ...

    @property
    def readable_member(self) -> StreamMember | None: ...


class _Waiting(NamedTuple):
    node: NodeId
    entry_index: int
    bytes_max: int
    until: float  # monotonic
    answer: OnAnswer


class ChunkServing:
    """See the module. `go_on` whenever there may be news, and now and then while it says so."""

    def __init__(self, stream: ServedStream, ports: QueuePorts) -> None:
        self._stream = stream
        self._ports = ports
        self._waiting: deque[_Waiting] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def asked(self, node: NodeId, letter: bytes, answer: OnAnswer) -> None:
        """Raises BadLetter."""
        index, bytes_max = letters.decode_read(letter)
        if self._stream.member is None:
            answer(refusal(AnswerStatus.NO_GROUP, self._stream.route.leader()))
        elif len(self._waiting) >= WAITING_MAX:
            answer(refusal(AnswerStatus.AGAIN, self._stream.route.leader()))
        else:
            until = self._ports.monotonic() + WAIT_S
            self._waiting.append(_Waiting(node, index, bytes_max, until, answer))
            self.go_on()

    def go_on(self) -> bool:
        """Whether somebody still waits."""
        given = 0
        for _ in range(len(self._waiting)):
            if not self._waiting:  # damage was met, and has ended them all
                break
            if given >= TURN_BYTES_MAX:
                self._ports.loop.call_soon(self.go_on)
                break
            given += self._serve(self._waiting.popleft())
        return bool(self._waiting)

    def end(self) -> None:
        """This node has no member any more."""
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            one.answer(refusal(AnswerStatus.NO_GROUP, 0))

    def _serve(self, one: _Waiting) -> int:
        """Answers it, or keeps it. Returns bytes."""
        calls, route = self._ports.calls, self._stream.route
        if not calls.connected(one.node):
            return 0  # it asks elsewhere
        try:
            entries, size = self._entries(one) if calls.writable(one.node) else ([], 0)
        except Damaged as damage:
            self._ports.groups.damaged(self._stream.group, damage)
            one.answer(refusal(AnswerStatus.AGAIN, 0))
            return 0
        if entries or self._ports.monotonic() >= one.until:
            member = self._stream.member
            assert member is not None, f"group {self._stream.group} is read without a member"
            state = member.machine.state
            one.answer(letters.read_answer(route.leader(), state.next_offset, state.last_chunk, entries))
        else:
            self._waiting.append(one)
        return size

    def _entries(self, one: _Waiting) -> tuple[list[tuple[int, Buffer]], int]:
        """Raises Damaged."""
        member = self._stream.readable_member
        if member is None:
            return [], 0
        found: list[tuple[int, Buffer]] = []
        index, size = one.entry_index, 0
        while (next_one := member.reading.next_stored(index)) is not None:
            at, stored = next_one
            if found and size + len(stored.entry) > one.bytes_max:
                break
            found.append((at, stored.entry))
            size += len(stored.entry)
            index = at + 1
        return found, size
