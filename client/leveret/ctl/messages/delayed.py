"""leveretctl delayed ..."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import leveret
from leveret.ctl import queues
from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.run import options, with_node

app = typer.Typer(help="Delayed messages: which wait in an exchange, and to cancel some.", no_args_is_help=True)

Exchange = Annotated[
    str, typer.Argument(help="The exchange, of the type x-delayed-message.", autocompletion=completion.exchanges)
]


@app.command("list")
def list_delayed(
    exchange: Exchange,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most so many, and fewer if they are large.")] = 50,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="In the order of publishing, behind this one; empty: from the first that waits. Without it, those that "
            "are due next.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show messages that wait, and until when. Nothing changes, whichever node is asked."""

    async def found(node: leveret.Node) -> list[leveret.DelayedMessage]:
        if after is None:
            return await node.topology.delayed(exchange, limit=limit)
        return await node.topology.delayed_after(exchange, after, limit=limit)

    show(exchange, with_node(found))


@app.command()
def cancel(
    exchange: Exchange, message: Annotated[list[str], typer.Argument(metavar="ID...", help="As the list has them.")]
) -> None:
    """Drop messages that wait, one after the other. One that was routed meanwhile is told, and ends it."""

    async def work(node: leveret.Node) -> None:
        for one in message:
            await node.topology.cancel_delayed(exchange, one)

    with_node(work)
    render.done(
        f"{len(message)} messages of exchange '{exchange}' are cancelled", exchange=exchange, messages=len(message)
    )


def show(exchange: str, found: list[leveret.DelayedMessage]) -> None:
    if options.json:
        render.print_json([_facts(one) for one in found])
    elif not found:
        render.print_line(f"no messages wait in exchange '{exchange}'")
    else:
        for one in found:
            render.print_line(f"{one.id} {render.cell('due_ms', one.due_ms)} {queues.message_line(one)}")


def _facts(one: leveret.DelayedMessage) -> dict[str, Any]:
    return {
        "id": one.id,
        "due_ms": one.due_ms,
        "exchange": one.exchange,
        "routing_key": one.routing_key,
        "properties": queues.properties_of(one.message),
        "body": one.body,
    }
