"""leveretctl redrive: messages of a dead-letter queue go back to where they died."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated

import typer

import leveret
from leveret.ctl.terminal import completion, exits, render
from leveret.ctl.terminal.exits import UsageError
from leveret.ctl.terminal.run import options, with_node
from leveret.records import RedriveCause, RedriveProgress

COLUMNS = ("fate", "reason", "died_in", "target", "messages")
REFUSED = ("failed", "cancelled")


def redrive(
    queue: Annotated[str, typer.Argument(help="The dead-letter queue.", autocompletion=completion.queues)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be moved, and change nothing.")] = False,
    exchange: Annotated[
        str | None,
        typer.Option(
            help="Publish there, and not to the queues where they died. Empty: the default exchange.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="With this key; without it, with the key that each had before.", show_default=False),
    ] = None,
    reason: Annotated[
        str, typer.Option(help="Only those that died of it: rejected, expired, maxlen or delivery_limit.")
    ] = "",
    died_in: Annotated[str, typer.Option(help="Only those that died in this queue.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="Move at most so many; 0 is all that are ready now.")] = 0,
) -> int:
    """Move messages of a dead-letter queue back to the queues where they died, or to an exchange.

    A message leaves the queue when its target has confirmed it. What fails on the way stays, and may arrive twice. Ctrl-C
    cancels; what was moved stays moved.
    """
    if key is not None and exchange is None:
        raise UsageError("--key needs --exchange: without one, messages go to the queues where they died")

    async def work(node: leveret.Node) -> RedriveProgress:
        found = node.admin.redrive(
            queue, exchange=exchange, routing_key=key, reason=reason, died_in=died_in, limit=limit, dry_run=dry_run
        )
        last: RedriveProgress | None = None
        async with aclosing(found):
            async for last in found:
                _progress(last)
        assert last is not None, "a redrive that ended without a result"
        return last

    return _show(queue, with_node(work))


def _show(queue: str, last: RedriveProgress) -> int:
    if options.json:
        render.print_record(last)
    else:
        _show_causes(last.causes)
        verb = "would be moved" if last.state == "forecast" else "moved"
        render.print_line(
            f"{last.moved} messages {verb} from queue '{queue}', of {last.seen} looked at and {last.ready} ready"
        )
        if last.state in REFUSED:
            render.print_line(f"{last.state}: {last.error or 'it was ended'}. What was not moved is where it was")
    return exits.TEMPORARY if last.state in REFUSED else exits.OK


def _show_causes(causes: Sequence[RedriveCause]) -> None:
    shown = [
        {
            "fate": one.fate.replace("_", " "),
            "reason": one.reason,
            "died_in": one.died_in,
            "target": f"{one.to_exchange or '(default)'} {one.to_routing_key}",
            "messages": one.messages,
        }
        for one in sorted(causes, key=lambda one: one.messages, reverse=True)
    ]
    if shown:
        render.rows(shown, COLUMNS)


def _progress(now: RedriveProgress) -> None:
    """For people who wait: on a line of its own, which the next one replaces."""
    if not options.json and now.state == "running" and sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{now.moved} moved, {now.seen} of {now.ready} looked at")
        sys.stderr.flush()
