"""leveretctl stream ..."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

import leveret
from leveret.ctl import members
from leveret.ctl.queues import message_line, properties_of
from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.arguments import pairs
from leveret.ctl.terminal.exits import UsageError
from leveret.ctl.terminal.run import options, with_node
from leveret.errors import PreconditionFailed
from leveret.records import QueueGroup, QueueMember, QueueStatus, StreamConsumer
from leveret.stream import Place

app = typer.Typer(
    help="Streams: list, declare, read from any place, see members and readers.",
    epilog="What holds for any queue, such as deleting one or growing it: `leveretctl queue`; limits: `leveretctl policy`.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="The stream's name.", autocompletion=completion.streams)]
MaxAge = Annotated[
    str | None, typer.Option(help="Remove segments older than this: a number and one of Y M D h m s, as 7D.")
]
MaxLengthBytes = Annotated[int | None, typer.Option(min=0, help="Remove the oldest segments beyond this.")]
Arguments = Annotated[list[str] | None, typer.Option("--argument", "-a", metavar="KEY=VALUE", help="May be repeated.")]

COLUMNS = ("vhost", "name", "state", "ready", "ready_bytes", "consumers", "home", "policy")
MEMBER_COLUMNS = (
    "node", "state", "membership", "away_since_ms", "first_offset", "committed_offset", "segments", "bytes", "readers", "lag",
)  # fmt: skip
READER_COLUMNS = ("node", "consumer_tag", "offset", "lag", "lag_s", "bytes_sent")
PUBLISHER_COLUMNS = (
    "vhost", "stream", "connection", "user", "publisher_id", "reference", "published", "confirmed", "refused",
)  # fmt: skip
CONSUMER_COLUMNS = (
    "vhost", "stream", "connection", "user", "subscription_id", "activity", "group", "credit", "delivered", "offset",
    "lag", "lag_s",
)  # fmt: skip
GROUP_COLUMNS = ("vhost", "stream", "group", "super_stream", "consumers", "active", "offset", "lag", "lag_s")
PAGE = 500  # messages that are asked for at once
COUNT = 10  # that are shown, unless asked otherwise


@app.command("list")
def list_streams() -> None:
    """All streams of the vhost with what they hold."""
    found = with_node(lambda node: node.topology.queues(all_vhosts=options.all_vhosts))
    streams = sorted((one for one in found if one.kind == "stream"), key=lambda one: (one.vhost, one.name))
    render.records(streams, COLUMNS, empty=f"no streams in vhost '{options.vhost}'")


@app.command()
def declare(
    name: Name,
    max_age: MaxAge = None,
    max_length_bytes: MaxLengthBytes = None,
    segment_bytes: Annotated[int | None, typer.Option(min=1, help="Size at which a segment ends.")] = None,
    filter_bytes: Annotated[int | None, typer.Option(min=16, max=255, help="Size of each chunk's filter.")] = None,
    replicas: Annotated[int | None, typer.Option("--members", min=1, help="On so many nodes; else on all.")] = None,
    leader_locator: Annotated[str | None, typer.Option(help="client-local or balanced.")] = None,
    argument: Arguments = None,
) -> None:
    """Declare a stream; one that is declared just so already is fine. Without a limit nothing is ever removed."""
    declared = with_node(
        lambda node: node.stream(name).declare(
            max_age=max_age,
            max_length_bytes=max_length_bytes,
            segment_bytes_max=segment_bytes,
            filter_bytes=filter_bytes,
            members=replicas,
            leader_locator=leader_locator,
            arguments=pairs("--argument", argument or ()),
        )
    )
    render.done(
        f"stream '{name}' is declared: {declared.ready} messages, {declared.consumers} consumers",
        name=name,
        messages=declared.ready,
        consumers=declared.consumers,
    )


@app.command()
def status(name: Name) -> None:
    """Offsets, sizes and leader of a stream, and each of its members: how far it is, and how many read there."""
    found = with_node(lambda node: _status(node, name))
    group = found.group
    render.facts(_facts(found, group), as_json=found)
    if group is not None and not options.json:
        render.print_line("")
        render.rows([_member_cells(member) for member in group.members], MEMBER_COLUMNS)


@dataclass(slots=True, frozen=True)
class ReaderLine:
    """A reader, and where it reads."""

    node: str
    consumer_tag: str
    offset: int
    lag: int
    lag_s: float
    bytes_sent: int


@app.command()
def readers(name: Name) -> None:
    """Who reads a stream, on which node, and by how many messages and how long each is behind: the furthest behind first."""
    found = with_node(lambda node: _status(node, name))
    lines = [
        ReaderLine(member.node, one.consumer_tag, one.offset, one.lag, one.lag_s, one.bytes_sent)
        for member in (found.group.members if found.group is not None else ())
        for one in member.readers
    ]
    lines.sort(key=lambda one: (-one.lag, one.node, one.consumer_tag))
    render.records(lines, READER_COLUMNS, empty=f"nobody reads stream '{name}' on a node that has a member of it")


OneStream = Annotated[str, typer.Argument(help="Only of this stream.", autocompletion=completion.streams)]


@app.command()
def publishers(name: OneStream = "") -> None:
    """Who publishes over the stream protocol, through the node that is asked."""
    found = with_node(lambda node: node.admin.stream_publishers(name, all_vhosts=options.all_vhosts))
    render.records(found, PUBLISHER_COLUMNS, empty="nobody publishes over the stream protocol here")


@app.command()
def consumers(name: OneStream = "") -> None:
    """Who reads over the stream protocol, through the node that is asked, and how far behind: the furthest first."""
    found = with_node(lambda node: node.admin.stream_consumers(name, all_vhosts=options.all_vhosts))
    found.sort(key=lambda one: (-one.lag, one.stream, one.connection, one.subscription_id))
    render.records(found, CONSUMER_COLUMNS, empty="nobody reads over the stream protocol here")


@dataclass(slots=True, frozen=True)
class GroupLine:
    """A group of single active consumers, as the node that is asked knows it."""

    vhost: str
    stream: str
    group: str
    super_stream: str
    consumers: int
    active: str  # the connection of the one that reads; empty: it is on another node, or there is none
    offset: int
    lag: int
    lag_s: float


@app.command()
def groups(name: OneStream = "") -> None:
    """Groups of single active consumers that have some on the node that is asked, and which of these reads."""
    found = with_node(lambda node: node.admin.stream_consumers(name, all_vhosts=options.all_vhosts))
    render.records(group_lines(found), GROUP_COLUMNS, empty="no group of single active consumers here")


def group_lines(found: Sequence[StreamConsumer]) -> list[GroupLine]:
    by_group: dict[tuple[str, str, str], list[StreamConsumer]] = {}
    for one in found:
        if one.group:
            by_group.setdefault((one.vhost, one.stream, one.group), []).append(one)
    return [_group_line(*key, together) for key, together in sorted(by_group.items())]


def _group_line(vhost: str, stream: str, group: str, together: list[StreamConsumer]) -> GroupLine:
    active = next((one for one in together if one.active), None)
    place = (active.connection, active.offset, active.lag, active.lag_s) if active is not None else ("", 0, 0, 0)
    return GroupLine(vhost, stream, group, together[0].super_stream, len(together), *place)


@app.command()
def read(
    name: Name,
    offset: Annotated[
        str | None, typer.Option(help="Where to begin: a number, first, last (the last chunk), next, or an age as 5m.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Begin at this moment instead, as 2026-11-25T08:30:00Z; without a zone it is UTC."),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Stop after so many; 0 is never.")] = COUNT,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for what is published; Ctrl-C ends it.")] = False,
    filter_value: Annotated[
        list[str] | None,
        typer.Option(
            "--filter", help="Only messages published with this filter value. May be repeated. With --follow."
        ),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Bodies only, a line each.")] = False,
) -> None:
    """Show messages of a stream with their offsets, from the first one on or from where you say. Nothing changes by it."""
    begin = _place(offset, time)
    if filter_value and not follow:
        raise UsageError("--filter needs --follow: only readers filter")

    async def work(node: leveret.Node) -> None:
        stream = node.stream(name)
        found = _followed(stream, begin, filter_value or []) if follow else _stored(stream, begin, count)
        shown = 0
        async for message in found:
            _show(message, raw)
            shown += 1
            if shown == count:
                return
        if not shown and not options.json:
            render.print_line(f"stream '{name}' has no messages there")

    with_node(work)


@app.command("add-super-stream")
def add_super_stream(
    name: Name,
    partitions: Annotated[int, typer.Option(min=0, max=1000, help="So many, named NAME-0, NAME-1 and so on.")] = 0,
    binding_key: Annotated[
        list[str] | None, typer.Option("--binding-key", help="Instead: a partition NAME-KEY for each. May be repeated.")
    ] = None,
    max_age: MaxAge = None,
    max_length_bytes: MaxLengthBytes = None,
    argument: Arguments = None,
) -> None:
    """Create several streams under one name, over which publishers spread their messages; all of them, or nothing."""
    if bool(partitions) == bool(binding_key):
        raise UsageError("give either --partitions or --binding-key")
    found = with_node(
        lambda node: node.super_stream(name).create(
            partitions=partitions,
            binding_keys=binding_key or (),
            max_age=max_age,
            max_length_bytes=max_length_bytes,
            arguments=pairs("--argument", argument or ()),
        )
    )
    render.done(f"super stream '{name}' is created: {', '.join(found)}", name=name, partitions=found)


@app.command("delete-super-stream")
def delete_super_stream(name: Name) -> None:
    """Delete a super stream with its partitions and all that is in them."""
    with_node(lambda node: node.super_stream(name).delete())
    render.done(f"super stream '{name}' is deleted", name=name)


@app.command()
def partitions(name: Name) -> None:
    """The streams that a super stream consists of, in their order."""
    found = with_node(lambda node: node.super_stream(name).partitions())
    if options.json:
        render.print_json(found)
    else:
        for one in found:
            render.print_line(render.printable(one))


@app.command("stored-offset")
def stored_offset(
    name: Name,
    reference: Annotated[str, typer.Argument(help="The name under which a reader stores its offset.")],
    offset: Annotated[int | None, typer.Option("--set", min=0, help="Store this one instead.")] = None,
) -> None:
    """The offset that is stored in a stream under a name: whoever reads with it begins behind that."""

    async def work(node: leveret.Node) -> int | None:
        stream = node.stream(name)
        if offset is not None:
            await stream.store_offset(reference, offset)
        return await stream.stored_offset(reference)

    found = with_node(work)
    text = f"stream '{name}' has offset {found} stored under '{reference}'"
    if found is None:
        text = f"stream '{name}' has no offset stored under '{reference}'"
    render.done(render.printable(text), name=name, reference=reference, offset=found)


@app.command()
def rebalance(
    vhost_pattern: members.VhostPattern = "",
    queue_pattern: members.QueuePattern = "",
    by: members.By = "queues",
    dry_run: members.DryRun = False,
) -> None:
    """Have the nodes carry about as much each by leading streams. Members stay where they are."""
    members.spread("stream", vhost_pattern, queue_pattern, by, dry_run)


app.command("add-replica")(members.add_member)
app.command("delete-replica")(members.delete_member)
app.command("transfer-leader")(members.transfer)


async def _status(node: leveret.Node, name: str) -> QueueStatus:
    found = await node.stream(name).status()
    if found.queue.kind != "stream":
        raise PreconditionFailed(f"queue '{name}' is no stream: see `leveretctl queue status {name}`")
    return found


def _facts(found: QueueStatus, group: QueueGroup | None) -> dict[str, Any]:
    queue, details = found.queue, found.details
    facts: dict[str, Any] = {
        "stream": f"{queue.name} in vhost {queue.vhost}",
        "state": queue.state,
        "policy": queue.policy,
        "operator policy": queue.operator_policy,
        "arguments": {name: value for name, value in queue.arguments.items() if name != "x-queue-type"},
    }
    if "first_offset" in details:  # this node has a member
        facts |= {
            "messages": queue.ready,
            "size_bytes": queue.ready_bytes,
            "first offset": details["first_offset"],
            "committed offset": details["committed_offset"],
            "segments": details["segments"],
        }
    facts |= members.group_facts(group) if group is not None else {}
    return {name: value for name, value in facts.items() if value not in ("", {})}


def _member_cells(member: QueueMember) -> dict[str, object]:
    cells = {column: getattr(member, column) for column in MEMBER_COLUMNS}
    return {**cells, "readers": len(member.readers), "bytes": render.size(member.bytes)}


def _place(offset: str | None, time: str | None) -> Place:
    if offset is not None and time is not None:
        raise UsageError("give either --offset or --time: they are two places to begin at")
    if time is not None:
        try:
            moment = datetime.fromisoformat(time)
        except ValueError as error:
            raise UsageError(f"--time {time!r} is no moment as 2026-11-25T08:30:00Z: {error}") from error
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    if offset is None:
        return "first"
    return int(offset) if offset.isascii() and offset.isdigit() else offset


async def _stored(stream: leveret.Stream, begin: Place, count: int) -> AsyncIterator[leveret.StreamMessage]:
    """What there is, a page at a time."""
    place, left = begin, count
    while page := await stream.browse(place, limit=min(left, PAGE) if count else PAGE):
        for message in page:
            yield message
        left -= len(page)
        if count and not left:
            return
        place = page[-1].offset + 1


async def _followed(
    stream: leveret.Stream, begin: Place, filter_values: list[str]
) -> AsyncIterator[leveret.StreamMessage]:
    reader = stream.read(begin, filter_values=filter_values, name="leveretctl stream read")
    try:
        await asyncio.wait_for(reader.start(), options.timeout_s)
    except TimeoutError as error:
        raise leveret.TimedOut(
            f"no node begins to read stream '{stream.name}' within {options.timeout_s:g} s"
        ) from error
    async with reader:
        async for message in reader:
            yield message


def _show(message: leveret.StreamMessage, raw: bool) -> None:
    if raw:
        render.print_line(message.body.decode("utf-8", "backslashreplace"))
    elif options.json:
        facts = {"offset": message.offset, "exchange": message.exchange, "routing_key": message.routing_key}
        render.print_json({**facts, "properties": properties_of(message.message), "body": message.body}, indent=None)
    else:
        render.print_line(f"{message.offset} {message_line(message)}")
