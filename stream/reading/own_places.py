"""Places in a stream as this node's member knows them: for readers of this node, and for all while it leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker.queues.stream_contract import OffsetSpec
from raft.core.errors import Damaged, RaftError
from replicated.leader_route import LeaderRoute
from replicated.ports import RaftGroups
from stream.group.chunk_reading import FoundPlace
from stream.group.leading import StreamLeading
from stream.group.member import StreamMember


class SearchedStream(Protocol):
    """The stream in which they are looked for."""

    @property
    def group(self) -> int: ...

    @property
    def route(self) -> LeaderRoute: ...

    @property
    def member(self) -> StreamMember | None: ...

    @property
    def readable_member(self) -> StreamMember | None: ...

    @property
    def leading(self) -> StreamLeading | None: ...


class OwnPlaces:
    """Of one stream on this node."""

    def __init__(self, stream: SearchedStream, groups: RaftGroups) -> None:
        self._stream = stream
        self._groups = groups

    def here(self, spec: OffsetSpec) -> FoundPlace | None:
        """What this member surely knows. None: only the leader does, or it cannot be read now."""
        member = self._stream.readable_member
        return self._in(member, spec) if member is not None and member.places.knows(spec) else None

    def as_leader(self, spec: OffsetSpec, found: Callable[[FoundPlace | None], None]) -> None:
        """As soon as a majority has said that this node leads: another one may, and have told its clients of more."""

        def may_be_asked(error: RaftError | None) -> None:
            member = self._stream.member
            knows = error is None and member is not None and self._knows_end()
            found(self._in(member, spec) if member is not None and knows else None)

        self._groups.read(self._stream.group, may_be_asked)

    def _in(self, member: StreamMember, spec: OffsetSpec) -> FoundPlace | None:
        try:
            return member.places.find(spec)
        except Damaged as damage:  # until it is repaired
            self._groups.damaged(self._stream.group, damage)
            return None

    def _knows_end(self) -> bool:
        leading = self._stream.leading
        return leading is not None and self._stream.route.leads and leading.knows_end()
