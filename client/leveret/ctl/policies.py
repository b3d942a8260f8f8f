"""leveretctl policy ..."""

from __future__ import annotations

from typing import Annotated

import typer

from leveret.connection import Node
from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.arguments import json_object
from leveret.ctl.terminal.run import options, with_node

app = typer.Typer(help="Policies: limits and behaviour for queues and exchanges by name.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The policy's name.", autocompletion=completion.policies)]
Operator = Annotated[bool, typer.Option("--operator", help="An operator policy, which users cannot change.")]


@app.command("list")
def list_policies(operator: Operator = False) -> None:
    """The policies of the vhost."""
    found = with_node(lambda node: node.admin.policies(operator=operator, all_vhosts=options.all_vhosts))
    columns = ("vhost", "name", "pattern", "apply_to", "priority", "definition")
    render.records(found, columns, empty="no policies")


@app.command("set")
def set_policy(
    name: Name,
    pattern: Annotated[str, typer.Argument(help="A regular expression on the names that it applies to.")],
    definition: Annotated[str, typer.Argument(help="""JSON, such as '{"max-length": 1000}'.""")],
    apply_to: Annotated[
        str, typer.Option(help="all, exchanges, queues, classic_queues, quorum_queues or streams.")
    ] = "all",
    priority: Annotated[
        int, typer.Option(min=-(1 << 63), max=(1 << 63) - 1, help="Of several that match, the highest applies.")
    ] = 0,
    operator: Operator = False,
) -> None:
    """Set a policy. It holds at once, for what exists too."""
    parsed = json_object("the definition", definition)
    with_node(
        lambda node: node.admin.set_policy(
            name, pattern, parsed, apply_to=apply_to, priority=priority, operator=operator
        )
    )
    render.done(f"policy '{name}' is set in vhost '{options.vhost}'", name=name, vhost=options.vhost, operator=operator)


@app.command()
def clear(name: Name, operator: Operator = False) -> None:
    """Remove a policy. One that does not exist is fine."""

    async def work(node: Node) -> bool:
        there = await node.admin.policies(operator=operator)
        await node.admin.clear_policy(name, operator=operator)
        return any(one.name == name for one in there)

    what = f"{'operator ' if operator else ''}policy '{name}' in vhost '{options.vhost}'"
    cleared = f"policy '{name}' is cleared in vhost '{options.vhost}'"
    render.gone(what, with_node(work), cleared, name=name, vhost=options.vhost)
