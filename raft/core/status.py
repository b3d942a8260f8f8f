"""Every figure of a member, for operators and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from raft.core.messages import MemberId, Membership
from raft.core.progress import Progress
from raft.core.ready import Role
from raft.core.state import State


@dataclass(slots=True, frozen=True)
class FollowerStatus:
    """A follower, as its leader sees it."""

    member: MemberId
    match: int
    next: int
    sending: str
    in_flight_bytes: int
    suspected: bool
    snapshot_sent_bytes: int | None  # None: it is not sent any


@dataclass(slots=True, frozen=True)
class Status:
    """A member at one moment."""

    member: MemberId
    role: Role
    term: int
    vote: MemberId
    leader: MemberId
    first: int
    last: int
    durable: int
    commit: int
    applied: int
    snapshot: int
    membership: Membership
    formed: int  # the entry, or the snapshot, that brought the membership in force
    change_pending: bool
    installing: bool
    uncommitted_bytes: int
    transfer_to: MemberId
    followers: tuple[FollowerStatus, ...]


class Formation(NamedTuple):
    """Of a Status what says who the members are, for those who ask often."""

    membership: Membership
    formed: int
    change_pending: bool


def formation_of(s: State) -> Formation:
    return Formation(s.membership, s.members.index, s.members.index > s.commit)


def status_of(s: State) -> Status:
    """Copied, so that it stays as it is."""
    lead, formation = s.leadership, formation_of(s)
    return Status(
        member=s.me,
        role=s.role,
        term=s.term,
        vote=s.vote,
        leader=s.leader,
        first=s.log.first_index(),
        last=s.log.last,
        durable=s.log.durable,
        commit=s.commit,
        applied=s.applied,
        snapshot=s.store.snapshot().index,
        membership=formation.membership,
        formed=formation.formed,
        change_pending=formation.change_pending,
        installing=s.installing is not None,
        uncommitted_bytes=lead.uncommitted_bytes if lead else 0,
        transfer_to=lead.transfer.to if lead and lead.transfer else 0,
        followers=tuple(map(_follower, lead.progress.values())) if lead else (),
    )


def _follower(one: Progress) -> FollowerStatus:
    sent = one.snapshot.acknowledged if one.snapshot else None
    return FollowerStatus(
        one.member, one.match, one.next, one.sending.value, one.in_flight_bytes, not one.trusted, sent
    )
