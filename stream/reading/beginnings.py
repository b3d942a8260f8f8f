"""Where readers of one stream begin that have just come to this node.

A member that is behind, or has just started, does not know where the stream ends. Taken for the end, its own would give `next`
what was published long ago, and a reader that goes on at its offset what it has read before. So a place that this member does
not surely know is asked of the leader; without a member here, any place. Entries have the same index on all members: what the
leader says is good here, too, when this member has come so far.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from broker.errors import ResourceExhausted
from broker.pending import Pending
from broker.queues.queue_type import QueueHost
from broker.queues.stream_contract import OffsetSpec
from raft.core.messages import NodeId
from replicated.leader_route import LeaderRoute
from replicated.letters import Answer, BadLetter
from replicated.ports import QueuePorts
from replicated.reply_timeout import ReplyTimeout
from stream.group.chunk_reading import FoundPlace
from stream.reading import letters
from stream.reading.own_places import OwnPlaces

Found = FoundPlace | None  # None: whoever asked has left


class ReadStream(Protocol):
    """The stream that is to be read."""

    @property
    def group(self) -> int: ...

    @property
    def route(self) -> LeaderRoute: ...

    @property
    def own_places(self) -> OwnPlaces: ...


class _Beginning:
    """Who waits for a place."""

    __slots__ = ("asked", "passed_on", "reply", "spec")

    def __init__(self, spec: OffsetSpec, reply: ReplyTimeout[Found]) -> None:
        self.spec = spec
        self.reply = reply
        self.asked: NodeId = 0  # whose answer is waited for
        self.passed_on = False  # the last one that was asked named another, which is asked now


class Beginnings:
    """Of one stream on this node. `go_on` whenever there may be news, and now and then while it says so."""

    def __init__(self, stream: ReadStream, ports: QueuePorts) -> None:
        self._stream = stream
        self._ports = ports
        self._waiting: dict[object, _Beginning] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def find(self, who: object, spec: OffsetSpec, host: QueueHost, label: str) -> Pending[Found]:
        """Answered with None if it leaves before."""
        found = self._stream.own_places.here(spec)
        if found is not None:
            return Pending.of(found)

        def unknown() -> ResourceExhausted:
            self._waiting.pop(who, None)
            return ResourceExhausted(
                f"{label} has no leader that tells where it ends, and nothing can begin there: try again"
            )

        beginning = self._waiting[who] = _Beginning(spec, ReplyTimeout[Found](host, unknown))
        self._ask(who, beginning)
        return beginning.reply.answer

    def leave(self, who: object) -> None:
        self._found(who, None)

    def leave_all(self) -> None:
        for who in list(self._waiting):
            self.leave(who)

    def go_on(self) -> bool:
        """Whether somebody still waits."""
        for who, one in list(self._waiting.items()):
            if one.asked == self._ports.node:
                one.asked = one.asked if self._stream.route.leads else 0
            elif one.asked and not self._ports.groups.trusts(one.asked):  # it hangs, perhaps with a link that lives
                self._stream.route.forget(one.asked)
                one.asked = 0
            if not one.asked:
                found = self._stream.own_places.here(one.spec)
                if found is not None:
                    self._found(who, found)
                else:
                    one.passed_on = False
                    self._ask(who, one)
        return bool(self._waiting)

    def _found(self, who: object, found: Found) -> None:
        one = self._waiting.pop(who, None)
        if one is not None:
            one.reply.resolve(found)

    def _ask(self, who: object, one: _Beginning) -> None:
        node = self._stream.route.look_for()
        if node == self._ports.node:
            one.asked = node
            self._stream.own_places.as_leader(one.spec, partial(self._found_as_leader, who, one))
        elif node:
            one.asked = node
            letter = letters.place(self._stream.group, one.spec)
            self._ports.calls.ask(node, self._ports.topic, letter, partial(self._answered, who, one, node))

    def _found_as_leader(self, who: object, one: _Beginning, found: Found) -> None:
        if self._waiting.get(who) is one:
            one.asked = 0 if one.asked == self._ports.node else one.asked
            if found is not None:
                self._found(who, found)

    def _answered(self, who: object, one: _Beginning, node: NodeId, data: bytes | None) -> None:
        if self._waiting.get(who) is not one or one.asked != node:
            return
        one.asked = 0
        try:
            answer = letters.decode_place_answer(data) if data is not None else None
        except BadLetter:
            answer = None
        if isinstance(answer, FoundPlace):
            self._found(who, answer)
        elif isinstance(answer, Answer):
            self._stream.route.refused(answer.status, answer.leader)
            if answer.leader not in (0, node) and not one.passed_on:
                one.passed_on = True  # two that name each other are not asked in turn without a pause
                self._ask(who, one)
        else:
            self._stream.route.forget(node)
