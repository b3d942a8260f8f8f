"""leveretctl node decommission: a node leaves its cluster for good, with a plan before and progress meanwhile."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

import leveret
from leveret import errors
from leveret.ctl.terminal import exits, render
from leveret.ctl.terminal.run import options, with_node
from leveret.records import DecommissionPlan, DecommissionProgress, PlannedMove

MOVES = ("vhost", "queue", "kind", "to", "copies", "leads", "bytes")
LOST = ("vhost", "queue", "messages", "bytes")
LOOK_S = 0.2
ENDED = ("left", "failed")


def decommission(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")] = False,
    confirm: Annotated[
        str, typer.Option(metavar="NAME", help="The name of the node, for who is sure; without it, it is asked for.")
    ] = "",
    lose_queues: Annotated[
        bool, typer.Option("--lose-queues", help="Also where classic queues live on it, which are lost.")
    ] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="The node stays; what was moved is not moved back.")] = False,
) -> int:
    """Have the node that is asked leave its cluster for good: members of replicated queues move to other nodes, then it is
    removed and stops. It waits for what is in its way, and cut short at any point it goes on when it starts again, until it
    has left or --cancel takes that back."""
    if cancel:
        return _cancel()
    plan = with_node(lambda node: node.admin.plan_decommission())
    if dry_run:
        _show_plan(plan)
        return exits.TEMPORARY if plan.obstacles else exits.OK
    if not confirm:
        _show_plan(plan)
        confirm = typer.prompt(f"Type the name of the node, {plan.node}, to have it leave for good")
    last = with_node(lambda node: _carry_out(node, confirm, lose_queues))
    if options.json:
        render.print_record(last)
    elif last.phase == "left":
        render.print_line(
            f"node '{last.node}' has left its cluster, and stops. Its data directory is of no use any more"
        )
    else:
        render.print_line(render.printable(f"node '{last.node}' stays in its cluster: {last.error}"))
    return exits.OK if last.phase == "left" else exits.TEMPORARY


async def _carry_out(node: leveret.Node, confirm: str, lose_queues: bool) -> DecommissionProgress:
    """How it ended. Once it is told to leave, it goes on whether anybody looks or not."""
    shown = None
    now = await node.admin.decommission_node(confirm, lose_queues=lose_queues)
    while now.phase not in ENDED:
        if not options.json and (now.phase, now.moved, now.error) != shown:
            shown = now.phase, now.moved, now.error
            render.print_line(_in_words(now))
        await asyncio.sleep(LOOK_S)
        try:
            now = await node.admin.decommission_node()
        except errors.ConnectionLost:
            if now.phase == "leaving":  # it stops as soon as it is removed
                return DecommissionProgress(now.node, "left", now.moved, now.total, "")
            raise
    return now


def _cancel() -> int:
    now = with_node(lambda node: node.admin.cancel_decommission())
    if options.json:
        render.print_record(now)
    else:
        render.print_line(f"node '{now.node}' stays in its cluster")
    return exits.OK


def _in_words(now: DecommissionProgress) -> str:
    if now.phase == "waiting":
        return render.printable(f"waiting, and going on by itself: {now.error}")
    return f"moving: {now.moved} of {now.total} queues are done" if now.phase == "moving" else f"{now.phase} ..."


def _show_plan(plan: DecommissionPlan) -> None:
    if options.json:
        render.print_record(plan)
        return
    size = sum(move.bytes for move in plan.moves)
    render.print_line(
        f"{len(plan.moves)} replicated queues have a member on node '{plan.node}'; {render.size(size)} are to be sent"
    )
    render.rows([_cells(move) for move in plan.moves], MOVES)
    if plan.lost:
        messages = sum(one.messages for one in plan.lost)
        render.print_line(f"lost: {len(plan.lost)} classic queues with {messages} messages, which live there")
        render.rows([render.fields_of(one) for one in plan.lost], LOST)
    for obstacle in plan.obstacles:
        render.print_line(f"! {render.printable(obstacle)}")


def _cells(move: PlannedMove) -> dict[str, object]:
    fewer = f"{move.copies_before} -> {move.copies}" if move.copies != move.copies_before else move.copies
    return {**render.fields_of(move), "to": move.to or "nowhere", "copies": fewer}
