"""What a node does by itself as one of its cluster. A core, over ports.

Who belongs to the cluster is in the catalog. Everything else follows it: links (node/peers/neighbours.py), and, on the node
that leads the metadata group, that group's members (node/catalog/group_members.py). A node that hears that it does not belong
to the cluster any more stops, and says so. One that is drained, or is to stop, lets others lead what it leads.

Two rounds go on from `start` to `stop`:

    every TICK_S         who is reached; who belongs; the next change of members; who is away for too long
    GO_AROUND_S behind   what may wait for others: a drained node hands over what it was elected to lead; where this node is
    its own end          now is told, if the catalog says otherwise; those that are lost from sight are asked
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from broker.catalog.catalog import Catalog
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.metadata import OnApplied
from broker.catalog.commands.metadata_entry import METADATA_GROUP
from broker.errors import BrokerError, NotFound, PreconditionFailed
from broker.login.log_throttle import LogThrottle
from broker.pending import Pending, ignore
from broker.records import NodeRecord
from node.catalog.group_members import wanted_change
from node.identity import DISK, KnownNode, NodeIdentity
from node.membership.greetings import ANSWER_S, greeting_of, known_node, removed_text
from node.peers import peer_pb2
from node.peers.neighbours import LinkedGroups, Links, Neighbours
from raft.core.errors import RaftError
from raft.core.membership import Change, members_of
from raft.core.messages import MemberId, NodeId, node_of
from raft.driver import Driver
from raft.groups import NoSuchGroup
from storage.errors import Exhausted

TICK_S = 0.25
GO_AROUND_S = 2.0
AWAY_S_MAX = 60.0  # then what a node's process kept alive, such as exclusive queues, is over
LOST_S = 3.0  # a node that was not reached for as long is asked whether this one still belongs to the cluster
HANDED_OVER_S_MAX = 3.0
UNNOTED_LOGGED_S = 60.0
LEAVES = "leaves its cluster"

logger = logging.getLogger("leveret")

_OF_NODES = commands.AddNode | commands.JoinNode | commands.PutNode | commands.RemoveNode | commands.NodeStarted


class Ways(Links, Protocol):
    """The port to other nodes, with and without links: node/peers/ways.py."""

    @property
    def address(self) -> str:
        """Where others reach this node."""

    def greet(
        self,
        address: str,
        greeting: peer_pb2.Greeting,
        timeout_s: float,
        on_answer: Callable[[peer_pb2.Greeted | None], None],
    ) -> None:
        """`on_answer` is called once, later; with None when no answer has come."""

    def look_up(self, on_places: Callable[[Collection[str]], None]) -> None:
        """`on_places` is called once, with the addresses where the configuration says that there are nodes of this cluster."""


class UpkeepGroups(LinkedGroups, Protocol):
    """What is needed of raft/groups.py."""

    def driver(self, group: int) -> Driver: ...

    def drivers(self) -> Iterable[Driver]: ...

    def change(self, group: int, change: Change, on_results: Callable[[Any, RaftError | None], None]) -> None: ...


class UpkeepMetadata(Protocol):
    """What is needed of node/catalog/cluster_metadata.py."""

    @property
    def catalog(self) -> Catalog: ...

    def submit(self, command: commands.Command) -> Pending[Any]: ...

    def subscribe(self, on_applied: OnApplied) -> None: ...


class UpkeepNews(Protocol):
    """What is needed of node/membership/news.py."""

    def tick(self) -> None: ...


class UpkeepProcess(Protocol):
    def leave_out(self, reason: str) -> None: ...

    def fail(self, reason: str) -> None: ...


class UpkeepClock(Protocol):
    def monotonic(self) -> float: ...


class UpkeepLoop(Protocol):
    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> object: ...


class Drain:
    """One order to lead nothing. It stands until it is given up or the node is revived, whatever becomes of other ones: several
    operators may ask at a time, and the answer to an order may come after those to later ones."""

    def __init__(self, standing: set[Drain]) -> None:
        self.answer: Pending[None] = Pending()
        self._standing = standing
        standing.add(self)

    @property
    def stands(self) -> bool:
        return self in self._standing

    def give_up(self) -> None:
        self._standing.discard(self)


class Upkeep:
    """`start` it when the catalog is there, `stop` it before the links go."""

    def __init__(
        self,
        identity: NodeIdentity,
        ways: Ways,
        groups: UpkeepGroups,
        metadata: UpkeepMetadata,
        news: UpkeepNews,
        process: UpkeepProcess,
        clock: UpkeepClock,
        loop: UpkeepLoop,
        zone: str,
    ) -> None:
        self.neighbours = Neighbours(identity.number, ways, groups, clock.monotonic, logger)
        self._drains: set[Drain] = set()  # that stand
        # How this process is about to end, as the sentence "this node ... already" says it. Then it must not announce again
        # what it still is.
        self.parting = ""
        self.removed = ""  # why this node belongs to its cluster no more
        self._identity = identity
        self._ways = ways
        self._groups = groups
        self._metadata = metadata
        self._catalog = metadata.catalog
        self._news = news
        self._process = process
        self._clock = clock
        self._loop = loop
        self._zone = zone
        self._told_lost: dict[str, int] = {}  # name -> incarnation of which the catalog was told that it is over
        self._unnoted = LogThrottle(UNNOTED_LOGGED_S)
        self._changing = False
        self._stopped = False

    def start(self) -> None:
        self._metadata.subscribe(self._applied)
        self.follow()
        for begin in (self._look_after_nodes, self._go_around):
            self._loop.call_soon(self._run, begin)

    def stop(self) -> None:
        self._stopped = True
        self.neighbours.stop()

    # what operators ask

    @property
    def drained(self) -> bool:
        """Whether this node is to lead nothing."""
        return bool(self._drains)

    def drain(self) -> Drain:
        """Lead nothing until `revive`. Answered when others lead, or cannot."""
        drain = Drain(self._drains)

        def refused(error: BrokerError) -> None:
            drain.give_up()
            drain.answer.fail(error)

        def taken(_: Any) -> None:  # in the midst of what the catalog tells
            self._loop.call_soon(self._run, lambda: self.hand_over().then(drain.answer.resolve, ignore))

        self._say(draining=True).then(taken, refused)
        return drain

    def revive(self) -> Pending[Any]:
        self._drains.clear()
        return self._say(draining=False)

    def _say(self, *, draining: bool) -> Pending[Any]:
        try:
            self.refuse_if_parting()
            record = self.my_record()
        except BrokerError as error:
            return Pending.failed(error)
        return self._metadata.submit(commands.PutNode(replace(record, draining=draining)))

    def refuse_if_parting(self) -> None:
        """Raises PreconditionFailed: what the node is now is not to be said any more."""
        if self.parting:
            raise PreconditionFailed(f"node '{self._identity.name}' {self.parting} already: wait until that is done")

    def hand_over(self) -> Pending[None]:
        """Let other nodes lead what this one leads, as far as one of them can. Answered when they do, or after some time."""
        for driver in list(self._groups.drivers()):
            if driver.leads:
                self._hand_over(driver)
        handed_over: Pending[None] = Pending()
        self._wait_until_others_lead(handed_over, self._clock.monotonic() + HANDED_OVER_S_MAX)
        return handed_over

    def my_record(self) -> NodeRecord:
        """Raises NotFound."""
        record = self._catalog.nodes.get(self._identity.name)
        if record is None:
            raise NotFound(f"node '{self._identity.name}' is not in the catalog of its cluster yet")
        return record

    def metadata_driver(self) -> Driver | None:
        try:
            return self._groups.driver(METADATA_GROUP)
        except NoSuchGroup:
            return None

    # leaderships

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

    def _wait_until_others_lead(self, handed_over: Pending[None], until: float) -> None:
        if any(driver.leads and self._heir(driver) for driver in self._groups.drivers()):
            if self._clock.monotonic() <= until:
                self._after(TICK_S / 10, partial(self._wait_until_others_lead, handed_over, until))
                return
            logger.warning(
                "what this node leads is not handed over within %g s; the others will elect", HANDED_OVER_S_MAX
            )
        handed_over.resolve(None)

    # who belongs to the cluster

    def _applied(self, command: commands.Command, result: Any) -> None:
        if isinstance(command, _OF_NODES):
            self.follow()

    def follow(self) -> None:
        """The nodes are those of the catalog, once that knows this one."""
        nodes = {
            record.number: KnownNode(record.number, record.name, record.address, record.kind)
            for record in self._catalog.nodes.values()
        }
        if self._identity.number in nodes:
            # A catalog that is behind tells of nodes one after the other. Those that it has yet to hear of are not removed:
            # one of them may lead, and without its link nothing more would come.
            nodes |= {one.number: one for one in self._identity.nodes if one.number >= self._catalog.next_node_number}
            self._note_nodes(nodes.values())
        elif 0 < self._identity.number < self._catalog.next_node_number and self._catalog.nodes:
            self._removed(f"it was removed from cluster {self._identity.cluster_id}")
            return
        else:
            nodes = {node.number: node for node in self._identity.nodes} | nodes
        driver = self.metadata_driver()
        members: Iterable[NodeId] = (
            map(node_of, members_of(driver.core.status().membership)) if driver is not None else ()
        )
        self.neighbours.follow(nodes.values(), members)

    def _note_nodes(self, nodes: Iterable[KnownNode]) -> None:
        """Where to look for them at the next start. Where there is no room now, or no descriptor, they are noted in a later
        round: until then the catalog and the nodes that were known before lead to the others."""
        try:
            self._identity.know(nodes)
        except Exhausted as error:
            if self._unnoted.may_log("", self._clock.monotonic()) is not None:
                logger.warning("the nodes of the cluster cannot be noted for the next start, and will be: %s", error)

    def _removed(self, why: str) -> None:
        if self.parting != LEAVES:
            self.removed = why
            self._process.leave_out(removed_text(self._identity.name, why))

    def _change_members(self) -> None:
        """On the node that leads the metadata group: its members are to be the nodes of the catalog."""
        driver = self.metadata_driver()
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
        driver = self.metadata_driver()
        if driver is None or not driver.leads:
            return
        for node in self.neighbours.lost(AWAY_S_MAX):
            record = self._catalog.nodes.get(node.name)
            if record is not None and self._told_lost.get(node.name) != record.incarnation:
                self._told_lost[node.name] = record.incarnation
                logger.warning(
                    "node '%s' was away for %g s: its exclusive and transient queues go", node.name, AWAY_S_MAX
                )
                pending = self._metadata.submit(commands.NodeLost(node.name, record.incarnation))
                pending.then(ignore, partial(self._not_told, node.name))

    def _not_told(self, name: str, error: BrokerError) -> None:
        self._told_lost.pop(name, None)  # to be tried again

    # this node, to the others

    def _announce(self) -> Pending[None]:
        """Where this node is now, and as what it runs, if the catalog says otherwise. A process that has just been started is
        drained no more."""
        record = self._catalog.nodes.get(self._identity.name)
        if record is None or record.number != self._identity.number or not self._ways.listens or self.parting:
            return Pending.of(None)
        kind = DISK if self._identity.kind == DISK else record.kind
        wish = replace(record, address=self._ways.address, zone=self._zone, kind=kind, draining=self.drained)
        if wish == record:
            return Pending.of(None)
        answer: Pending[None] = Pending()

        def refused(error: BrokerError) -> None:
            logger.info("that this node is at %s now is not in the catalog yet: %s", wish.address, error)
            answer.resolve(None)

        self._metadata.submit(commands.PutNode(wish)).then(lambda _: answer.resolve(None), refused)
        return answer

    def _ask_around(self) -> Pending[None]:
        """Ask others whether this node is still one of them and where all are, and tell them where it is."""
        lost = self._to_be_asked()
        if not lost:
            return Pending.of(None)
        places: Pending[Collection[str]] = Pending()
        self._ways.look_up(places.resolve)
        return places.then_ask(lambda found: self._ask({node.address for node in lost} | self._unknown(found)))

    def _unknown(self, places: Collection[str]) -> set[str]:
        """Where a node may be that has moved: nodes that all come back elsewhere at once know of no others."""
        reached = {node.address for node in self.neighbours.nodes() if self.neighbours.reached(node.number)}
        return set(places) - reached - {self._ways.address}

    def _ask(self, addresses: Collection[str]) -> Pending[None]:
        greeting = greeting_of(self._identity, self._ways.address)
        answer: Pending[None] = Pending()
        silent = set(addresses)

        def answered(address: str, greeted: peer_pb2.Greeted | None) -> None:
            silent.remove(address)
            if greeted is not None:
                self._run(partial(self._hear, address, greeted))
            if not silent:
                answer.resolve(None)

        for address in sorted(addresses):
            self._ways.greet(address, greeting, ANSWER_S, partial(answered, address))
        return answer

    def _to_be_asked(self) -> list[KnownNode]:
        """Those that are lost from sight. While nobody is heard to lead the metadata group, all: a node that came when this one
        was away may lead, and what it has to say reaches nobody who has no link to it."""
        driver = self.metadata_driver()
        hears_no_leader = driver is not None and not driver.standing.leader
        return self.neighbours.nodes() if hears_no_leader else self.neighbours.lost(LOST_S)

    def _hear(self, address: str, greeted: peer_pb2.Greeted) -> None:
        if greeted.cluster_id != self._identity.cluster_id:
            return
        if greeted.removed:
            self._removed(greeted.removed)
        told = list(map(known_node, greeted.nodes))
        for one in told:
            self.neighbours.said_to_be(one.number, one.address)
        for node in self.neighbours.nodes():
            if node.name == greeted.name and not self.neighbours.reached(node.number):
                self.neighbours.moved(node.number, address)
        known = {one.number: one for one in self._identity.nodes}
        newer = {one.number: one for one in told if one.number >= self._catalog.next_node_number}
        if newer.keys() - known.keys():
            self._note_nodes((newer | known).values())
            self.follow()

    # the rounds

    def _look_after_nodes(self) -> None:
        self.neighbours.look()
        self._news.tick()
        self.follow()
        self._change_members()
        self._tell_of_lost_nodes()
        self._after(TICK_S, self._look_after_nodes)

    def _go_around(self) -> None:
        """What may take long: nothing else waits for it."""
        handed_over = self.hand_over() if self.drained else Pending.of(None)
        announced = handed_over.then_ask(lambda _: self._announce())
        asked = announced.then_ask(lambda _: self._ask_around())
        asked.then(lambda _: self._after(GO_AROUND_S, self._go_around), ignore)

    def _after(self, delay_s: float, step: Callable[[], None]) -> None:
        self._loop.call_later(delay_s, self._run, step)

    def _run(self, step: Callable[[], None]) -> None:
        """A fault in it must not go unnoticed: nobody waits for a timer."""
        if self._stopped:
            return
        try:
            step()
        except Exception as error:
            self._process.fail(f"the upkeep of the node's cluster ended: {error!r}")
            raise
