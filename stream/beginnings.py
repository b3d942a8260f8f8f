"""Consumers that wait to begin: a member that is behind, or has just started, does not know where the stream ends.

The leader knows. Whoever wants to begin behind all that this member has gets its place once the member has applied what the
leader had when it was asked. Taken for the end, the end of a member that is behind would give `next` what was published long
ago, and a reader that goes on at its offset what it has read before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from broker.consumer import Consumer
from broker.errors import ResourceExhausted
from broker.pending import Pending
from broker.queue_type import QueueHost
from broker.stream_contract import OffsetSpec
from raft.core.messages import NodeId
from replicated.leader_route import LeaderRoute
from replicated.letters import BadLetter
from replicated.ports import QueuePorts
from replicated.reply_timeout import ReplyTimeout
from stream import letters


class ReadStream(Protocol):
    """The stream that is to be read."""

    @property
    def group(self) -> int: ...

    @property
    def route(self) -> LeaderRoute: ...

    def end_as_leader(self) -> int | None:
        """Index of the last entry that is applied. None: this node does not lead, or not all of earlier leaders is."""

    def begin_behind(self, end: int, consumer: Consumer, spec: OffsetSpec) -> bool:
        """False: the member here has not applied this entry yet."""


class _Beginning:
    """A consumer that waits."""

    __slots__ = ("consumer", "end", "reply", "spec")

    def __init__(self, consumer: Consumer, spec: OffsetSpec, reply: ReplyTimeout[None]) -> None:
        self.consumer = consumer
        self.spec = spec
        self.reply = reply
        self.end: int | None = None  # of the stream, when the leader was asked


class Beginnings:
    """Of one stream on this node. `go_on` whenever there may be news, and now and then while it says so."""

    def __init__(self, stream: ReadStream, ports: QueuePorts) -> None:
        self._stream = stream
        self._ports = ports
        self._waiting: dict[Consumer, _Beginning] = {}
        self._asked: NodeId = 0  # whose answer is waited for
        self._asks = 0  # counted: late answers are ignored

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, consumer: Consumer, spec: OffsetSpec, host: QueueHost, now: int, label: str) -> Pending[None]:
        def unknown() -> ResourceExhausted:
            self._waiting.pop(consumer, None)
            return ResourceExhausted(
                f"{label} has no leader that tells where it ends, and nothing can begin there: try again"
            )

        reply = ReplyTimeout[None](host, now, unknown)
        self._waiting[consumer] = _Beginning(consumer, spec, reply)
        self.go_on()
        return reply.answer

    def leave(self, consumer: Consumer) -> bool:
        """It does not want to begin any more. False: it did not wait."""
        beginning = self._waiting.pop(consumer, None)
        if beginning is not None:
            beginning.reply.resolve(None)
        return beginning is not None

    def leave_all(self) -> Sequence[Consumer]:
        gone = list(self._waiting)
        for consumer in gone:
            self.leave(consumer)
        return gone

    def go_on(self) -> bool:
        """Whether somebody still waits."""
        if any(one.end is None for one in self._waiting.values()):
            self._ask()
        for one in list(self._waiting.values()):
            if one.end is not None and self._stream.begin_behind(one.end, one.consumer, one.spec):
                del self._waiting[one.consumer]
                one.reply.resolve(None)
        return bool(self._waiting)

    def _ask(self) -> None:
        node = self._stream.route.look_for()
        if not node or node == self._asked:
            return
        self._asks += 1
        asking = [one for one in self._waiting.values() if one.end is None]
        if node == self._ports.node:
            self._asked = 0
            self._told(asking, self._stream.end_as_leader())
            return
        self._asked = node
        answered: Callable[[bytes | None], None] = partial(self._answered, self._asks, asking)
        self._ports.calls.ask(node, self._ports.topic, letters.end(self._stream.group), answered)

    def _answered(self, ask: int, asking: Sequence[_Beginning], answer: bytes | None) -> None:
        if ask != self._asks:
            return
        self._asked = 0
        try:
            end = letters.decode_end_answer(answer) if answer is not None else None
        except BadLetter:
            end = None
        self._told(asking, end)
        if end is not None:  # otherwise it is asked again a little later
            self.go_on()

    @staticmethod
    def _told(asking: Sequence[_Beginning], end: int | None) -> None:
        for one in asking:
            one.end = end
