"""This node as one of its cluster, for operators and strangers: it waits where node/membership/upkeep.py and
node/membership/joining.py only decide.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from broker.catalog.catalog import Catalog
from broker.catalog.commands import catalog_commands as commands
from broker.errors import PreconditionFailed, ResourceExhausted
from broker.pending import Pending
from broker.records import NodeRecord
from front.answers import answered
from front.node_ports import (
    ClusterView,
    DecommissionPlan,
    DecommissionProgress,
    ForgetPlan,
    LostQueue,
    NodeView,
    PlannedMove,
)
from node.catalog.cluster_metadata import MetadataStatus
from node.clock import NodeTime, Process
from node.identity import DISK, RAM, NodeIdentity
from node.membership.decommissioning import Check, Decommissioning, Report
from node.membership.forgetting import forgotten_with
from node.membership.greetings import ANSWER_S, greeting_of
from node.membership.joining import Joining
from node.membership.news import OthersNews
from node.membership.node_names import node_named
from node.membership.upkeep import LEAVES, TICK_S, Upkeep
from node.peers import peer_pb2
from node.peers.side import PeerSide
from node.peers.stranger import NoAnswer
from raft.core.majority import is_needed, majority_of
from raft.core.messages import NodeId, node_of, replica_of

LEFT_S_MAX = 10.0  # until the others agree that this node has left

logger = logging.getLogger("leveret")


class MembershipMetadata(Protocol):
    """What is needed of node/catalog/cluster_metadata.py."""

    @property
    def catalog(self) -> Catalog: ...

    def submit(self, command: commands.Command) -> Pending[Any]: ...

    def status(self) -> MetadataStatus: ...


class Maintenance(Protocol):
    """What draining does to the rest of this node."""

    async def drain(self) -> None:
        """Clients are told to go elsewhere, and no new ones are let in."""

    async def revive(self) -> None: ...


class ClusterQueueMembers(Protocol):
    """What is needed of node/replicas/members.py."""

    def plan_evacuation(self, node: str) -> Sequence[PlannedMove]: ...

    async def evacuate(self, node: str, on_moved: Callable[[int, int], None] = ...) -> None: ...

    def problems(self) -> Sequence[str]: ...

    def lost_without(self, node: NodeId) -> str: ...


class Cluster:
    """`start` it when the catalog is there, `stop` it before the links go. Fulfils ClusterPort and Doorman."""

    def __init__(
        self,
        identity: NodeIdentity,
        peers: PeerSide,
        metadata: MembershipMetadata,
        upkeep: Upkeep,
        joining: Joining,
        news: OthersNews,
        process: Process,
        clock: NodeTime,
        *,
        cluster_name: str,
        holds_anything: Callable[[], str],
    ) -> None:
        """`holds_anything`: what of this node's own would be lost if it joined another cluster; empty: nothing."""
        self.maintenance: Maintenance | None = None  # as soon as there are clients
        self.queue_members: ClusterQueueMembers | None = None  # as soon as there are queues
        self._identity = identity
        self._peers = peers
        self._metadata = metadata
        self._catalog = metadata.catalog
        self._upkeep = upkeep
        self._neighbours = upkeep.neighbours
        self._admission = joining
        self._news = news
        self._process = process
        self._clock = clock
        self._cluster_name = cluster_name
        self._holds_anything = holds_anything
        self.lost_queues: Callable[[], Sequence[LostQueue]] = (
            tuple  # classic queues of this node, as soon as there are any
        )
        self._decommissioning = Decommissioning(
            identity.name,
            identity,
            plan_moves=self._planned_moves,
            lost_queues=lambda: self.lost_queues(),
            obstacles=self._obstacles,
            leave=self._depart,
        )
        self._doors = asyncio.Lock()  # of clients: closed by one drain or opened by one revive at a time

    def start(self) -> None:
        self._peers.answer_strangers(self)

    def go_on(self) -> None:
        """All of this node is there: what it was told before it started goes on."""
        self._decommissioning.go_on()

    def stop(self) -> None:
        self._decommissioning.stop()
        self._peers.answer_strangers(None)

    # what strangers ask

    async def greet(self, greeting: peer_pb2.Greeting) -> peer_pb2.Greeted:
        return self._admission.greet(greeting)

    async def join(self, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse:
        return await answered(self._admission.join(request))

    # what operators ask

    def status(self) -> ClusterView:
        status = self._metadata.status()
        nodes = [self._view(record) for record in sorted(self._catalog.nodes.values(), key=lambda one: one.name)]
        return ClusterView(
            cluster_id=self._identity.cluster_id,
            cluster_name=self._cluster_name,
            seen_by=self._identity.name,
            nodes=nodes,
            metadata_leader=status.leader,
            metadata_term=status.term,
            metadata_voters=sorted(status.voters),
            missing=status.missing,
            problems=problems_of(nodes, status, self.queue_members.problems() if self.queue_members else ()),
        )

    def reaches(self, number: NodeId) -> bool:
        """Whether a node answers, as far as this one knows; it reaches itself."""
        return self._neighbours.reached(number)

    def since_ms(self, number: NodeId) -> int:
        """Since when another node is reached, or not, by the wall clock as it is now; 0: this one cannot tell."""
        since_s = self._neighbours.since(number)
        return 0 if since_s is None else self._clock.wall_ms() - int((self._clock.monotonic() - since_s) * 1000)

    def _view(self, record: NodeRecord) -> NodeView:
        news = self._news.of(record.number)
        me = record.number == self._identity.number
        since_ms = news.started_at_ms if me and news is not None else self.since_ms(record.number)
        up = self.reaches(record.number)
        return NodeView(
            name=record.name,
            number=record.number,
            kind=record.kind,
            address=record.address,
            zone=record.zone,
            draining=record.draining,
            up=up,
            since_ms=since_ms,
            version=news.version if news is not None else "",
            listeners=news.listener_facts() if news is not None else (),
            alarms=news.alarm_facts() if news is not None and up else (),
            notices=news.notices if news is not None else (),
        )

    def critical(self, name: str) -> tuple[str, Sequence[str]]:
        name = name or self._identity.name
        number = node_named(self._catalog, name).number
        found = []
        driver = self._upkeep.metadata_driver()
        voters = list(map(node_of, driver.core.status().membership.voters)) if driver is not None else []
        if is_needed(number, voters, self.reaches):
            found.append("the disk nodes have no majority: nothing can be declared or changed")
        lost = self.queue_members.lost_without(number) if self.queue_members is not None else ""
        return name, [*found, lost] if lost else found

    async def join_cluster(self, address: str) -> None:
        others = sorted(self._catalog.nodes.keys() - {self._identity.name})
        if others:
            raise PreconditionFailed(
                f"node '{self._identity.name}' belongs to a cluster with {', '.join(others)}: let it leave that first"
            )
        stranger = self._peers.stranger
        if stranger is None:
            raise PreconditionFailed(
                "this node has no cluster.secret: give it the one of the cluster that it is to join, and start it again"
            )
        held = self._holds_anything()
        if held:
            raise PreconditionFailed(
                f"node '{self._identity.name}' holds {held}, which would be lost: a node that joins has to be empty"
            )
        try:
            greeted = await stranger.greet(address, greeting_of(self._identity, self._peers.address), ANSWER_S)
        except NoAnswer as error:
            raise PreconditionFailed(f"the node at {address} does not answer: {error}") from error
        if not greeted.cluster_id or greeted.cluster_id == self._identity.cluster_id:
            raise PreconditionFailed(f"the node at {address} belongs to no other cluster")
        self._process.restart(f"to join cluster {greeted.cluster_id} by the node at {address}", join=address)

    def plan_decommission(self) -> DecommissionPlan:
        return self._decommissioning.plan()

    def decommission(self, *, lose_queues: bool) -> None:
        self._decommissioning.begin(lose_queues=lose_queues)

    def stay(self) -> None:
        self._decommissioning.take_back()

    def sentences(self) -> tuple[str, ...]:
        """What all nodes tell of this one; each goes on behind its name."""
        return self._decommissioning.sentences()

    def decommission_progress(self) -> DecommissionProgress:
        return self._decommissioning.progress

    async def leave(self, *, lose_queues: bool = False) -> None:
        self._refuse_while_it_is_needed()
        self._upkeep.refuse_if_parting()
        await self._decommissioning.leave_now(lose_queues=lose_queues)

    async def _depart(self, report: Report, check: Check) -> None:
        """`report` is told how far it is. `check` raises BrokerError where the node is not to be removed now."""
        name = self._identity.name
        self._refuse_while_it_is_needed()
        with self._parting(LEAVES):
            # Nobody places anything here from now on; and without a majority nothing is begun that could not be finished.
            await answered(self._metadata.submit(commands.PutNode(replace(self._upkeep.my_record(), draining=True))))
            await self.hand_over()
            if self.queue_members is not None:

                def on_moved(done: int, total: int) -> None:
                    report(DecommissionProgress(name, "moving", done, total))

                await self.queue_members.evacuate(name, on_moved)
            check()
            report(DecommissionProgress(name, "leaving"))
            self._refuse_while_its_vote_is_needed()  # still: that may have taken minutes
            await answered(self._metadata.submit(commands.RemoveNode(name)))
            await self._until_others_know("has left", lambda: not (self._votes() and self._reaches_anyone()))
        report(DecommissionProgress(name, "left"))
        self._process.end(f"node '{name}' has left its cluster. Its data directory is of no use any more")

    def plan_forget(self, name: str, limit: int) -> ForgetPlan:
        record = node_named(self._catalog, name)
        count, lost = forgotten_with(self._catalog, name, limit)
        return ForgetPlan(name, count, lost, [text for text in (self._up(record), self._lost_without(record)) if text])

    def _up(self, record: NodeRecord) -> str:
        up = self._neighbours.reached(record.number)
        return f"node '{record.name}' is up: let it leave, or stop it first" if up else ""

    def _lost_without(self, record: NodeRecord) -> str:
        lost = self.queue_members.lost_without(record.number) if self.queue_members is not None else ""
        return lost and (
            f"without node '{record.name}' {lost}: start it again, or delete what is lost. Told to forget it anyway, the "
            f"cluster does, and what is left of the queues waits for ever"
        )

    async def forget(self, name: str, *, anyway: bool = False) -> None:
        record = node_named(self._catalog, name)
        if up := self._up(record):
            raise PreconditionFailed(up)
        lost = self._lost_without(record)
        if lost and not anyway and not self._metadata.status().missing:  # without a majority it fails for that reason
            raise PreconditionFailed(lost)
        await answered(self._metadata.submit(commands.RemoveNode(name)))

    async def change_kind(self, kind: str) -> None:
        record = self._upkeep.my_record()
        if record.kind == kind:
            raise PreconditionFailed(f"node '{record.name}' is a {kind} node already")
        with self._parting(f"becomes a {kind} node"):
            if kind == RAM:
                await self._give_up_the_vote()
            driver = self._upkeep.metadata_driver()
            self._identity.change_kind(kind, above=replica_of(driver.me) if driver is not None else 0)
        self._process.restart(f"as a {kind} node")

    async def drain(self) -> None:
        drain = self._upkeep.drain()
        try:
            await answered(drain.answer)
            await self._doors.acquire()
        except asyncio.CancelledError:
            drain.give_up()
            raise
        try:
            if not drain.stands:
                raise PreconditionFailed(f"node '{self._identity.name}' was revived before it was drained")
            logger.info("node '%s' is drained: leaders are on other nodes", self._identity.name)
            if self.maintenance is not None:
                await self.maintenance.drain()
            logger.info("node '%s' is drained: clients are sent away", self._identity.name)
        finally:
            self._doors.release()

    async def revive(self) -> None:
        async with self._doors:
            if self.maintenance is not None:
                await self.maintenance.revive()
            revived = self._upkeep.revive()
        await answered(revived)

    async def hand_over(self) -> None:
        """Let other nodes lead what this one leads, as far as one of them can."""
        await answered(self._upkeep.hand_over())

    # steps

    @contextmanager
    def _parting(self, how: str) -> Iterator[None]:
        """Until its process has ended. If that fails, the node stays what it is, and announces that where the catalog says
        otherwise."""
        upkeep = self._upkeep
        upkeep.refuse_if_parting()
        upkeep.parting = how
        try:
            yield
        except BaseException:
            upkeep.parting = ""
            raise

    async def _give_up_the_vote(self) -> None:
        """A node must have none any more when it starts with empty memory."""
        name = self._identity.name
        self._refuse_while_its_vote_is_needed()
        await self.hand_over()
        if self.queue_members is not None:
            await self.queue_members.evacuate(name)
        self._refuse_while_its_vote_is_needed()  # still: that may have taken minutes
        await answered(self._metadata.submit(commands.PutNode(replace(self._upkeep.my_record(), kind=RAM))))
        await self._until_others_know("has no vote any more", lambda: not self._votes())

    def _planned_moves(self) -> Sequence[PlannedMove]:
        return self.queue_members.plan_evacuation(self._identity.name) if self.queue_members is not None else ()

    def _obstacles(self) -> Sequence[str]:
        """What keeps this node from leaving now."""
        status = self._metadata.status()
        if status.missing and len(self._catalog.nodes) > 1:
            return [f"the disk nodes have no majority: {', '.join(sorted(status.missing))} missing"]
        try:
            self._refuse_while_it_is_needed()
        except PreconditionFailed as error:
            return [error.text]
        return []

    def _refuse_while_it_is_needed(self) -> None:
        name = self._identity.name
        if list(self._catalog.nodes) == [name]:
            raise PreconditionFailed(f"node '{name}' is alone in its cluster: stop it instead")
        self._refuse_while_its_vote_is_needed()

    def _refuse_while_its_vote_is_needed(self) -> None:
        """The others, as far as they can be reached, must be able to decide that it votes no more, and all that comes after."""
        name, status = self._identity.name, self._metadata.status()
        others = [one for one in status.voters if one != name]
        if name not in status.voters or not others or status.missing:  # without a majority it fails for that reason
            return
        nodes = self._catalog.nodes
        away = sorted(one for one in others if one not in nodes or not self._neighbours.reached(nodes[one].number))
        if len(others) - len(away) < majority_of(len(others)):
            raise PreconditionFailed(
                f"without node '{name}' the disk nodes that can be reached would be no majority: "
                f"{', '.join(away)} cannot be reached. Start what is down, or forget it, first"
            )

    async def _until_others_know(self, what: str, they_know: Callable[[], bool]) -> None:
        """A majority must not count on this node any more when it stops."""
        for _ in range(int(LEFT_S_MAX / TICK_S)):
            if they_know():
                return
            await asyncio.sleep(TICK_S)
        raise ResourceExhausted(f"the others do not agree that this node {what}: try again when more of them are up")

    def _votes(self) -> bool:
        """As far as this node has heard."""
        driver = self._upkeep.metadata_driver()
        return driver is not None and self._identity.number in map(node_of, driver.core.status().membership.voters)

    def _reaches_anyone(self) -> bool:
        """Nobody keeps a link to a node that was removed, and so it may never hear that it has no vote any more."""
        return any(self._neighbours.reached(node.number) for node in self._identity.nodes)


def problems_of(nodes: list[NodeView], status: MetadataStatus, of_queues: Sequence[str] = ()) -> list[str]:
    """What an operator should look at, the worst first."""
    found = []
    if status.missing:
        found.append(
            f"nothing can be declared or changed: of the disk nodes {', '.join(sorted(status.voters))} these are down: "
            f"{', '.join(sorted(status.missing))}"
        )
    elif not status.leader:
        found.append("nobody leads the metadata group at the moment: changes wait for an election")
    for node in nodes:
        if not node.up:
            found.append(f"node {node.name} is down: classic queues that live there cannot be reached")
        elif node.kind == DISK and status.leader and node.name not in status.voters:
            found.append(
                f"node {node.name} does not vote on what is declared yet: it still learns that from the others"
            )
        found += [f"node {node.name} {notice}" for notice in node.notices]
        found += [f"node {node.name} has an alarm, publishers wait: {alarm.reason}" for alarm in node.alarms]
        if node.draining:
            found.append(f"node {node.name} is drained: revive it when the maintenance is over")
    found += of_queues
    versions = sorted({node.version for node in nodes if node.version})
    if len(versions) > 1:
        found.append(f"nodes run different versions: {', '.join(versions)}")
    return found
