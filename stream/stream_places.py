"""Where streams are, for clients who connect to the node of a stream's leader or to one with a member.

A node with a member knows who leads from its group. One without asks when it is to say so, and has the answer when it is asked
again: clients ask again while no leader is known. Watchers are told within about a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar, cast

from broker.queues.stream_contract import PlacesWatcher, StreamContract, StreamPlaces
from raft.core.messages import NodeId
from replicated.leader_route import LeaderRoute
from replicated.letters import AnswerStatus, BadLetter, decode_answer
from replicated.ports import QueuePorts
from stream.reading import letters
from stream.reading.letters import AskedOfLeader

KNOWN_FOR_MS = 1_000  # what another node said of the leader


class PlacedStream(Protocol):
    """The stream, which fulfils StreamContract, too."""

    @property
    def group(self) -> int: ...

    @property
    def route(self) -> LeaderRoute: ...

    def member_nodes(self) -> Sequence[NodeId]: ...


S = TypeVar("S", bound=PlacedStream)


class _Place:
    """Of one stream."""

    __slots__ = ("asked", "heard_at", "leader", "told", "watchers")

    def __init__(self) -> None:
        self.watchers: dict[PlacesWatcher, None] = {}
        self.told: NodeId = 0  # the leader that watchers know of
        self.leader: NodeId = 0  # as another node has named it, where this one has no member
        self.heard_at: int | None = None
        self.asked = False


class StreamsPlaces(Generic[S]):
    """Of all streams of a node. `check` it about once a second."""

    def __init__(self, ports: QueuePorts, name_of: Callable[[NodeId], str]) -> None:
        self._ports = ports
        self._name_of = name_of
        self._places: dict[S, _Place] = {}

    def of(self, queue: S) -> StreamPlaces:
        leader = self._leader(queue)
        names = [self._name_of(node) for node in queue.member_nodes()]
        return StreamPlaces(self._name_of(leader) if leader else "", tuple(names))

    def watch(self, queue: S, watcher: PlacesWatcher) -> None:
        place = self._place(queue)
        if not place.watchers:
            place.told = self._leader(queue)
        place.watchers[watcher] = None

    def unwatch(self, queue: S, watcher: PlacesWatcher) -> None:
        if queue in self._places:
            self._places[queue].watchers.pop(watcher, None)

    def check(self) -> None:
        for queue, place in list(self._places.items()):
            if not place.watchers:
                if queue.route.driver is not None:
                    del self._places[queue]
                continue
            leader = self._leader(queue)
            before, place.told = place.told, leader or place.told
            if leader and before and leader != before:
                self._tell(queue, place)

    def gone(self, queue: S) -> None:
        """It is deleted."""
        place = self._places.pop(queue, None)
        if place is not None:
            self._tell(queue, place)

    @staticmethod
    def _tell(queue: S, place: _Place) -> None:
        for watcher in list(place.watchers):
            watcher.stream_moved(cast(StreamContract, queue))

    def _place(self, queue: S) -> _Place:
        return self._places.setdefault(queue, _Place())

    # Who leads.

    def _leader(self, queue: S) -> NodeId:
        """0: it is not known, yet."""
        if queue.route.driver is not None:
            return queue.route.driver.leader_node
        place = self._place(queue)
        now = self._ports.wall_ms()
        if place.heard_at is None or not place.heard_at <= now < place.heard_at + KNOWN_FOR_MS:
            self._ask(queue, place)
        return place.leader

    def _ask(self, queue: S, place: _Place) -> None:
        node = queue.route.look_for()
        if place.asked or not node:
            return
        place.asked = True
        answered = partial(self._answered, queue, place, node)
        self._ports.calls.ask(node, self._ports.topic, letters.ask(queue.group, AskedOfLeader.NOTHING, ""), answered)

    def _answered(self, queue: S, place: _Place, node: NodeId, data: bytes | None) -> None:
        place.asked = False
        try:
            answer = decode_answer(data) if data is not None else None
        except BadLetter:
            answer = None
        if answer is None:
            queue.route.forget(node)
            place.leader = 0 if place.leader == node else place.leader
            return
        if answer.status is AnswerStatus.DONE:
            place.leader = node
        else:
            queue.route.refused(answer.status, answer.leader)
            place.leader = answer.leader
        place.heard_at = self._ports.wall_ms()
