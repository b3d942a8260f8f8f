"""leveretctl connection ..., channel ..., consumer ..."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import typer

from leveret.connection import Node
from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.run import options, with_node
from leveret.errors import LeveretError

app = typer.Typer(help="Connections: list, close.", no_args_is_help=True)
channels_app = typer.Typer(help="Channels of AMQP connections, and gRPC streams.", no_args_is_help=True)
consumers_app = typer.Typer(help="Subscriptions.", no_args_is_help=True)


@app.command("list")
def list_connections() -> None:
    """Who is connected to the node that is asked."""
    columns = ("id", "name", "user", "vhost", "protocol", "connected_at_ms")
    _show("connections", lambda node: node.admin.connections(), columns)


@app.command()
def close(
    connection: Annotated[
        str,
        typer.Argument(help="Its id or name, as `connection list` shows it.", autocompletion=completion.connections),
    ],
    reason: Annotated[str, typer.Option(help="Told to the client.")] = "",
) -> None:
    """Close a connection."""
    with_node(lambda node: node.admin.close_connection(connection, reason))
    render.done(f"connection '{connection}' is closed", connection=connection)


@channels_app.command("list")
def list_channels() -> None:
    """Channels at the node that is asked, with their counts."""
    columns = ("connection", "number", "user", "vhost", "statistics")
    _show("channels", lambda node: node.admin.channels(), columns)


@consumers_app.command("list")
def list_consumers() -> None:
    """Who consumes from what, connected to the node that is asked."""
    columns = ("vhost", "queue", "consumer_tag", "connection", "channel", "no_ack", "prefetch", "outstanding", "active")
    _show("consumers", lambda node: node.admin.consumers(all_vhosts=options.all_vhosts), columns)


def _show(what: str, lister: Callable[[Node], Awaitable[Sequence[Any]]], columns: Sequence[str]) -> None:
    """A table, and in a cluster whose this is: none here are not none at all."""

    async def work(node: Node) -> tuple[Sequence[Any], str, list[str]]:
        return await lister(node), *await _nodes(node)

    found, asked, others = with_node(work)
    render.records(found, columns, empty=f"no {what} at node '{asked}'" if others else f"no {what}")
    if others:
        sys.stderr.write(
            f"only of node '{asked}', which was asked; there may be {what} at {', '.join(others)}, too: "
            f"name each with --node, or see GET /api/{what} of any\n"
        )


async def _nodes(node: Node) -> tuple[str, list[str]]:
    """The node that is asked, and the others; none where that is not told. What was asked for is there all the same."""
    try:
        status = await node.admin.cluster_status()
    except LeveretError:
        return "", []
    return status.seen_by, [one.name for one in status.nodes if one.name != status.seen_by]
