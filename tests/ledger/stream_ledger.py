"""Seeds of streams: publishers and readers at all nodes, of which one after the other is killed and started again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from random import Random

import leveret
from tests.chaos.backend import Address, Shape
from tests.ledger.stream_clients import (
    ASK_WITHIN_S,
    NamedPublisher,
    NamelessPublisher,
    StoringReader,
    StreamNotes,
    StreamWorker,
    all_of,
    target,
)
from tests.ledger.stream_told import compared_streams, told_streams
from tests.ledger.three_nodes import KILLS_MAX, LOOK_S, STEPS_WITHIN_S, LedgerNodes, further_steps, steps_until

SEGMENT_BYTES = 4_000  # some ten messages
LENGTH_BYTES = 20_000
SETTLED_S = 1.5  # retention looks once a second
CUT_BY = 3  # of so many seeds one has retention at work


class StreamSeed:
    """One seed, with a stream of its own."""

    def __init__(self, nodes: LedgerNodes, seed: int) -> None:
        self._nodes = nodes
        self._is_cut = seed % CUT_BY == 0
        self._random = Random(f"stream.{seed}")
        self.notes = StreamNotes(f"stream.{seed}")
        amqp = {name: nodes.amqp(name) for name in nodes.shape.names}
        self._grpc = {name: grpc_of(nodes, name) for name in nodes.shape.names}
        self._clients: list[StreamWorker] = [
            *(NamelessPublisher(f"nameless {number}", self.notes, amqp, self._another()) for number in range(2)),
            *(NamedPublisher(f"named {number}", self.notes, self._grpc, self._another()) for number in range(2)),
            StoringReader("reader", self.notes, self._grpc, self._another()),
        ]

    async def run(self) -> dict[int, str]:
        """What a reader finds at the end."""
        await self._declare()
        working = [asyncio.create_task(client.run()) for client in self._clients]
        try:
            for _ in range(self._random.randint(1, KILLS_MAX)):
                await self._kill_one(working)
            await further_steps(self._clients, working, self._random)
            await self._all_have_stepped(working)
        finally:
            for client in self._clients:
                client.is_stopping = True
            await asyncio.gather(*working)
        return await self._read()

    async def _all_have_stepped(self, working: list[asyncio.Task[None]]) -> None:
        """One that has not has shown nothing."""
        await steps_until(lambda: all(client.steps for client in self._clients), working)

    def _another(self) -> Random:
        return Random(self._random.random())

    async def _kill_one(self, working: list[asyncio.Task[None]]) -> None:
        victim = self._random.choice(self._nodes.shape.names)
        await further_steps(self._clients, working, self._random)
        self._nodes.kill(victim)
        self.notes.kills += 1
        if len(self._nodes.shape.names) > 1:
            await further_steps(self._clients, working, self._random)
        await asyncio.to_thread(self._nodes.start, victim)

    async def _declare(self) -> None:
        length, segment = (LENGTH_BYTES, SEGMENT_BYTES) if self._is_cut else (None, None)
        until = time.monotonic() + STEPS_WITHIN_S
        while True:
            try:
                address = self._grpc[self._random.choice(sorted(self._grpc))]
                async with leveret.connect(target(address), timeout_s=ASK_WITHIN_S) as node:
                    await node.stream(self.notes.stream).declare(max_length_bytes=length, segment_bytes_max=segment)
                    return
            except leveret.LeveretError as error:
                assert time.monotonic() < until, f"{self.notes.stream} is not declared: {error!r}"
                await asyncio.sleep(LOOK_S)

    async def _read(self) -> dict[int, str]:
        """Twice the same, from each node, and not more than retention leaves: a node that is busy may hear of it late."""
        before: list[dict[int, str]] = []
        until = time.monotonic() + STEPS_WITHIN_S
        while True:
            assert time.monotonic() < until, f"{self.notes.stream} cannot be read, is never cut, or differs by node"
            try:
                found = [await all_of(self.notes.stream, self._grpc[name]) for name in sorted(self._grpc)]
            except leveret.LeveretError:
                found = []
            if found and found == before and all(one == found[0] for one in found) and self._is_short(found[0]):
                return found[0]
            before = found
            await asyncio.sleep(SETTLED_S)

    def _is_short(self, found: dict[int, str]) -> bool:
        """Whole segments go, so one more may be there than fits."""
        return not self._is_cut or sum(map(len, found.values())) <= LENGTH_BYTES + SEGMENT_BYTES


def grpc_of(nodes: LedgerNodes, name: str) -> Address:
    host, _, port = nodes.grpc(name).rpartition(":")
    return host, int(port)


async def run_streams(nodes: LedgerNodes, seeds: Iterable[int]) -> tuple[list[StreamNotes], dict[str, dict[int, str]]]:
    """One after the other."""
    notes, read = [], {}
    for seed in seeds:
        one = StreamSeed(nodes, seed)
        read[one.notes.stream] = await one.run()
        notes.append(one.notes)
    return notes, read


def ledger_of_streams(directory: Path, seeds: Iterable[int], nodes: int = 1) -> list[str]:
    """Run these seeds on so many nodes; what their logs tell otherwise than the clients."""
    cluster = LedgerNodes(Shape(disk_nodes=nodes), directory)
    (directory / "data").mkdir(parents=True)
    try:
        cluster.begin()
        notes, read = asyncio.run(run_streams(cluster, seeds))
        for name in cluster.shape.names:
            cluster.stop(name)
    finally:
        cluster.end()
    wrong = compared_streams(notes, told_streams(directory / "data"), read)
    return [*(sentence for one in notes for sentence in one.not_seen()), *wrong]
