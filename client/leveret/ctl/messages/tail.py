"""leveretctl tail"""

from __future__ import annotations

from typing import Annotated

import typer

import leveret
from leveret.ctl.queues import message_facts, message_line
from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.run import options, with_node


def tail(
    queue: Annotated[str, typer.Argument(help="The queue to read.", autocompletion=completion.queues)],
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Stop after so many; 0 is never.")] = 0,
    take: Annotated[
        bool, typer.Option("--take", help="Remove what is shown; without it everything goes back.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Bodies only, a line each.")] = False,
) -> None:
    """Show messages of a queue as they come. Ctrl-C ends it.

    Messages that are not taken are held while it runs, and go back to their place, marked redelivered, when it ends.
    """

    async def work(node: leveret.Node) -> None:
        shown = 0
        async with node.consume(queue, prefetch=100 if take else 0, name="leveretctl tail") as deliveries:
            async for delivery in deliveries:
                _show(delivery, raw)
                if take:
                    await delivery.ack()
                shown += 1
                if shown == count:
                    return

    with_node(work)


def _show(delivery: leveret.Delivery, raw: bool) -> None:
    if raw:
        render.print_line(delivery.body.decode("utf-8", "backslashreplace"))
    elif options.json:
        render.print_json(message_facts(delivery), indent=None)
    else:
        render.print_line(message_line(delivery))
