"""leveretctl queue convert: a classic queue becomes a quorum queue while it is used."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

import leveret
from leveret.ctl.terminal import completion, exits, render
from leveret.ctl.terminal.exits import UsageError
from leveret.ctl.terminal.run import options, with_node
from leveret.records import QueueConversion

LOOK_S = 0.5  # between two looks at how far it is
CONVERTING = "converting"

Name = Annotated[str, typer.Argument(help="The classic queue.", autocompletion=completion.queues)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would come of it.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return when it has begun: it goes on by itself.")]
CancelIt = Annotated[bool, typer.Option("--cancel", help="End a conversion: the queue stays a classic one.")]


def convert(name: Name, dry_run: DryRun = False, no_wait: NoWait = False, cancel: CancelIt = False) -> int:
    """Have a classic queue become a quorum queue, in place: publishers and consumers stay, and wait for less than a second.

    Its messages are copied while it is used, in their order. What consumers hold at the change comes again, marked as
    redelivered. Until the change the queue is a classic one with all it has; run the command again when a node was lost.
    """
    if cancel and (dry_run or no_wait):
        raise UsageError("--cancel ends a conversion: it goes with neither --dry-run nor --no-wait")
    if cancel:
        with_node(lambda node: node.admin.cancel_queue_conversion(name))
        render.done(f"queue '{name}' stays a classic queue", queue=name)
        return exits.OK

    async def work(node: leveret.Node) -> QueueConversion:
        found = await node.admin.convert_queue(name, dry_run=dry_run)
        while found.state == CONVERTING and not (dry_run or no_wait):
            print(_progress(found), file=sys.stderr)
            await asyncio.sleep(LOOK_S)
            found = await node.admin.queue_conversion(name)
        return found

    found = with_node(work)
    if options.json:
        render.print_record(found)
    else:
        render.print_line(_told(found, dry_run))
    return exits.OK if dry_run or no_wait or found.state == "quorum" else exits.TEMPORARY


def _progress(found: QueueConversion) -> str:
    waits = f"; it waits for {render.printable(found.waits_for)} (--cancel)" if found.waits_for else ""
    return f"{found.copied} of {found.messages} messages are copied{waits}"


def _told(found: QueueConversion, dry_run: bool) -> str:
    if dry_run:
        arguments = ", ".join(f"{name}={value}" for name, value in sorted(found.arguments.items()))
        return f"queue '{found.queue}' with {found.messages} messages would become a quorum queue: {arguments}"
    if found.state == "quorum":
        return f"queue '{found.queue}' is a quorum queue"
    if found.state == CONVERTING:
        return f"queue '{found.queue}' is being converted: {_progress(found)}"
    return f"queue '{found.queue}' stays a classic queue: its conversion was ended. Run the command again"
