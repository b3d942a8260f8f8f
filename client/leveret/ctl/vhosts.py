"""leveretctl vhost ..."""

from __future__ import annotations

from typing import Annotated

import typer

from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.arguments import given_or_none, numbers
from leveret.ctl.terminal.run import with_node
from leveret.records import Vhost

app = typer.Typer(help="Vhosts: list, add, delete, trace messages.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The vhost's name.", autocompletion=completion.vhosts)]

COLUMNS = ("name", "description", "tags", "default_queue_type", "protected_from_deletion", "limits", "tracing")


@app.command("list")
def list_vhosts() -> None:
    """The vhosts that you may see."""
    render.records(with_node(lambda node: node.admin.vhosts()), COLUMNS, empty="no vhosts")


@app.command()
def add(
    name: Name,
    description: Annotated[str, typer.Option()] = "",
    tag: Annotated[list[str] | None, typer.Option()] = None,
    default_queue_type: Annotated[str, typer.Option(help="classic, quorum or stream.")] = "classic",
    protected: Annotated[bool, typer.Option(help="Refuse to delete it.")] = False,
) -> None:
    """Add a vhost, which you may use at once, or change the description, tags, default type and protection of one."""
    vhost = Vhost(name, description, tuple(tag or ()), default_queue_type, protected)
    with_node(lambda node: node.admin.put_vhost(vhost))
    render.done(f"vhost '{name}' is there; give other users access with `permission set --vhost {name}`", name=name)


@app.command()
def limits(
    name: Name,
    limit: Annotated[
        list[str] | None,
        typer.Argument(
            help="max-connections=N, max-queues=N; max-message-rate=N, max-byte-rate=N: what may be published per second "
            "on each node, or publishers wait. Those not named are lifted."
        ),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Lift all of them.")] = False,
) -> None:
    """Set how much there may be in a vhost."""
    wanted = numbers("the limit", given_or_none("limits", limit, none))
    with_node(lambda node: node.admin.set_vhost_limits(name, wanted))
    render.done(f"vhost '{name}' has the limits: {', '.join(limit or ()) or 'none'}", name=name, limits=wanted)


@app.command()
def trace(
    name: Name,
    on: Annotated[bool, typer.Option("--on/--off", help="Begin, or end it.")] = True,
) -> None:
    """Copy what is published and delivered in a vhost to its exchange amq.rabbitmq.trace, or stop that."""
    with_node(lambda node: node.admin.trace_vhost(name, on))
    render.done(f"messages of vhost '{name}' are {'traced' if on else 'not traced'}", name=name, tracing=on)


@app.command()
def delete(name: Name) -> None:
    """Delete a vhost with everything in it."""
    with_node(lambda node: node.admin.delete_vhost(name))
    render.done(f"vhost '{name}' is deleted", name=name)
