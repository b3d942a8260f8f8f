"""The kinds of fault, each as a context: it is there at the beginning of the block, and gone at its end.

A fault hits nodes. Which ones is told by a word of the scenario (`Where`), and found out when its moment comes.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import leveret
from leveret.errors import NotFound
from storage.names import LOG_DIRECTORY
from tests.chaos.backend import Backend, LinkShape, NodeFailed
from tests.chaos.cluster import Cluster, NotWell
from tests.chaos.recorder import Recorder

MAIN_QUEUE = "orders"
HOME = "n1"  # everything is declared there: the classic queue lives on it
FLAP_S = 0.4
STUTTER_S = (0.05, 0.4)
SLOW_FSYNC_S = 0.15
SLOW_LINK = LinkShape(delay_s=0.03, jitter_s=0.05)
DRIPPING_LINK = LinkShape(bytes_per_s=60_000)
BREAKING_LINK = LinkShape(resets_per_s=1.0)
CORRUPTING_LINK = LinkShape(flips_per_mib=5.0)
LITTLE_PROCESSOR = 0.15  # of a core: less than the load of the workload needs
FURTHER_MEMORY_BYTES = 512 << 10
NEARLY_FULL_BYTES = (0, 2 << 20)  # the log still finds room, and what is done in the background may not
ENDS_WITHIN_S = 30.0
LOOK_S = 0.05
BITS_FLIPPED = 3
LITTLE_MEMORY = "\n[memory]\nhigh_watermark_bytes = 1_000_000\n"  # no process is so small


class Where(Enum):
    """Which nodes a fault hits."""

    LEADER = "the leader of the main queue"
    FOLLOWER = "one that does not lead the main queue"
    METADATA = "the leader of the catalog"
    HOME = "the home of the classic queue"
    AWAY = "any but the home of the classic queue"
    ANY = "any"
    MINORITY = "as many as a majority of the disk nodes can do without"
    MAJORITY = "a majority of the disk nodes"
    ALL = "all"


@dataclass(slots=True)
class World:
    """What faults are done to, and what they found wrong."""

    backend: Backend
    cluster: Cluster
    recorder: Recorder
    rng: random.Random
    wrong: list[str] = field(default_factory=list)
    may_be_down: set[str] = field(default_factory=set)

    async def choose(self, where: Where) -> tuple[str, ...]:
        names, disks = self.backend.shape.names, self.backend.shape.disk_names
        majority = len(disks) // 2 + 1
        match where:
            case Where.LEADER:
                return (await self.cluster.leader_of(MAIN_QUEUE),)
            case Where.FOLLOWER:
                leader = await self.cluster.leader_of(MAIN_QUEUE)
                return (self.rng.choice([name for name in disks if name != leader]),)
            case Where.METADATA:
                return (await self.cluster.metadata_leader(),)
            case Where.HOME:
                return (HOME,)
            case Where.AWAY:
                return (self.rng.choice([name for name in disks if name != HOME]),)
            case Where.ANY:
                return (self.rng.choice(names),)
            case Where.MINORITY:
                return tuple(self.rng.sample(disks, len(disks) - majority))
            case Where.MAJORITY:
                return tuple(self.rng.sample(disks, majority))
            case Where.ALL:
                return names

    async def do(self, work: Callable[[str], None], nodes: Sequence[str]) -> None:
        """The same to all of these, at the same time."""
        await asyncio.gather(*(asyncio.to_thread(work, node) for node in nodes))

    async def start(self, nodes: Sequence[str]) -> None:
        """Those of them that do not run."""
        await self.do(self.backend.start, [node for node in nodes if not self.backend.is_running(node)])
        self.may_be_down.difference_update(nodes)

    async def until_ended(self, node: str) -> bool:
        """Whether its process ends by itself."""
        for _ in range(int(ENDS_WITHIN_S / LOOK_S)):
            if not self.backend.is_running(node):
                return True
            await asyncio.sleep(LOOK_S)
        return False


Nodes = Sequence[str]


@asynccontextmanager
async def killed(world: World, nodes: Nodes) -> AsyncIterator[None]:
    world.may_be_down.update(nodes)
    await world.do(world.backend.kill, nodes)
    yield
    await world.start(nodes)


@asynccontextmanager
async def paused(world: World, nodes: Nodes) -> AsyncIterator[None]:
    await world.do(world.backend.pause, nodes)
    try:
        yield
    finally:
        await world.do(world.backend.resume, nodes)


@asynccontextmanager
async def restarted(world: World, nodes: Nodes) -> AsyncIterator[None]:
    world.may_be_down.update(nodes)
    await world.do(world.backend.stop, nodes)
    yield
    await world.start(nodes)


@asynccontextmanager
async def drained(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """For maintenance: a drained node hands its leaderships over and sends its clients away."""
    for node in nodes:
        await world.cluster.ask(node, lambda connected: connected.admin.drain_node())
    yield
    for node in nodes:
        await world.cluster.ask(node, lambda connected: connected.admin.revive_node())


@asynccontextmanager
async def clients_cut_off(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Every AMQP connection of these nodes is closed by an operator."""

    async def close_all(connected: leveret.Node) -> int:
        closed = 0
        for connection in await connected.admin.connections():
            if connection.protocol.upper().startswith("AMQP"):
                with suppress(NotFound):  # gone meanwhile
                    await connected.admin.close_connection(connection.id, "chaos")
                    closed += 1
        return closed

    closed = [await world.cluster.ask(node, close_all) for node in nodes]
    world.recorder.tell(f"{sum(closed)} connections were closed")
    if not any(closed):
        world.wrong.append("no connection was closed: this run has tested nothing")
    yield


@asynccontextmanager
async def stuttering(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Paused and resumed again and again, as on a machine that has too much to do."""

    async def stutter() -> None:
        async with paused(world, nodes):
            await asyncio.sleep(world.rng.uniform(*STUTTER_S))
        await asyncio.sleep(world.rng.uniform(*STUTTER_S))

    async with again_and_again(stutter):
        yield


@asynccontextmanager
async def without_power(world: World, nodes: Nodes) -> AsyncIterator[None]:
    world.may_be_down.update(nodes)
    await asyncio.to_thread(world.backend.cut_power, nodes)
    yield
    await world.start(nodes)


@asynccontextmanager
async def with_full_disks(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """A node may stop when it cannot write; it must not go on as if it could."""
    world.may_be_down.update(nodes)
    await world.do(world.backend.fill_disk, nodes)
    try:
        yield
        await must_raise_alarm(world, nodes, "disk")
    finally:
        await world.do(world.backend.free_disk, nodes)
    await world.start(nodes)


@asynccontextmanager
async def with_nearly_full_disks(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Room comes and goes, so that now this write fails and now that one."""
    world.may_be_down.update(nodes)

    def fill(node: str) -> None:
        world.backend.fill_disk(node, world.rng.randrange(*NEARLY_FULL_BYTES))

    async def come_and_go() -> None:
        await world.do(fill, nodes)
        await asyncio.sleep(world.rng.uniform(0, FLAP_S))

    try:
        async with again_and_again(come_and_go):
            yield
    finally:
        await world.do(world.backend.free_disk, nodes)
    await world.start(nodes)


@asynccontextmanager
async def killed_on_full_disks(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """What was half done when there was no room is all that the next life finds."""
    async with with_nearly_full_disks(world, nodes):
        yield
        await world.do(world.backend.kill, nodes)


@asynccontextmanager
async def with_little_processor(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Slow, and not dead: it does everything, late and in bursts."""
    await world.do(lambda node: world.backend.limit_processor(node, LITTLE_PROCESSOR), nodes)
    try:
        yield
    finally:
        await lift_limits(world, nodes)


@asynccontextmanager
async def with_no_further_memory(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """The page cache has no room, and the kernel kills a node that takes more for itself."""
    world.may_be_down.update(nodes)
    await world.do(lambda node: world.backend.limit_memory(node, FURTHER_MEMORY_BYTES), nodes)
    try:
        yield
    finally:
        await lift_limits(world, nodes)
    await world.start(nodes)


@asynccontextmanager
async def without_descriptors(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """It can open no file and accept no connection. It waits, and does not end: anybody who connects could end it otherwise."""
    await world.do(world.backend.limit_descriptors, nodes)
    try:
        yield
    finally:
        await world.do(world.backend.restore_descriptors, nodes)
    for node in nodes:
        if not world.backend.is_running(node):
            world.wrong.append(f"{node} ended for lack of file descriptors")
    await world.start(nodes)


@asynccontextmanager
async def with_slow_fsync(world: World, nodes: Nodes) -> AsyncIterator[None]:
    await world.do(lambda node: world.backend.slow_fsync(node, SLOW_FSYNC_S), nodes)
    try:
        yield
    finally:
        await world.do(lambda node: world.backend.slow_fsync(node, 0), nodes)


@asynccontextmanager
async def with_failing_fsync(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Whoever is told that an fsync failed knows no more what is on its disk: the node has to end."""
    world.may_be_down.update(nodes)
    await world.do(world.backend.fail_fsync, nodes)
    yield
    for node in nodes:
        if not await world.until_ended(node):
            world.wrong.append(f"{node} still runs {ENDS_WITHIN_S:g} s after its fsync failed")
            await asyncio.to_thread(world.backend.kill, node)
    await world.start(nodes)


@asynccontextmanager
async def with_little_memory(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Above the watermark: nobody may publish, everything else goes on."""
    world.may_be_down.update(nodes)
    await world.do(world.backend.stop, nodes)
    await world.do(lambda node: world.backend.start_with(node, LITTLE_MEMORY), nodes)
    yield
    await must_raise_alarm(world, nodes, "memory")
    await world.do(world.backend.stop, nodes)
    await world.start(nodes)


@asynccontextmanager
async def with_rotten_log(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Killed, and some bits of its log are not what they were when it starts again."""
    async with _damaged(world, nodes, flip_bits):
        yield


@asynccontextmanager
async def with_shortened_log(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Killed, and the end of its log is missing when it starts again."""
    async with _damaged(world, nodes, shorten):
        yield


@asynccontextmanager
async def with_empty_disk(world: World, nodes: Nodes) -> AsyncIterator[None]:
    async with killed(world, nodes):
        for node in nodes:
            await asyncio.to_thread(wipe, world.backend.data_dir(node))
        yield


@asynccontextmanager
async def with_old_disk(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Somebody restores a copy of a disk: such a node has promised things that it does not know of. It must not start."""
    copies = {node: world.backend.data_dir(node).with_name("old copy") for node in nodes}
    async with restarted(world, nodes):
        for node, copy in copies.items():
            await asyncio.to_thread(shutil.copytree, world.backend.data_dir(node), copy)
    await world.cluster.until_well()
    yield
    async with killed(world, nodes):
        for node, copy in copies.items():
            directory = world.backend.data_dir(node)
            await asyncio.to_thread(wipe, directory)
            await asyncio.to_thread(shutil.copytree, copy, directory, dirs_exist_ok=True)
            await asyncio.to_thread(shutil.rmtree, copy)
            # Whoever starts nodes tries again, and a refused start must not make the copy look younger.
            for _ in range(2):
                await must_not_start(world, node, "its disk is an old copy")
            await asyncio.to_thread(wipe, directory)


@asynccontextmanager
async def forgotten(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Removed from the cluster while it is down. It must not come back as it was, and may come as a new one."""
    async with killed(world, nodes):
        others = tuple(name for name in world.cluster.names if name not in nodes)
        for node in nodes:
            await forget(world, node, others)
            await must_not_start(world, node, "it was forgotten")
            await asyncio.to_thread(wipe, world.backend.data_dir(node))
        yield


@asynccontextmanager
async def isolated(world: World, nodes: Nodes) -> AsyncIterator[None]:
    for node in nodes:
        await asyncio.to_thread(world.backend.isolate, node)
    try:
        yield
    finally:
        await asyncio.to_thread(world.backend.mend)


@asynccontextmanager
async def split(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """`nodes` hear each other, and the others hear each other."""
    others = [name for name in world.cluster.names if name not in nodes]
    async with _cut(world, [*((node, others) for node in nodes), *((other, nodes) for other in others)]):
        yield


@asynccontextmanager
async def in_a_ring(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Each hears its two neighbours only: every node sees a majority (of five), and no two see the same one."""
    names = world.cluster.names
    deaf = []
    for at, name in enumerate(names):
        neighbours = {names[at - 1], names[(at + 1) % len(names)]}
        deaf.append((name, [other for other in names if other != name and other not in neighbours]))
    async with _cut(world, deaf):
        yield


@asynccontextmanager
async def deaf(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """They hear nobody, and are heard by all."""
    async with _cut(world, [(node, [name for name in world.cluster.names if name != node]) for node in nodes]):
        yield


@asynccontextmanager
async def mute(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """They hear all, and nobody hears them."""
    async with _cut(world, [(name, nodes) for name in world.cluster.names if name not in nodes]):
        yield


@asynccontextmanager
async def flapping(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Isolated and not, faster than groups elect."""

    async def flap() -> None:
        async with isolated(world, nodes):
            await asyncio.sleep(world.rng.uniform(0, FLAP_S))
        await asyncio.sleep(world.rng.uniform(0, FLAP_S))

    async with again_and_again(flap):
        yield


@asynccontextmanager
async def on_corrupting_links(world: World, nodes: Nodes) -> AsyncIterator[None]:
    """Bits arrive wrong. Whoever reads them must notice: a link may end for it, no message may be another one."""
    before = world.backend.bits_flipped()
    async with on_links(CORRUPTING_LINK)(world, nodes):
        yield
    flipped = world.backend.bits_flipped() - before
    world.recorder.tell(f"{flipped} bits arrived wrong")
    if not flipped:
        world.wrong.append("no bit arrived wrong: this run has tested nothing")


def on_links(shape: LinkShape) -> Callable[[World, Nodes], AbstractAsyncContextManager[None]]:
    """To and from these nodes."""

    @asynccontextmanager
    async def shaped(world: World, nodes: Nodes) -> AsyncIterator[None]:
        before = world.backend.links_bent()
        for node in nodes:
            for other in world.cluster.names:
                if other != node:
                    world.backend.shape_link(node, other, shape)
                    world.backend.shape_link(other, node, shape)
        try:
            yield
        finally:
            await asyncio.to_thread(world.backend.mend)
        felt = world.backend.links_bent() - before
        world.recorder.tell(f"{felt} times bytes were late, slow or changed, or a connection was reset")
        if not felt:
            world.wrong.append(f"no link was ever {shape}: this run has tested nothing")

    return shaped


def flip_bits(data_dir: Path, rng: random.Random) -> str:
    """A few bits of what the log holds. What was done, in words."""
    file, size = _log_file(data_dir, rng)
    places = sorted(rng.randrange(size) for _ in range(BITS_FLIPPED))
    with file.open("r+b") as log:
        for place in places:
            log.seek(place)
            (byte,) = log.read(1)
            log.seek(place)
            log.write(bytes([byte ^ 1 << rng.randrange(8)]))
    return f"flipped bits of {file.name} at {places} of {size}"


def shorten(data_dir: Path, rng: random.Random) -> str:
    file, size = _log_file(data_dir, rng)
    kept = rng.randrange(size)
    os.truncate(file, kept)
    return f"cut {file.name} from {size} to {kept} bytes"


def wipe(data_dir: Path) -> None:
    """The directory stays, for a container's volume is mounted there."""
    for entry in data_dir.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _log_file(data_dir: Path, rng: random.Random) -> tuple[Path, int]:
    """One that holds something, and up to where it does: a file is filled with zeros before it is used."""
    found = []
    for file in sorted((data_dir / LOG_DIRECTORY).iterdir()):
        used = len(file.read_bytes().rstrip(b"\0"))
        if used:
            found.append((file, used))
    return rng.choice(found)


async def must_not_start(world: World, node: str, why: str) -> None:
    try:
        await asyncio.to_thread(world.backend.start, node)
    except NodeFailed:
        return
    world.wrong.append(f"{node} started, although {why}")
    await asyncio.to_thread(world.backend.kill, node)


async def lift_limits(world: World, nodes: Nodes) -> None:
    bitten = [node for node in nodes if await asyncio.to_thread(world.backend.lift_limits, node)]
    world.recorder.tell(f"held back by their limits: {', '.join(bitten) or 'none'}")
    if not bitten:
        world.wrong.append("the limits were never reached: this run has tested nothing")


async def must_raise_alarm(world: World, nodes: Nodes, kind: str) -> None:
    """All of them that still run. One looks at its disk every ten seconds while it has much room (node/config.py)."""

    async def is_raised(connected: leveret.Node) -> bool:
        return any(alarm.kind == kind for alarm in await connected.admin.alarms())

    for node in nodes:

        async def takes_effect(node: str = node) -> bool:
            return not world.backend.is_running(node) or await world.cluster.ask(node, is_raised)

        try:
            await world.cluster.eventually(takes_effect, f"an alarm of {node}")
        except NotWell as error:
            world.wrong.append(f"{node} raised no {kind} alarm, so this run has tested nothing: {error}")


async def forget(world: World, node: str, others: tuple[str, ...]) -> None:
    """Refused until it counts as down."""
    said: object = None
    for _ in range(int(ENDS_WITHIN_S / LOOK_S)):
        try:
            await world.cluster.ask_anyone(lambda connected: connected.admin.forget_node(node), others)
            return
        except NotWell as error:
            said = error
            await asyncio.sleep(LOOK_S)
    world.wrong.append(f"{node} could not be forgotten: {said}")


@asynccontextmanager
async def again_and_again(work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """`work` is repeated until the end of the block, which waits for the last time: nothing is left half done."""
    goes_on = True

    async def repeat() -> None:
        while goes_on:
            await work()

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        goes_on = False
        await task


@asynccontextmanager
async def _damaged(world: World, nodes: Nodes, damage: Callable[[Path, random.Random], str]) -> AsyncIterator[None]:
    """Killed; `damage` is done to a data directory, and says in words what it did."""
    async with killed(world, nodes):
        for node in nodes:
            world.recorder.tell(f"{node}: {damage(world.backend.data_dir(node), world.rng)}")
        yield


@asynccontextmanager
async def _cut(world: World, deaf: Sequence[tuple[str, Sequence[str]]]) -> AsyncIterator[None]:
    for node, unheard in deaf:
        if unheard:
            await asyncio.to_thread(world.backend.cut, node, unheard)
    try:
        yield
    finally:
        await asyncio.to_thread(world.backend.mend)
