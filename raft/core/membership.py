"""Who belongs to a group: the changes that may be made, one voter at a time, and the history of them in the log.

A membership is in force from the moment its entry is in the log, committed or not. Two that follow each other differ by one
voter at most, so any majority of one shares a member with any majority of the other. An entry that is truncated takes its
membership with it and restores the one before.

In a log entry (little endian; the three lists follow each other in this order):

    version u8 = 1 | voters u16 | learners u16 | promotable u16 | member u64 ...
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from raft.core.errors import BadBytes, BadChange
from raft.core.messages import Entry, EntryKind, MemberId, Membership, node_of

_HEADER = struct.Struct("<BHHH")
_VERSION = 1


@dataclass(slots=True, frozen=True)
class AddLearner:
    """`member` receives everything; with `promote` it becomes a voter once it has caught up."""

    member: MemberId
    promote: bool = True


@dataclass(slots=True, frozen=True)
class RemoveMember:
    """`member` belongs to the group no more."""

    member: MemberId


@dataclass(slots=True, frozen=True)
class Promote:
    """A learner becomes a voter: at once if it has caught up, else as soon as it has."""

    member: MemberId


@dataclass(slots=True, frozen=True)
class Replace:
    """`old` lost what it had promised to keep and goes; `new`, what lives on the same node now, begins as a learner. It is
    promoted later if `old` was a voter or was to become one."""

    old: MemberId
    new: MemberId


Change = AddLearner | RemoveMember | Promote | Replace


def changed(membership: Membership, change: Change, *, caught_up: bool = False) -> Membership:
    """The membership after a change. Raises BadChange. `caught_up`: whether the member to promote has."""
    match change:
        case AddLearner(member, promote):
            return _with_learner(membership, member, promote)
        case RemoveMember(member):
            return _without(membership, member)
        case Promote(member):
            return _promoted(membership, member, caught_up)
        case Replace(old, new):
            return _replaced(membership, old, new)


def _with_learner(membership: Membership, member: MemberId, promote: bool) -> Membership:
    neighbours = [one for one in members_of(membership) if node_of(one) == node_of(member)]
    if neighbours:
        raise BadChange(
            f"member {member} cannot be added: node {node_of(member)} has member {neighbours[0]} already; replace that one"
        )
    learners = _sorted(membership.learners, member)
    promotable = _sorted(membership.promotable, member) if promote else membership.promotable
    return Membership(membership.voters, learners, promotable)


def _without(membership: Membership, member: MemberId) -> Membership:
    if member not in members_of(membership):
        raise BadChange(f"member {member} is not in this group: {membership}")
    if membership.voters == (member,):
        raise BadChange(f"member {member} is the last voter of this group; promote another one first")
    return Membership(*(tuple(one for one in part if one != member) for part in membership))


def _promoted(membership: Membership, member: MemberId, caught_up: bool) -> Membership:
    if member not in membership.learners:
        raise BadChange(f"member {member} is no learner of this group: {membership}")
    if caught_up:
        rest = _without(membership, member)
        return rest._replace(voters=_sorted(rest.voters, member))
    if member in membership.promotable:
        raise BadChange(f"member {member} becomes a voter as soon as it has caught up; nothing is to be changed")
    return membership._replace(promotable=_sorted(membership.promotable, member))


def _replaced(membership: Membership, old: MemberId, new: MemberId) -> Membership:
    if node_of(old) != node_of(new):
        raise BadChange(f"member {new} cannot replace {old}: they live on different nodes")
    if new <= old:
        raise BadChange(f"member {new} cannot replace {old}: it is not of a later life")
    promote = old in membership.voters or old in membership.promotable
    return _with_learner(_without(membership, old), new, promote)


def members_of(membership: Membership) -> tuple[MemberId, ...]:
    """Voters, then learners."""
    return membership.voters + membership.learners


def _sorted(members: Iterable[MemberId], one_more: MemberId) -> tuple[MemberId, ...]:
    return tuple(sorted({*members, one_more}))


def encode(membership: Membership) -> bytes:
    """The data of a membership entry."""
    counts = [len(part) for part in membership]
    members = [member for part in membership for member in part]
    return _HEADER.pack(_VERSION, *counts) + struct.pack(f"<{len(members)}Q", *members)


def decode(data: bytes) -> Membership:
    """Raises BadBytes when these are no membership of this version."""
    if len(data) < _HEADER.size or data[0] != _VERSION:
        raise BadBytes(
            f"{len(data)} bytes, beginning with {data[:1].hex() or 'nothing'}, are no membership of version 1"
        )
    _, voters, learners, promotable = _HEADER.unpack_from(data)
    count = voters + learners + promotable
    if len(data) != _HEADER.size + 8 * count:
        raise BadBytes(f"a membership of {count} members has {_HEADER.size + 8 * count} bytes, not {len(data)}")
    members = struct.unpack_from(f"<{count}Q", data, _HEADER.size)
    return Membership(members[:voters], members[voters : voters + learners], members[voters + learners :])


class MembershipHistory:
    """The membership in force, and those that come back when entries are truncated."""

    __slots__ = ("_known", "current")

    current: Membership  # in force; a field, because it is asked for at every step

    def __init__(self, known: Sequence[tuple[int, Membership]]) -> None:
        assert known, "a log without any membership: its first one belongs to its first snapshot"
        self._known = list(known)
        self.current = self._known[-1][1]

    @property
    def index(self) -> int:
        """Of the entry, or snapshot, that brought the membership in force."""
        return self._known[-1][0]

    def committed(self, commit: int) -> Membership:
        """The newest that can never be truncated."""
        return next(membership for index, membership in reversed(self._known) if index <= commit)

    def take(self, entries: Sequence[Entry], commit: int) -> bool:
        """These were appended. Whether they changed the membership. Forgets what lies before the newest committed one."""
        found = [(entry.index, decode(entry.data)) for entry in entries if entry.kind == EntryKind.MEMBERSHIP]
        if not found:
            return False
        assert found[0][0] > self.index, f"membership at {found[0][0]} behind one at {self.index}"
        while len(self._known) > 1 and self._known[1][0] <= commit:
            del self._known[0]
        self._known += found
        self.current = self._known[-1][1]
        return True

    def truncate(self, last: int) -> bool:
        """Entries above `last` are gone. Whether that restored an earlier membership."""
        before = len(self._known)
        while self._known[-1][0] > last:
            assert len(self._known) > 1, f"the membership at {self._known[0][0]} was committed, but truncated to {last}"
            self._known.pop()
        self.current = self._known[-1][1]
        return len(self._known) < before

    def reset(self, index: int, membership: Membership) -> None:
        """A snapshot covers everything up to `index`, and nothing follows it."""
        self._known = [(index, membership)]
        self.current = membership
