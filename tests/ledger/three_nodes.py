"""Seeds on a cluster: clients on all nodes, of which one after the other is killed and started again while they work.

Of quorum queues the copies of all nodes are read together, and each queue's leader may be the one that is killed.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Protocol

from pamqp import commands
from pamqp.base import Frame

import leveret
from analytics.fold.lives import LifeState
from tests.chaos.amqp import Gone, Refused, connect
from tests.chaos.backend import Address, Shape
from tests.chaos.processes import Processes
from tests.ledger.busy_client import CREDENTIALS, BusyClient, Topology, saw
from tests.ledger.certainty import KindRules, QueuePlan, compared_rows
from tests.ledger.classic_certainty import ClassicRules
from tests.ledger.crew import TIMEOUT_MS, Crew, CrewMember, LateConsumer, drained, not_happened
from tests.ledger.quorum_certainty import QuorumRules
from tests.ledger.sightings import Answer, Ended, Sightings
from tests.ledger.told import told

CLIENTS = 6
CREW = 3  # more of them, that take turns as the single active consumer of one queue
STEPS_BETWEEN = 12  # of all clients, before a kill and after it
KILLS_MAX = 2
STEPS_WITHIN_S = 120.0  # a machine may be busy
EMPTY_WITHIN_S = 120.0
LOOK_S = 0.02
WAITS_WITHIN_S, LOOK_CLOSELY_S = 5.0, 0.000_5
MAX_LENGTH = 4
DELIVERY_LIMIT = 2
TIME_TO_LIVE_MS = 1


class LedgerNodes(Processes):
    """Whose data directories have the names of the nodes, as readers of several logs want it."""

    def data_dir(self, node: str) -> Path:
        return self._scratch / "data" / node


class BusySeed:
    """One seed. Its queues have names of their own."""

    def __init__(self, nodes: LedgerNodes, kind: str, seed: int, sightings: Sightings) -> None:
        self._nodes = nodes
        self._kind = kind
        self._random = Random(f"busy.{kind}.{seed}")
        self._sightings = sightings
        self._prefix = f"{kind}.{seed}"
        self._addresses = {name: nodes.amqp(name) for name in nodes.shape.names}
        name = self._name
        self._plans = [
            self._plan("main", "dead"),
            self._plan("limited", "dead", *([LifeState.DELIVERY_LIMIT] if kind == "quorum" else [])),
            self._plan("brief", "dead", LifeState.EXPIRED),
            self._plan("short", "dead", LifeState.MAXLEN),
            self._plan("loose")._replace(is_loose=True),
            self._plan("fan1"),
            self._plan("fan2"),
            self._plan("dead", "grave"),
            self._plan("grave"),
            self._plan("single")._replace(is_single=True, timeout_ms=self._timeout_ms()),
        ]
        if kind == "quorum":
            self._plans.append(self._plan("late")._replace(timeout_ms=TIMEOUT_MS))
        self._topology = Topology(
            fed=tuple(map(name, ("main", "limited", "brief", "short", "loose"))),
            taken=tuple(map(name, ("main", "main", "limited", "limited", "short", "dead", "grave", "fan1", "fan2"))),
            loose=name("loose"),
            purged=name("fan2"),
            fan=name("fan"),
            fanned=(name("fan1"), name("fan2")),
        )

    def _name(self, queue: str) -> str:
        return f"{self._prefix}.{queue}"

    def _plan(self, queue: str, dead_to: str = "", *ends: LifeState) -> QueuePlan:
        home = self._random.choice(self._nodes.shape.names)
        return QueuePlan(self._name(queue), home, dead_to and self._name(dead_to), frozenset(ends))

    def _timeout_ms(self) -> int | None:
        """Classic queues have none."""
        return TIMEOUT_MS if self._kind == "quorum" else None

    async def run(self) -> list[QueuePlan]:
        await self._declare()
        clients = self._clients()
        working = [asyncio.create_task(client.run()) for client in clients]
        try:
            for _ in range(self._random.randint(1, KILLS_MAX)):
                await self._kill_one(clients, working)
            await self._steps(clients, working)
        finally:
            for client in clients:
                client.is_stopping = True
            await asyncio.gather(*working)
        await self._empty()
        return self._plans

    def _clients(self) -> list[BusyClient]:
        names = (f"{self._prefix}.{number}" for number in itertools.count())
        topology, addresses, sightings = self._topology, self._addresses, self._sightings
        crew = Crew(self._name("single"), self._timeout_ms(), sightings)
        clients = [
            *(BusyClient(next(names), topology, addresses, sightings, self._another()) for _ in range(CLIENTS)),
            *(CrewMember(crew, next(names), topology, addresses, sightings, self._another()) for _ in range(CREW)),
        ]
        if self._kind == "quorum":
            late = self._name("late")
            clients.append(LateConsumer(late, next(names), topology, addresses, sightings, self._another()))
        return clients

    def _another(self) -> Random:
        """Random numbers of its own for each client, so that one's steps do not change another's."""
        return Random(self._random.random())

    async def _kill_one(self, clients: list[BusyClient], working: list[asyncio.Task[None]]) -> None:
        victim = self._random.choice(self._nodes.shape.names)
        await self._steps(clients, working)
        await self._until_one_waits(clients, victim)
        kill = self._sightings.kill(victim)
        self._nodes.kill(victim)
        await self._steps(clients, working)
        await asyncio.to_thread(self._nodes.start, victim)
        kill.back_at = self._sightings.now()

    async def _until_one_waits(self, clients: list[BusyClient], victim: str) -> None:
        """Until a client waits for a confirm of the node that is killed next, so that what it has published is in doubt. It was
        a matter of luck: of quorum queues, which confirm within milliseconds, nothing was."""
        until = time.monotonic() + WAITS_WITHIN_S
        while time.monotonic() < until:
            if any(client.waits_for_a_confirm_of(victim) for client in clients):
                return
            await asyncio.sleep(LOOK_CLOSELY_S)

    async def _steps(self, clients: list[BusyClient], working: list[asyncio.Task[None]]) -> None:
        await further_steps(clients, working, self._random)

    async def _declare(self) -> None:
        exchange = self._topology.fan
        await self._say(
            self._nodes.shape.names[0],
            (commands.Exchange.Declare(exchange=exchange, exchange_type="fanout", durable=True), "Exchange.DeclareOk"),
        )
        for plan in self._plans:
            arguments = self._arguments(plan)
            declare = commands.Queue.Declare(queue=plan.name, durable=True, arguments=arguments)
            said: list[tuple[Frame, str]] = [(declare, "Queue.DeclareOk")]
            if plan.name in self._topology.fanned:
                said.append((commands.Queue.Bind(queue=plan.name, exchange=exchange), "Queue.BindOk"))
            await self._say(plan.home, *said)

    async def _say(self, node: str, *methods: tuple[Frame, str]) -> None:
        """On this node, until it has answered each: it may have come back right now, and be busy."""
        until = time.monotonic() + STEPS_WITHIN_S
        while True:
            try:
                client = await connect(self._addresses[node], CREDENTIALS)
                for method, answer in methods:
                    await client.call(method, answer)
                await client.close()
            except (Gone, Refused) as error:
                assert time.monotonic() < until, f"{node} does not answer: {error!r}"
                await asyncio.sleep(LOOK_S)
            else:
                return

    def _arguments(self, plan: QueuePlan) -> dict[str, Any]:
        arguments: dict[str, Any] = {"x-queue-type": self._kind}
        if plan.dead_to:
            arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": plan.dead_to}
        if LifeState.EXPIRED in plan.ends:
            arguments["x-message-ttl"] = TIME_TO_LIVE_MS
        if LifeState.MAXLEN in plan.ends:
            arguments["x-max-length"] = MAX_LENGTH
        if LifeState.DELIVERY_LIMIT in plan.ends:
            arguments["x-delivery-limit"] = DELIVERY_LIMIT
        if plan.is_single:
            arguments["x-single-active-consumer"] = True
        elif plan.timeout_ms is not None:
            arguments["x-consumer-timeout"] = plan.timeout_ms
        return arguments

    async def _empty(self) -> None:
        """All nodes are there, and clients take what is left until nothing is missing, or time is up: then it is lost."""
        surely_there = tuple(plan.name for plan in self._plans if not plan.ends and not plan.is_loose)
        until = time.monotonic() + EMPTY_WITHIN_S
        while time.monotonic() < until:
            taken = await taken_from(self._plans, self._addresses, self._sightings, self._random)
            if not taken and not self._sightings.missing(surely_there):
                return
            await asyncio.sleep(LOOK_S)


class Stepping(Protocol):
    """A client that counts its steps."""

    steps: int


async def further_steps(clients: Sequence[Stepping], working: Sequence[asyncio.Task[None]], random: Random) -> None:
    """Until clients have taken some more."""
    wanted = sum(client.steps for client in clients) + random.randint(1, 2 * STEPS_BETWEEN)
    await steps_until(lambda: sum(client.steps for client in clients) >= wanted, working)


async def steps_until(is_enough: Callable[[], bool], working: Sequence[asyncio.Task[None]]) -> None:
    until = time.monotonic() + STEPS_WITHIN_S
    while not is_enough():
        for task in working:
            assert not task.done(), f"a client ended: {task.exception()!r}"
        assert time.monotonic() < until, f"within {STEPS_WITHIN_S:g} s clients took no steps"
        await asyncio.sleep(LOOK_S)


async def taken_from(
    plans: Iterable[QueuePlan], addresses: dict[str, Address], sightings: Sightings, random: Random
) -> int:
    """What a client of a drawn node finds in these queues, and acknowledges. A connection that breaks has found something."""
    node = random.choice(sorted(addresses))
    try:
        client = await connect(addresses[node], CREDENTIALS)
    except Gone:
        return 1
    life, taken = sightings.connected(node), 0
    try:
        for plan in plans:
            life.taking.add(plan.name)
            if plan.is_single:  # of which quorum queues allow no get
                taken += await drained(client, life, plan.name, sightings)
                continue
            while (got := await client.get(plan.name)) is not None:
                sightings.answer(saw(sightings, life, plan.name, got), Answer.ACK)
                client.say(commands.Basic.Ack(got.tag))
                taken += 1
        life.heard()
        life.is_leaving = True
        await client.close()
        sightings.end(life, Ended.LEFT)
    except (Gone, Refused):
        taken += 1
    finally:
        client.abort()
        sightings.end(life, Ended.BROKEN)
    return taken


async def is_empty(nodes: LedgerNodes) -> bool:
    """As far as all nodes say."""
    for name in nodes.shape.names:
        async with leveret.connect(nodes.grpc(name)) as node:
            if any(queue.ready or queue.unacknowledged for queue in await node.topology.queues()):
                return False
    return True


async def run_seeds(nodes: LedgerNodes, kind: str, seeds: Iterable[int], sightings: Sightings) -> list[QueuePlan]:
    """One after the other; then whatever has come back late is taken."""
    plans: list[QueuePlan] = []
    for seed in seeds:
        plans += await BusySeed(nodes, kind, seed, sightings).run()
    addresses = {name: nodes.amqp(name) for name in nodes.shape.names}
    until = time.monotonic() + EMPTY_WITHIN_S
    while not await is_empty(nodes):
        assert time.monotonic() < until, "messages are left that nobody gets"
        await taken_from(plans, addresses, sightings, Random(0))
        await asyncio.sleep(LOOK_S)
    return plans


def ledger_of_nodes(directory: Path, kind: str, seeds: Iterable[int]) -> list[str]:
    """Run these seeds, one after the other, on three nodes; what their logs tell otherwise than the clients."""
    nodes, sightings = LedgerNodes(Shape(disk_nodes=3), directory), Sightings()
    (directory / "data").mkdir(parents=True)
    try:
        nodes.begin()
        plans = asyncio.run(run_seeds(nodes, kind, seeds, sightings))
        for name in nodes.shape.names:
            nodes.stop(name)
    finally:
        nodes.end()
    print(f"{kind}: {', '.join(f'{what} {count} times' for what, count in sorted(sightings.happened.items()))}")
    print(f"{sightings.in_doubt()} of {len(sightings.published)} messages were published and never confirmed")
    differences = compared_rows(sightings, plans, told(directory / "data"), rules_of(kind, sightings, plans))
    return [*sightings.not_seen(), *not_happened(kind, sightings), *differences]


def rules_of(kind: str, sightings: Sightings, plans: Iterable[QueuePlan]) -> KindRules:
    if kind == "quorum":
        return QuorumRules(sightings, {plan.name for plan in plans if plan.timeout_ms is not None})
    return ClassicRules(sightings, {plan.name: plan.home for plan in plans})
