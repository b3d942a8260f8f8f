"""One message of a quorum queue through three whole nodes in this process, and what each of them called for it, in order.

Nodes, client and links share the event loop's thread. Which node a call belongs to is known from the context in which it runs:
each node is started in a context of its own, and whatever it begins (tasks, sockets, timers) inherits that.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from pathlib import Path

from node.assemble import Node
from node.config import ClusterSection, Config, ListenSection, NodeSection
from tests.ports import HOST, free_ports
from tests.tidy.published_message import TIMEOUT_S, TIMERS, Call, Stopped, a_quick_disk, connected, publish, recorded

NODES = 3
# On a busy machine the followers' answers may come before the leader's own disk is done, and then nothing is left to do for it.
PUBLISHES = 8
ARGUMENTS: dict[str, object] = {"x-queue-type": "quorum"}

Passed = tuple[list[Call], list[list[Call]]]  # on the leader, and on each follower

_of_node: contextvars.ContextVar[int | None] = contextvars.ContextVar("of_node", default=None)


def cluster(directory: Path) -> list[Node]:
    """Nodes that found a cluster when they are started together."""
    peers = tuple(f"{HOST}:{port}" for port in free_ports(NODES))
    section = ClusterSection(secret="a secret that all traced nodes know", peers=peers)
    local = (f"{HOST}:0",)
    return [
        Node(
            Config(
                node=NodeSection(name=f"n{number}", data_dir=str(directory / f"n{number}")),
                cluster=section,
                listen=ListenSection(amqp=local, stream=(), grpc=(), http=(), peer=peer),
            ),
            Stopped(),
        )
        for number, peer in enumerate(peers, 1)
    ]


async def as_node(number: int, work: Coroutine[object, object, None]) -> None:
    context = contextvars.copy_context()
    context.run(_of_node.set, number)
    await asyncio.create_task(work, context=context)


async def calls_of_publishes(directory: Path) -> list[Passed]:
    """Of some publishes on the leader's node, one after the other: what was called until confirm and delivery."""
    nodes = cluster(directory)
    passed: list[Passed] = []
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.gather(*(as_node(number, node.start()) for number, node in enumerate(nodes)))
            first = await connected(nodes[0].listeners[-1].address, ARGUMENTS)
            await publish(first)
            first.leave()
            leader = next(number for number, node in enumerate(nodes) if node.kernel.quorum.led)
            client = await connected(nodes[leader].listeners[-1].address, ARGUMENTS)
            await publish(client)  # it also makes files, and fills what is remembered
            for _ in range(PUBLISHES):
                calls: dict[int | None, list[Call]] = {number: [] for number in (None, *range(NODES))}
                with a_quick_disk(), recorded(lambda call, calls=calls: calls[_of_node.get()].append(call), TIMERS):
                    await publish(client)
                passed.append((calls[leader], [calls[number] for number in range(NODES) if number != leader]))
            client.leave()
    finally:
        for number, node in enumerate(nodes):
            await as_node(number, node.stop())
    return passed
