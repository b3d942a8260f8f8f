"""Who this node is, kept in the file of facts: its disk, its process, and its place in a cluster.

    instance      16 random bytes in hexadecimal, drawn when the data directory is new: no two directories have the same
    life          the first number that the catalog has granted to members on this disk (broker/catalog/parts/disk_lives.py);
                  0: the node is blank, or an earlier build wrote this
    reserved      up to here numbers may be in use: whatever a process may give is reserved before (raft/store/replicas.py)
    disk_id       the replica number of members that this disk founds; another one whenever the disk lost something
    begun         the disk_id under which this disk node's member of the metadata group may have begun; 0: it has not, or an
                  earlier build wrote this
    incarnation   of this process; above that of every earlier one, also when the clock was set back
    cluster_id    empty: the node is blank, it belongs to no cluster yet
    number        of this node in its cluster
    kind          disk or ram, since it belongs to a cluster; another one only by `leveretctl cluster change-type`
    founder_disk  the disk_id with which this node founded the cluster's metadata group; 0: somebody else did
    nodes         number, name, address and kind of the others, as last known: where to look for them at a start
    bound         what a blank node has promised to belong to; see node/membership/discovery.py
    leaving       the node was told to leave its cluster, and has not yet: node/membership/decommissioning.py

Whatever is said to another node about these rests on the disk already.

Facts of an earlier build have numbers by the clock. They are read as they are: its members keep them, and the numbers that come
begin where none by a clock can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec

from broker.catalog.parts.disk_lives import FIRST_LIFE, end_of_life
from raft.core.errors import NumbersUsedUp
from raft.core.messages import NodeId
from raft.store.replicas import ReplicaNumbers, reserved_from
from storage import fact_file, names
from storage.disk import Disk
from storage.errors import Corrupt, DiskFailed

DISK = "disk"
RAM = "ram"
KINDS = (DISK, RAM)

INSTANCE_BYTES = 16


@dataclass(slots=True, frozen=True)
class KnownNode:
    """Another node of the cluster."""

    number: NodeId
    name: str
    address: str  # HOST:PORT of its listener for nodes
    kind: str


@dataclass(slots=True, frozen=True)
class Bound:
    """The cluster that a blank node has promised to belong to, and to no other."""

    cluster_id: str
    address: str  # of the node that wants to found it, or that it is known from
    instance: str  # of that node's data directory
    exists: bool  # one of its members was seen: nothing undoes this promise


@dataclass(slots=True, frozen=True)
class Departure:
    """The node is to leave its cluster for good. `lose_queues`: also where classic queues go with it."""

    lose_queues: bool


@dataclass(slots=True, frozen=True)
class Place:
    """What assembly needs to know about this node before it builds anything.

    `founds`: this node is the one that began the cluster, with the disk that it has now. If it has no member of the metadata
    group yet, it creates that with itself as the only voter. No other node ever does; it creates an empty learner, which the
    leader takes in.
    """

    cluster_id: str
    number: NodeId
    name: str
    kind: str
    disk_id: int
    incarnation: int
    founds: bool
    others: tuple[KnownNode, ...]
    survives: bool = False  # an operator has said that it goes on as the only disk node: see node/commands/survival.py


@dataclass(slots=True, frozen=True)
class _Facts:
    instance: str
    disk_id: int
    incarnation: int
    cluster_id: str = ""
    number: NodeId = 0
    kind: str = ""
    founder_disk: int = 0
    nodes: tuple[KnownNode, ...] = ()
    bound: Bound | None = None
    survives: bool = False
    lived: int = 0  # incarnation of the last process that took its place in the cluster; of older directories: 0
    life: int = 0
    reserved: int = 0
    leaving: Departure | None = None
    begun: int = 0


class NodeIdentity:
    """The facts of a data directory whose lock is held. Every change is durable when its call returns; such calls block."""

    def __init__(self, disk: Disk, facts: _Facts, name: str, kind: str, *, inherits: bool, belonged: bool) -> None:
        self.name = name
        # Of the last process that took part with this directory; 0: it is not known. One that was refused took none.
        self.earlier_incarnation = facts.lived
        self.belonged = belonged  # an earlier process had its place in a cluster with this directory, and so a log
        self.inherits = inherits  # the directory holds what a node kept before there were clusters
        self._kind = kind
        self._disk = disk
        self._facts = facts
        self._numbers: ReplicaNumbers | None = None  # a blank node has none

    @classmethod
    def begin(
        cls, disk: Disk, name: str, kind: str, wall_ms: int, random_bytes: Callable[[int], bytes]
    ) -> NodeIdentity:
        """A process begins: it gets an incarnation of its own. Raises Corrupt and StorageError."""
        stored = fact_file.load(disk, names.NODE_FACTS)
        if stored is None:
            facts = _Facts(random_bytes(INSTANCE_BYTES).hex(), 0, wall_ms)
        else:
            try:
                facts = msgspec.convert(stored, _Facts)
            except msgspec.ValidationError as error:
                raise Corrupt(names.NODE_FACTS, 0, 0, f"these are no facts of a node: {error}") from error
            facts = replace(facts, incarnation=max(facts.incarnation + 1, wall_ms))
        inherits = not facts.cluster_id and fact_file.load(disk, names.LOG_FACTS) is not None
        identity = cls(disk, facts, name, kind, inherits=inherits, belonged=bool(facts.cluster_id))
        if facts.cluster_id:
            identity._begin_numbers(facts if facts.life else _granted_life(facts))
        else:
            identity._save(replace(facts, disk_id=0))  # an earlier build had one before it joined
        return identity

    @property
    def kind(self) -> str:
        """Of a blank node: what it was started as."""
        return self._facts.kind or self._kind

    @property
    def instance(self) -> str:
        return self._facts.instance

    @property
    def disk_id(self) -> int:
        return self._facts.disk_id

    @property
    def incarnation(self) -> int:
        return self._facts.incarnation

    @property
    def cluster_id(self) -> str:
        return self._facts.cluster_id

    @property
    def number(self) -> NodeId:
        return self._facts.number

    @property
    def blank(self) -> bool:
        return not self._facts.cluster_id

    @property
    def nodes(self) -> tuple[KnownNode, ...]:
        return self._facts.nodes

    @property
    def bound(self) -> Bound | None:
        return self._facts.bound

    @property
    def place(self) -> Place:
        facts = self._facts
        assert facts.cluster_id and facts.number, f"node '{self.name}' belongs to no cluster yet: {facts}"
        return Place(
            cluster_id=facts.cluster_id,
            number=facts.number,
            name=self.name,
            kind=self.kind,
            disk_id=facts.disk_id,
            incarnation=facts.incarnation,
            founds=facts.founder_disk == facts.disk_id,
            others=facts.nodes,
            survives=facts.survives,
        )

    def bind(self, bound: Bound | None) -> None:
        """A blank node promises to belong to this cluster, or is free again."""
        assert self.blank, f"node {self.number} of cluster {self.cluster_id} promises to belong to {bound}"
        self._save(replace(self._facts, bound=bound))

    def found(self, cluster_id: str) -> None:
        """This blank node begins a cluster, as node 1 and a disk node, with the life that the catalog will grant it."""
        assert self.blank, f"node {self.number} of cluster {self.cluster_id} founds another one, {cluster_id}"
        facts = replace(self._facts, cluster_id=cluster_id, number=1, kind=DISK, founder_disk=FIRST_LIFE, bound=None)
        self._begin_numbers(_with_life(facts, FIRST_LIFE))

    def outlive(self, incarnation: int) -> None:
        """An earlier process of this node, with another disk, is known by this one: the clock is behind."""
        self._save(replace(self._facts, incarnation=max(self._facts.incarnation, incarnation + 1)))

    def join(self, cluster_id: str, number: NodeId, disk_id: int, nodes: Iterable[KnownNode]) -> None:
        """This blank node was taken into a cluster. `disk_id`: the first number of the life that it was granted."""
        assert self.blank, f"node {self.number} of cluster {self.cluster_id} joins another one, {cluster_id}"
        others = tuple(node for node in nodes if node.number != number)
        facts = replace(self._facts, cluster_id=cluster_id, number=number, kind=self.kind, nodes=others, bound=None)
        self._begin_numbers(_with_life(facts, disk_id))

    def take_part(self) -> None:
        """This process has its place: from now on a copy of the directory that was made before is an old one."""
        self._save(replace(self._facts, lived=self._facts.incarnation))

    def know(self, nodes: Iterable[KnownNode]) -> None:
        """The others are these from now on."""
        others = tuple(sorted((one for one in nodes if one.number != self.number), key=lambda one: one.number))
        if others != self._facts.nodes:
            self._save(replace(self._facts, nodes=others))

    def change_kind(self, kind: str, above: int) -> None:
        """From its next start on the node is of this kind, and its members there are new ones: later than this one."""
        assert kind in KINDS, f"a node of kind {kind}"
        disk_id = self.new_replica(max(above, self._facts.disk_id))
        self._save(replace(self._facts, kind=kind, disk_id=disk_id))

    def renew_disk(self) -> None:
        """The disk lost something that it had promised to keep: what begins on it from now on is another one."""
        disk_id = self.new_replica(self._facts.disk_id)
        self._save(replace(self._facts, disk_id=disk_id))

    @property
    def has_begun_member(self) -> bool:
        """Whether a member of the metadata group may have given its word under the number of this disk."""
        return self._facts.begun == self._facts.disk_id

    def begin_member(self) -> None:
        """It may from now on."""
        if self.kind == DISK and not self.has_begun_member:
            self._save(replace(self._facts, begun=self._facts.disk_id))

    def new_replica(self, above: int) -> int:
        """Of a member that begins now: see raft/store/replicas.py. Raises NumbersUsedUp and StorageError."""
        assert self._numbers is not None, f"node '{self.name}' begins a member and belongs to no cluster: {self._facts}"
        return self._numbers(above)

    def _begin_numbers(self, facts: _Facts) -> None:
        """This process gives those that nobody has reserved before."""
        given, end = facts.reserved, end_of_life(facts.life)
        reserved = reserved_from(given + 1, end)
        self._save(replace(facts, reserved=reserved))
        self._numbers = ReplicaNumbers(given, reserved, end, self._reserve)

    def _reserve(self, reserved: int) -> None:
        self._save(replace(self._facts, reserved=reserved))

    def survive(self, survives: bool) -> None:
        """The next start begins the metadata group anew, with this node alone; or that is done."""
        if survives != self._facts.survives:
            self._save(replace(self._facts, survives=survives))

    @property
    def leaving(self) -> Departure | None:
        return self._facts.leaving

    def intend(self, leaving: Departure | None) -> None:
        """To leave the cluster, or to stay."""
        if leaving != self._facts.leaving:
            self._save(replace(self._facts, leaving=leaving))

    def _save(self, facts: _Facts) -> None:
        plain: dict[str, Any] = asdict(facts)
        fact_file.save(self._disk, names.NODE_FACTS, plain)
        self._facts = facts


def new_replica_or_stop(identity: NodeIdentity, stop: Callable[[str], None], above: int) -> int:
    """As NodeIdentity.new_replica. `stop` ends the process, with a reason, where it raises: there can be no more members."""
    try:
        return identity.new_replica(above)
    except (NumbersUsedUp, DiskFailed) as error:
        stop(f"node '{identity.name}' begins no member any more: {error}")
        raise


def _with_life(facts: _Facts, disk_id: int) -> _Facts:
    return replace(facts, disk_id=disk_id, life=disk_id, reserved=disk_id)


def _granted_life(facts: _Facts) -> _Facts:
    """The life of a directory that numbered its members by the clock. Such a number is no lower than its process's begin."""
    by_clock = max(facts.disk_id, facts.incarnation // 1000)
    if by_clock >= FIRST_LIFE:
        return _with_life(
            facts, end_of_life(by_clock)
        )  # the catalog hears of that when the node says that it has started
    return replace(facts, life=FIRST_LIFE, reserved=FIRST_LIFE - 1)
