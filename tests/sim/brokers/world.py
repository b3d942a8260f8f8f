"""A cluster of brokers in one thread, with its clients.

A run: the first node founds the cluster, the others join it, queues are declared. Then clients and faults do what the plan
says. In the end everything is healed, as in tests/sim/world.py; besides, every publisher must have its answers, and clients
that take whatever comes must find each queue empty at last. What they saw is judged by tests/histories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from broker.catalog.carrying_out import CommandOutcome
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.metadata_entry import METADATA_GROUP
from broker.errors import BrokerError
from broker.pending import ignore
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice
from broker.records import BindingRecord, ExchangeRecord, QueueRecord
from broker.routing.route import route_many
from broker.stream_clients.super_streams import PARTITION_ORDER
from node.catalog.courier import NOT_TAKEN
from node.catalog.pieces import IncomingCopy, decode_request
from node.identity import DISK, RAM
from node.peers import peer_pb2
from quorum.fifo.rules import CONSUMER_TIMEOUT_MS, DELIVERY_LIMIT, DISCONNECTED_TIMEOUT_MS
from quorum.fifo.versions import VERSION_NEWEST
from quorum.queue import QuorumQueue
from raft.core.messages import node_of
from replicated.local_members import QUEUE_GROUPS
from storage.disk import Buffer
from storage.errors import Corrupt, StorageError
from stream.queue import StreamQueue
from tests.histories.judge import judge
from tests.histories.records import Confirmed, Drained, History, Message, Record, Settled, WentBack
from tests.histories.rules import QueueRules, Rules
from tests.sim.brokers import invariants
from tests.sim.brokers.channel import Given
from tests.sim.brokers.chunk_reader import ChunkReader
from tests.sim.brokers.classics import ON_DISK, ClassicBook
from tests.sim.brokers.client_connection import WAY_S, ClientConnection
from tests.sim.brokers.conversions import ConvertedQueues
from tests.sim.brokers.faults import BROKER_HAPPENINGS
from tests.sim.brokers.invariants import About
from tests.sim.brokers.ledger import UNACKNOWLEDGED, Ledger, deaths_of
from tests.sim.brokers.lives import Lives, home_of, label_of, message_of, name_of
from tests.sim.brokers.losses import Gone, excuses, judged_elsewhere, lost
from tests.sim.brokers.machines import CatalogReference
from tests.sim.brokers.network import LOOK_S, LinkNetwork
from tests.sim.brokers.operator import Operator
from tests.sim.brokers.parts import classic_limits
from tests.sim.brokers.plan import (
    ALL_CLASSIC_PROFILES,
    ALL_PROFILES,
    ALL_STREAM_PROFILES,
    CAST_KEY,
    CAST_KEYS,
    CLASSIC_TARGET,
    EVERYWHERE,
    GRAVES,
    LIVES,
    QUORUM,
    STREAM,
    SUPER_STREAM,
    TARGET,
    BrokerShape,
    drops,
    target_of,
)
from tests.sim.brokers.process import BrokerProcess
from tests.sim.brokers.publisher import Publisher
from tests.sim.brokers.reader import Reader
from tests.sim.brokers.site import BrokerSite
from tests.sim.brokers.stream_clients import StreamClients
from tests.sim.brokers.stream_writer import StreamWriter
from tests.sim.brokers.streams import Streams
from tests.sim.brokers.taker import Taker
from tests.sim.brokers.transactions import Committer, Settler
from tests.sim.disk import SimDisk, no_faults
from tests.sim.invariants import Violation
from tests.sim.plan import Ask, Plan
from tests.sim.process import Process, Site
from tests.sim.references import Reference
from tests.sim.world import CONVERGE_WITHIN_S, STEP_S, World

if TYPE_CHECKING:
    from raft.driver import Driver

T = TypeVar("T")

FORMED_WITHIN_S = 30.0
JOIN_AGAIN_S = 0.3
DRAINED_WITHIN_S = 40.0
HELD_UP_DRAINED_WITHIN_S = 240.0  # a few dead letters get a place with each retry, and one may wait for a minute
GROUPS_WITHIN_S = 100.0  # what a node that went had of a group is kept for a minute
CLUSTER_ID = "5eed" * 8
QUIET = frozenset(("_do", "end_requested", "_look", "_receive_call", "_call_left", "_tick_broker"))
NEWS_S = 20.0  # a node that is paused or cut off tells nobody that a client of its has left
MOVE_CLOCKS = ("wall clock jump", "clock rate")


class BrokerWorld(World):
    """See the module."""

    shape: BrokerShape
    sites: dict[int, BrokerSite]  # type: ignore[assignment]  # all of one kind
    network: LinkNetwork
    happenings = BROKER_HAPPENINGS

    def __init__(self, plan: Plan) -> None:
        self.about_catalog = About("the catalog", {})
        self.lives = Lives()
        self.streams = Streams(self)
        self.converted = ConvertedQueues(self, plan.seed)
        followers = (self._declared, self.streams.declared, self.converted.declared)
        self.catalog = CatalogReference(self.about_catalog, followers)
        super().__init__(plan)
        self.about_catalog.checked = self.watch.checked
        self._about_clients = About("clients", self.watch.checked)
        targets = [TARGET, *([CLASSIC_TARGET] if self.shape.classics else []), *self.shape.refusing_names]
        self.targets = dict.fromkeys(targets, True)  # of dead letters
        self.queue_names = [*self.shape.queue_names, *(name for name in targets if name in ALL_PROFILES)]
        self.classic_names = [*self.shape.classic_names, *(name for name in targets if name in ALL_CLASSIC_PROFILES)]
        self.classics: dict[str, ClassicBook] = {}  # by the queue's name
        self._sent: dict[bytes, bool] = {}  # bodies that may come to classic queues
        self._uncommitted: dict[bytes, bool] = {}  # bodies that nobody has said commit of
        self._meant: dict[bytes, int] = {}  # bodies for queues that come and go, with the life they were routed to
        self.channels: list[ClientConnection] = []
        self.ledgers: dict[str, Ledger] = {}  # by the queue's name
        self.history: History = []
        self.publishers = self._clients(Publisher, self.shape.publishers, Committer, self.shape.committers)
        self.takers = self._clients(Taker, self.shape.takers, Settler, self.shape.settlers)
        self.streams.begin(self.shape.readers)
        self.stream_clients = StreamClients(self)
        self.drainers: list[Taker] = []
        self.operator = Operator(self)
        self.shrunk_at = -60.0  # when a member of a queue was taken out last
        self._numbers = 0
        self._last_given: dict[tuple[str, object], int] = {}
        self._random = Random(f"{plan.seed} brokers")

    def _clients(
        self, kind: Callable[[BrokerWorld, int], T], count: int, other: Callable[[BrokerWorld, int], T], others: int
    ) -> list[T]:
        """Numbered on, those who use transactions last."""
        plain = [kind(self, number) for number in range(1, count + 1)]
        return plain + [other(self, number) for number in range(count + 1, count + others + 1)]

    # The layer

    def reference_of(self, group: int) -> Reference:
        if group == METADATA_GROUP:
            return self.catalog
        record = self._record_of(group)
        label = label_of(record)
        if record.kind == "stream":
            return self.streams.new_book(record)
        about = About(f"queue {label}", self.watch.checked)
        ledger = self.ledgers[label] = Ledger(
            label,
            about,
            self._has_arrived,
            self._acknowledged,
            partial(self._went_back, label),
            self.is_committed,
            self._dead_refused,
        )
        ledger.is_target = record.name in self.targets
        if self.converted.is_one(record):
            self.converted.watch(record, ledger)
        return ledger

    def _record_of(self, group: int) -> QueueRecord:
        return self.lives.records[group - QUEUE_GROUPS]

    def living(self) -> list[int]:
        """A group may be seen for the first time when its queue is deleted already."""
        return [group for group in super().living() if group - QUEUE_GROUPS not in self.lives.deleted]

    def classic_book(self, record: QueueRecord) -> ClassicBook | None:
        if self.converted.is_one(record):
            return self.converted.book_of(record)
        label = label_of(record)
        if record.name in LIVES and label not in self.classics:
            self.classics[label] = self._new_book(label, home_of(record))
        return self.classics.get(label)

    def _new_book(self, label: str, home: int) -> ClassicBook:
        about, is_target = About(f"queue {label}", self.watch.checked), label in self.targets
        return ClassicBook(
            about, home, partial(self._went_back, label), self.is_committed, is_target, drops(name_of(label))
        )

    def is_classic(self, queue: str) -> bool:
        return queue in ALL_CLASSIC_PROFILES

    def destinations(self, key: str) -> list[str]:
        """The queues that what clients publish under this name goes to."""
        return self.shape.cast_names if key == EVERYWHERE else [key]

    def address(self, key: str) -> tuple[str, str]:
        """Exchange and routing key."""
        return (EVERYWHERE, CAST_KEY) if key == EVERYWHERE else ("", key)

    def publishing(self, key: str, body: bytes, *, is_committed: bool) -> None:
        if any(self.is_classic(queue) or target_of(queue) in self.classics for queue in self.destinations(key)):
            self._sent[body] = True
        if not is_committed:
            self._uncommitted[body] = True

    def routing(self, process: BrokerProcess, queue: str, bodies: Sequence[bytes]) -> None:
        """A node takes these from a client now, for the life of the queue that it serves. Its catalog may have a later one,
        while its disk is slow."""
        if queue in LIVES:
            found = process.broker.find_queue("/", queue)
            self._meant |= dict.fromkeys(bodies, found.queue.record.id if found is not None else 0)

    def committing(self, bodies: Sequence[bytes]) -> None:
        """A client says so now."""
        for body in bodies:
            del self._uncommitted[body]

    def is_committed(self, body: bytes) -> bool:
        """Whether its publisher has published it for good."""
        return body not in self._uncommitted

    def new_site(self, number: int) -> BrokerSite:
        return BrokerSite(self, number)

    def new_network(self, random: Random) -> LinkNetwork:
        about = About("a link", self.watch.checked)
        return LinkNetwork(
            self.loop, random, self.shape.net_delay_s, self.sites, self.shape.silence_s, about, self.watch.count
        )

    def ask(self, ask: Ask) -> None:
        match ask.kind:
            case "publish" | "burst":
                self.publishers[(ask.client - 1) % len(self.publishers)].ask(ask)
            case "read" | "unread":
                self.streams.readers[(ask.client - 1) % len(self.streams.readers)].ask(ask)
            case "convert" | "convert-no-more":
                self.converted.ask(ask)
            case "write" | "read-chunks" | "unread-chunks":
                self.stream_clients.ask(ask)
            case "exchange" | "bind" | "policy" | "stream policy" | "graves" | "declare" | "delete":
                self.operator.ask(ask)
            case _:
                self.takers[(ask.client - 1) % len(self.takers)].ask(ask)

    def process_begins(self, site: Site, process: Process) -> None:
        assert isinstance(process, BrokerProcess), f"{process}"
        process.begin()

    def prepare_stop(self, site: Site, process: Process, stop: Callable[[], None]) -> None:
        assert isinstance(process, BrokerProcess), f"{process}"
        self.event(site, process.hand_over, (lambda: self.loop.call_soon(stop),))

    def may_change_groups(self, name: str) -> bool:
        """What clients and other brokers say waits for the next round of the groups."""
        return name not in QUIET

    # Forming

    def form(self) -> None:
        first = self.sites[1]
        first.found_cluster(CLUSTER_ID)
        self.start(first)
        self.loop.call_later(LOOK_S, self._look_at_links)
        self._until("node 1 serves", lambda: first.serves_clients)
        for number in list(self.sites)[1:]:
            self.start(self.sites[number])
            self._until(f"node {number} is a member", lambda number=number: self._has_its_place(number))
        for name in self.queue_names:
            arguments = {**QUORUM, **ALL_PROFILES[name]}
            home = f"n{1 + self.random.randrange(len(self.sites))}"
            first.run(first.life, self._declare, (commands.DeclareQueue("/", name, arguments=arguments, home=home),))
        for name in self.classic_names:
            home = self.random.randint(
                self.shape.frail + 1, len(self.sites)
            )  # no disk there loses what it had promised
            self.classics[name] = self._new_book(name, home)
            arguments = {"x-queue-type": "classic", **ALL_CLASSIC_PROFILES[name]}
            command = commands.DeclareQueue("/", name, arguments=arguments, home=f"n{home}")
            first.run(first.life, self._declare, (command,))
        for name in self.shape.stream_names:
            arguments = {**STREAM, **ALL_STREAM_PROFILES[name]}
            home = f"n{1 + self.random.randrange(len(self.sites))}"
            first.run(first.life, self._declare, (commands.DeclareQueue("/", name, arguments=arguments, home=home),))
        for declaration in self.converted.declarations():
            first.run(first.life, self._declare, (declaration,))
        self._bind_everywhere()
        self._bind_partitions()
        self._until("all know the queues", self._all_know_the_queues)
        self.converted.begin()

    def _bind_everywhere(self) -> None:
        first, kind = self.sites[1], self.shape.cast_by
        asked: list[commands.Command] = []
        for queue in self.shape.cast_names:
            asked = asked or [commands.DeclareExchange(ExchangeRecord("/", EVERYWHERE, kind))]
            for key in CAST_KEYS[kind]:
                asked.append(commands.Bind(BindingRecord("/", EVERYWHERE, queue, "queue", key)))
        for command in asked:
            first.run(first.life, self._declare, (command,))

    def _bind_partitions(self) -> None:
        """Streams are the second partition of a super stream, whose groups are read by their second consumer."""
        first = self.sites[1]
        asked: list[commands.Command] = []
        for stream in self.shape.stream_names if self.shape.chunk_readers else []:
            asked = asked or [commands.DeclareExchange(ExchangeRecord("/", SUPER_STREAM, "direct"))]
            order = {PARTITION_ORDER: 1}
            asked.append(commands.Bind(BindingRecord("/", SUPER_STREAM, stream, "queue", stream, order)))
        for command in asked:
            first.run(first.life, self._declare, (command,))

    def _declare(self, command: commands.Command) -> None:
        process = self.sites[1].process
        assert process is not None, "node 1 is down"
        process.broker.submit(command, 0).then(ignore, raise_it)

    def _until(self, what: str, holds: Any) -> None:
        until = self.loop.time() + FORMED_WITHIN_S
        while not holds():
            assert self.loop.time() < until, f"{what}: not within {FORMED_WITHIN_S} s"
            self.loop.run_for(0.05)

    def _has_its_place(self, number: int) -> bool:
        found = self.leader(METADATA_GROUP)
        if found is None:
            return False
        membership = found[1].core._s.membership
        members = membership.voters if self.sites[number].kind == DISK else membership.learners
        return number in map(node_of, members)

    def _all_know_the_queues(self) -> bool:
        for site in self.sites.values():
            process = site.process
            names = [*self.queue_names, *self.classic_names, *self.shape.stream_names, *self.shape.converted_names]
            if process is None or any(process.broker.find_queue("/", name) is None for name in names):
                return False
            if self._bound_everywhere(process) != sorted(self.shape.cast_names):
                return False
        if any(ledger.twin.version < VERSION_NEWEST for ledger in self.ledgers.values()):
            return False  # what clients release without blame is told from what they never saw by later versions only
        return all(self.leader(group) is not None for group in self.watch.books)

    def _bound_everywhere(self, process: BrokerProcess) -> list[str]:
        catalog = process.metadata.catalog
        if catalog.exchange("/", EVERYWHERE) is None:
            return []
        return sorted(route_many(catalog, "/", EVERYWHERE, [CAST_KEY]))

    def start(self, site: Site) -> None:
        """A node with an empty disk asks to be taken in first, as long as nobody answers."""
        assert isinstance(site, BrokerSite), f"{site}"
        if site.process is not None or site.number in self.away or self.loop.time() < site.down_until:
            return
        faults, site.disk.faults = site.disk.faults, no_faults  # who installs a node tries until it is done
        try:
            is_blank = site.is_blank
            if is_blank:
                self._ask_to_join(site)
        except Corrupt as error:
            self._damaged(site, error)
            return
        except StorageError:
            self.start_later(site, JOIN_AGAIN_S)
            return
        finally:
            site.disk.faults = faults
        if is_blank:
            return
        if site.kind == RAM:
            self._start_in_memory(site)
        else:
            super().start(site)

    def _start_in_memory(self, site: BrokerSite) -> None:
        """It asks for the catalog, as long as nobody gives it, and begins with what it is given."""
        if site.fetched is not None:
            super().start(site)
            return
        cut = self.network.is_cut
        for door in self.sites.values():
            if door.kind == DISK and not cut(site.number, door.number) and not cut(door.number, site.number):
                self.loop.call_later(WAY_S, door.run, door.life, self._give_catalog, (site, site.disk, door))
        self.start_later(site, JOIN_AGAIN_S)

    def _give_catalog(self, site: BrokerSite, disk: SimDisk, door: BrokerSite) -> None:
        process = door.process
        assert process is not None, f"node {door.number} is down"
        incoming = IncomingCopy()

        def answer(pieces: Buffer | Sequence[Buffer]) -> None:
            if pieces != NOT_TAKEN:
                state = incoming.take(b"".join(pieces))
                self.loop.call_later(WAY_S, self._has_catalog, site, disk, state)

        process.metadata._serve_fetch(site.number, *decode_request(incoming.request()), answer)

    def _has_catalog(self, site: BrokerSite, disk: SimDisk, state: bytes) -> None:
        if site.disk is disk and site.process is None:
            site.fetched = state
            self.start(site)
            site.fetched = None
            if site.process is not None:
                self.watch.count("RAM node began with the catalog of the others")

    def _ask_to_join(self, site: BrokerSite) -> None:
        others = [one for one in self.sites.values() if one.process is not None and not one.stopped]
        if others:
            door = self.random.choice(others)
            if not self.network.is_cut(site.number, door.number) and not self.network.is_cut(door.number, site.number):
                wish, disk = site.wish(CLUSTER_ID), site.disk
                self.loop.call_later(WAY_S, door.run, door.life, self._take_in, (site, disk, door, wish))
        if not site.is_joining:
            site.is_joining = True
            self.loop.call_later(JOIN_AGAIN_S, self._ask_again, site)

    def _ask_again(self, site: BrokerSite) -> None:
        site.is_joining = False
        self.start(site)

    def _take_in(self, site: BrokerSite, disk: SimDisk, door: BrokerSite, wish: peer_pb2.JoinRequest) -> None:
        process = door.process
        assert process is not None, f"node {door.number} is down"

        def answered(response: peer_pb2.JoinResponse) -> None:
            if response.number:
                self.loop.call_later(WAY_S, self._joined, site, disk, response)
            else:
                self.watch.count("node is not taken in yet")

        process.kernel.joining.join(wish).then(answered, ignore)

    def _joined(self, site: BrokerSite, disk: SimDisk, response: peer_pb2.JoinResponse) -> None:
        if site.disk is disk and site.process is None:
            site.disk.faults = no_faults
            try:
                if site.is_blank:
                    site.join_cluster(response)
                    site.disk.settle()
                    self.watch.count("node joined")
            except Corrupt as error:
                self._damaged(site, error)
                return
            except StorageError:
                self.start_later(site, JOIN_AGAIN_S)
                return
        self.start(site)

    def present(self) -> list[BrokerSite]:
        """Nodes that are to be there."""
        return [site for site in self.sites.values() if site.number not in self.away]

    def forget(self, site: BrokerSite) -> None:
        """Have somebody remove a node that died, and another one take its place once it is removed."""
        catalog = self.catalog.machine.catalog
        if site.name not in catalog.nodes:
            self.watch.count("node forgotten")
            number = catalog.next_node_number
            if number not in self.sites:
                self.sites[number] = self.new_site(number)
                self.start(self.sites[number])
            return
        door = self.a_node(self.random)
        if door is not None:
            self.loop.call_later(WAY_S, door.run, door.life, self._remove, (door, site.name))
        self.loop.call_later(JOIN_AGAIN_S, self.forget, site)

    def _remove(self, door: BrokerSite, name: str) -> None:
        assert door.process is not None, f"node {door.number} is down"
        door.process.metadata.submit(commands.RemoveNode(name)).then(ignore, ignore)

    def connect(self, site: Site) -> None:
        """Links are made by `look`."""

    def _look_at_links(self) -> None:
        self.network.look()
        self.loop.call_later(LOOK_S, self._look_at_links)

    def process_ended(self, site: Site, process: Process, *, power: bool) -> None:
        """Of a machine without power nobody hears that its connections are gone."""
        self.watch.ended(site.number)
        assert isinstance(process, BrokerProcess), f"{process}"
        self.converted.process_ended(process)
        after_s = self.shape.silence_s if power else self.shape.net_delay_s
        for other in self.sites.values():
            if other is not site and self.network.is_connected(site.number, other.number):
                self.network.forget(site.number, other.number)
                self.loop.call_later(after_s, self._disconnect, other, other.life, site.number)
        for channel in [one for one in self.channels if one.site is site]:
            self.loop.call_later(0.0 if power else WAY_S, channel.lose, "its node is down")

    def end_connection(self, site: BrokerSite, node: int) -> None:
        """A process has no link to this node any more, which hears of it later."""
        if self.network.is_connected(site.number, node):
            self.network.forget(site.number, node)
            other = self.sites[node]
            self.loop.call_soon(self._disconnect, site, site.life, node)
            self.loop.call_later(self.shape.net_delay_s, self._disconnect, other, other.life, site.number)

    def _disconnect(self, site: BrokerSite, life: int, node: int) -> None:
        if site.life == life and not self.network.is_connected(site.number, node):
            site.disconnected(node)

    # What everybody is

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def next_name(self, of: str) -> str:
        return f"{of}#{self.next_number()}"

    def record(self, record: Record) -> None:
        self.history.append(record)

    def a_node(self, random: Random) -> BrokerSite | None:
        """That lets clients in."""
        fit = [site for site in self.sites.values() if site.serves_clients]
        return random.choice(fit) if fit else None

    @property
    def consumers(self) -> list[Taker | Reader | ChunkReader]:
        return [*self.takers, *self.streams.readers, *self.stream_clients.readers]

    @property
    def all_publishers(self) -> list[Publisher | StreamWriter]:
        return [*self.publishers, *self.stream_clients.writers]

    def calm_for_s(self) -> float:
        """Since a connection between nodes came or went."""
        return self.loop.time() - self.network.changed_at

    def leaders_so_far(self, label: str) -> tuple[int, int]:
        """The group of the last queue of this name, and of how many terms it has had a leader."""
        record = self.lives.last(label)
        group = QUEUE_GROUPS + record.id if record is not None else 0
        return group, len(self.watch.book(group).leaders) if group else 0

    def some_queues(self, random: Random) -> Iterator[tuple[BrokerProcess, QuorumQueue | StreamQueue]]:
        """The queues that have members, in some order, as some node that runs sees them."""
        sites = [site for site in self.sites.values() if site.process is not None and not site.stopped]
        if not sites:
            return
        process = random.choice(sites).process
        assert process is not None, "it has just been found to run"
        names = [*self.queue_names, *self.shape.stream_names]
        for name in random.sample(names, len(names)):
            found = process.broker.find_queue("/", name)
            if found and isinstance(found.queue, QuorumQueue | StreamQueue):
                yield process, found.queue

    def members_change(self) -> None:
        """Somebody asks for what no log knows of yet, and a node that is lost now might be one too many."""
        self.shrunk_at = self.loop.time()

    def main_leader(self) -> BrokerSite | None:
        """Of one of the groups, by chance."""
        found = self.leader(self.random.choice(self.living()))
        return found[0] if found else None  # type: ignore[return-value]

    def driver(self, site: Site, group: int) -> Driver | None:
        return super().driver(site, group)

    # What the log and the nodes tell

    def _declared(self, outcome: CommandOutcome) -> None:
        """The catalog's log says so."""
        if self.lives.follow(self.about_catalog, outcome):
            self.watch.count("queue declared again")
        if outcome.error is None and isinstance(outcome.command, commands.DeleteQueue) and outcome.result is not None:
            book = self.watch.books.get(QUEUE_GROUPS + outcome.result.id)
            if book is not None:
                book.is_over = True

    def _has_arrived(self, source: Ledger, body: bytes) -> bool:
        target = target_of(source.name)
        assert target is not None, f"{source.name} has dead letters, and nowhere to send them"
        if target in self.classics:
            return (body, source.name) in self.classics[target].deaths
        return any(source.name in known.deaths for known in self.ledgers[target].bodies.get(body, ()))

    def _dead_refused(self, source: str) -> None:
        at_least_once = ALL_PROFILES.get(source, {}).get("x-dead-letter-strategy") == "at-least-once"
        self.watch.count(f"dead letter at {'least' if at_least_once else 'most'} once is refused")

    def _went_back(self, queue: str, body: bytes) -> None:
        """From a consumer that cannot have seen it, or from among the dead: others may have passed it."""
        publisher, number, _ = body.split(b":", 2)
        self.record(WentBack(self.loop.time(), queue, publisher.decode(), int(number)))

    def _acknowledged(self, delivery: int) -> None:
        """What a client said of it is committed."""
        self.record(Settled(self.loop.time(), delivery))

    def look_at_deliveries(self, process: BrokerProcess, consumer: Consumer, piece: Slice, found: list[Given]) -> None:
        queue = piece.queue
        if isinstance(queue, StreamQueue):
            self.streams.look_at_deliveries(consumer, piece, found)
            return
        if not isinstance(queue, QuorumQueue):
            self._look_at_classic(process, consumer, queue.record, found)
            return
        label = label_of(queue.record)
        ledger, who = self.ledgers[label], f"{consumer.tag} on node {process.number}"
        about = ledger.about
        for given in found:
            if consumer.no_ack:
                assert given.key is not None, f"{who} has no key"
                ledger.asked.unwatched[given.key] = True
            self._look_at_given(process, queue, ledger, who, given)
            invariants.delivered_once_to_a_consumer(
                about, who, given.message_id, self._last_given.get((label, given.key), 0)
            )
            self._last_given[label, given.key] = given.message_id
        if consumer.prefetch and not consumer.no_ack:
            invariants.prefetch_is_kept(about, who, consumer.outstanding, consumer.prefetch)

    def _look_at_classic(
        self, process: BrokerProcess, consumer: Consumer, record: QueueRecord, found: list[Given]
    ) -> None:
        book, who = self.classic_book(record), f"{consumer.tag} on node {process.number}"
        assert book is not None, f"nobody follows {record.name}"
        about = book.about
        for given in found:
            if consumer.no_ack:
                book.gone[given.body] = UNACKNOWLEDGED
            invariants.nothing_comes_of_another_life(about, who, given.body, given.body in book.stored)
            known = given.body if given.body in self._sent else b""
            invariants.delivered_is_what_was_published(about, who, given.body, known)
        if consumer.prefetch and not consumer.no_ack:
            invariants.prefetch_is_kept(about, who, consumer.outstanding, consumer.prefetch)

    def _look_at_given(
        self, process: BrokerProcess, queue: QuorumQueue, ledger: Ledger, who: str, given: Given
    ) -> None:
        assert given.key is not None, f"{who} has no key"
        about, said = ledger.about, (given.key, given.message_id)
        member = queue.member
        applied = member.machine.state.applied if member is not None else 0
        is_held = said in ledger.holds and not ledger.holds[said].is_over_at(applied)
        invariants.delivered_is_checked_out(about, who, given.body, is_held)
        hold = ledger.holds[said]
        invariants.delivered_is_what_was_published(about, who, given.body, hold.known.body)
        if not ledger.is_target:
            found = (given.redelivered, given.failures, given.acquired)
            invariants.redeliveries_say_so(about, who, found, (hold.acquired > 0, hold.failures, hold.acquired))

    def asking_for(self, process: BrokerProcess, queue: str) -> None:
        """A get that acknowledges nothing: its node does so for it, whoever hears the answer."""
        for label in self._labels(queue):
            if label in self.ledgers:
                self.ledgers[label].asked.careless[process.number, process.incarnation] = True
            elif label in self.classics:
                self.classics[label].has_careless_gets = True

    def acknowledging(self, given: Given, delivery: int) -> None:
        """A client says that it is done with it."""
        if given.queue in self.classics:
            return
        assert given.key is not None, f"{given.queue} is no quorum queue"
        self.ledgers[given.queue].asked.acknowledged[given.key, given.message_id] = delivery

    def may_be_named(self, queue: str) -> bool:
        """Whether messages may have a producer's number: a queue that refuses some takes none of a lower number afterwards, and
        who does not know that it was refused would be told that it is there."""
        if queue == EVERYWHERE or queue in LIVES or queue in ALL_STREAM_PROFILES:
            return False
        return queue not in self.classics and not {"x-overflow", "x-max-length"} <= ALL_PROFILES[queue].keys()

    def look_at_confirm(self, queue: str, body: bytes, producer: str, number: int) -> bytes:
        """Returns the message as it is stored: for a producer's number it may have been sent before. 0: it has none."""
        self.watch.count("message confirmed")
        self._told_of(queue, body)
        if queue == EVERYWHERE:
            self.watch.count("message to several queues confirmed")
            missing = [one for one in self.destinations(queue) if not self._is_stored(one, body)]
            invariants.confirmed_by_every_queue(self._about_clients, body, missing)
            return body
        if queue in LIVES:
            if any(self._is_stored_in(label, body) for label in self._labels(queue)[1:]):
                self.watch.count("message of a later life confirmed")
            is_stored = self._is_stored(queue, body)
            if not is_stored and self._meant[body] in self.lives.deleted:
                self.watch.count("message to a deleted queue confirmed")  # it would be gone with the queue
            else:
                invariants.confirmed_is_stored(About(f"queue {queue}", self.watch.checked), body, is_stored)
            return body
        if queue in ALL_STREAM_PROFILES:
            about = self.streams.books[queue].about
            invariants.confirmed_is_stored(about, body, self._is_stored(queue, body))
            return body
        if queue in self.classics:
            book = self.classics[queue]
            invariants.confirmed_is_stored(book.about, body, self._is_stored(queue, body))
            return body
        ledger = self.ledgers[queue]
        stored = body if body in ledger.bodies else ledger.numbered(producer.encode(), number) if number else None
        invariants.confirmed_is_committed(ledger.about, body, [] if stored else [queue])
        assert stored is not None, "it was found to be there"
        return stored

    def _told_of(self, key: str, body: bytes) -> None:
        """A client knows that this is stored."""
        self.streams.told_of([label for queue in self.destinations(key) for label in self._labels(queue)], body)

    def look_at_commit(self, who: str, published: Sequence[tuple[str, bytes]]) -> None:
        """It was answered: all of this is stored."""
        found = [(queue, body) for key, body in published for queue in self.destinations(key)]
        missing = [(queue, body) for queue, body in found if not self._is_stored(queue, body)]
        for key, body in published:
            self._told_of(key, body)
        invariants.committed_as_a_whole(self._about_clients, who, missing)

    def _is_stored(self, queue: str, body: bytes) -> bool:
        """Or was; or whoever knows is away for ever."""
        return any(self._is_stored_in(label, body) for label in self._labels(queue))

    def _is_stored_in(self, label: str, body: bytes) -> bool:
        if label in self.ledgers:
            return body in self.ledgers[label].bodies
        if label in self.streams.books:
            return body in self.streams.books[label].bodies
        book = self.classics.get(label)
        return book is not None and (body in book.stored or book.home in self.away)

    def _labels(self, queue: str) -> list[str]:
        """The queue, or all lives of it."""
        return self.lives.of(queue) if queue in LIVES else [queue]

    def look_at_refusal(self, queue: str, body: bytes) -> None:
        self.watch.count("message refused")
        if queue == EVERYWHERE:
            self.watch.count("message to several queues refused")
            return  # by one of them: others may have it
        if self.is_classic(queue) or queue in LIVES:
            return  # its home may have stored it, and the link to it broke before it could say so
        about = self.streams.books[queue].about if queue in ALL_STREAM_PROFILES else self.ledgers[queue].about
        invariants.refused_is_not_stored(about, body, self._is_stored(queue, body))

    def look_at_purge(self, queue: str, count: int) -> None:
        purged = self.classics[queue] if queue in self.classics else self.ledgers[queue]
        invariants.purges_are_counted(purged.about, count, purged.purged)
        purged.purged.remove(count)

    def deaths_of(self, given: Given) -> list[tuple[str, str]]:
        return deaths_of(given.props)

    # The end

    @property
    def answered(self) -> int:
        return sum(one.answered for one in self.all_publishers) + self.operator.answered

    @property
    def unknown(self) -> int:
        return sum(one.unknown for one in self.all_publishers) + self.operator.unknown

    def heal(self) -> None:
        self._set_clocks()
        super().heal()
        self.converted.healed()
        for site in self.sites.values():
            process = site.process
            if process is not None and process.is_drained:
                site.run(site.life, process.revive, ())
        for consumer in self.consumers:
            consumer.is_stalled = False
        self.converted.come_to_rest()

    def _set_clocks(self) -> None:
        """All are right again. What queues were told while one was ahead must not have anything wait that is due."""
        for site in self.sites.values():
            site.clock.wall_offset_ms = 0

    def unsettled(self) -> str:
        for site in self.sites.values():
            if site.number not in self.away and site.process is None:
                return f"node {site.number} is down"
        return next(iter(self._waiting()), "")

    def _waiting(self) -> list[str]:
        """What clients have no answer to."""
        waits = [one.waits_for for one in self.all_publishers] + [one.waits_for for one in self.consumers]
        return [one for one in waits if one]

    def judge(self) -> None:
        """Everybody is answered, queues run empty, and what clients saw makes sense."""
        self.streams.begin_to_end()
        self.stream_clients.begin_to_end()
        self._drain()
        self._read_to_the_end()
        self._consume_converted()
        invariants.everybody_is_answered(self._about_clients, self._waiting())
        guests = [name for name in self.shape.guest_names if name not in ALL_STREAM_PROFILES]
        lives = [label for name in guests for label in self.lives.of(name)]
        names = [*self.queue_names, *self.classic_names, *lives]
        were_set = any(self.faults.happened.get(kind) for kind in MOVE_CLOCKS)
        rules = Rules(
            tuple(map(self._rules_of, names)),
            news_s=NEWS_S,
            knows_what_went_back=True,
            clocks_keep_time=not were_set,
        )
        gone = {name: self._gone_of(name) for name in names}
        self._count_judged(rules, gone)
        wrong = [*lost(self.history, rules, gone), *judge(self.history, judged_elsewhere(rules))]
        invariants.histories_are_right(self._about_clients, wrong)

    def _read_to_the_end(self) -> None:
        """All streams, by all who read them."""
        clients, begun = self.stream_clients, self.loop.time()
        while self.loop.time() < begun + DRAINED_WITHIN_S and self._left_to_read():
            self.loop.run_for(STEP_S)
        while self.loop.time() < begun + GROUPS_WITHIN_S and (clients.groups_without_reader or self._left_to_read()):
            self.loop.run_for(STEP_S)
        self.streams.judge(self.loop.clock.wall_ms())
        clients.judge()

    def _consume_converted(self) -> None:
        """Consumers of nodes that stay away hold what they have for as long as a queue waits for them by default."""
        until = self.loop.time() + DRAINED_WITHIN_S + DISCONNECTED_TIMEOUT_MS / 1000
        while self.loop.time() < until and self.converted.what_is_left():
            self.loop.run_for(STEP_S)
        self.converted.judge()

    def _left_to_read(self) -> bool:
        return bool(self.streams.what_is_left(self.loop.clock.wall_ms()) or [*self.stream_clients.what_is_left()])

    def _gone_of(self, name: str) -> dict[Message, str]:
        """What no client may ever acknowledge in this queue, and why."""
        if name in self.ledgers:
            gone = self.ledgers[name].may_be_nowhere(drops=drops(name_of(name)), holds_dead=self._is_target_away(name))
        elif name in self.classics:
            book = self.classics[name]
            disk = self.sites[book.home].disk if book.home in self.away else None
            gone = book.may_be_nowhere(disk, classic_limits(self.shape))
        else:
            gone = {}  # a life that no node has opened
        return {message_of(body): why for body, why in gone.items()}

    def _count_judged(self, rules: Rules, gone: Gone) -> None:
        """How much of what classic queues were given is judged for loss."""
        confirmed = [(one.publisher, one.number) for one in self.history if isinstance(one, Confirmed)]
        for queue in rules.queues:
            if queue.name not in self.classics or queue.name in self.targets:
                continue
            excused = excuses(queue, gone)
            for message in confirmed:
                if rules.is_fed_directly(message, queue):
                    why = excused.get(message, ON_DISK) if queue.keeps_confirmed else "deleted"
                    excuse = "judged" if why == ON_DISK else f"excused: {why}"
                    self.watch.count(f"loss in a classic queue {excuse}")

    def _drain(self) -> None:
        for taker in self.takers:
            taker.go()
        names = [*self.queue_names, *self.classic_names, *self._living_guests()]
        for number, name in enumerate(names, len(self.takers) + 1):
            drainer = Taker(self, number)
            self.drainers.append(drainer)
            drainer.drain(name_of(name))
        is_held_up = self.shape.buries or self.shape.refusing_names
        until = self.loop.time() + (HELD_UP_DRAINED_WITHIN_S if is_held_up else DRAINED_WITHIN_S)
        self._open_graves()
        while self.loop.time() < until and any(self._left_in(name) for name in names):
            self.loop.run_for(STEP_S)
        for name in names:
            left = self._left_in(name)
            about = self.classics[name].about if name in self.classics else self.ledgers[name].about
            invariants.queues_drain(about, left)
            if name in self.ledgers:
                self._judge_rules(name)
            if name in self.ledgers and self.ledgers[name].twin.dead:
                self.watch.count("dead letters held for a target that stays away")
            self.record(Drained(self.loop.time(), name, "every node", left))

    def _judge_rules(self, name: str) -> None:
        catalog, ledger = self.catalog.machine.catalog, self.ledgers[name]
        record = catalog.queue("/", name_of(name))
        assert record is not None, f"queue {name} is not declared"
        arguments, effective, rules = ALL_PROFILES[name_of(name)], catalog.effective(record), ledger.twin.rules

        def least(key: str) -> int | None:
            said = [one for one in (arguments.get(f"x-{key}"), effective.definition.get(key)) if one is not None]
            return min(said, default=None)

        found = {
            "max-length": rules.max_length,
            "message-ttl": rules.message_ttl_ms,
            "consumer-timeout": rules.consumer_timeout_ms,
            "delivery-limit": rules.delivery_limit,
            "retry": (rules.retry.name.lower(), rules.retry_min_ms, rules.retry_max_ms),
            "dead letters": rules.dead_letters.name.lower().replace("_", "-"),
            "rejects": rules.reject_publish,
            "single active": rules.single_active,
            "in place": rules.requeue_in_place,
        }
        limit = effective.delivery_limit
        timeout = arguments.get("x-consumer-timeout", effective.definition.get("consumer-timeout", CONSUMER_TIMEOUT_MS))
        once = arguments.get("x-dead-letter-strategy", "at-most-once")
        declared = {
            "max-length": least("max-length"),
            "message-ttl": least("message-ttl"),
            "consumer-timeout": timeout,
            "delivery-limit": DELIVERY_LIMIT if limit is None else None if limit < 0 else limit,
            "retry": (
                arguments.get("x-delayed-retry-type", "disabled"),
                arguments.get("x-delayed-retry-min", 0),
                arguments.get("x-delayed-retry-max"),
            ),
            "dead letters": once if "x-dead-letter-exchange" in arguments else "none",
            "rejects": arguments.get("x-overflow") == "reject-publish",
            "single active": arguments.get("x-single-active-consumer", False),
            "in place": arguments.get("x-requeue-order") == "in-place",
        }
        invariants.rules_are_what_was_declared(ledger.about, found, declared)

    def _open_graves(self) -> None:
        """Whatever is held for want of this exchange has somewhere to go from now on."""
        catalog = self.catalog.machine.catalog
        if not self.shape.buries:
            return
        if catalog.exchange("/", GRAVES) is None or not route_many(catalog, "/", GRAVES, [TARGET]):
            for command in self.operator.open_graves():
                self.operator.submit(command)
            self.loop.call_later(1.0, self._open_graves)

    def _living_guests(self) -> list[str]:
        """Those that some node has opened."""
        found = self.lives.living(self.shape.guest_names)
        return [label for label in found if label in self.ledgers or label in self.classics]

    def _left_in(self, name: str) -> int:
        if name in self.classics:
            process = self.sites[self.classics[name].home].process
            record = self.catalog.machine.catalog.queue("/", name_of(name))
            return process.classic.left_in(record.id) if process is not None and record is not None else 0
        twin = self.ledgers[name].twin
        out = sum(len(client.out) for client in twin.clients.values())
        held = 0 if self._is_target_away(name) else len(twin.dead)
        return len(twin.ready) + len(twin.delayed) + held + out

    def _is_target_away(self, name: str) -> bool:
        """Whether the home of the classic queue that gets its dead letters never comes back. Those that are held at least once
        stay held then, for no other node can take them; the ledger sees to it that none leaves without having arrived."""
        target = target_of(name_of(name))
        return target in self.classics and self.classics[target].home in self.away

    def _rules_of_life(self, label: str) -> QueueRules:
        """Of one that was deleted nothing is expected any more, but that nothing of another one comes out of it."""
        ledger, book = self.ledgers.get(label), self.classics.get(label)
        bodies = ledger.bodies if ledger is not None else book.stored if book is not None else ()
        record = self.lives.last(label)
        is_last = record is not None and not (record.kind == "classic" and home_of(record) in self.away)
        return QueueRules(
            label,
            fed_by=self._fed_by(name_of(label)),
            holds=frozenset(map(message_of, bodies)),
            keeps_confirmed=record is not None,
            keeps_transient=False,
            keeps_order=False,  # its ledger, or its book, looks after that
            drains=is_last,
        )

    def _rules_of(self, name: str) -> QueueRules:
        if name_of(name) in LIVES:
            return self._rules_of_life(name)
        if name in self.classics:
            return self._rules_of_classic(name)
        arguments = ALL_PROFILES[name]
        if name in self.targets:
            return QueueRules(name, may_hold_twice=True, keeps_order=False)
        ttl = arguments.get("x-message-ttl")
        limit = arguments.get("x-delivery-limit", 20)
        return QueueRules(
            name,
            fed_by=self._fed_by(name),
            dead_letters_to=target_of(name),
            at_least_once=arguments.get("x-dead-letter-strategy") == "at-least-once",
            delivery_limit=None if limit < 0 else limit,
            expires_s=None if ttl is None else ttl / 1000,
        )

    def _fed_by(self, name: str) -> frozenset[str]:
        keys = [name, EVERYWHERE] if name in self.shape.cast_names else [name]
        return frozenset(f"{publisher.name}.{key}" for publisher in self.publishers for key in keys)

    def _rules_of_classic(self, name: str) -> QueueRules:
        """What docs/durability.md says."""
        arguments = ALL_CLASSIC_PROFILES[name]
        book = self.classics[name]
        ttl = arguments.get("x-message-ttl")
        return QueueRules(
            name,
            fed_by=self._fed_by(name),
            dead_letters_to=target_of(name),
            expires_s=None if ttl is None else ttl / 1000,
            may_hold_twice=book.is_target,
            # Whoever publishes to a queue that went with its node is told that there is none, and that all is well.
            holds=frozenset(map(message_of, book.stored)) if book.home in self.away else None,
            drops=book.drops,
            keeps_order=not book.is_target,
        )


def raise_it(error: BrokerError) -> None:
    raise Violation("cluster_forms", f"nothing can be declared: {error.text}")


__all__ = ["CONVERGE_WITHIN_S", "BrokerWorld"]
