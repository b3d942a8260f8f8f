"""leveretctl queue ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from leveret.connection import Node
from leveret.ctl import conversion, members
from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.arguments import pairs
from leveret.ctl.terminal.run import is_there, options, with_node
from leveret.message import Message
from leveret.records import QueueStatus

app = typer.Typer(help="Queues: list, declare, look inside, empty, delete.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The queue's name.", autocompletion=completion.queues)]
Arguments = Annotated[list[str] | None, typer.Option("--argument", "-a", metavar="KEY=VALUE", help="May be repeated.")]

COLUMNS = ("vhost", "name", "kind", "state", "ready", "unacknowledged", "consumers", "ready_bytes", "durable", "policy")


@app.command("list")
def list_queues() -> None:
    """All queues of the vhost with their counts, and why one is not mirrored that should be."""
    found = with_node(lambda node: node.topology.queues(all_vhosts=options.all_vhosts))
    notices = ("mirroring_notice",) if any(one.mirroring_notice for one in found) else ()
    render.records(found, (*COLUMNS, *notices), empty=f"no queues in vhost '{options.vhost}'")


@app.command()
def declare(
    name: Name,
    kind: Annotated[
        str, typer.Option("--type", help="classic, quorum or stream; the vhost's default if not given.")
    ] = "",
    transient: Annotated[bool, typer.Option(help="Gone when the node stops.")] = False,
    auto_delete: Annotated[bool, typer.Option(help="Gone when its last consumer leaves.")] = False,
    argument: Arguments = None,
) -> None:
    """Declare a queue; one that is declared just so already is fine."""
    declared = with_node(
        lambda node: node.topology.declare_queue(
            name,
            kind=kind,
            durable=not transient,
            auto_delete=auto_delete,
            arguments=pairs("--argument", argument or ()),
        )
    )
    render.done(
        f"queue '{declared.name}' is declared: {declared.ready} ready, {declared.consumers} consumers",
        name=declared.name,
        ready=declared.ready,
        consumers=declared.consumers,
    )


@app.command()
def delete(
    name: Name,
    if_unused: Annotated[bool, typer.Option(help="Only without consumers.")] = False,
    if_empty: Annotated[bool, typer.Option(help="Only without messages.")] = False,
) -> None:
    """Delete a queue and what is in it. One that does not exist is fine."""

    async def work(node: Node) -> tuple[bool, int]:
        existed = await is_there(node.topology.declare_queue(name, passive=True))
        return existed, await node.topology.delete_queue(name, if_unused=if_unused, if_empty=if_empty)

    existed, count = with_node(work)
    what = f"queue '{name}' in vhost '{options.vhost}'"
    render.gone(what, existed, f"queue '{name}' is deleted, with {count} messages", name=name, messages=count)


@app.command()
def purge(name: Name) -> None:
    """Drop what is ready. Messages that consumers hold stay."""
    count = with_node(lambda node: node.topology.purge_queue(name))
    render.done(f"{count} messages purged from queue '{name}'", name=name, messages=count)


@app.command()
def status(name: Name) -> None:
    """What a queue is made of: lengths, states, rates; of a quorum queue or stream its members."""
    found = with_node(lambda node: node.admin.queue_status(name))
    render.facts(status_facts(found), as_json=found)
    if found.group is not None and not options.json:
        members.show_group(found.group)


def status_facts(found: QueueStatus) -> dict[str, Any]:
    """In reading order: what it is, what it holds, what it did, and then what its kind tells of itself."""
    queue = found.queue
    facts: dict[str, Any] = {
        "queue": f"{queue.name} in vhost {queue.vhost}",
        "kind": queue.kind,
        "state": queue.state,
        "home": queue.home,
        "policy": queue.policy,
        "operator policy": queue.operator_policy,
        "ready": queue.ready,
        "unacknowledged": queue.unacknowledged,
        "ready_bytes": queue.ready_bytes,
        "unacknowledged_bytes": queue.unacknowledged_bytes,
        "persistent": found.persistent,
        "in RAM": found.ram,
        "memory_bytes": queue.memory_bytes,
        "consumers": queue.consumers,
        "consumer capacity": found.consumer_capacity,
        "single active consumer": found.single_active_consumer_tag,
        "published": found.published,
        "delivered": found.delivered,
        "delivered, no ack": found.delivered_no_ack,
        "redelivered": found.redelivered,
        "acknowledged": found.acknowledged,
        "got": found.got,
        "disk reads": found.disk_reads,
        "disk writes": found.disk_writes,
    }
    if queue.mirroring_notice:
        facts["mirroring"] = queue.mirroring_notice
    if found.group is not None:
        facts.update(members.group_facts(found.group))
        facts.update({name: value for name, value in _detail_facts(found.details).items() if name not in facts})
    else:
        facts.update(_detail_facts(found.details))
    return {name: value for name, value in facts.items() if value != ""}


_DETAILS_FIRST = ("q1", "q2", "delta", "q3", "q4", "len", "target_ram_count")


def _detail_facts(details: Mapping[str, Any]) -> dict[str, Any]:
    """The five lengths first, in the order in which messages pass them; then the rest as the node sent it."""
    names = [name for name in _DETAILS_FIRST if name in details]
    names += sorted(name for name in details if name not in _DETAILS_FIRST)
    return {name.replace("_", " "): details[name] for name in names}


@app.command()
def get(
    name: Name,
    count: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 1,
    take: Annotated[bool, typer.Option("--take", help="Remove them; without it they are put back.")] = False,
) -> None:
    """Show messages of a queue. They are put back, marked redelivered, unless you take them."""
    show_messages(name, with_node(lambda node: node.get(name, count=count, requeue=not take)))


@app.command()
def browse(
    name: Name,
    skip: Annotated[int, typer.Option(min=0, max=100_000, help="So many that stand before.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many, and fewer if they are large.")] = 10,
) -> None:
    """Show ready messages in their order and change nothing: none is taken or marked, whichever node is asked."""
    show_messages(name, with_node(lambda node: node.browse(name, skip=skip, limit=limit)))


def show_messages(queue: str, found: Sequence[Any]) -> None:
    if options.json:
        render.print_json([message_facts(got) for got in found])
    elif not found:
        render.print_line(f"queue '{queue}' has no ready messages")
    else:
        for got in found:
            render.print_line(message_line(got))


def message_facts(got: Any) -> dict[str, Any]:
    """A delivery or got message as JSON shows it."""
    return {
        "exchange": got.exchange,
        "routing_key": got.routing_key,
        "redelivered": got.redelivered,
        "queue_headers": dict(got.queue_headers),
        "properties": properties_of(got.message),
        "body": got.message.body,
    }


def properties_of(message: Message) -> dict[str, Any]:
    """Those that are set."""
    return {
        field: value
        for field in message.__dataclass_fields__
        if field != "body" and (value := getattr(message, field)) not in (None, {})
    }


def message_line(got: Any) -> str:
    """A delivery, got message or message of a stream on one line."""
    where = f"{got.exchange or '(default)'} {got.routing_key}"
    again = " redelivered" if getattr(got, "redelivered", False) else ""
    headers = f" {render.words(got.message.headers)}" if got.message.headers else ""
    return f"{render.printable(where)}{again}{headers} | {render.words(got.body)}"


app.command("convert")(conversion.convert)
members.add_to(app)
