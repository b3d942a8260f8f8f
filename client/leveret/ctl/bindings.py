"""leveretctl binding ..."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from leveret.connection import Node
from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.arguments import pairs
from leveret.ctl.terminal.run import options, with_node
from leveret.errors import AccessRefused, NotAllowed
from leveret.records import Binding
from leveret.topology import Topology

app = typer.Typer(help="Bindings: which messages of an exchange go where.", no_args_is_help=True)

Source = Annotated[
    str, typer.Argument(help="The exchange that messages come from.", autocompletion=completion.exchanges)
]
Destination = Annotated[
    str,
    typer.Argument(
        help="The queue, or with --to-exchange the exchange, that they go to.", autocompletion=completion.queues
    ),
]
Key = Annotated[str, typer.Option("--key", "-k", help="The binding's routing key or pattern.")]
ToExchange = Annotated[bool, typer.Option("--to-exchange", help="The destination is an exchange.")]
Arguments = Annotated[list[str] | None, typer.Option("--argument", "-a", metavar="KEY=VALUE", help="May be repeated.")]

COLUMNS = ("vhost", "source", "destination_kind", "destination", "routing_key", "arguments")


@app.command("list")
def list_bindings(
    queue: Annotated[str, typer.Option(help="Only those to this queue.")] = "",
    source: Annotated[str, typer.Option(help="Only those from this exchange.")] = "",
) -> None:
    """All bindings of the vhost."""
    found = with_node(lambda node: node.topology.bindings(queue=queue, source=source, all_vhosts=options.all_vhosts))
    render.records(found, COLUMNS, empty="no bindings")


@app.command()
def create(
    source: Source, destination: Destination, key: Key = "", to_exchange: ToExchange = False, argument: Arguments = None
) -> None:
    """Bind a queue or an exchange."""
    change = Topology.bind_exchange if to_exchange else Topology.bind_queue
    _change(change, "is bound to", source, destination, key, argument)


@app.command()
def delete(
    source: Source, destination: Destination, key: Key = "", to_exchange: ToExchange = False, argument: Arguments = None
) -> None:
    """Remove a binding; key and arguments must be those it was made with. One that does not exist is fine."""
    change = Topology.unbind_exchange if to_exchange else Topology.unbind_queue
    arguments = pairs("--argument", argument or ())
    wanted = ("exchange" if to_exchange else "queue", destination, key, arguments)

    async def work(node: Node) -> bool:
        there = await _listed(node, source, "" if to_exchange else destination)
        await change(node.topology, destination, source, key, arguments=arguments)
        return there is None or any(
            wanted == (one.destination_kind, one.destination, one.routing_key, one.arguments) for one in there
        )

    render.gone(
        f"such binding of '{destination}' to '{source}' with key '{key}'",
        with_node(work),
        f"'{destination}' is no longer bound to '{source}' with key '{key}'",
        source=source,
        destination=destination,
        routing_key=key,
    )


async def _listed(node: Node, source: str, queue: str) -> list[Binding] | None:
    """Those from this exchange, to this queue if there is one. None: who may unbind need not be one who may list them."""
    try:
        return await node.topology.bindings(queue=queue, source=source)
    except (AccessRefused, NotAllowed):
        return None


def _change(
    change: Callable[..., Awaitable[None]], said: str, source: str, destination: str, key: str, given: list[str] | None
) -> None:
    arguments = pairs("--argument", given or ())
    with_node(lambda node: change(node.topology, destination, source, key, arguments=arguments))
    render.done(
        f"'{destination}' {said} '{source}' with key '{key}'", source=source, destination=destination, routing_key=key
    )
