"""Redrives and replays whose node is killed meanwhile, and that are given again: what they are about has come in the end.

Their queues are beside those of the workload, and are gone behind the block. A step is what the operation tells of itself: the
node is killed when some messages were moved, and not all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

import leveret
from tests.chaos.cluster import NotWell
from tests.chaos.faults import World

FROM, TO = "jobs.from", "jobs.to"
COUNT = 4_000
AT_ONCE = 100
REPLAYED_A_SECOND = 1_000
TIMES = 3

Progress = Callable[[leveret.Node], AsyncGenerator[int, None]]  # how many messages were moved until then


@asynccontextmanager
async def redrive_cut_short(world: World, nodes: Sequence[str]) -> AsyncIterator[None]:
    (node,) = nodes

    async def moved(connected: leveret.Node) -> AsyncGenerator[int, None]:
        async for step in connected.admin.redrive(FROM, exchange="", routing_key=TO):
            _check(step.state, step.error)
            yield step.moved

    await _filled(world, node)
    await _cut_short(world, node, moved)
    await _ended(world, node, moved)
    await _all_came(world, node)
    yield


@asynccontextmanager
async def replay_cut_short(world: World, nodes: Sequence[str]) -> AsyncIterator[None]:
    (node,) = nodes

    async def published(connected: leveret.Node) -> AsyncGenerator[int, None]:
        async for step in connected.admin.replay(FROM, "", routing_key=TO, rate=REPLAYED_A_SECOND):
            _check(step.state, step.error)
            yield step.published

    await _filled(world, node)
    await _taken(world, node, FROM)
    await _cut_short(world, node, published)
    await _ended(world, node, published)
    await _all_came(world, node)
    yield


def _check(state: str, error: str) -> None:
    if state in ("failed", "cancelled"):
        raise NotWell(f"{state}: {error}")


async def _filled(world: World, node: str) -> None:
    async def fill(connected: leveret.Node) -> None:
        for name in (FROM, TO):
            await connected.topology.declare_queue(name, kind="quorum")
        publisher = await connected.publisher()
        await publisher.publish_many((b"%d" % number for number in range(COUNT)), routing_key=FROM)

    await world.cluster.ask(node, fill)


async def _cut_short(world: World, node: str, progress: Progress) -> None:
    """Killed under way, some times; what is left is less each time, so that it may end before."""

    async def moved(connected: leveret.Node) -> int:
        """How many, as soon as there are some; COUNT when it has ended."""
        async with aclosing(progress(connected)) as steps:
            async for count in steps:
                if 0 < count < COUNT:
                    return count
        return COUNT

    for number in range(TIMES):
        count = await world.cluster.eventually(lambda: world.cluster.ask(node, moved), f"{node} moving messages")
        if count == COUNT:
            if not number:
                world.wrong.append(f"{node} had moved all before it could be killed: this run has tested nothing")
            return
        world.may_be_down.add(node)
        await asyncio.to_thread(world.backend.kill, node)
        world.recorder.tell(f"{node} was killed when {count} messages were moved")
        await world.start([node])


async def _ended(world: World, node: str, progress: Progress) -> None:
    async def ended(connected: leveret.Node) -> bool:
        async for _ in progress(connected):
            pass
        return True

    await world.cluster.eventually(lambda: world.cluster.ask(node, ended), f"{node} ending what it was told")


async def _taken(world: World, node: str, queue: str) -> set[bytes]:
    async def take(connected: leveret.Node) -> set[bytes]:
        found: set[bytes] = set()
        while got := await connected.get(queue, count=AT_ONCE):
            found.update(message.body for message in got)
        return found

    return await world.cluster.ask(node, take)


async def _all_came(world: World, node: str) -> None:
    came = await _taken(world, node, TO)
    if lost := COUNT - len(came):
        world.wrong.append(f"{lost} of {COUNT} messages did not come to {TO}")
    for name in (FROM, TO):
        await world.cluster.ask(node, lambda connected, name=name: connected.topology.delete_queue(name))  # type: ignore[misc]
