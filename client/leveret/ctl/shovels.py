"""leveretctl shovel ..."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.arguments import pairs
from leveret.ctl.terminal.exits import UsageError
from leveret.ctl.terminal.run import options, with_node
from leveret.records import Shovel, ShovelEnd

app = typer.Typer(help="Shovels: messages of one queue or exchange carried to another broker.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The shovel's name.", autocompletion=completion.shovels)]
NewName = Annotated[str, typer.Argument(help="The shovel's name.")]

COLUMNS = ("vhost", "name", "state", "node", "source", "destination", "forwarded", "remaining", "reason")


@app.command("list")
def list_shovels() -> None:
    """The shovels that run, on whichever node of the cluster."""
    found = with_node(lambda node: node.admin.shovels(all_vhosts=options.all_vhosts))
    if options.json:
        render.records(found.shovels, COLUMNS, empty="")
    elif found.shovels:
        render.rows([_cells(one) for one in found.shovels], COLUMNS)
    else:
        render.print_line(f"no shovels run in vhost '{options.vhost}'")
    if found.missing_nodes and not options.json:
        render.print_line(f"not heard of in time: {', '.join(found.missing_nodes)}")


@app.command()
def status(name: Name) -> None:
    """What a shovel does now, and what it has done."""
    found = with_node(lambda node: node.admin.shovel(name))
    facts = {
        "state": found.state,
        "since_ms": found.since_ms,
        "node": found.node,
        "reason": found.reason,
        "source": _end(found.source),
        "destination": _end(found.destination),
        "forwarded": found.forwarded,
        "remaining": _remaining(found),
        "pending": found.pending,
        "unconfirmed": found.unconfirmed,
        "returned": found.returned,
        "restarts": found.restarts,
        "stalls": found.stalls,
        "type": found.type,
    }
    render.facts(facts, as_json=found)


@app.command()
def add(
    name: NewName,
    source_uri: Annotated[
        str,
        typer.Option(
            envvar="LEVERET_SOURCE_URI",
            help="amqp://user:password@host/vhost; without a host, this cluster. Shown in the process list: rather set it.",
        ),
    ],
    dest_uri: Annotated[str, typer.Option(envvar="LEVERET_DEST_URI", help="The same of the destination.")],
    source_queue: Annotated[str | None, typer.Option(help="Take messages of this queue.", show_default=False)] = None,
    source_exchange: Annotated[
        str | None, typer.Option(help="Take what is published to this exchange.", show_default=False)
    ] = None,
    source_key: Annotated[str | None, typer.Option(help="The binding key to it.", show_default=False)] = None,
    dest_queue: Annotated[str | None, typer.Option(help="Publish to this queue.", show_default=False)] = None,
    dest_exchange: Annotated[
        str | None, typer.Option(help="Publish to this exchange; neither: to the one it came from.", show_default=False)
    ] = None,
    dest_key: Annotated[
        str | None, typer.Option(help="With this routing key and not the message's.", show_default=False)
    ] = None,
    ack_mode: Annotated[str, typer.Option(help="on-confirm, on-publish or no-ack.")] = "on-confirm",
    prefetch: Annotated[int | None, typer.Option(min=0, max=65_535, show_default="1000")] = None,
    delete_after: Annotated[
        str | None,
        typer.Option(help="End by itself: queue-length, what the queue holds at the start; or so many messages."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", metavar="KEY=VALUE", help="Any other key, as in the parameter. May be repeated."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of one that has this name.")] = False,
) -> None:
    """Declare a shovel. One node of the cluster runs it, until it is deleted."""
    if (source_queue is None) == (source_exchange is None):
        raise UsageError("a shovel has one source: give --source-queue or --source-exchange")
    given = {
        "src-uri": source_uri,
        "src-queue": source_queue,
        "src-exchange": source_exchange,
        "src-exchange-key": source_key,
        "dest-uri": dest_uri,
        "dest-queue": dest_queue,
        "dest-exchange": dest_exchange,
        "dest-exchange-key": dest_key,
        "ack-mode": ack_mode,
        "src-prefetch-count": prefetch,
        "src-delete-after": _number_or_text(delete_after),
    }
    definition = {name: value for name, value in given.items() if value is not None} | pairs("--key", key or ())
    with_node(lambda node: node.admin.put_shovel(name, definition, create_only=not replace))
    render.done(f"shovel '{name}' is declared in vhost '{options.vhost}'", name=name, vhost=options.vhost)


@app.command()
def delete(name: Name) -> None:
    """Delete a shovel. What it holds goes back to its source."""
    with_node(lambda node: node.admin.delete_shovel(name))
    render.done(f"shovel '{name}' is deleted in vhost '{options.vhost}'", name=name, vhost=options.vhost)


@app.command()
def restart(name: Name) -> None:
    """Have a shovel close both its connections and begin again."""
    with_node(lambda node: node.admin.restart_shovel(name))
    render.done(f"shovel '{name}' in vhost '{options.vhost}' begins again", name=name, vhost=options.vhost)


def _number_or_text(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


def _cells(one: Shovel) -> dict[str, Any]:
    cells = {column: getattr(one, column) for column in COLUMNS}
    return cells | {"source": _end(one.source), "destination": _end(one.destination), "remaining": _remaining(one)}


def _end(end: ShovelEnd) -> str:
    if end.queue:
        what = f"queue '{end.queue}'"
    elif end.exchange or end.exchange_key:
        what = f"exchange '{end.exchange}'" + (f" with key '{end.exchange_key}'" if end.exchange_key else "")
    else:
        what = "as published"
    return f"{what} of {end.uri}" if end.uri else what


def _remaining(one: Shovel) -> int | None:
    return None if one.remaining < 0 else one.remaining
