"""leveretctl exchange ..."""

from __future__ import annotations

from typing import Annotated

import typer

from leveret.connection import Node
from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.arguments import pairs
from leveret.ctl.terminal.run import is_there, options, with_node

app = typer.Typer(help="Exchanges: list, declare, delete.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The exchange's name.", autocompletion=completion.exchanges)]

COLUMNS = ("vhost", "name", "kind", "durable", "auto_delete", "internal", "arguments")


@app.command("list")
def list_exchanges() -> None:
    """All exchanges of the vhost."""
    found = with_node(lambda node: node.topology.exchanges(all_vhosts=options.all_vhosts))
    render.records(found, COLUMNS, empty=f"no exchanges in vhost '{options.vhost}'")


@app.command()
def declare(
    name: Name,
    kind: Annotated[
        str,
        typer.Option(
            "--type",
            help="direct, fanout, topic, headers, x-consistent-hash, x-modulus-hash, x-random, x-local-random, "
            "x-recent-history, x-delayed-message or x-federation-upstream.",
        ),
    ] = "direct",
    transient: Annotated[bool, typer.Option(help="Gone when the node stops.")] = False,
    auto_delete: Annotated[bool, typer.Option(help="Gone when its last binding goes.")] = False,
    internal: Annotated[bool, typer.Option(help="Fed by other exchanges only.")] = False,
    argument: Annotated[
        list[str] | None, typer.Option("--argument", "-a", metavar="KEY=VALUE", help="May be repeated.")
    ] = None,
) -> None:
    """Declare an exchange; one that is declared just so already is fine."""
    arguments = pairs("--argument", argument or ())
    with_node(
        lambda node: node.topology.declare_exchange(
            name, kind, durable=not transient, auto_delete=auto_delete, internal=internal, arguments=arguments
        )
    )
    render.done(f"exchange '{name}' of type {kind} is declared", name=name, kind=kind)


@app.command()
def delete(name: Name, if_unused: Annotated[bool, typer.Option(help="Only without bindings.")] = False) -> None:
    """Delete an exchange and its bindings. One that does not exist is fine."""

    async def work(node: Node) -> bool:
        existed = await is_there(node.topology.declare_exchange(name, passive=True))
        await node.topology.delete_exchange(name, if_unused=if_unused)
        return existed

    what = f"exchange '{name}' in vhost '{options.vhost}'"
    render.gone(what, with_node(work), f"exchange '{name}' is deleted", name=name)
