"""leveretctl queue ...: where replicated queues have their members, and which of them leads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Any

import typer

import leveret
from leveret.ctl.terminal import completion, exits, render
from leveret.ctl.terminal.exits import UsageError
from leveret.ctl.terminal.run import options, with_node
from leveret.records import QueueChange, QueueGroup, QueueMember, QueueMemberMove

Name = Annotated[str, typer.Argument(help="The queue's name.", autocompletion=completion.queues)]
Node = Annotated[str, typer.Argument(help="The name of a node, as in `leveretctl cluster status`.")]
VhostPattern = Annotated[str, typer.Option(metavar="REGEX", help="Only in vhosts with such names.")]
QueuePattern = Annotated[str, typer.Option(metavar="REGEX", help="Only queues with such names.")]
ErrorsOnly = Annotated[bool, typer.Option("--errors-only", help="Print only what could not be done.")]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Also where too few of the other members can be reached to go on.")
]

By = Annotated[
    str, typer.Option(help="What leading costs: queues, bytes, or entries (that the log grows by in a second).")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done, and why.")]
BALANCED_BY = ("queues", "bytes", "entries")

COLUMNS = (
    "node", "state", "membership", "away_since_ms", "lag", "term", "commit", "applied", "last", "snapshot", "member",
)  # fmt: skip


def add_to(app: typer.Typer) -> None:
    """The commands of this module."""
    for name, command in (
        ("add-member", add_member),
        ("delete-member", delete_member),
        ("transfer", transfer),
        ("grow", grow),
        ("grow-to", grow_to),
        ("shrink", shrink),
        ("rebalance", rebalance),
    ):
        app.command(name)(command)


def add_member(name: Name, node: Node) -> None:
    """Give a node a copy of a quorum queue or stream. It votes once it has caught up."""
    with_node(lambda one: one.admin.add_queue_member(name, node))
    render.done(f"queue '{name}' has a member on '{node}', which votes once it has caught up", queue=name, node=node)


def delete_member(name: Name, node: Node, anyway: Anyway = False) -> None:
    """Have a node give up its copy of a quorum queue or stream."""
    with_node(lambda one: one.admin.delete_queue_member(name, node, anyway=anyway))
    render.done(f"queue '{name}' has no member on '{node}' any more", queue=name, node=node)


def transfer(name: Name, node: Node) -> None:
    """Have the member on a node lead a quorum queue or stream."""
    with_node(lambda one: one.admin.transfer_queue_leader(name, node))
    render.done(f"queue '{name}' is led by '{node}'", queue=name, node=node)


def grow(
    node: Node,
    which: Annotated[str, typer.Argument(help="all; or even: only queues with an even number of members.")],
    vhost_pattern: VhostPattern = "",
    queue_pattern: QueuePattern = "",
    errors_only: ErrorsOnly = False,
) -> None:
    """Give a node a copy of each quorum queue and stream that has none there."""
    if which not in ("all", "even"):
        raise UsageError(f"to grow {which!r} queues: there are all and even")
    found = with_node(
        lambda one: one.admin.grow_queues(
            node, even_only=which == "even", vhost_pattern=vhost_pattern, queue_pattern=queue_pattern
        )
    )
    show_changes(found, errors_only, "every queue that was asked for has a member there")


def grow_to(
    count: Annotated[
        int, typer.Argument(min=1, max=7, help="Members that each queue is to have; rather an odd number.")
    ],
    vhost_pattern: VhostPattern = "",
    queue_pattern: QueuePattern = "",
    errors_only: ErrorsOnly = False,
) -> None:
    """Give quorum queues and streams as many copies, on other zones and less loaded nodes first."""
    found = with_node(
        lambda one: one.admin.grow_queues_to(count, vhost_pattern=vhost_pattern, queue_pattern=queue_pattern)
    )
    show_changes(found, errors_only, f"every queue that was asked for has {count} members already")


def shrink(
    node: Node,
    vhost_pattern: VhostPattern = "",
    queue_pattern: QueuePattern = "",
    errors_only: ErrorsOnly = False,
    anyway: Anyway = False,
) -> None:
    """Have a node give up its copies of quorum queues and streams."""
    found = with_node(
        lambda one: one.admin.shrink_queues(
            node, anyway=anyway, vhost_pattern=vhost_pattern, queue_pattern=queue_pattern
        )
    )
    show_changes(found, errors_only, "no queue that was asked for has a member there")


def rebalance(
    vhost_pattern: VhostPattern = "",
    queue_pattern: QueuePattern = "",
    by: By = "queues",
    dry_run: DryRun = False,
    members: Annotated[
        bool,
        typer.Option("--members", help="Move copies, one after the other, where nodes keep much more than others."),
    ] = False,
) -> None:
    """Have the nodes carry about as much each by leading quorum queues and streams; or by keeping copies of them.

    Cut short, it may be given again: it goes on with what is left.
    """
    if members:
        move(vhost_pattern, queue_pattern, by, dry_run)
    else:
        spread("", vhost_pattern, queue_pattern, by, dry_run)


def move(vhost_pattern: str, queue_pattern: str, by: str, dry_run: bool) -> None:
    """A line for each step, as it is made. Exits with TEMPORARY when one failed."""
    _check_by(by)

    async def work(node: leveret.Node) -> QueueMemberMove | None:
        found = node.admin.move_queue_members(
            vhost_pattern=vhost_pattern, queue_pattern=queue_pattern, by=by, dry_run=dry_run
        )
        last: QueueMemberMove | None = None
        async with aclosing(found):
            async for last in found:
                _show_move(last, by)
        return last

    last = with_node(work)
    if last is None and not options.json:
        render.print_line("the nodes keep about as much each already")
    if last is not None and last.state == "failed":
        raise typer.Exit(exits.TEMPORARY)


def _show_move(one: QueueMemberMove, by: str) -> None:
    if options.json:
        render.print_record(one)
        return
    unit = {"queues": "queues", "bytes": "bytes", "entries": "entries/s"}[by]
    if one.target:
        loads = f"{one.source} keeps {one.source_load} {unit}, {one.target} {one.target_load}"
        what = f"from {one.source} to {one.target} ({loads})"
    else:
        what = f"away from {one.source} (it has one member too many)"
    end = f": {one.error}" if one.error else ""
    line = (
        f"{one.number} of {one.total}: a member of queue '{one.queue}' in vhost '{one.vhost}' {what}: {one.state}{end}"
    )
    render.print_line(render.printable(line))


def spread(kind: str, vhost_pattern: str, queue_pattern: str, by: str, dry_run: bool) -> None:
    """Leaders of quorum queues, streams, or both."""
    _check_by(by)
    found = with_node(
        lambda one: one.admin.rebalance_queues(
            kind=kind, vhost_pattern=vhost_pattern, queue_pattern=queue_pattern, by=by, dry_run=dry_run
        )
    )
    show_changes(found, False, "the nodes carry as much each as the members allow already")


def _check_by(by: str) -> None:
    if by not in BALANCED_BY:
        raise UsageError(f"to rebalance by {by!r}: there are {', '.join(BALANCED_BY)}")


def show_changes(found: Sequence[QueueChange], errors_only: bool, nothing: str) -> None:
    """Exits with TEMPORARY when something could not be done: it may work later, and what was done is not done twice."""
    wanted = [change for change in found if change.error or not errors_only]
    if options.json:
        render.print_json([render.fields_of(change) for change in wanted])
    elif not found:
        render.print_line(nothing)
    else:
        for change in wanted:
            what = f"failed: {change.error}" if change.error else change.done
            render.print_line(render.printable(f"queue '{change.queue}' in vhost '{change.vhost}': {what}"))
    if any(change.error for change in found):
        raise typer.Exit(exits.TEMPORARY)


def show_group(group: QueueGroup) -> None:
    """Below what `queue status` shows of any queue."""
    render.print_line("")
    render.rows([_cells(member) for member in group.members], COLUMNS)


def group_facts(group: QueueGroup) -> dict[str, Any]:
    voters = sum(1 for member in group.members if member.membership == "voter")
    pending = ", a change of the members is under way" if group.change_pending else ""
    return {
        "leader": group.leader or f"none: of {voters} voters, {group.needed} must be there",
        "members": f"{voters} voters, {len(group.members) - voters} learners{pending}",
        "term": group.term,
        "committed": group.commit,
        "not committed yet": f"{group.open_entries} entries, {render.size(group.open_bytes)}",
    }


def _cells(member: QueueMember) -> dict[str, object]:
    return {column: getattr(member, column) for column in COLUMNS}
