"""Operations that are cut short at one step after the other and given again, where they do not go on by themselves: each must
end well, and leave nothing behind.

A step is a line that the node logs: the node is killed by the very call that writes it (cut_shim.c), so the step is done and
nothing of the next one is. `leveret survive`, which has no node yet, is killed instead of each of its syncs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import leveret
from broker.names import becoming_queue
from leveret.errors import LeveretError, NotFound
from leveret.records import ClusterStatus, QueueGroup
from tests.chaos.cluster import NotWell
from tests.chaos.faults import ENDS_WITHIN_S, LOOK_S, World, forget, must_not_start, wipe
from tests.chaos.topology import QUEUES

DRAIN_LINES = (", draining", "is drained: leaders are on other nodes", "is drained: clients are sent away")
DECOMMISSION_LINES = (
    "is decommissioned: draining",
    ", draining",
    "is decommissioned: moving",
    "add a member of",
    "remove the member of",
    "is decommissioned: leaving",
    "is decommissioned: left",
)
CONVERSION_LINES = (
    "is being converted to a quorum queue",
    "is being converted: copying",
    "is being converted: fenced",
    "is being converted: sealed",
    "is being converted: swapping",
    "is a quorum queue now",
)
TRANSFER_LINE = "have node '"
MOVE_LINES = ("add a member of", "remove the member of")  # of members from node to node
TRANSFERS_CUT = 3
CONVERTED = "notes"
BECOMING = becoming_queue(CONVERTED)
QUORUM_QUEUES = tuple(queue.name for queue in QUEUES if queue.is_quorum)
REPLICAS = 3  # of each
SYNCS_MAX = 200  # of the command that survives

Order = Callable[[leveret.Node], Awaitable[object]]


@asynccontextmanager
async def decommission_cut_short(world: World, nodes: Sequence[str]) -> AsyncIterator[None]:
    """Told once, the node leaves as a whole in the end, does not start again on its disk, and comes back as a new one."""
    (node,) = nodes
    others = _others(world, node)

    async def leave(connected: leveret.Node) -> None:
        await connected.admin.decommission_node(node, lose_queues=True)

    async def look(connected: leveret.Node) -> None:
        await connected.admin.decommission_node()

    first, *lines, last = DECOMMISSION_LINES
    await _cut_at(world, node, first, leave)
    for line in lines:
        await _cut_at(world, node, line, look)
    await _cut_at(world, node, last, look, starts_again=False)
    if node in await _members(world, others):
        world.wrong.append(f"{node} said that it has left, and belongs to its cluster")
        await forget(world, node, others)
    await must_not_start(world, node, "it has left its cluster")
    await world.cluster.eventually(lambda: world.cluster.ask_anyone(_is_whole, others), "three members of each queue")
    await asyncio.to_thread(wipe, world.backend.data_dir(node))
    await world.start([node])
    yield


@asynccontextmanager
async def drain_cut_short(world: World, nodes: Sequence[str]) -> AsyncIterator[None]:
    """Drained as a whole in the end, and revived."""

    async def drain(connected: leveret.Node) -> None:
        await connected.admin.drain_node()

    for node in nodes:
        for line in DRAIN_LINES:
            await _cut_at(world, node, line, drain)
        await _told(world, node, drain, "drained")
    yield
    for node in nodes:
        await world.cluster.ask(node, lambda connected: connected.admin.revive_node())


@asynccontextmanager
async def rebalance_cut_short(world: World, nodes: Sequence[str]) -> AsyncIterator[None]:
    """The node that hands leaders over is killed behind the first one, three times; in the end there is nothing left to do."""
    (node,) = nodes

    async def rebalance(connected: leveret.Node) -> None:
        await connected.admin.rebalance_queues()

    for _ in range(TRANSFERS_CUT):
        await _lead_all(world, node)
        await _cut_at(world, node, TRANSFER_LINE, rebalance)
        await world.cluster.until_well()
    yield

    async def left_to_do(connected: leveret.Node) -> bool:
        changes = await connected.admin.rebalance_queues()
        return not changes and not await connected.admin.rebalance_queues(dry_run=True)

    await world.cluster.eventually(lambda: world.cluster.ask(node, left_to_do), "nothing left to be rebalanced")


@asynccontextmanager
async def moves_cut_short(world: World, nodes: Sequence[str]) -> AsyncIterator[None]:
    """Members go to a node that has none. The node that moves them is killed behind the new member and behind the old one; in
    the end all queues have as many as before."""
    (node,) = nodes
    *_, empty = _others(world, node)

    async def emptied(connected: leveret.Node) -> bool:
        """All queues have their three members on the other three nodes."""
        await connected.admin.grow_queues_to(4)
        changes = await connected.admin.shrink_queues(empty)
        return not any(change.error for change in changes) and await _is_whole(connected)

    async def move(connected: leveret.Node) -> None:
        async for step in connected.admin.move_queue_members():
            if step.error:
                raise LeveretError(step.error)

    await world.cluster.eventually(lambda: world.cluster.ask(node, emptied), f"{empty} having no members")
    for line in MOVE_LINES:
        await _cut_at(world, node, line, move)
        await world.cluster.until_well()
    yield

    async def left_to_do(connected: leveret.Node) -> bool:
        await move(connected)
        left = [step async for step in connected.admin.move_queue_members(dry_run=True)]
        return not left and await _is_whole(connected)

    await world.cluster.eventually(lambda: world.cluster.ask(node, left_to_do), "no members left to be moved")
    if empty not in {one for queue in QUORUM_QUEUES for one in await _nodes_of(world, queue)}:
        world.wrong.append(f"no member was moved to {empty}: this run has tested nothing")


@asynccontextmanager
async def conversion_cut_short(world: World, nodes: Sequence[str]) -> AsyncIterator[None]:
    """A classic queue that is used becomes a quorum queue; nothing of the attempts before is left."""
    (node,) = nodes

    async def convert(connected: leveret.Node) -> None:
        await connected.admin.convert_queue(CONVERTED)

    for line in CONVERSION_LINES[:-1]:
        await _cut_at(world, node, line, convert)
        await world.cluster.until_well()
        if (
            await world.cluster.eventually(lambda: world.cluster.ask(node, _state), "the state of a conversion")
            != "classic"
        ):
            world.recorder.tell(f"{CONVERTED} has become a quorum queue though its node was killed at: {line}")
            break
    else:
        await _cut_at(world, node, CONVERSION_LINES[-1], convert)
    yield
    for asked in world.cluster.names:
        await world.cluster.eventually(
            lambda asked=asked: world.cluster.ask(asked, _is_converted), f"{asked} knowing the quorum queue"
        )  # type: ignore[misc]


@asynccontextmanager
async def survival_cut_short(world: World, nodes: Sequence[str]) -> AsyncIterator[None]:
    """All other nodes are lost for good. The last one goes on with all that was confirmed, and gets new ones beside it."""
    (node,) = nodes
    first, *others = _others(world, node)
    world.may_be_down.update(world.cluster.names)
    await asyncio.to_thread(world.backend.kill, first)
    await _keep_up(world, node)
    await world.do(world.backend.kill, others)
    await asyncio.to_thread(world.backend.kill, node)
    cuts = 0
    while not await asyncio.to_thread(world.backend.run_until_sync, node, cuts + 1, "survive", "--confirm", node):
        cuts += 1
        if cuts > SYNCS_MAX:
            raise NotWell(f"survive did not end within {SYNCS_MAX} syncs")
    world.recorder.tell(f"{node} survives; that was cut short {cuts} times")
    if not cuts:
        world.wrong.append("survive was never cut short: this run has tested nothing")
    await world.start([node])
    for other in (first, *others):
        await asyncio.to_thread(wipe, world.backend.data_dir(other))
        await world.start([other])
    yield
    await world.cluster.until_well()
    await world.cluster.eventually(lambda: world.cluster.ask(node, _grown), "three members of each quorum queue")


async def _cut_at(world: World, node: str, line: str, order: Order, *, starts_again: bool = True) -> None:
    """Given again until the node takes it: it may not see the others yet, or be at it since before."""
    world.may_be_down.add(node)
    await asyncio.to_thread(world.backend.kill_at_line, node, line)
    until = asyncio.get_running_loop().time() + ENDS_WITHIN_S
    said: object = None
    while world.backend.is_running(node):
        with suppress(NotWell):
            try:
                await world.cluster.ask(node, order)
            except LeveretError as error:
                said = error
        if asyncio.get_running_loop().time() > until:
            world.wrong.append(f"{node} did not come to {line!r} within {ENDS_WITHIN_S:g} s; it said {said!r}")
            await asyncio.to_thread(world.backend.kill, node)
        await asyncio.sleep(LOOK_S)
    world.recorder.tell(f"{node} was killed as it logged: {line}")
    if starts_again:
        await world.start([node])


async def _told(world: World, node: str, order: Order, what: str) -> None:
    async def told(connected: leveret.Node) -> bool:
        await order(connected)
        return True

    await world.cluster.eventually(lambda: world.cluster.ask(node, told), f"{node} being {what}")


def _others(world: World, node: str) -> tuple[str, ...]:
    return tuple(name for name in world.backend.shape.disk_names if name != node)


async def _members(world: World, among: tuple[str, ...]) -> set[str]:
    async def asked(connected: leveret.Node) -> ClusterStatus:
        return await connected.admin.cluster_status()

    found = await world.cluster.eventually(
        lambda: world.cluster.ask_anyone(asked, among), "somebody who knows the nodes"
    )
    return {one.name for one in found.nodes}


async def _lead_all(world: World, node: str) -> None:
    """So that there is something to be spread."""

    async def all_led(connected: leveret.Node) -> bool:
        for queue in QUORUM_QUEUES:
            if (await _group(connected, queue)).leader != node:
                await connected.admin.transfer_queue_leader(queue, node)
        return True

    await world.cluster.eventually(lambda: world.cluster.ask(node, all_led), f"{node} leading all")


async def _group(connected: leveret.Node, queue: str) -> QueueGroup:
    found = (await connected.admin.queue_status(queue)).group
    if found is None:
        raise NotWell(f"{queue} has no group")
    return found


async def _keep_up(world: World, node: str) -> None:
    """What was confirmed before is on this node, and what will be is too: it is one of the two voters that are left."""
    before: dict[str, int] = {}

    async def has_all(connected: leveret.Node) -> bool:
        for queue in QUORUM_QUEUES:
            group = await _group(connected, queue)
            wanted = before.setdefault(queue, group.commit)
            mine = next(one for one in group.members if one.node == node)
            if not group.leader or mine.commit < wanted:
                return False
        return bool((await connected.admin.cluster_status()).metadata_leader)

    await world.cluster.eventually(lambda: world.cluster.ask(node, has_all), f"{node} having all that was confirmed")


async def _state(connected: leveret.Node) -> str:
    return (await connected.admin.queue_conversion(CONVERTED)).state


async def _is_converted(connected: leveret.Node) -> bool:
    """And what it was converted to is not there beside it."""
    try:
        await connected.admin.queue_status(BECOMING)
    except NotFound:
        return await _state(connected) == "quorum"
    return False


async def _nodes_of(world: World, queue: str) -> list[str]:
    group = await world.cluster.ask_anyone(lambda connected: _group(connected, queue))
    return [one.node for one in group.members]


async def _grown(connected: leveret.Node) -> bool:
    await connected.admin.grow_queues_to(REPLICAS)
    return await _is_whole(connected)


async def _is_whole(connected: leveret.Node) -> bool:
    """Each queue has as many voters as it should, and no other members."""
    for queue in QUORUM_QUEUES:
        group = await _group(connected, queue)
        if not group.leader or [one.membership for one in group.members] != ["voter"] * REPLICAS:
            return False
    return True
