"""Members of this node that take no part any more, and the others of their groups, who have to hear of it.

A member is *given up* when it cannot read what it had stored: it cannot vouch for what it promised. Another one takes its
place, under a new number. A member is *halted* when its machine cannot go on: see raft/driver.py. Others may follow either
indefinitely, for its node answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from raft.core.errors import Superseded
from raft.core.messages import (
    Append,
    LeaderCheck,
    LeaderLookup,
    MatchCheck,
    MemberId,
    Message,
    NodeId,
    Replaced,
    SnapshotChunk,
    TransferNow,
    VoteRequest,
    member_id,
    shown,
)
from raft.core.ready import Role
from raft.driver import Driver, GroupId

# What a member that is no more is asked, and its successor answers.
ANSWERED_FOR_ANOTHER = (Append, SnapshotChunk, MatchCheck, VoteRequest, LeaderCheck, LeaderLookup, TransferNow)


class StoppedMembers:
    """Of one node. `drivers`: the members that it has now, by group; `send` has a message leave with the next round."""

    def __init__(
        self, node: NodeId, drivers: Mapping[GroupId, Driver], send: Callable[[GroupId, Message], None]
    ) -> None:
        self._node = node
        self._drivers = drivers
        self._send = send
        self._halted: dict[GroupId, Driver] = {}
        self._given_up: dict[GroupId, MemberId] = {}

    def halt(self, driver: Driver, reason: str, now: float) -> None:
        self._halted[driver.group] = driver
        driver.halt(reason, now)

    def give_up(self, driver: Driver) -> None:
        self._given_up[driver.group] = driver.me

    def removed(self, group: GroupId) -> None:
        """Its member takes no part any more, whatever it was."""
        self._halted.pop(group, None)

    def look_after_halted(self, now: float) -> None:
        """As long as no other member leads, others may still follow them."""
        for driver in list(self._halted.values()):
            assert driver.halted is not None, f"group {driver.group} is not halted"
            if driver.leader_node in (0, self._node):
                driver.halt(driver.halted, now)

    def look_after_given_up(self, nodes: Iterable[NodeId]) -> list[Driver]:
        """Where a member was given up: tell these nodes until one of theirs leads; then wait until the new member is one of
        those who vote. Those that are now."""
        repaired = []
        for group, old in list(self._given_up.items()):
            driver = self._drivers.get(group)
            if driver is None or driver.me == old:
                continue
            if not driver.leader:
                for node in nodes:
                    self._send(group, Replaced(member_id(node, 0), driver.me, driver.standing.term, old))
            elif driver.standing.role is not Role.LEARNER:
                del self._given_up[group]
                repaired.append(driver)
        return repaired


def answer_for_another(driver: Driver, message: Message) -> Replaced | None:
    """For a replica that lived here before: what lives here now is another one, which promised nothing that it did."""
    if isinstance(message, ANSWERED_FOR_ANOTHER):
        return Replaced(message.sender, driver.me, message.term, old=message.to)
    return None


def old_disk(me: MemberId, later: MemberId) -> Superseded:
    """A member that this node had later is known to others: what is stored here was written before."""
    text = f"member {shown(me)} is spoken to as {shown(later)}, a later one of its node: the disk is an old copy"
    return Superseded(text, later)
