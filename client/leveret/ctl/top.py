"""leveretctl top"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

import typer

import leveret
from leveret.ctl.terminal import render
from leveret.ctl.terminal.run import options, with_node
from leveret.records import NodeStatus, Queue

COLUMNS = ("vhost", "name", "kind", "ready", "unacknowledged", "growth", "consumers", "ready_bytes", "home")
Messages = dict[tuple[str, str], int]  # of each queue, by vhost and name


@dataclass(frozen=True)
class BusyQueue:
    """A queue as it is shown: `growth` is by how many messages a second it has grown since it was shown last."""

    vhost: str
    name: str
    kind: str
    ready: int
    unacknowledged: int
    growth: float
    consumers: int
    ready_bytes: int
    home: str


def top(
    interval: Annotated[float, typer.Option(min=0.1, max=3_600.0, help="Seconds between two looks.")] = 2.0,
    count: Annotated[int, typer.Option(min=0, help="Stop after so many looks; 0 is never.")] = 0,
    queues: Annotated[int, typer.Option(min=1, max=1_000, help="Show so many.")] = 20,
) -> None:
    """The node, and the queues with most messages, again and again: which ones grow, and how fast. Ctrl-C ends it.

    `--all-vhosts` has the queues of all vhosts, `--sort growth --reverse` those first that grow fastest.
    """

    async def work(node: leveret.Node) -> None:
        before: Messages | None = None
        shown = 0
        while True:
            found = await node.topology.queues(all_vhosts=options.all_vhosts)
            status = await node.admin.node_status()
            busy = [_busy(queue, before, interval) for queue in found]
            _show(status, busy, queues)
            before = {(queue.vhost, queue.name): queue.ready + queue.unacknowledged for queue in found}
            shown += 1
            if shown == count:
                return
            await asyncio.sleep(interval)
            if not options.json:
                render.clear()

    with_node(work)


def _busy(queue: Queue, before: Messages | None, interval_s: float) -> BusyQueue:
    messages = queue.ready + queue.unacknowledged
    last = messages if before is None else before.get((queue.vhost, queue.name), 0)
    return BusyQueue(
        queue.vhost,
        queue.name,
        queue.kind,
        queue.ready,
        queue.unacknowledged,
        (messages - last) / interval_s,
        queue.consumers,
        queue.ready_bytes,
        queue.home,
    )


def _show(status: NodeStatus, busy: list[BusyQueue], count: int) -> None:
    if options.sort is None:
        busy.sort(key=lambda queue: -(queue.ready + queue.unacknowledged))
    if not options.json:
        alarms = ", ".join(alarm.kind for alarm in status.alarms) or "none"
        render.print_line(
            f"{status.name}: {status.connections} connections, {status.channels} channels, {status.consumers} consumers, "
            f"{status.queues} queues; memory {render.size(status.memory_bytes)} of {render.size(status.memory_limit_bytes)}; "
            f"alarms: {alarms}"
        )
    render.records(busy, COLUMNS, empty=f"no queues in vhost '{options.vhost}'", count=count)
