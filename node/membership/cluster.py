"""This node as one of its cluster: takes others in, follows who belongs to it, and is taken out.

Who belongs to the cluster is in the catalog. Everything else follows it: links and dialers (node/peers/neighbours.py), and, on
the node that leads the metadata group, that group's members (node/catalog/group_members.py). A node that hears that it does
not belong to the cluster any more stops, and says so.

Nodes tell each other what only they know of themselves: version, listeners, alarms (node/membership/news.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from broker import catalog_commands as commands
from broker.catalog import Catalog
from broker.catalog_nodes import last_incarnation
from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceExhausted
from broker.metadata import OnApplied
from broker.pending import Pending
from broker.records import NodeRecord
from front.answers import answered
from front.grpc.cluster_service import ClusterView, NodeView
from node.catalog.cluster_metadata import MetadataStatus
from node.catalog.group import METADATA_GROUP
from node.catalog.group_members import wanted_change
from node.clock import Clock, Process
from node.identity import DISK, KINDS, RAM, KnownNode, NodeIdentity
from node.membership.first_boot import ANSWER_S, greeting_of, known_node, removed_text
from node.membership.news import OthersNews
from node.membership.node_names import node_named
from node.peers import peer_pb2
from node.peers.neighbours import Neighbours
from node.peers.side import PeerSide
from node.peers.stranger import NoAnswer
from node.version import OLDEST_PEER, VERSION, too_old
from raft.driver import Driver
from raft.errors import RaftError
from raft.groups import Groups, NoSuchGroup
from raft.majority import is_needed, majority_of
from raft.membership import members_of
from raft.messages import MemberId, NodeId, node_of, replica_of

TICK_S = 0.25
GO_AROUND_S = 2.0
AWAY_S_MAX = 60.0  # then what a node's process kept alive, such as exclusive queues, is over
LOST_S = 3.0  # a node that was not reached for as long is asked whether this one still belongs to the cluster
HANDED_OVER_S_MAX = 3.0
LEFT_S_MAX = 10.0  # until the others agree that this node has left

logger = logging.getLogger("leveret")

_OF_NODES = commands.AddNode | commands.JoinNode | commands.PutNode | commands.RemoveNode | commands.NodeStarted


class ClusterMetadata(Protocol):
    """What is needed of node/catalog/cluster_metadata.py."""

    @property
    def catalog(self) -> Catalog: ...

    def submit(self, command: commands.Command) -> Pending[Any]: ...

    def subscribe(self, on_applied: OnApplied) -> None: ...

    def status(self) -> MetadataStatus: ...


class Maintenance(Protocol):
    """What draining does to the rest of this node."""

    async def drain(self) -> None:
        """Clients are told to go elsewhere, and no new ones are let in."""

    async def revive(self) -> None: ...


class QueueMembers(Protocol):
    """What is needed of node/replicas/members.py."""

    async def evacuate(self, node: str) -> None: ...

    def problems(self) -> Sequence[str]: ...

    def lost_without(self, node: NodeId) -> str: ...


class Cluster:
    """`start` it when the catalog is there, `stop` it before the links go. Fulfils ClusterPort and Doorman."""

    def __init__(
        self,
        identity: NodeIdentity,
        peers: PeerSide,
        groups: Groups,
        metadata: ClusterMetadata,
        news: OthersNews,
        process: Process,
        clock: Clock,
        *,
        cluster_name: str,
        zone: str,
        holds_anything: Callable[[], str],
    ) -> None:
        """`holds_anything`: what of this node's own would be lost if it joined another cluster; empty: nothing."""
        self.maintenance: Maintenance | None = None  # as soon as there are clients
        self.queue_members: QueueMembers | None = None  # as soon as there are queues
        self._identity = identity
        self._peers = peers
        self._groups = groups
        self._metadata = metadata
        self._catalog = metadata.catalog
        self._news = news
        self._process = process
        self._clock = clock
        self._cluster_name = cluster_name
        self._zone = zone
        self._holds_anything = holds_anything
        self._drained = False
        self._neighbours = Neighbours(identity.number, peers, groups, clock.monotonic, self._task_ended, logger)
        self._tasks: list[asyncio.Task[None]] = []
        self._told_lost: dict[str, int] = {}  # name -> incarnation of which the catalog was told that it is over
        self._changing = False
        self._leaving = False

    def start(self) -> None:
        self._metadata.subscribe(self._applied)
        self._follow()
        self._peers.answer_strangers(self)
        for work in (self._look_after_nodes(), self._go_around()):
            task = asyncio.create_task(work)
            task.add_done_callback(self._task_ended)
            self._tasks.append(task)

    async def stop(self) -> None:
        self._peers.answer_strangers(None)
        for task in self._tasks:
            task.cancel()
        await self._neighbours.stop()

    # what strangers ask

    async def greet(self, greeting: peer_pb2.Greeting) -> peer_pb2.Greeted:
        identity = self._identity
        greeted = peer_pb2.Greeted(
            instance=identity.instance, name=identity.name, version=VERSION, cluster_id=identity.cluster_id
        )
        if greeting.cluster_id == identity.cluster_id:
            greeted.removed = self._why_removed(greeting)
            greeted.nodes.extend(map(_told, self._catalog.nodes.values()))
            if not greeted.removed:
                self._neighbours.moved(greeting.number, greeting.address)
        return greeted

    def _why_removed(self, greeting: peer_pb2.Greeting) -> str:
        record = self._catalog.node_of_number(greeting.number)
        if record is None:
            known = 0 < greeting.number < self._catalog.next_node_number
            return f"node {greeting.number} was removed from cluster {self._identity.cluster_id}" if known else ""
        if record.disk_id > greeting.disk_id:
            return "its data directory is an old one: since then the node was started with another"
        last_known_life = greeting.earlier_incarnation if record.incarnation != greeting.incarnation else 0
        if record.disk_id == greeting.disk_id and 0 < last_known_life < record.incarnation:
            # A process that lived in between has promised others what this directory does not know of.
            return "its data directory is an old copy: since it was made, the node was started with another"
        return ""

    async def join(self, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse:
        refusal = self._objection(request)
        known = self._catalog.nodes.get(request.name)
        if refusal:
            logger.warning("node '%s' at %s is not taken in: %s", request.name, request.address, refusal)
            return peer_pb2.JoinResponse(refusal=refusal)
        if known is not None and known.joiner != request.joiner and request.incarnation <= last_incarnation(known):
            earlier = last_incarnation(known)
            return peer_pb2.JoinResponse(refusal="its clock is behind", later=True, incarnation=earlier)
        wish = NodeRecord(request.name, 0, 0, request.address, request.kind, request.zone or request.name)
        try:
            record: NodeRecord = await answered(
                self._metadata.submit(commands.JoinNode(wish, request.joiner, request.incarnation))
            )
            if (record.address, record.kind, record.zone) != (wish.address, wish.kind, wish.zone):
                record = await answered(self._metadata.submit(commands.PutNode(wish)))
        except ResourceExhausted as error:
            return peer_pb2.JoinResponse(refusal=str(error), later=True)
        except BrokerError as error:
            return peer_pb2.JoinResponse(refusal=str(error))
        logger.info("node '%s' at %s is node %d of this cluster", record.name, record.address, record.number)
        if known is not None and known.disk_id != record.disk_id:
            logger.warning(
                "node '%s' has come back without what it had on its disk: replicated data it is given by the others, classic "
                "queues that lived there are empty",
                record.name,
            )
        nodes = map(_told, self._catalog.nodes.values())
        return peer_pb2.JoinResponse(
            number=record.number,
            cluster_id=self._identity.cluster_id,
            nodes=nodes,
            disk_id=record.disk_id,
        )

    def _objection(self, request: peer_pb2.JoinRequest) -> str:
        if request.cluster_id != self._identity.cluster_id:
            return f"this is cluster {self._identity.cluster_id}, and it wants to join {request.cluster_id}"
        if request.kind not in KINDS:
            return f"its kind is '{request.kind}': there are {' and '.join(KINDS)}"
        if not request.joiner or too_old(request.version):
            return f"it runs version {request.version}, and this cluster needs {OLDEST_PEER} or later: update it"
        current = self._catalog.nodes.get(request.name)
        if current is None:
            return ""
        if current.joiner != request.joiner and self._neighbours.reached(current.number):
            return (
                f"the name '{request.name}' is in use by a node that is up, at {current.address}: stop that one, or give "
                f"this one another name"
            )
        return ""

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
        driver = self._metadata_driver()
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

    async def leave(self) -> None:
        name = self._identity.name
        if list(self._catalog.nodes) == [name]:
            raise PreconditionFailed(f"node '{name}' is alone in its cluster: stop it instead")
        self._refuse_while_its_vote_is_needed()
        self._leaving = True
        try:
            # Nobody places anything here from now on; and without a majority nothing is begun that could not be finished.
            await answered(self._metadata.submit(commands.PutNode(_with(self._my_record(), draining=True))))
            await self.hand_over()
            if self.queue_members is not None:
                await self.queue_members.evacuate(name)
            self._refuse_while_its_vote_is_needed()  # still: that may have taken minutes
            await answered(self._metadata.submit(commands.RemoveNode(name)))
            await self._until_others_know("has left")
        except BaseException:
            self._leaving = False
            raise
        self._process.end(f"node '{name}' has left its cluster. Its data directory is of no use any more")

    async def forget(self, name: str, *, anyway: bool = False) -> None:
        record = node_named(self._catalog, name)
        if self._neighbours.reached(record.number):
            raise PreconditionFailed(f"node '{name}' is up: let it leave, or stop it first")
        lost = self.queue_members.lost_without(record.number) if self.queue_members is not None else ""
        if lost and not anyway and not self._metadata.status().missing:  # without a majority it fails for that reason
            raise PreconditionFailed(
                f"without node '{name}' {lost}: start it again, or delete what is lost. Told to forget it anyway, the cluster "
                f"does, and what is left of the queues waits for ever"
            )
        await answered(self._metadata.submit(commands.RemoveNode(name)))

    async def change_kind(self, kind: str) -> None:
        record = self._my_record()
        if record.kind == kind:
            raise PreconditionFailed(f"node '{record.name}' is a {kind} node already")
        if kind == RAM:  # it must have no vote any more when it starts with empty memory
            self._refuse_while_its_vote_is_needed()
            await self.hand_over()
            if self.queue_members is not None:
                await self.queue_members.evacuate(record.name)
            self._refuse_while_its_vote_is_needed()
            await answered(self._metadata.submit(commands.PutNode(_with(record, kind=RAM))))
            await self._until_others_know("has no vote any more")
        driver = self._metadata_driver()
        self._identity.change_kind(kind, above=replica_of(driver.me) if driver is not None else 0)
        self._process.restart(f"as a {kind} node")

    async def drain(self) -> None:
        self._drained = True
        try:
            await answered(self._metadata.submit(commands.PutNode(_with(self._my_record(), draining=True))))
        except BaseException:
            self._drained = False
            raise
        await self.hand_over()
        if self.maintenance is not None:
            await self.maintenance.drain()

    async def revive(self) -> None:
        if self.maintenance is not None:
            await self.maintenance.revive()
        self._drained = False
        await answered(self._metadata.submit(commands.PutNode(_with(self._my_record(), draining=False))))

    async def hand_over(self) -> None:
        """Let other nodes lead what this one leads, as far as one of them can."""
        for driver in list(self._groups.drivers()):
            if driver.leads:
                self._hand_over(driver)
        until = self._clock.monotonic() + HANDED_OVER_S_MAX
        while any(driver.leads and self._heir(driver) for driver in self._groups.drivers()):
            if self._clock.monotonic() > until:
                logger.warning(
                    "what this node leads is not handed over within %g s; the others will elect", HANDED_OVER_S_MAX
                )
                return
            await asyncio.sleep(TICK_S / 10)

    # steps

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

    def _my_record(self) -> NodeRecord:
        record = self._catalog.nodes.get(self._identity.name)
        if record is None:
            raise NotFound(f"node '{self._identity.name}' is not in the catalog of its cluster yet")
        return record

    def _hand_over(self, driver: Driver) -> None:
        heir = self._heir(driver)
        if heir:
            try:
                driver.transfer(heir, self._clock.monotonic())
            except RaftError as error:
                logger.info("group %d is not handed over: %s", driver.group, error)

    def _heir(self, driver: Driver) -> MemberId:
        """The voter that has come furthest, on a node that is not drained itself; 0: there is none."""
        status = driver.core.status()
        draining = {record.number for record in self._catalog.nodes.values() if record.draining}
        fit = [
            one
            for one in status.followers
            if one.member in status.membership.voters and not one.suspected and node_of(one.member) not in draining
        ]
        return max(fit, key=lambda one: one.match).member if fit else 0

    async def _until_others_know(self, what: str) -> None:
        """A majority must not count on this node any more when it stops."""
        for _ in range(int(LEFT_S_MAX / TICK_S)):
            driver = self._metadata_driver()
            if driver is None or self._identity.number not in map(node_of, driver.core.status().membership.voters):
                return
            if not any(self._groups.trusts(node.number) for node in self._identity.nodes):
                return  # they have ended the links: it is done
            await asyncio.sleep(TICK_S)
        raise ResourceExhausted(f"the others do not agree that this node {what}: try again when more of them are up")

    def _metadata_driver(self) -> Driver | None:
        try:
            return self._groups.driver(METADATA_GROUP)
        except NoSuchGroup:
            return None

    def _applied(self, command: commands.Command, result: Any) -> None:
        if isinstance(command, _OF_NODES):
            self._follow()

    def _follow(self) -> None:
        """The nodes are those of the catalog, once that knows this one."""
        nodes = {
            record.number: KnownNode(record.number, record.name, record.address, record.kind)
            for record in self._catalog.nodes.values()
        }
        if self._identity.number in nodes:
            self._identity.know(nodes.values())
        elif 0 < self._identity.number < self._catalog.next_node_number and self._catalog.nodes:
            self._removed(f"it was removed from cluster {self._identity.cluster_id}")
            return
        else:
            nodes = {node.number: node for node in self._identity.nodes} | nodes
        driver = self._metadata_driver()
        members = map(node_of, members_of(driver.core.status().membership)) if driver is not None else ()
        self._neighbours.follow(nodes.values(), members)

    def _removed(self, why: str) -> None:
        if not self._leaving:
            self._process.stop(removed_text(self._identity.name, why))

    async def _look_after_nodes(self) -> None:
        while True:
            self._neighbours.look()
            self._news.tick()
            self._follow()
            self._change_members()
            self._tell_of_lost_nodes()
            await asyncio.sleep(TICK_S)

    async def _go_around(self) -> None:
        """What may take long: nobody waits for it."""
        while True:
            if self._drained:
                await self.hand_over()  # what others have elected it to lead meanwhile
            await self._announce()
            await self._ask_around()
            await asyncio.sleep(GO_AROUND_S)

    def _change_members(self) -> None:
        """On the node that leads the metadata group: its members are to be the nodes of the catalog."""
        driver = self._metadata_driver()
        if driver is None or not driver.leads or self._changing or not self._catalog.nodes:
            return
        status = driver.core.status()
        if status.change_pending:
            return
        change = wanted_change(status.membership, self._catalog.nodes.values(), self._identity.number)
        if change is not None:
            self._changing = True
            logger.info("the metadata group: %s", change)
            self._groups.change(METADATA_GROUP, change, self._changed)

    def _changed(self, results: Any, error: RaftError | None) -> None:
        self._changing = False
        if error is not None:
            logger.info("the metadata group's members are not changed yet: %s", error)

    def _tell_of_lost_nodes(self) -> None:
        """On the node that leads the metadata group: what lived with a process that is away for long is over."""
        driver = self._metadata_driver()
        if driver is None or not driver.leads:
            return
        for node in self._neighbours.lost(AWAY_S_MAX):
            record = self._catalog.nodes.get(node.name)
            if record is not None and self._told_lost.get(node.name) != record.incarnation:
                self._told_lost[node.name] = record.incarnation
                logger.warning(
                    "node '%s' was away for %g s: its exclusive and transient queues go", node.name, AWAY_S_MAX
                )
                pending = self._metadata.submit(commands.NodeLost(node.name, record.incarnation))
                pending.then(lambda _: None, partial(self._not_told, node.name))

    def _not_told(self, name: str, error: BrokerError) -> None:
        self._told_lost.pop(name, None)  # to be tried again

    async def _announce(self) -> None:
        """Where this node is now, and as what it runs, if the catalog says otherwise. A process that has just been started is
        drained no more."""
        record = self._catalog.nodes.get(self._identity.name)
        if record is None or record.number != self._identity.number or not self._peers.listens or self._leaving:
            return
        kind = DISK if self._identity.kind == DISK else record.kind
        wish = _with(record, address=self._peers.address, zone=self._zone, kind=kind, draining=self._drained)
        if wish != record:
            try:
                await answered(self._metadata.submit(commands.PutNode(wish)))
            except BrokerError as error:
                logger.info("that this node is at %s now is not in the catalog yet: %s", wish.address, error)

    async def _ask_around(self) -> None:
        """Ask those that are lost from sight whether this node is still one of them, and tell them where it is."""
        lost, stranger = self._neighbours.lost(LOST_S), self._peers.stranger
        if not lost or stranger is None:
            return
        greeting = greeting_of(self._identity, self._peers.address)

        async def ask(node: KnownNode) -> None:
            try:
                greeted = await stranger.greet(node.address, greeting, ANSWER_S)
            except NoAnswer:
                return
            if greeted.removed:
                self._removed(greeted.removed)
            for one in map(known_node, greeted.nodes):
                self._neighbours.moved(one.number, one.address)

        await asyncio.gather(*map(ask, lost))

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._process.fail(f"a task of the node ended: {task.exception()!r}")


def _with(record: NodeRecord, **changes: Any) -> NodeRecord:
    return replace(record, **changes)


def _told(record: NodeRecord) -> peer_pb2.KnownNode:
    return peer_pb2.KnownNode(number=record.number, name=record.name, address=record.address, kind=record.kind)


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
