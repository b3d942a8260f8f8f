"""Replicated queues come back to the members that they should have, one change at a time. `next_step` is pure.

Only the node that leads a queue does this for it. Two things set it off:

- a member's node does not belong to the cluster any more. Then another node takes its place, if there is one, and the member
  that is gone is taken out. This is always done: nobody can bring that member back;
- the queue has fewer members than its target, and there is a node that could have one more. This is done only if the
  configuration says so (`quorum.reconcile`), some time after a node has joined, and now and then.

A node that is merely down keeps its members. A queue with more members than its target keeps them all.

The target: the larger one of the argument x-quorum-target-group-size and a policy's target-group-size; else the argument
x-quorum-initial-group-size; else 3. Of a stream: the initial cluster size of its policy or arguments; else as many as it has.
And never more than there are disk nodes, as node/replicas/placement.py has it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from broker.catalog.catalog import Catalog
from broker.catalog.policy import EffectiveArguments
from broker.errors import BrokerError
from broker.records import QueueRecord
from node.membership.node_names import name_of_node
from node.replicas.placement import Candidate, next_member, size_for
from raft.core.membership import members_of
from raft.core.messages import MemberId, Membership, NodeId, node_of
from replicated.kinds import ReplicatedKinds
from replicated.queue import ReplicatedQueue
from storage.interval import Interval

INITIAL_SIZE = "x-quorum-initial-group-size"
TARGET_SIZE = "x-quorum-target-group-size"
TARGET_SIZE_POLICY = "target-group-size"

LOOK_MS = 2_000  # how often is looked for members that are gone
TRIGGER_MS = 10_000  # from when a node has joined until queues grow
JITTER = 0.25  # of an interval, more or less: nodes do not all do it at once
CHANGES_MAX = 16  # under way at the same time: a new member is sent all that its queue holds

logger = logging.getLogger("leveret")


@dataclass(slots=True, frozen=True)
class Add:
    node: NodeId


@dataclass(slots=True, frozen=True)
class Remove:
    member: MemberId


def target_size(record: QueueRecord, effective: EffectiveArguments, disk_nodes: int) -> int:
    """How many members the queue should have on a cluster with so many disk nodes."""
    wanted = wanted_size(record, effective)
    if record.kind == "stream":
        wanted = wanted or len(record.members)
    return size_for(wanted, max(1, disk_nodes))


def wanted_size(record: QueueRecord, effective: EffectiveArguments) -> int:
    """How many members somebody wants the queue to have; 0: nobody has said."""
    if record.kind == "stream":
        return effective.initial_cluster_size or 0
    asked = (record.arguments.get(TARGET_SIZE), effective.definition.get(TARGET_SIZE_POLICY))
    target = max((size for size in asked if isinstance(size, int)), default=0)
    return target or record.arguments.get(INITIAL_SIZE, 0)


def next_step(
    membership: Membership, leader: NodeId, nodes: Iterable[Candidate], target: int, *, grows: bool
) -> Add | Remove | None:
    """The next change of a group that is led from node `leader`; None: there is none to be made now. `nodes`: all those of the
    cluster."""
    candidates = list(nodes)
    numbers = {node.number for node in candidates}
    gone = [member for member in members_of(membership) if node_of(member) not in numbers]
    stay = [member for member in members_of(membership) if node_of(member) in numbers]
    learns = any(member in membership.promotable for member in stay)
    if (gone or grows) and len(stay) < target and not learns:
        node = next_member(candidates, [node_of(member) for member in stay])
        if node is not None:
            return Add(node)
    for member in sorted(gone, key=lambda member: node_of(member) == leader):
        if membership.voters != (member,):
            return Remove(member)
    return None


class Reconciler:
    """Of the queues that this node leads. `tick` it now and then."""

    def __init__(
        self,
        catalog: Catalog,
        kinds: ReplicatedKinds,
        here: NodeId,
        candidates: Callable[[], Sequence[Candidate]],
        fraction: Callable[[], float],
        *,
        grows: bool,
        interval_ms: int,
    ) -> None:
        """`grows`: also without a member that is gone. `fraction`: by chance, from 0 to 1."""
        self._catalog = catalog
        self._kinds = kinds
        self._here = here
        self._candidates = candidates
        self._fraction = fraction
        self._grows = grows
        self._interval_ms = interval_ms
        self._looks = Interval(LOOK_MS)
        self._grow_at: int | None = None
        self._growing = False  # until a look finds nothing more to do
        self._changing: set[ReplicatedQueue] = set()
        self._refused: dict[ReplicatedQueue, str] = {}  # what was told of a queue last: it is logged once

    def node_joined(self, now: int) -> None:
        if self._grows:
            soon = now + self._about(TRIGGER_MS)
            self._grow_at = soon if self._grow_at is None else min(self._grow_at, soon)

    def tick(self, now: int) -> None:
        if self._grow_at is None:
            self._grow_at = now + self._about(self._interval_ms)
        if not self._looks.due(now):
            return
        if self._grows and not self._grow_at - 2 * self._interval_ms <= now < self._grow_at:
            self._growing = True
            self._grow_at = now + self._about(self._interval_ms)
        found_any = self._look()
        self._growing = self._growing and found_any

    def _about(self, interval_ms: int) -> int:
        return int(interval_ms * (1 + JITTER * (2 * self._fraction() - 1)))

    def _look(self) -> bool:
        """Whether there is, or may be, more to do."""
        numbers = {record.number for record in self._catalog.nodes.values()}
        if not numbers:
            return False  # the catalog is not here yet
        if self._refused:
            self._refused = {queue: text for queue, text in self._refused.items() if not queue.deleted}
        found = bool(self._changing)
        candidates: Sequence[Candidate] | None = None
        for queue in self._kinds.led():
            if len(self._changing) >= CHANGES_MAX:
                return True
            if not self._growing and numbers.issuperset(queue.member_nodes()):
                continue
            candidates = self._candidates() if candidates is None else candidates
            found |= self._take_step(queue, candidates)
        return found

    def _take_step(self, queue: ReplicatedQueue, candidates: Sequence[Candidate]) -> bool:
        driver = queue.route.driver
        if driver is None or queue in self._changing or queue.deleted:
            return False
        status = driver.core.status()
        if status.change_pending:
            return True
        disks = sum(1 for node in candidates if node.disk)
        target = target_size(queue.record, self._catalog.effective(queue.record), disks)
        step = next_step(status.membership, self._here, candidates, target, grows=self._growing)
        if step is None:
            return bool(status.membership.promotable)  # once it votes, another one may be added
        label = queue.record.label
        administration = self._kinds.administration_of(queue)
        if isinstance(step, Add):
            what = f"{label} gets a member on node '{name_of_node(self._catalog, step.node)}'"
            answer = administration.add_member(queue, step.node)
        else:
            what = f"{label} gives up its member on node {node_of(step.member)}, which belongs to the cluster no more"
            answer = administration.remove_member(queue, node_of(step.member))
        self._changing.add(queue)
        answer.then(lambda _: self._done(queue, what), lambda error: self._failed(queue, what, error))
        return True

    def _done(self, queue: ReplicatedQueue, what: str) -> None:
        self._changing.discard(queue)
        self._refused.pop(queue, None)
        logger.info("%s", what)

    def _failed(self, queue: ReplicatedQueue, what: str, error: BrokerError) -> None:
        self._changing.discard(queue)
        if self._refused.get(queue) != error.text:
            self._refused[queue] = error.text
            logger.warning("not done yet: %s: %s", what, error.text)
