"""leveretctl connection ..., channel ..., consumer ..."""

from __future__ import annotations

from typing import Annotated

import typer

from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.run import options, with_node

app = typer.Typer(help="Connections: list, close.", no_args_is_help=True)
channels_app = typer.Typer(help="Channels of AMQP connections, and gRPC streams.", no_args_is_help=True)
consumers_app = typer.Typer(help="Subscriptions.", no_args_is_help=True)


@app.command("list")
def list_connections() -> None:
    """Who is connected."""
    columns = ("id", "name", "user", "vhost", "protocol", "connected_at_ms")
    render.records(with_node(lambda node: node.admin.connections()), columns, empty="no connections")


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
    """Channels with their counts."""
    columns = ("connection", "number", "user", "vhost", "statistics")
    render.records(with_node(lambda node: node.admin.channels()), columns, empty="no channels")


@consumers_app.command("list")
def list_consumers() -> None:
    """Who consumes from what."""
    found = with_node(lambda node: node.admin.consumers(all_vhosts=options.all_vhosts))
    columns = ("vhost", "queue", "consumer_tag", "connection", "channel", "no_ack", "prefetch", "outstanding", "active")
    render.records(found, columns, empty="no consumers")
