"""Clients of the cluster: each asks one thing at a time, tells what it was told, and never lies.

A client that is told that nothing was taken asks again, elsewhere. One that is told nothing for a while, or that it cannot be
known, goes on with the next: what became of that call stays open, and a checker must accept both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from raft.core.errors import Damaged, NotLeader, RaftError, Unknown
from raft.core.messages import node_of
from raft.groups import NoSuchGroup
from tests.raft_node.register import DELETE, Outcome, Register, compare_and_set, encode, put
from tests.sim.linearizability import NOTHING, Call, Kind
from tests.sim.plan import Ask

if TYPE_CHECKING:
    from tests.sim.engine import EngineProcess as Process
    from tests.sim.engine import EngineSite as Site
    from tests.sim.engine import EngineWorld as World

PATIENCE_S = 4.0
TRIES_MAX = 8


class Attempt:
    """One call as it was handed to one process."""

    def __init__(self, client: Client, ask: Ask, call: Call) -> None:
        self.client = client
        self.ask = ask
        self.call = call
        self.tries = 0
        self.process: Process | None = None
        self.asked_at = 0  # moments
        self.committed = 0
        self.is_over = False


class Client:
    """See the module. `history` is by group and key."""

    def __init__(self, world: World, number: int, history: dict[tuple[int, str], list[Call]]) -> None:
        self.number = number
        self.answered = 0
        self.open = 0
        self._world = world
        self._history = history
        self._random = Random(f"{world.plan.seed} client {number}")
        self._waiting: deque[Ask] = deque()
        self._attempt: Attempt | None = None
        self._made = 0
        self._hints: dict[int, int] = {}  # group: node that leads, as far as it knows
        self._versions: dict[tuple[int, str], int] = {}

    @property
    def is_idle(self) -> bool:
        return self._attempt is None and not self._waiting

    def ask(self, ask: Ask) -> None:
        self._waiting.append(ask)
        if self._attempt is None:
            self._next()

    def _next(self) -> None:
        self._attempt = None
        if not self._waiting:
            return
        ask = self._waiting.popleft()
        call = self._call_of(ask)
        self._history.setdefault((ask.group, ask.key), []).append(call)
        self._attempt = Attempt(self, ask, call)
        self._world.loop.call_later(PATIENCE_S, self._lose_patience, self._attempt)
        self._try(self._attempt)

    def _call_of(self, ask: Ask) -> Call:
        self._made += 1
        value = f"{self.number}.{self._made}.".encode()
        value += b"v" * max(0, ask.size - len(value))
        began = self._world.watch.next_moment()
        match ask.kind:
            case "read":
                return Call(Kind.READ, began)
            case "delete":
                return Call(Kind.DELETE, began)
            case "cas":
                return Call(Kind.CAS, began, value=value, expected=self._versions.get((ask.group, ask.key), 0))
            case _:
                return Call(Kind.PUT, began, value=value)

    def _site(self, group: int) -> Site | None:
        sites = [site for site in self._world.sites.values() if site.serves(group)]
        if not sites:
            return None
        hint = self._hints.get(group)
        known = [site for site in sites if site.number == hint]
        return known[0] if known and self._random.random() < 0.95 else self._random.choice(sites)

    def _try(self, attempt: Attempt) -> None:
        if attempt.is_over:
            return
        site = self._site(attempt.ask.group)
        if site is None:
            self._world.loop.call_later(0.2, self._try, attempt)
            return
        attempt.tries += 1
        # Never within an event of a process: that one may end here.
        self._world.loop.call_soon(site.run, site.life, self._hand_over, (site, attempt))

    def _hand_over(self, site: Site, attempt: Attempt) -> None:
        try:
            self._ask_process(site, attempt)
        except NoSuchGroup as error:
            self._refused(attempt, error)

    def _ask_process(self, site: Site, attempt: Attempt) -> None:
        process, group = site.process, attempt.ask.group
        if attempt.is_over or process is None:
            return
        attempt.process = process
        call, key = attempt.call, attempt.ask.key.encode()
        match call.kind:
            case Kind.READ:
                attempt.asked_at = self._world.watch.next_moment()
                attempt.committed = len(self._world.watch.book(group).committed)
                process.groups.read(group, lambda error: self._read(attempt, process, error))
                return
            case Kind.PUT:
                call.command = put(key, call.value, in_log=len(call.value) % 2 == 0)
            case Kind.CAS:
                call.command = compare_and_set(key, call.expected, call.value)
            case Kind.DELETE:  # what no delete looks at tells them apart
                call.command = encode(DELETE, key, expected=call.began)
        process.groups.propose(group, [call.command], lambda results, error: self._told(attempt, results, error))

    def _read(self, attempt: Attempt, process: Process, error: RaftError | None) -> None:
        if error is not None:
            self._refused(attempt, error)
            return
        group = attempt.ask.group
        machine = process.groups.driver(group).machine
        assert isinstance(machine, Register)
        self._world.watch.read_answered(process, group, attempt.asked_at, attempt.committed)
        try:
            found = machine.get(attempt.ask.key.encode())
        except Damaged as damage:
            process.groups.damaged(group, damage)
            self._refused(attempt, damage)
            return
        attempt.call.place = 2 * process.groups.driver(group).applied + 1
        self._end(attempt, (found.version, found.value) if found is not None else NOTHING)

    def _told(self, attempt: Attempt, results: Sequence[Any] | None, error: RaftError | None) -> None:
        if error is not None:
            self._refused(attempt, error)
            return
        assert results is not None, "neither results nor why there are none"
        outcome: Outcome = results[0][0]
        self._end(attempt, (outcome.version, b"\1" if outcome.done else b"\0"))

    def _end(self, attempt: Attempt, result: tuple[int, bytes]) -> None:
        call = attempt.call
        if attempt.is_over:
            return  # it lost patience: the call stays open
        call.result = result
        call.ended = self._world.watch.next_moment()
        self._versions[attempt.ask.group, attempt.ask.key] = result[0]
        self.answered += 1
        self._over(attempt)

    def _refused(self, attempt: Attempt, error: RaftError) -> None:
        """Nothing was taken; or nobody knows."""
        if attempt.is_over:
            return
        self._world.watch.count(f"client told: {type(error).__name__}")
        if isinstance(error, NotLeader):
            self._hints[attempt.ask.group] = node_of(error.leader)
        if isinstance(error, Unknown):
            self.open += 1
            self._over(attempt)
        elif attempt.tries >= TRIES_MAX:
            self._history[attempt.ask.group, attempt.ask.key].remove(attempt.call)
            self._over(attempt)
        else:
            attempt.process = None
            self._world.loop.call_later(0.02 + self._random.random() * 0.2, self._try, attempt)

    def _lose_patience(self, attempt: Attempt) -> None:
        if not attempt.is_over:
            self.open += 1
            self._over(attempt)

    def process_ended(self, process: Process) -> None:
        attempt = self._attempt
        if attempt is not None and attempt.process is process:
            self.open += 1
            self._over(attempt)

    def _over(self, attempt: Attempt) -> None:
        attempt.is_over = True
        if self._attempt is attempt:
            self._next()
