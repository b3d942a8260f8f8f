"""leveretctl cluster forget: a node that is down is taken out of its cluster, with what only it had."""

from __future__ import annotations

from typing import Annotated

import typer

from leveret.ctl.terminal import exits, render
from leveret.ctl.terminal.exits import UsageError
from leveret.ctl.terminal.run import options, with_node
from leveret.errors import PreconditionFailed
from leveret.records import ForgetPlan

LIMIT, LIMIT_MAX = 20, 1_000
COLUMNS = ("vhost", "queue")


def forget(
    name: Annotated[str, typer.Argument(help="The node, which must be down.")],
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also where replicated queues have no majority without it, and are lost.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go with it, and change nothing.")] = False,
    confirm: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The node's name again: without it, it is asked for where queues go with it."
        ),
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many of the lost queues are named.")] = LIMIT,
) -> int:
    """Take a node that is down out of the cluster, for good. Classic queues that live there are lost: they are shown before,
    and its name is to be typed. Its members of quorum queues are replaced."""
    if confirm and confirm != name:
        raise UsageError(f"--confirm {confirm}: node {name!r} is to be forgotten, and another name was typed")
    if dry_run or not confirm:
        plan = with_node(lambda node: node.admin.plan_forget(name, limit=limit))
        if dry_run:
            _show(plan)
            return exits.TEMPORARY if plan.obstacles else exits.OK
        if plan.obstacles and not anyway:
            raise PreconditionFailed(plan.obstacles[0])
        if plan.count and not _typed(plan):
            raise UsageError(f"another name than {name!r} was typed: nothing was done")
    with_node(lambda node: node.admin.forget_node(name, anyway=anyway))
    render.done(f"node '{name}' belongs to the cluster no more", name=name)
    return exits.OK


def _typed(plan: ForgetPlan) -> bool:
    _show(plan)
    text = f"Type the name of the node, {plan.node}, to have it forgotten with its queues"
    return bool(typer.prompt(text, err=True) == plan.node)


def _show(plan: ForgetPlan) -> None:
    if options.json:
        render.print_record(plan)
        return
    if plan.count:
        render.print_line(
            f"{plan.count} classic queues live on node '{plan.node}' and go with it, with messages that only it could count"
        )
        render.rows([render.fields_of(one) for one in plan.lost], COLUMNS)
    else:
        render.print_line(f"no classic queues live on node '{plan.node}'")
    if plan.count > len(plan.lost):
        render.print_line(f"and {plan.count - len(plan.lost)} more")
    for obstacle in plan.obstacles:
        render.print_line(f"! {render.printable(obstacle)}")
