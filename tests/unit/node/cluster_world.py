"""Node 1 of a cluster, and n2, which is a record only: what this node does about others is told by fakes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import AddNode, Command, SetClusterId
from broker.catalog.commands.metadata import OnApplied
from broker.catalog.commands.metadata_entry import ENTRY_NEWEST
from broker.errors import BrokerError, ResourceExhausted
from broker.pending import Pending
from broker.records import NodeRecord
from node.catalog.cluster_metadata import MetadataStatus
from node.identity import DISK, NodeIdentity
from node.membership.joining import Joining
from node.membership.upkeep import Upkeep
from node.peers import peer_pb2
from raft.core.errors import RaftError
from raft.core.membership import Change
from raft.core.messages import Membership, member_id
from raft.core.ready import Role
from raft.groups import NoSuchGroup
from raft.transport import Ears
from tests.sim.clock import SimClock, SimLoop
from tests.sim.disk import SimDisk

NOW = 1_700_000_000_000
DISK_ID = NOW // 1000


class FakeMetadata:
    """Applies at once, unless no majority is left; answers later, if it is told to."""

    def __init__(self) -> None:
        self.submitted: list[Command] = []
        self.catalog = Catalog()
        self.missing: tuple[str, ...] = ()
        self.voters: tuple[str, ...] = ("n1", "n2")
        self.answers: list[Callable[[], None]] | None = None  # that are due; None: they are given at once
        self._subscribers: list[OnApplied] = []

    def submit(self, command: Command) -> Pending[Any]:
        self.submitted.append(command)
        if self.answers is None:
            return self._answer(command)
        pending: Pending[Any] = Pending()
        self.answers.append(lambda: self._answer(command).then(pending.resolve, pending.fail))
        return pending

    def _answer(self, command: Command) -> Pending[Any]:
        if self.missing:
            return Pending.failed(ResourceExhausted(f"no majority: {', '.join(self.missing)} cannot be reached"))
        try:
            return Pending.of(self.apply(command))
        except BrokerError as error:
            return Pending.failed(error)

    def apply(self, command: Command) -> Any:
        result = self.catalog.apply(command)
        for on_applied in self._subscribers:
            on_applied(command, result)
        return result

    def subscribe(self, on_applied: OnApplied) -> None:
        self._subscribers.append(on_applied)

    def status(self) -> MetadataStatus:
        return MetadataStatus(Role.LEADER, "n1", 3, 9, 9, 9, self.voters, self.missing, 0)


class FakeDriver:
    """A member of a group on node 1."""

    def __init__(self, group: int = 1) -> None:
        self.group = group
        self.me = member_id(1, 7)
        self.leads = False
        self.leader = 0  # whom it hears
        self.voters: tuple[int, ...] = ()
        self.followers: list[Any] = []
        self.change_pending = False
        self.transferred: list[int] = []
        self.refusal: RaftError | None = None

    @property
    def core(self) -> Any:
        return self

    @property
    def standing(self) -> Any:
        return self

    def status(self) -> Any:
        return SimpleNamespace(
            membership=Membership(self.voters), followers=self.followers, change_pending=self.change_pending
        )

    def transfer(self, to: int, now: float) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.transferred.append(to)


def follower(member: int, match: int, *, suspected: bool = False) -> Any:
    return SimpleNamespace(member=member, match=match, suspected=suspected)


class FakeGroups:
    """Trusts whom it is told to."""

    def __init__(self) -> None:
        self.trusted: set[int] = set()
        self.watched: list[int] = []
        self.metadata: FakeDriver | None = None
        self.others: list[FakeDriver] = []
        self.changes: list[Change] = []
        self.on_changed: Callable[[Any, RaftError | None], None] = lambda results, error: None

    def lead(self, *voters: int) -> FakeDriver:
        """The metadata group."""
        self.metadata = FakeDriver()
        self.metadata.leads, self.metadata.leader, self.metadata.voters = True, member_id(1, 7), voters
        return self.metadata

    def trusts(self, node: int) -> bool:
        return node in self.trusted

    def add_node(self, node: int) -> None:
        self.watched.append(node)

    def remove_node(self, node: int) -> None:
        self.watched.remove(node)

    def driver(self, group: int) -> FakeDriver:
        if self.metadata is None:
            raise NoSuchGroup("none here")
        return self.metadata

    def drivers(self) -> list[FakeDriver]:
        return [*([self.metadata] if self.metadata is not None else []), *self.others]

    def change(self, group: int, change: Change, on_results: Callable[[Any, RaftError | None], None]) -> None:
        self.changes.append(change)
        self.on_changed = on_results


class FakeDialer:
    def __init__(self, address: str) -> None:
        self.address = address
        self.stopped = False

    def redirect(self, address: str) -> None:
        self.address = address

    def stop(self) -> None:
        self.stopped = True


class FakeWays:
    """Fulfils node.membership.upkeep.Ways. Who is greeted answers when the test says so."""

    def __init__(self) -> None:
        self.listens = True
        self.address = "n1:1"
        self.links: dict[int, FakeDialer | None] = {}
        self.greeted: dict[str, peer_pb2.Greeting] = {}
        self.places: set[str] = set()  # of the configuration
        self._waits: dict[str, Callable[[peer_pb2.Greeted | None], None]] = {}

    def add(self, node: int, ears: Ears) -> None:
        assert node not in self.links
        self.links[node] = None

    def remove(self, node: int) -> None:
        del self.links[node]

    def dial(self, node: int, address: str) -> FakeDialer:
        dialer = self.links[node] = FakeDialer(address)
        return dialer

    def greet(self, address: str, greeting: peer_pb2.Greeting, timeout_s: float, on_answer: Any) -> None:
        self.greeted[address] = greeting
        self._waits[address] = on_answer

    def look_up(self, on_places: Callable[[Collection[str]], None]) -> None:
        on_places(self.places)

    def answer(self, address: str, greeted: peer_pb2.Greeted | None) -> None:
        if greeted is not None:
            greeted.cluster_id = greeted.cluster_id or "c1"
        self._waits.pop(address)(greeted)


class FakeNews:
    def __init__(self) -> None:
        self.ticks = 0

    def of(self, number: int) -> None:
        return None

    def tick(self) -> None:
        self.ticks += 1


class FakeProcess:
    def __init__(self) -> None:
        self.said: list[str] = []

    def stop(self, reason: str) -> None:
        self.said.append(f"stop: {reason}")

    def fail(self, reason: str) -> None:
        self.said.append(f"fail: {reason}")

    def leave_out(self, reason: str) -> None:
        self.said.append(f"leave out: {reason}")

    def end(self, reason: str) -> None:
        self.said.append(f"end: {reason}")

    def restart(self, reason: str, *, join: str = "") -> None:
        self.said.append(f"restart: {reason}")


class ClusterWorld:
    """See the module. `number`: of this node, whose name goes with it."""

    def __init__(self, number: int = 1) -> None:
        self.metadata, self.groups, self.process, self.news = FakeMetadata(), FakeGroups(), FakeProcess(), FakeNews()
        self.ways = FakeWays()
        self.clock = SimClock(NOW)
        self.loop = SimLoop(self.clock)
        self.disk = SimDisk()
        self.identity = NodeIdentity.begin(self.disk, f"n{number}", DISK, NOW, os.urandom)
        if number == 1:
            self.identity.found("c1")
        else:
            self.identity.join("c1", number, DISK_ID, ())
        for command in (
            SetClusterId("c1"),
            AddNode(NodeRecord("n1", 0, DISK_ID, "n1:1", zone="z")),
            AddNode(NodeRecord("n2", 0, DISK_ID, "n2:1")),
        ):
            self.metadata.catalog.apply(command)
        fakes: Any = self.groups, self.metadata, self.news, self.process
        groups, metadata, news, process = fakes
        self.upkeep = Upkeep(self.identity, self.ways, groups, metadata, news, process, self.clock, self.loop, "z")
        self.joining = Joining(self.identity, metadata, self.upkeep.neighbours)

    def lose(self, node: int, for_s: float) -> None:
        """This node does not answer for as long."""
        self.groups.trusted.discard(node)
        self.upkeep.neighbours.look()
        self.clock.advance(for_s)

    def join(self, **changes: Any) -> peer_pb2.JoinResponse:
        request: dict[str, Any] = {
            "cluster_id": "c1", "name": "n3", "address": "n3:1", "kind": "disk", "zone": "z3", "version": "0.1.0",
            "joiner": "a process", "incarnation": NOW, "catalog_entries": ENTRY_NEWEST,
        }  # fmt: skip
        answers: list[peer_pb2.JoinResponse] = []
        self.joining.join(peer_pb2.JoinRequest(**(request | changes))).then(answers.append, raise_error)
        return answers[0]

    def greet(self, **changes: Any) -> peer_pb2.Greeted:
        return self.joining.greet(peer_pb2.Greeting(**changes))


def raise_error(error: BrokerError) -> None:
    raise error
