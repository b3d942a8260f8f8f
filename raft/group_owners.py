"""Who on this node acts on what happens to a group: its owner, looked up by the group's number.

An owner registers for a group before it adds its member to raft/groups.py, and leaves when the member is removed for good. So
an event of a group without an owner is a mistake of ours, and an error: the member would never be served when it leads, nor
repaired when it is damaged, and a node that went on would hide that. raft/groups.py stops the node for it, as for any
other mistake. An event never reaches another owner than the group's own.
"""

from __future__ import annotations

from typing import Protocol

from raft.core.errors import CannotApply, Damaged, RaftError
from raft.driver import Driver, GroupId


class GroupOwner(Protocol):
    """What happens to this node's member of a group."""

    def leading_changed(self, driver: Driver) -> None:
        """The group's leadership has come to this node, or has left it."""

    def damaged(self, driver: Driver, damage: Damaged) -> None:
        """The member could not read what it had stored, and takes part no more. Its store can repair it."""

    def repaired(self, driver: Driver) -> None:
        """The member that followed a damaged one votes."""

    def halted(self, driver: Driver, error: CannotApply) -> None:
        """The machine of the member cannot go on."""


class NoOwner(RaftError):
    """Returned when something happens to a group without a registered owner."""


class GroupOwners:
    """Those of one node. Each event has the name of its method in GroupOwner."""

    def __init__(self) -> None:
        self._owners: dict[GroupId, GroupOwner] = {}

    def register(self, group: GroupId, owner: GroupOwner) -> None:
        """Again by the same owner: it has begun anew, with another member."""
        assert self._owners.get(group, owner) is owner, f"group {group} has an owner already: {self._owners[group]!r}"
        self._owners[group] = owner

    def leave(self, group: GroupId) -> None:
        """Nothing happens to this group any more. One without a registered owner is ignored: its member never began."""
        self._owners.pop(group, None)

    def leading_changed(self, driver: Driver) -> None:
        self._of(driver).leading_changed(driver)

    def damaged(self, driver: Driver, damage: Damaged) -> None:
        self._of(driver).damaged(driver, damage)

    def repaired(self, driver: Driver) -> None:
        self._of(driver).repaired(driver)

    def halted(self, driver: Driver, error: CannotApply) -> None:
        self._of(driver).halted(driver, error)

    def _of(self, driver: Driver) -> GroupOwner:
        owner = self._owners.get(driver.group)
        if owner is None:
            raise NoOwner(f"group {driver.group} has no owner on this node to be told of what happens to it")
        return owner
