"""leveretctl delayed ..."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import leveret
from leveret.ctl import queues
from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.run import options, with_node

app = typer.Typer(
    help="Delayed messages: which wait in an exchange or for a queue, and to cancel some.", no_args_is_help=True
)

Name = Annotated[
    str,
    typer.Argument(
        help="The exchange, of the type x-delayed-message, or with --queue the queue.",
        autocompletion=completion.exchanges,
    ),
]
OfQueue = Annotated[
    bool, typer.Option("--queue", help="NAME is a queue that was declared with x-delayed-messages.", show_default=False)
]


@app.command("list")
def list_delayed(
    name: Name,
    of_queue: OfQueue = False,
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
        exchange, queue = _sides(name, of_queue)
        if after is None:
            return await node.topology.delayed(exchange, queue=queue, limit=limit)
        return await node.topology.delayed_after(exchange, after, queue=queue, limit=limit)

    show(f"{_kind(of_queue)} '{name}'", with_node(found))


@app.command()
def cancel(
    name: Name,
    message: Annotated[list[str], typer.Argument(metavar="ID...", help="As the list has them.")],
    of_queue: OfQueue = False,
) -> None:
    """Drop messages that wait, one after the other. One that was routed meanwhile is told, and ends it."""

    async def work(node: leveret.Node) -> None:
        exchange, queue = _sides(name, of_queue)
        for one in message:
            await node.topology.cancel_delayed(exchange, one, queue=queue)

    with_node(work)
    kind = _kind(of_queue)
    render.done(f"{len(message)} messages of {kind} '{name}' are cancelled", messages=len(message), **{kind: name})


def _kind(of_queue: bool) -> str:
    return "queue" if of_queue else "exchange"


def _sides(name: str, of_queue: bool) -> tuple[str, str]:
    """The exchange and the queue, one of them empty."""
    return ("", name) if of_queue else (name, "")


def show(delayer: str, found: list[leveret.DelayedMessage]) -> None:
    if options.json:
        render.print_json([_facts(one) for one in found])
    elif not found:
        render.print_line(f"no messages wait in {delayer}")
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
