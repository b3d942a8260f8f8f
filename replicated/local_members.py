"""This node's members of the groups of one kind of queue: how they begin and end. Their lives are in replicated/member.py.

Every node opens every queue; those that its record names as members' nodes take part in its group. A node *founds* its member,
with the whole first membership, only if the record still names the founders, among them the very member that this node's disk
would found, and the store has none. Otherwise the member that the record names was lost with an earlier disk, or was added
later: then the node begins with an empty one of a new number, and the leader takes it in. Where there is no other node, and so
no leader, see replicated/sole_replica.py. When a member leaves, see replicated/departures.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from broker.records import QueueRecord
from raft.core.errors import CannotApply, Damaged, ReadmittedEarly, Superseded
from raft.core.messages import MemberId, Membership, member_id, node_of, shown
from raft.core.settings import Settings
from raft.driver import SnapshotRules
from raft.store.group_records import GroupIdentity
from raft.store.member_store import MemberStore
from raft.store.replicas import NewReplica, successor
from replicated.member import MemberLife, ReplicatedMember
from replicated.ports import CatalogPorts, MemberDriver, MemberStores, QueuePorts
from replicated.queue import QueueReports, ReplicatedQueue
from replicated.sole_replica import begin_alone, names_others, votes_alone
from replicated.stored_entries import StoredEntries
from storage.errors import Exhausted, StorageError

QUEUE_GROUPS = 1 << 32  # the group of a queue is this and its id; those below are the cluster's own
PROMISED_MAX = 8  # of a group: those of before were refused, or their leaders are gone

Q = TypeVar("Q", bound=ReplicatedQueue)
MakeMember: TypeAlias = Callable[[Q, StoredEntries], ReplicatedMember]  # with a new machine


@dataclass(frozen=True, slots=True)
class KindOfMember(Generic[Q]):
    """The members of one kind of queue."""

    name: str  # of the kind
    make: MakeMember[Q]
    settings_of: Callable[[Q], Settings]
    snapshot_rules: SnapshotRules


class LocalMembers(Generic[Q]):
    """See the module. Fulfils GroupOwner of raft/group_owners.py for their groups."""

    def __init__(
        self,
        kind: KindOfMember[Q],
        queues: Mapping[int, Q],
        disk_id: int,
        *,
        ports: QueuePorts,
        store: MemberStores,
        catalog: CatalogPorts,
        new_replica: NewReplica,
        reports: QueueReports,
        on_leading: Callable[[Q], None],
        on_unnamed: Callable[[Q], None],
    ) -> None:
        """`queues`: by group, those that are open. `disk_id`: of the members that this node founds. `on_leading` is told of a
        queue that is led here now, or no more; `on_unnamed` of one whose record does not name this node."""
        self._kind = kind
        self._queues = queues
        self._disk_id = disk_id
        self._ports = ports
        self._store = store
        self._catalog = catalog
        self._new_replica = new_replica
        self._reports = reports
        self._on_leading = on_leading
        self._on_unnamed = on_unnamed
        self._promised: dict[int, deque[MemberId]] = {}  # by group: members that its leaders were told to add here
        self._put_off: dict[Q, None] = {}  # whose member begins when there is room or a descriptor again

    # what they are

    def has_log(self, queue: Q) -> bool:
        """Whether this node keeps a member of it, whether or not that takes part now."""
        return queue.group in self._store.stores

    def term_on_disk(self, queue: Q) -> int:
        """The highest in which its member here has promised anything."""
        return self._store.group(queue.group).facts().term

    @property
    def quarantined(self) -> list[Q]:
        """Those whose member here takes no part."""
        return [queue for queue in self._queues.values() if queue.member_life is MemberLife.QUARANTINED]

    # how they begin

    def take_part(self, queue: Q) -> None:
        """As its record, and what the disk has, say. No member is founded for a record that has changed: it was here, and was
        removed, or the others have gone on without it. A member that is here and not named goes on, until it may leave."""
        named = next((member for member in queue.record.members if node_of(member) == self._ports.node), None)
        if named is not None and not self.has_log(queue):
            try:
                self._store.create_group(self._new_identity(queue, named))
            except Exhausted:  # the number of the new member could not be kept, and nothing was begun
                queue.member_life = MemberLife.PUT_OFF
                self._put_off[queue] = None
                return
        if self.has_log(queue):
            self._begin(queue)
        if named is None:
            self._on_unnamed(queue)

    def begin_what_was_put_off(self) -> None:
        """Called about once a second."""
        put_off, self._put_off = self._put_off, {}
        for queue in put_off:
            queue.member_life = MemberLife.ABSENT
            self.changed(queue.record)  # which may name other nodes by now

    def promise(self, queue: Q) -> MemberId:
        """The member that begins here once the queue's record names it: whoever leads the group is about to add it."""
        mine = member_id(self._ports.node, self._new_replica(0))
        self._promised.setdefault(queue.group, deque(maxlen=PROMISED_MAX)).append(mine)
        return mine

    def _new_identity(self, queue: Q, named: MemberId) -> GroupIdentity:
        label, kind = f"{queue.record.vhost}/{queue.record.name}", self._kind.name
        if not queue.record.formed and named == member_id(self._ports.node, self._disk_id):
            return GroupIdentity(queue.group, named, label, kind, Membership(tuple(sorted(queue.record.members))))
        # What the leader was promised to, no member has been yet. Any other one that is named may be lost with all it promised.
        mine = named if named in self._promised.pop(queue.group, ()) else successor(named, self._new_replica)
        return GroupIdentity(queue.group, mine, label, kind, Membership(()))

    def _begin(self, queue: Q) -> None:
        store, groups = self._store.group(queue.group), self._ports.groups
        if self._goes_on_alone(queue, store):
            self._reports.on_lost(queue.record, begin_alone(store))
        member = self._kind.make(queue, StoredEntries(store, groups.fail))
        settings, rules = self._kind.settings_of(queue), self._kind.snapshot_rules
        self._ports.owners.register(queue.group, self)
        try:
            driver = groups.add(queue.group, store.member, store, member, settings, rules)
        except Damaged as damage:  # its snapshot
            queue.member_life = MemberLife.DAMAGED
            self._have_repaired(queue.group, damage)
            return
        if driver.halted is not None:
            self._quarantine(queue, driver.halted)
            return
        queue.member_life = MemberLife.SERVING
        queue.joined(driver, member)
        if driver.leads:
            self.leading_changed(driver)

    def _goes_on_alone(self, queue: Q, store: MemberStore) -> bool:
        """What a start has of the catalog was written behind its log: until that is read the member may have been shared with
        nodes which only its own log names."""
        if votes_alone(store) or not self._is_sole_replica(queue):
            return False
        return not (names_others(store) and self._catalog.is_behind())

    def _is_sole_replica(self, queue: Q) -> bool:
        """Whether no other node can repair it."""
        return self._catalog.alone() and set(queue.member_nodes()) == {self._ports.node}

    # what happens to them

    def changed(self, record: QueueRecord) -> None:
        """The catalog's record of a queue names other members now (SetQueueMembers was applied)."""
        queue = self._queues.get(QUEUE_GROUPS + record.id)
        if queue is None:
            return
        queue.record = record
        if self._ports.node not in queue.member_nodes():
            self._on_unnamed(queue)
        elif queue.member is None and not self.has_log(queue):
            self.take_part(queue)

    # GroupOwner

    def leading_changed(self, driver: MemberDriver) -> None:
        queue = self._queues.get(driver.group)
        if queue is not None and queue.member is not None:
            queue.leading_changed()
            self._on_leading(queue)

    def damaged(self, driver: MemberDriver, damage: Damaged) -> None:
        queue = self._queues.get(driver.group)
        if queue is not None:
            queue.member_life = MemberLife.DAMAGED
            queue.quarantined = None
            self._leave(queue)
        self._have_repaired(driver.group, self._readmitted(driver, damage))

    def repaired(self, driver: MemberDriver) -> None:
        self._reports.on_repaired(driver)

    def halted(self, driver: MemberDriver, error: CannotApply) -> None:
        queue = self._queues.get(driver.group)
        if queue is not None:
            self._quarantine(queue, str(error))

    def _readmitted(self, driver: MemberDriver, damage: Damaged) -> Damaged:
        """It may be only that the leader was faster with both than this node heard of the first. No earlier process, and so no
        lost disk, has had a number that this one promised."""
        if not isinstance(damage, Superseded) or damage.later not in self._promised.get(driver.group, ()):
            return damage
        del self._promised[driver.group]
        text = f"member {shown(driver.me)} was removed, and {shown(damage.later)} taken in before this node heard of it"
        return ReadmittedEarly(text, damage.later)

    def _have_repaired(self, group: int, damage: Damaged) -> None:
        if self._reports.on_damaged is None:
            raise damage
        self._reports.on_damaged(group, damage, partial(self._lives_again, group))

    def _lives_again(self, group: int) -> bool:
        """The store has made another member of it. False: it was the sole replica, and some of what sessions of this process
        were told is not in it any more. Only another process can go on with it. Raises what the disk does, and the node
        stops."""
        queue = self._queues.get(group)
        if queue is not None and self._is_sole_replica(queue):
            return False
        if queue is not None:
            try:
                self._begin(queue)
            except StorageError as error:
                self._ports.groups.fail(str(error))
                raise
        return True

    def _quarantine(self, queue: Q, why: str) -> None:
        """Clients here are served by another node's member, if there is one that can go on. This one votes and keeps what it is
        sent, until a later start or version knows how to go on."""
        queue.member_life = MemberLife.QUARANTINED
        queue.quarantined = why
        self._leave(queue)
        self._reports.on_quarantined(queue, why)

    def _leave(self, queue: Q) -> None:
        queue.left()
        self._on_leading(queue)

    def drop(self, queue: Q) -> None:
        """The member here, and its log. What it has acknowledged must not be needed any more: replicated/departures.py."""
        if queue.member_life in (MemberLife.SERVING, MemberLife.QUARANTINED):
            queue.quarantined = None
            self._leave(queue)
            self._ports.groups.remove(queue.group)
        if self.has_log(queue):
            self._store.remove_group(queue.group)
        self._ports.owners.leave(queue.group)
        queue.member_life = MemberLife.ABSENT

    def forget(self, queue: Q) -> None:
        """It is deleted, with its member."""
        self.drop(queue)
        self._promised.pop(queue.group, None)
        self._put_off.pop(queue, None)
