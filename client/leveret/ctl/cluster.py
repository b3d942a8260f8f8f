"""leveretctl cluster ... and leveretctl node ..."""

from __future__ import annotations

from typing import Annotated

import typer

from leveret.ctl.decommission import decommission
from leveret.ctl.forget import forget
from leveret.ctl.terminal import exits, render
from leveret.ctl.terminal.exits import UsageError
from leveret.ctl.terminal.run import options, with_node
from leveret.records import ClusterNode, ClusterStatus

app = typer.Typer(help="The cluster: its nodes, and who belongs to it.", no_args_is_help=True)
node_app = typer.Typer(help="Maintenance of the node that is asked.", no_args_is_help=True)

COLUMNS = ("name", "kind", "state", "since_ms", "version", "zone", "address", "clients", "alarms")


@app.command()
def status() -> None:
    """The nodes, who leads the metadata, what is missing, and what to look at."""
    found = with_node(lambda node: node.admin.cluster_status())
    if options.json:
        render.print_record(found)
        return
    name = f"{found.cluster_name} ({found.cluster_id})"
    facts = {"cluster": name, "seen by": found.seen_by, "metadata": metadata_in_words(found)}
    render.facts(facts, as_json=found)
    render.print_line("")
    render.rows([cells(one) for one in found.nodes], COLUMNS)
    for problem in found.problems:
        render.print_line(f"! {render.printable(problem)}")


def metadata_in_words(found: ClusterStatus) -> str:
    voters = ", ".join(found.metadata_voters)
    if found.missing:
        return f"no majority of the disk nodes {voters}: {', '.join(found.missing)} missing. Nothing can be declared"
    if not found.metadata_leader:
        return f"no leader at the moment, of {voters}"
    return f"led by {found.metadata_leader}, in term {found.metadata_term}; voters {voters}"


def cells(node: ClusterNode) -> dict[str, object]:
    state = "up" if node.up else "down"
    return {
        "name": node.name,
        "kind": node.kind,
        "state": f"{state}, drained" if node.draining else state,
        "since_ms": node.since_ms,
        "version": node.version,
        "zone": node.zone,
        "address": node.address,
        "clients": ", ".join(f"{one.protocol} {one.address}" for one in node.listeners if one.protocol != "peer"),
        "alarms": ", ".join(alarm.kind for alarm in node.alarms) or "none",
    }


@app.command()
def join(
    address: Annotated[str, typer.Argument(help="HOST:PORT where any node of the other cluster listens for nodes.")],
) -> None:
    """Have the node, which must be empty and alone, start again as one of another cluster."""
    with_node(lambda node: node.admin.join_cluster(address))
    render.done(f"the node starts again, to join the cluster of {address}: see its log", address=address)


@app.command()
def leave(
    lose_queues: Annotated[
        bool, typer.Option("--lose-queues", help="Also where classic queues live on it, which are lost.")
    ] = False,
) -> None:
    """Have the node leave its cluster, and stop: members of replicated queues move to other nodes first. Refused where queues
    would be lost with it. Where you end this command, the node stays; where the node is killed, it goes on when it
    starts. `node decommission` goes on in either case."""
    with_node(lambda node: node.admin.leave_cluster(lose_queues=lose_queues))
    render.done("the node has left its cluster, and stops", node=options.node)


app.command()(forget)


@app.command("change-type")
def change_type(kind: Annotated[str, typer.Argument(help="disk or ram.")]) -> None:
    """Have the node start again as a disk or RAM node."""
    if kind not in ("disk", "ram"):
        raise UsageError(f"a node of type {kind!r}: there are disk and ram")
    with_node(lambda node: node.admin.change_node_kind(kind))
    render.done(f"the node starts again as a {kind} node", kind=kind)


@node_app.command()
def check(
    name: Annotated[str, typer.Argument(help="The node; the one that is asked if not given.")] = "",
) -> None:
    """Whether a node may be stopped now: exit code 0 if everything that it has a part in has a majority without it, else 75."""
    found, critical = with_node(lambda node: node.admin.check_node(name))
    if options.json:
        render.print_json({"node": found, "critical": critical})
    elif not critical:
        render.print_line(f"node '{found}' may be stopped: the others have a majority of everything without it")
    for one in () if options.json else critical:
        render.print_line(render.printable(f"without node '{found}' {one}"))
    if critical:
        raise typer.Exit(exits.TEMPORARY)


@node_app.command()
def drain() -> None:
    """Have the node hand over what it leads, and send its clients away; it goes on storing what others send it."""
    with_node(lambda node: node.admin.drain_node())
    render.done("the node is drained: stop it, or have it serve clients again with `leveretctl node revive`")


node_app.command()(decommission)


@node_app.command()
def revive() -> None:
    """Have a drained node serve clients again."""
    with_node(lambda node: node.admin.revive_node())
    render.done("the node serves clients again")
