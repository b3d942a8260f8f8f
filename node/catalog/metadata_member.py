"""This node's member of the metadata group: how it begins, and what becomes of it when it has lost something.

Usually the store has it. Otherwise a node begins as a learner that nobody knows, under the number of its disk; the
leader takes it in. Only the founder of a cluster begins with a vote. A disk that has begun a member before, and has none any
more, takes another number first: the member that is gone may have voted and acknowledged under the one before.

A RAM node's member is in memory, and another one with each process.

A node that keeps the catalog alone has nobody to repair it. When its log has lost something, it founds the group anew, as
another member, on the catalog that its store holds: nobody was told of an entry that is not in there. The same is done for a
catalog that was kept before there were clusters, and where an operator has said that the others are lost
(node/commands/survival.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.catalog.catalog import Catalog
from broker.catalog.catalog_state import CatalogState
from broker.catalog.commands.metadata_entry import METADATA_GROUP
from node.catalog.metadata_machine import MACHINE_VERSION, CatalogMachine
from node.identity import DISK, NodeIdentity, Place
from raft.core.errors import CannotApply, Damaged, Superseded
from raft.core.live_entries import NONE_LIVE
from raft.core.membership import members_of
from raft.core.messages import MemberId, Membership, SnapshotMeta, member_id, node_of, shown
from raft.core.ready import Facts
from raft.core.settings import Settings
from raft.driver import Driver
from raft.group_owners import GroupOwners
from raft.groups import Groups
from raft.store import snapshots
from raft.store.group_records import GroupIdentity
from raft.store.memory_log_store import MemoryLogStore
from raft.store.node_log import RaftStore
from raft.store.replicas import NewReplica, successor
from storage.errors import StorageError

EAGER = 50.0  # who votes alone need not wait for anybody; see Settings.eagerness
# Somebody waits for each command, also on a node that does not lead: 100 declares there, one after the other, take 2.1 s with
# the usual wait for news of commits, and 0.6 s without.
COMMIT_NEWS_S = 0.0
APPLY_BYTES_MAX = 64 << 10  # in one turn, for a node that was away: some 300 declarations, each 25 us

logger = logging.getLogger("leveret")


def keeps_catalog_alone(place: Place, catalog: Catalog) -> bool:
    """Whether no other disk node can know more than this one."""
    if place.kind != DISK:
        return False
    if not catalog.nodes:
        return place.founds or not place.others
    return [record.number for record in catalog.nodes.values() if record.kind == DISK] == [place.number]


def settle_number(identity: NodeIdentity, raft: RaftStore, *, lost: bool) -> bool:
    """Have this disk take another number where the one that it has may be bound by what is lost. Returns whether its member of
    the metadata group is gone: both copies of the file of groups are damaged, or the one that is left is older than the member.
    Also where a process ended just before that began, which costs a number."""
    is_gone = identity.has_begun_member and METADATA_GROUP not in raft.stores
    if is_gone:
        logger.error(
            "nothing is left of this node's member of the metadata group: what that promised is void, and another one begins"
        )
    if lost or is_gone:
        identity.renew_disk()
    identity.begin_member()
    return is_gone


class MetadataMember:
    """`begin` once, then `take_part` when the groups are there. Fulfils GroupOwner of raft/group_owners.py."""

    def __init__(self, place: Place, raft: RaftStore, machine: CatalogMachine, new_replica: NewReplica) -> None:
        self._place = place
        self._raft = raft
        self._machine = machine
        self._new_replica = new_replica
        self._groups: Groups
        self.on_halted: Callable[[str], None] = lambda why: None
        self.on_leading: Callable[[], None] = lambda: None  # the leadership has come here, or has left

    @property
    def alone(self) -> bool:
        return keeps_catalog_alone(self._place, self._machine.catalog)

    @property
    def catalog_is_behind(self) -> bool:
        """Whether the member's log goes on behind the catalog: commands there are carried out once they are committed."""
        store = self._raft.stores.get(METADATA_GROUP)
        return store is not None and store.last_index() > self._machine.position.applied

    @property
    def _may_found(self) -> bool:
        """Whether the group may be founded anew on this catalog. What the node has written down of the others is ahead of the
        catalog while that is caught up with: they have what was decided, and the group, though the catalog names none."""
        return self.alone and (self._place.survives or all(other.kind != DISK for other in self._place.others))

    def begin(self) -> None:
        """See that the store has a member that can go on."""
        if self._place.kind != DISK:
            if METADATA_GROUP in self._raft.stores:  # from when this was a disk node
                self._raft.remove_group(METADATA_GROUP)
            return
        raft, applied = self._raft, self._machine.position.applied
        store = raft.stores.get(METADATA_GROUP)
        me = member_id(self._place.number, self._place.disk_id)
        if store is None:
            if self._may_found and (applied or self._machine.catalog.vhosts):
                self._found_on_catalog(me, term=1)
            else:
                self._create(me, Membership((me,)) if self._may_found else Membership(()))
        elif self._may_found and (
            METADATA_GROUP in raft.renumbered or store.last_index() < applied or self._place.survives
        ):
            self._found_on_catalog(successor(store.member, self._new_replica), store.facts().term + 1)

    def take_part(self, groups: Groups, owners: GroupOwners) -> None:
        self._groups = groups
        owners.register(METADATA_GROUP, self)
        self._add()

    def leading_changed(self, driver: Driver) -> None:
        self.on_leading()

    def damaged(self, driver: Driver, damage: Damaged) -> None:
        self._begin_again(damage)

    def repaired(self, driver: Driver) -> None:
        logger.info("the metadata group is repaired: its new member here, %s, votes", shown(driver.me))

    def halted(self, driver: Driver, error: CannotApply) -> None:
        self._stand_still(str(error))

    def _begin_again(self, damage: Damaged) -> None:
        """The member could not read what it had stored; the groups have let it go."""
        logger.error("the metadata group takes no part on this node for now: %s", damage)
        if self._place.kind != DISK:
            assert isinstance(damage, Superseded), f"nothing that is stored can be damaged in memory: {damage}"
            self._add_in_memory(successor(damage.later, self._new_replica))
            return
        store = self._raft.group(METADATA_GROUP)
        _, membership = store.memberships()[-1]
        if self.alone and all(node_of(member) == self._place.number for member in members_of(membership)):
            self._found_on_catalog(successor(store.member, self._new_replica), store.facts().term + 1)
            self._add()
        else:
            self._raft.repair(METADATA_GROUP, damage, lambda member: self._add_again())

    def _stand_still(self, why: str) -> None:
        """The catalog cannot go on as the others' does: guessing would part it from theirs."""
        logger.error(
            "this node does not follow the catalog any more: %s. It serves what it knows of, votes on, and takes no change: "
            "update it and start it again", why,
        )  # fmt: skip
        self.on_halted(why)

    def _add(self) -> None:
        if self._place.kind != DISK:
            self._add_in_memory(member_id(self._place.number, self._place.disk_id))
            return
        store = self._raft.group(METADATA_GROUP)
        settings = self._settings(eagerness=EAGER if self.alone else 1.0)
        try:
            driver = self._groups.add(METADATA_GROUP, store.member, store, self._machine, settings)
        except Damaged as damage:  # its snapshot
            self._begin_again(damage)
        else:
            if driver.halted is not None:
                self._stand_still(driver.halted)

    def _add_again(self) -> None:
        """Raises what the disk does, and the node stops."""
        try:
            self._add()
        except StorageError as error:
            self._groups.fail(str(error))
            raise

    def _add_in_memory(self, me: MemberId) -> None:
        memory = MemoryLogStore(METADATA_GROUP, logger.error)
        self._groups.add(METADATA_GROUP, me, memory, self._machine, self._settings(eagerness=1.0))

    @staticmethod
    def _settings(eagerness: float) -> Settings:
        return Settings(eagerness=eagerness, commit_news_s=COMMIT_NEWS_S, apply_bytes_max=APPLY_BYTES_MAX)

    def _create(self, me: MemberId, membership: Membership) -> None:
        self._raft.create_group(GroupIdentity(METADATA_GROUP, me, "metadata", "catalog", membership))

    def _found_on_catalog(self, me: MemberId, term: int) -> None:
        """A group whose log begins behind what the catalog stands on."""
        raft, position = self._raft, self._machine.position
        if METADATA_GROUP in raft.stores:
            raft.remove_group(METADATA_GROUP)
        position.applied = max(1, position.applied)
        meta = SnapshotMeta(position.applied, term, Membership((me,)), MACHINE_VERSION)
        state = CatalogState(self._machine.catalog, position)
        stored = snapshots.write(raft.disk, METADATA_GROUP, raft.next_number(), meta, NONE_LIVE, state)
        self._create(me, meta.membership)
        store = raft.group(METADATA_GROUP)
        raft.append(store, Facts(term, 0), ())
        raft.snapshot_received(store, stored, NONE_LIVE, lambda: None)
        logger.warning("the metadata group is founded anew, as member %s, on the catalog as it is kept here", shown(me))
