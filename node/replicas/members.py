"""What operators do with the members of replicated queues, one queue or many, by the names of nodes. Fulfils QueueMembersPort.

Each change is one of Raft's, made by the leader of that queue's group (replicated/administration.py); groups do not wait for
each other. A change that meets another one of the same group, or an election, is tried again for PATIENCE_S.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.patterns import check_pattern, matches
from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceExhausted
from broker.login.audit import Audit
from broker.names import labelled, not_found
from broker.records import NodeRecord, QueueRecord
from front.answers import answered
from front.node_ports import BALANCED_BY, ChangeView, Chosen, GroupView, MemberMoveView, PlannedMove, QueueNodes
from node.identity import DISK
from node.membership.node_names import name_of_node, node_named
from node.replicas.decommission_plan import HostedQueue, planned_moves
from node.replicas.group_view import group_view, heirs_of, led_by, load_of
from node.replicas.health import lost_without, problems
from node.replicas.placement import Candidate, next_member
from node.replicas.rebalancing import LeaderMove, Led, moves
from node.replicas.reconciliation import target_size, wanted_size
from node.replicas.retrying import AGAIN_S, PATIENCE_S, PLANS_MAX, SEEN_S, patiently
from node.replicas.spreading import MemberMove, Placed, member_moves
from raft.core.messages import NodeId, node_of
from replicated.kinds import ReplicatedKinds
from replicated.queue import ReplicatedQueue

FIGURES_S = 1.0  # that a node has to tell its figures
CAUGHT_UP_S_MAX = 60.0
GROWTH_S = 1.0  # over which is looked how fast logs grow
AT_ONCE = 16  # groups that are changed at the same time
PATTERN_LENGTH_MAX = 1_024

Figures = dict[str, Any]


def ignore_progress(done: int, total: int) -> None:
    """For those who only want to know when it is over."""


class QueueMembers:
    """Of all replicated queues, asked through this node."""

    def __init__(
        self,
        catalog: Catalog,
        kinds: ReplicatedKinds,
        *,
        candidates: Callable[[], Sequence[Candidate]],
        reaches: Callable[[NodeId], bool],
        away_since_ms: Callable[[NodeId], int],
        audit: Audit,
    ) -> None:
        """`candidates`: all nodes. `away_since_ms`: since when a node that is not reached is away; 0: that is unknown."""
        self._catalog = catalog
        self._kinds = kinds
        self._candidates = candidates
        self._reaches = reaches
        self._away_since_ms = away_since_ms
        self._audit = audit

    # one queue

    def places(self, record: QueueRecord) -> QueueNodes | None:
        found = self._kinds.find(record)
        if found is None:
            return None
        nodes, leader = list(found.member_nodes()), found.route.shown_leader()
        return QueueNodes(
            self._name_of(leader) if leader else "",
            [self._name_of(node) for node in nodes],
            [self._name_of(node) for node in nodes if self._reaches(node)],
        )

    async def group(self, vhost: str, queue: str) -> GroupView | None:
        record = self._record(vhost, queue)
        if record.kind not in self._kinds:
            return None
        found = self._open(record)
        return group_view(
            found.record.members, await self._figures_of(found), self._name_of, self._reaches, self._away_since_ms
        )

    async def add(self, vhost: str, queue: str, node: str) -> None:
        found, there = self._queue(vhost, queue), self._node(node)
        if there.number in found.member_nodes():
            raise PreconditionFailed(f"{found.record.label} has a member on node '{node}' already")
        await self._add(found, there)

    async def delete(self, vhost: str, queue: str, node: str, *, anyway: bool) -> None:
        found, number = self._queue(vhost, queue), self._number_of(node)
        if number not in found.member_nodes():
            raise NotFound(f"{found.record.label} has no member on node '{node}'")
        await self._remove(found, number, anyway=anyway)

    async def transfer(self, vhost: str, queue: str, node: str) -> None:
        found, there = self._queue(vhost, queue), self._node(node)
        if there.number not in found.member_nodes():
            raise NotFound(f"{found.record.label} has no member on node '{node}'")
        await self._transfer(found, there)

    # many queues

    async def grow(self, node: str, chosen: Chosen, *, even_only: bool) -> Sequence[ChangeView]:
        there = self._node(node)

        async def work(queue: ReplicatedQueue) -> str:
            await self._add(queue, there)
            return f"a member on {node} was added"

        def wants(queue: ReplicatedQueue) -> bool:
            return there.number not in queue.member_nodes() and not (even_only and len(queue.record.members) % 2)

        return await self._each(filter(wants, self._chosen(chosen)), work)

    async def grow_to(self, count: int, chosen: Chosen) -> Sequence[ChangeView]:
        async def work(queue: ReplicatedQueue) -> str:
            nodes, added = set(queue.member_nodes()), []
            while len(nodes) < count:
                place = next_member(self._candidates(), nodes)
                if place is None:
                    raise ResourceExhausted(
                        f"it has {len(nodes)} members, and no further disk node can take one now: {count} need as many nodes"
                    )
                await self._add_member(queue, place)
                nodes.add(place)
                added.append(self._name_of(place))
            return f"members on {', '.join(added)} were added"

        return await self._each((one for one in self._chosen(chosen) if len(one.record.members) < count), work)

    async def shrink(self, node: str, chosen: Chosen, *, anyway: bool) -> Sequence[ChangeView]:
        number = self._number_of(node)

        async def work(queue: ReplicatedQueue) -> str:
            await self._remove(queue, number, anyway=anyway)
            return f"the member on {node} was removed"

        return await self._each((one for one in self._chosen(chosen) if number in one.member_nodes()), work)

    async def rebalance(self, chosen: Chosen, by: str = "queues", *, dry_run: bool = False) -> Sequence[ChangeView]:
        _check_balanced_by(by)
        queues = {queue.group: queue for queue in self._chosen(chosen)}
        led = await self._led(queues.values(), by)
        nodes = {one.number: one for one in self._candidates() if one.disk and one.usable}
        handed = moves(led, nodes)
        records = {record.number: record for record in self._catalog.nodes.values()}

        async def work(queue: ReplicatedQueue) -> str:
            move = handed[queue.group]
            there = records[move.target]
            if dry_run:
                return f"would be led by {there.name} ({self._reason(move, by)})"
            await self._transfer(queue, there)
            return f"is led by {there.name} now ({self._reason(move, by)})"

        return await self._each((queues[group] for group in handed), work)

    async def move_members(
        self, chosen: Chosen, by: str = "queues", *, dry_run: bool = False
    ) -> AsyncGenerator[MemberMoveView, None]:
        _check_balanced_by(by)
        queues = {queue.group: queue for queue in self._chosen(chosen)}
        placed = [self._placed(queues[group], load) for group, load in (await self._loads(queues.values(), by)).items()]
        plan = await asyncio.to_thread(
            member_moves, placed, list(self._candidates())
        )  # of many queues it takes a while
        for number, move in enumerate(plan, 1):
            queue = queues[move.key]
            view = self._move_view(queue.record, move, number, len(plan))
            if dry_run:
                yield view
                continue
            yield replace(view, state="copying")
            try:
                await self._move_member(queue, move)
            except BrokerError as error:
                yield replace(view, state="failed", error=error.text)
                return
            yield replace(view, state="moved")

    def _placed(self, queue: ReplicatedQueue, load: int) -> Placed[int]:
        record = queue.record
        wanted = wanted_size(record, self._catalog.effective(record))
        return Placed(queue.group, tuple(dict.fromkeys(queue.member_nodes())), wanted, load)

    def _move_view(self, record: QueueRecord, move: MemberMove[int], number: int, total: int) -> MemberMoveView:
        target = self._name_of(move.target) if move.target else ""
        source = self._name_of(move.source)
        loads = move.load, move.source_load, move.target_load
        return MemberMoveView(record.vhost, record.name, source, target, *loads, number, total)

    def _reason(self, move: LeaderMove, by: str) -> str:
        source, target = self._name_of(move.source), self._name_of(move.target)
        unit = {"queues": "queues", "bytes": "bytes", "entries": "entries/s"}[by]
        return f"{source} led {move.source_load} {unit}, {target} {move.target_load}; this is {move.load}"

    def plan_evacuation(self, node: str) -> list[PlannedMove]:
        """What `evacuate` would do, if nothing else changed meanwhile."""
        number, candidates = self._number_of(node), list(self._candidates())
        disks = sum(1 for one in candidates if one.disk and one.number != number)
        return planned_moves(
            number, [self._hosted(queue, number, disks) for queue in self._on(number)], candidates, self._name_of
        )

    def _hosted(self, queue: ReplicatedQueue, node: NodeId, disks: int) -> HostedQueue:
        record, counts = queue.record, queue.counts()
        return HostedQueue(
            record.vhost,
            record.name,
            record.kind,
            tuple(queue.member_nodes()),
            target_size(record, self._catalog.effective(record), disks),
            leads=queue.route.leader() == node,
            bytes=counts.ready_bytes + counts.unacknowledged_bytes,
        )

    def _on(self, node: NodeId) -> list[ReplicatedQueue]:
        return [queue for queue in self._chosen(Chosen()) if node in queue.member_nodes()]

    async def evacuate(self, node: str, on_moved: Callable[[int, int], None] = ignore_progress) -> None:
        """The node is about to leave: its members go first, and others take their place as far as there is one. What was moved
        before is not moved again. `on_moved` is told how many have, and of how many. Raises PreconditionFailed when a queue
        would be lost with it."""
        number = self._number_of(node)
        queues = {queue.group: queue for queue in self._on(number)}
        moved = 0

        async def work(queue: ReplicatedQueue) -> str:
            nonlocal moved
            await self._move_away(queue, number)
            moved += 1
            on_moved(moved, len(queues))
            return ""

        on_moved(moved, len(queues))
        some = list(queues.values())
        while some:
            await self._evacuated(node, some, work)
            # Others came meanwhile, where that was begun before the node was drained.
            some = [queue for queue in self._on(number) if queue.group not in queues]
            queues |= {queue.group: queue for queue in some}

    async def _evacuated(
        self, node: str, queues: Sequence[ReplicatedQueue], work: Callable[[ReplicatedQueue], Awaitable[str]]
    ) -> None:
        number = self._number_of(node)
        lost = [queue for queue in queues if len(queue.record.members) == 1 and self._place_for(queue, number) is None]
        if lost:
            raise PreconditionFailed(
                f"{lost[0].record.label} has its only member on node '{node}', as have {len(lost) - 1} others, and no other "
                f"disk node can take it now: delete the queues, or add a node"
            )
        failed = [change for change in await self._each(queues, work) if change.error]
        if failed:
            raise ResourceExhausted(
                f"{len(failed)} replicated queues cannot do without their member on node '{node}' now, such as "
                f"{labelled('queue', failed[0].queue, failed[0].vhost)}: {failed[0].error}"
            )

    # how the queues are

    def lost_without(self, node: NodeId) -> str:
        return lost_without(node, self._kinds, self._reaches)

    def problems(self) -> Sequence[str]:
        return problems(self._kinds, self._reaches, self._name_of)

    # steps

    async def _add(self, queue: ReplicatedQueue, there: NodeRecord) -> None:
        if there.kind != DISK:
            raise PreconditionFailed(f"node '{there.name}' is a RAM node: members of queues are kept on disk nodes")
        if not self._reaches(there.number):
            raise PreconditionFailed(f"node '{there.name}' is down: no member can begin there")
        await self._add_member(queue, there.number)

    async def _add_member(self, queue: ReplicatedQueue, node: NodeId) -> None:
        what = f"add a member of {queue.record.label} on node '{self._name_of(node)}'"
        with self._audit.change("AddQueueMember", what):
            await patiently(partial(self._kinds.administration_of(queue).add_member, queue, node))

    async def _remove(self, queue: ReplicatedQueue, node: NodeId, *, anyway: bool) -> None:
        what = f"remove the member of {queue.record.label} on node '{self._name_of(node)}'"
        with self._audit.change("DeleteQueueMember", f"{what} anyway" if anyway else what):
            await patiently(partial(self._kinds.administration_of(queue).remove_member, queue, node, anyway=anyway))

    async def _transfer(self, queue: ReplicatedQueue, there: NodeRecord) -> None:
        with self._audit.change("TransferQueueLeader", f"have node '{there.name}' lead {queue.record.label}"):
            await self._hand_over(queue, there)

    async def _hand_over(self, queue: ReplicatedQueue, there: NodeRecord) -> None:
        await patiently(partial(self._kinds.administration_of(queue).transfer, queue, there.number))
        for _ in range(int(PATIENCE_S / AGAIN_S)):
            figures = await self._figures(queue, there.number)
            if figures is not None and led_by(figures) == there.number:
                return
            await asyncio.sleep(AGAIN_S)
        raise ResourceExhausted(
            f"node '{there.name}' does not lead {queue.record.label} after {PATIENCE_S:g} s: it may not have caught up yet"
        )

    async def _move_away(self, queue: ReplicatedQueue, node: NodeId) -> None:
        """The queue has as many members as before, or as there are nodes for, and none on this node. A node that could take
        one and is only away now is waited for by whoever asks: nothing would give the queue its copy back later."""
        for _ in range(PLANS_MAX):
            if await self._replaced(queue, node):
                return await self._remove(queue, node, anyway=False)
        raise ResourceExhausted("other nodes that leave have taken each place that was chosen: try again")

    async def _replaced(self, queue: ReplicatedQueue, node: NodeId) -> bool:
        """Whether it can do without the member on this node; False: to be planned anew."""
        others = [one for one in queue.member_nodes() if one != node]
        place = self._place_for(queue, node)
        disks = [one for one in self._candidates() if one.disk and one.number != node]
        wanted = target_size(queue.record, self._catalog.effective(queue.record), len(disks))
        staying = {one.number for one in disks if not one.draining}  # others that are drained may be leaving, too
        stay = len(staying.intersection(others))
        if len(others) < wanted or stay < min(wanted, len(staying)):
            if place is None:
                raise ResourceExhausted(
                    f"it would have {stay} members instead of {wanted}, and the nodes that could take one are down or "
                    "drained: start or revive them, or forget them"
                )
            if not await self._added(queue, place):
                return False
            if not others:
                await self._until_it_votes(queue, place)
        return True

    async def _added(self, queue: ReplicatedQueue, place: NodeId) -> bool:
        """False: another node that leaves at the same moment has moved its member there."""
        try:
            await self._add_member(queue, place)
        except PreconditionFailed:
            for _ in range(int(SEEN_S / AGAIN_S)):
                if place in queue.member_nodes():
                    return False
                await asyncio.sleep(AGAIN_S)
            raise
        return True

    async def _move_member(self, queue: ReplicatedQueue, move: MemberMove[int]) -> None:
        """Raises PreconditionFailed where somebody else has changed its members since the plan, or does meanwhile."""
        before = set(queue.member_nodes())
        if move.source not in before or move.target in before:
            raise PreconditionFailed(f"the members of {queue.record.label} are others by now: plan anew")
        if move.target:
            self._must_be_usable(move.target)
            await self._add_member(queue, move.target)
            await self._until_it_votes(queue, move.target)
            if queue.route.leader() == move.source:
                await self._hand_over(queue, self._node(self._name_of(move.target)))
        if not {*queue.member_nodes(), move.target} >= before:
            raise PreconditionFailed(f"{queue.record.label} has lost a member meanwhile, and keeps the others")
        await self._remove(queue, move.source, anyway=False)

    def _must_be_usable(self, node: NodeId) -> None:
        """A plan of many moves takes hours: meanwhile the node may have been told to leave the cluster for good."""
        if not any(one.number == node and one.usable for one in self._candidates()):
            raise PreconditionFailed(f"node '{self._name_of(node)}' is down or drained by now: plan anew")

    def _place_for(self, queue: ReplicatedQueue, leaves: NodeId) -> NodeId | None:
        nodes = [one for one in self._candidates() if one.number != leaves]
        return next_member(nodes, [one for one in queue.member_nodes() if one != leaves])

    async def _until_it_votes(self, queue: ReplicatedQueue, node: NodeId) -> None:
        for _ in range(int(CAUGHT_UP_S_MAX / AGAIN_S)):
            for figures in (await self._figures_of(queue)).values():
                voters = figures["raft"]["membership"][0] if figures is not None and "raft" in figures else ()
                if node in map(node_of, voters):
                    return
            await asyncio.sleep(AGAIN_S)
        raise ResourceExhausted(
            f"the new member of {queue.record.label} has not caught up within {CAUGHT_UP_S_MAX:g} s"
        )

    async def _led(self, queues: Iterable[ReplicatedQueue], by: str) -> list[Led[int]]:
        """Those that have a leader."""
        found, before = await self._weighed(queues, by)
        return [
            Led(group, led_by(figures), heirs_of(figures), load_of(figures, before.get(group), by))
            for group, figures in found.items()
        ]

    async def _loads(self, queues: Iterable[ReplicatedQueue], by: str) -> dict[int, int]:
        """What a member costs, of those that have a leader, by group."""
        found, before = await self._weighed(queues, by)
        return {group: load_of(figures, before.get(group), by) for group, figures in found.items()}

    async def _weighed(
        self, queues: Iterable[ReplicatedQueue], by: str
    ) -> tuple[dict[int, Figures], Mapping[int, Figures]]:
        """What leaders say now, by group, and what they said a moment before, where that matters."""
        asked = list(queues)
        before: Mapping[int, Figures] = {}
        if by == "entries":
            before = await self._leaders_figures(asked)
            await asyncio.sleep(GROWTH_S)
        return dict(sorted((await self._leaders_figures(asked)).items())), before

    async def _leaders_figures(self, queues: Iterable[ReplicatedQueue]) -> dict[int, Figures]:
        """What the leader of each queue says, by its group."""
        found: dict[int, Figures] = {}

        async def work(queue: ReplicatedQueue) -> str:
            node = queue.route.leader() or queue.route.look_for()
            figures = await self._figures(queue, node) if node else None
            leader = led_by(figures) if figures is not None else 0
            if leader != node and leader:
                figures = await self._figures(queue, leader)
            if figures is not None and leader and led_by(figures) == leader:
                found[queue.group] = figures
            return ""

        await self._each(queues, work)
        return found

    async def _figures_of(self, queue: ReplicatedQueue) -> dict[NodeId, Figures | None]:
        """Of each member's node; None: it does not answer in time."""
        nodes = sorted(set(queue.member_nodes()))
        return dict(zip(nodes, await asyncio.gather(*(self._figures(queue, node) for node in nodes)), strict=True))

    async def _figures(self, queue: ReplicatedQueue, node: NodeId) -> Figures | None:
        try:
            async with asyncio.timeout(FIGURES_S):
                return await answered(self._kinds.administration_of(queue).figures(queue, node))
        except TimeoutError:
            return None

    async def _each(
        self, queues: Iterable[ReplicatedQueue], work: Callable[[ReplicatedQueue], Awaitable[str]]
    ) -> list[ChangeView]:
        """Some at a time, in the order of vhosts and names."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(queue: ReplicatedQueue) -> ChangeView:
            vhost, name = queue.record.vhost, queue.record.name
            async with turns:
                try:
                    return ChangeView(vhost, name, await work(queue))
                except BrokerError as error:
                    return ChangeView(vhost, name, "", error.text)

        ordered = sorted(queues, key=lambda queue: (queue.record.vhost, queue.record.name))
        return list(await asyncio.gather(*map(one, ordered)))

    # names

    def _record(self, vhost: str, name: str) -> QueueRecord:
        record = self._catalog.queue(vhost, name)
        if record is None:
            raise not_found("queue", name, vhost)
        return record

    def _queue(self, vhost: str, name: str) -> ReplicatedQueue:
        record = self._record(vhost, name)
        if record.kind not in self._kinds:
            raise PreconditionFailed(f"{record.label} is a {record.kind} one: quorum queues and streams have members")
        return self._open(record)

    def _open(self, record: QueueRecord) -> ReplicatedQueue:
        queue = self._kinds.find(record)
        if queue is None:
            raise NotFound(f"{record.label} is not open on this node yet: try again")
        return queue

    def _chosen(self, chosen: Chosen) -> list[ReplicatedQueue]:
        for what, pattern in (("vhost pattern", chosen.vhost_pattern), ("queue pattern", chosen.queue_pattern)):
            check_pattern(what, pattern, PATTERN_LENGTH_MAX)
        return [
            queue
            for queue in self._kinds
            if chosen.kind in ("", queue.record.kind)
            and matches(chosen.vhost_pattern, queue.record.vhost)
            and matches(chosen.queue_pattern, queue.record.name)
        ]

    def _node(self, name: str) -> NodeRecord:
        return node_named(self._catalog, name)

    def _number_of(self, name: str) -> NodeId:
        return self._node(name).number

    def _name_of(self, number: NodeId) -> str:
        return name_of_node(self._catalog, number)


def _check_balanced_by(by: str) -> None:
    if by not in BALANCED_BY:
        raise PreconditionFailed(f"nothing can be spread by {by!r}: there are {', '.join(BALANCED_BY)}")
