"""links/link_claims.py: nodes with clocks of their own, a log that each sees late, and whatever may come between them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

import pytest

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import AddNode, Command, ReleaseClaim, RenewClaims, TakeClaim
from broker.errors import BrokerError, ResourceExhausted
from broker.pending import Pending
from broker.records import ClaimRecord, NodeRecord
from links.link_claims import LEASE_S, RENEW_S, TAKE_S, LinkClaims, ranked
from links.world import LinkTimer

NODES = ("a", "b", "c")
LINK = ("/", "moves")
LINKS = {LINK, ("/", "other"), ("v", "moves")}


class Log:
    """What was committed, in order; every node applies it in time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.commands: list[tuple[Command, Callable[[str, Any], None]]] = []
        self.nodes: dict[str, Node] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, delay_s: float, call: Callable[[], None]) -> None:
        heappush(self._due, (self.now + delay_s, next(self._order), call))

    def run(self, seconds: float, each: Callable[[], None] = lambda: None) -> None:
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            self.now, _, call = heappop(self._due)
            call()
            each()
        self.now = end

    def running(self, link: tuple[str, str] = LINK) -> list[str]:
        """The nodes on which this link runs now."""
        return [name for name, node in self.nodes.items() if node.runs(link)]


@dataclass
class Node:
    """Fulfils LinkClock. Looks each second, and when what it was told does not hold any more."""

    log: Log
    name: str
    rate: float = 1.0  # of its clock
    links: set[tuple[str, str]] = field(default_factory=lambda: set(LINKS))
    candidates: list[str] = field(default_factory=lambda: list(NODES))
    delay_s: Callable[[], float] = lambda: 0.01
    reaches_log: bool = True
    alive: bool = True

    def __post_init__(self) -> None:
        self.catalog = Catalog()
        for name in NODES:
            self.catalog.apply(AddNode(NodeRecord(name, 0, 1, f"{name}:1")))
        self.applied = 0
        self.told: set[tuple[str, str]] = set()
        self.claims = LinkClaims("shovel", self.name, self.catalog, lambda: self.candidates, self.submit, self)
        self.log.nodes[self.name] = self
        self.looks = 0

    def monotonic(self) -> float:
        return self.log.now * self.rate + 1000

    def wall_ms(self) -> int:
        return 0

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> LinkTimer:
        raise AssertionError("claims set no timers")

    def runs(self, link: tuple[str, str]) -> bool:
        return self.alive and link in self.told and self.monotonic() < self.claims.held_until

    def begin(self) -> None:
        self.log.at(0.0, self.look)
        self.log.at(0.0, self.catch_up)

    def look(self) -> None:
        if self.alive:
            self.told = self.claims.look(self.links)
            self.claims.release_ended()
            self.log.at(self.delay_s() + 0.5, self.look)

    def catch_up(self) -> None:
        while self.reaches_log and self.alive and self.applied < len(self.log.commands):
            command, answer = self.log.commands[self.applied]
            self.applied += 1
            try:
                answer(self.name, self.catalog.apply(command))
            except BrokerError as error:
                answer(self.name, error)
        if self.alive:
            self.log.at(max(0.05, self.delay_s()), self.catch_up)

    def submit(self, command: Command) -> Pending[Any]:
        pending: Pending[Any] = Pending()

        def answer(who: str, value: Any) -> None:
            if who == self.name and self.alive:
                if isinstance(value, BrokerError):
                    pending.fail(value)
                else:
                    pending.resolve(value)

        def arrive() -> None:
            if self.reaches_log:
                self.log.commands.append((command, answer))
            elif self.alive:
                self.log.at(
                    self.delay_s(), arrive
                )  # a command is sent again for as long as nobody knows what became of it

        self.log.at(self.delay_s(), arrive)
        return pending


def world(*names: str, **terms: Any) -> tuple[Log, list[Node]]:
    log = Log()
    nodes = [Node(log, name, **terms) for name in names]
    for node in nodes:
        node.begin()
    return log, nodes


def test_each_link_runs_on_one_node_and_stays_there() -> None:
    log, nodes = world(*NODES)
    log.run(5)
    where = {link: log.running(link) for link in LINKS}
    assert all(len(found) == 1 for found in where.values()), where
    assert where == {link: ranked("shovel", link, NODES)[:1] for link in LINKS}
    log.run(60)
    assert {link: log.running(link) for link in LINKS} == where
    assert {node.claims.epoch(LINK) for node in nodes} == {1}


def test_nodes_of_all_versions_agree_on_who_should_run_a_link() -> None:
    """Were they of two minds, each would wait for the other."""
    assert [ranked("shovel", link, NODES) for link in sorted(LINKS)] == [
        ["b", "c", "a"],
        ["a", "c", "b"],
        ["a", "c", "b"],
    ]


def test_claims_are_renewed_by_one_command_in_so_long() -> None:
    log, _ = world("a")
    log.nodes["a"].candidates = ["a"]
    log.run(60)
    renewals = [command for command, _ in log.commands if isinstance(command, RenewClaims)]
    assert 60 / (RENEW_S + 1.0) <= len(renewals) <= 60 / RENEW_S


def test_a_node_alone_runs_all_at_once() -> None:
    log, _ = world("a")
    log.nodes["a"].candidates = ["a"]
    log.run(0.7)
    assert all(log.running(link) == ["a"] for link in LINKS)


def test_when_its_node_dies_another_takes_it_within_seconds() -> None:
    log, _ = world(*NODES)
    log.run(5)
    (owner,) = log.running()
    log.nodes[owner].alive = False
    log.run(TAKE_S - 0.1)
    assert log.running() == []
    log.run(3)
    (other,) = log.running()
    assert other != owner
    assert log.nodes[other].claims.epoch(LINK) == 2


def test_a_node_that_is_drained_gives_its_links_away_at_once() -> None:
    log, nodes = world(*NODES)
    log.run(5)
    (owner,) = log.running()
    for node in nodes:
        node.candidates = [name for name in NODES if name != owner]
    log.run(2.5)
    assert len(log.running()) == 1
    assert log.running() != [owner]


def test_a_node_that_stops_gives_its_links_away() -> None:
    log, _ = world(*NODES)
    log.run(5)
    (owner,) = log.running()
    node = log.nodes[owner]
    node.told = set()
    node.claims.release_all()
    node.alive = False
    log.run(3)
    assert log.running() not in ([], [owner])


def test_who_begins_again_before_another_one_took_over_goes_on() -> None:
    log, _ = world(*NODES)
    log.run(5)
    (owner,) = log.running()
    before = log.nodes[owner]
    before.alive = False
    again = Node(log, owner)
    again.catalog, again.applied = before.catalog, before.applied
    again.claims = LinkClaims("shovel", owner, again.catalog, lambda: NODES, again.submit, again)
    again.begin()
    log.run(1.5)
    assert log.running() == [owner]


def test_a_claim_on_what_is_wanted_no_more_is_released() -> None:
    log, nodes = world(*NODES)
    log.run(5)
    for node in nodes:
        node.links.discard(LINK)
    log.run(2)
    assert log.running() == []
    assert all(node.catalog.claim("shovel", *LINK) is None for node in nodes)


def test_only_a_node_that_knows_of_it_runs_a_link() -> None:
    log, nodes = world(*NODES)
    last = ranked("shovel", LINK, NODES)[-1]
    for node in nodes:
        if node.name != last:
            node.links.discard(LINK)
    log.run(5)
    assert log.running() == [last]


def test_a_node_that_nobody_answers_ends_its_links_before_another_begins_them() -> None:
    log, _ = world(*NODES)
    log.run(5)
    (owner,) = log.running()
    log.nodes[owner].reaches_log = False
    seen: Counter[tuple[str, ...]] = Counter()
    log.run(LEASE_S + RENEW_S + 4, lambda: seen.update([tuple(log.running())]))
    assert () in seen
    assert max(map(len, seen)) == 1
    assert log.running() not in ([], [owner])
    log.nodes[owner].reaches_log = True
    log.run(10)
    assert len(log.running()) == 1


def test_what_is_refused_is_asked_for_again() -> None:
    log, (node,) = world("a")
    node.candidates = ["a"]
    submit, refused = node.submit, [3]

    def refuse(command: Command) -> Pending[Any]:
        refused[0] -= 1
        return Pending.failed(ResourceExhausted("no majority")) if refused[0] >= 0 else submit(command)

    node.claims = LinkClaims("shovel", "a", node.catalog, lambda: ["a"], refuse, node)
    log.run(5)
    assert log.running() == ["a"]


class SlowLog:
    """What one node asks of the log, answered when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Command, Pending[Any]]] = []
        self.node = Node(Log(), "a", candidates=["a"], links={LINK})
        self.claims = LinkClaims("shovel", "a", self.node.catalog, lambda: self.node.candidates, self.submit, self.node)

    def submit(self, command: Command) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        self.asked.append((command, pending))
        return pending

    def look_at(self, now: float) -> set[tuple[str, str]]:
        self.node.log.now = now
        found = self.claims.look({LINK})
        self.claims.release_ended()
        return found

    def answer(self, at: int = 0) -> None:
        command, pending = self.asked.pop(at)
        pending.resolve(self.node.catalog.apply(command))

    @property
    def held_until(self) -> float:
        return self.claims.held_until - 1000


def test_a_claim_is_held_from_when_it_was_asked_for_however_late_that_is_answered() -> None:
    """Others count from when they see it, which may be long before its holder does: two nodes ran the link."""
    log = SlowLog()
    log.look_at(0)
    log.node.log.now = 3
    log.answer()
    assert log.held_until == LEASE_S
    assert log.look_at(4) == {LINK}
    log.node.log.now = 4 + LEASE_S + 0.1
    log.answer()
    assert log.held_until == 4 + LEASE_S
    assert log.look_at(4 + LEASE_S + 0.2) == set()


def test_a_renewal_that_was_not_taken_renews_nothing() -> None:
    log = SlowLog()
    log.look_at(0)
    log.answer()
    log.look_at(2)
    _, renewal = log.asked.pop()
    renewal.fail(ResourceExhausted("no majority"))
    assert log.held_until == LEASE_S


def test_answers_that_come_in_another_order_take_nothing_back() -> None:
    log = SlowLog()
    log.look_at(0)
    log.answer()
    for now in (2, 4):
        log.look_at(now)
    log.answer(1)
    log.answer(0)
    assert log.held_until == 4 + LEASE_S


def test_what_is_not_answered_yet_is_not_asked_for_again() -> None:
    log = SlowLog()
    for now in range(4):
        log.look_at(now)
    assert [type(command) for command, _ in log.asked] == [TakeClaim]
    log.answer()
    log.claims.release_all()
    log.claims.release_all()
    assert [type(command) for command, _ in log.asked] == [ReleaseClaim]
    log.asked.pop()[1].fail(ResourceExhausted("no majority"))
    log.claims.release_all()
    assert [type(command) for command, _ in log.asked] == [ReleaseClaim], "what was refused is asked for again"


def test_a_node_that_sees_no_majority_keeps_its_claims() -> None:
    """They lapse; and where a majority is seen again in time they go on where they were."""
    log = SlowLog()
    log.look_at(0)
    log.answer()
    log.node.candidates = []
    assert log.look_at(1) == set()
    assert log.asked == []


def test_claims_on_links_of_another_kind_are_left_alone() -> None:
    log = SlowLog()
    log.node.catalog.apply(TakeClaim(ClaimRecord("federation", "/", "elsewhere", "a", 0)))
    log.look_at(0)
    log.answer()
    log.look_at(0.1)
    assert ReleaseClaim not in {type(command) for command, _ in log.asked}
    log.claims.release_all()
    assert [command.record.kind for command, _ in log.asked if isinstance(command, ReleaseClaim)] == ["shovel"]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_no_two_nodes_ever_run_a_link(seed: int) -> None:
    """Clocks that run up to a fifth apart, late answers, nodes that are cut off, die and begin again."""
    chance = random.Random(seed)
    log = Log()
    for name in NODES:
        Node(log, name, chance.uniform(0.9, 1.09), delay_s=lambda: chance.expovariate(4)).begin()
    handovers = 0
    last: list[str] = []

    def check() -> None:
        nonlocal handovers, last
        for link in LINKS:
            assert len(log.running(link)) <= 1, f"at {log.now}: {link} runs on {log.running(link)}"
        running = log.running()
        if running and running != last:
            handovers, last = handovers + 1, running

    for _ in range(40):
        node = log.nodes[chance.choice(NODES)]
        match chance.randrange(3):
            case 0:
                node.reaches_log = not node.reaches_log
            case 1:
                node.candidates = [name for name in NODES if chance.random() < 0.8]
            case 2:
                node.alive = False
                again = Node(log, node.name, node.rate, delay_s=node.delay_s)
                again.begin()  # with an empty catalog: it is behind until it has read the log
        log.run(chance.uniform(0, 8), check)
    for node in log.nodes.values():
        node.reaches_log, node.candidates = True, list(NODES)
    log.run(60, check)
    assert len(log.running()) == 1
    assert handovers
