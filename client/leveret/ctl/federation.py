"""leveretctl federation ..."""

from __future__ import annotations

from typing import Annotated

import typer

from leveret.ctl.terminal import render
from leveret.ctl.terminal.run import options, with_node

app = typer.Typer(help="Federation: exchanges and queues that get messages of another broker.", no_args_is_help=True)

COLUMNS = ("vhost", "type", "name", "upstream", "status", "node", "id", "passed_on", "error")
UP = ("running", "starting")


@app.command()
def status(down: Annotated[bool, typer.Option(help="Only links that neither run nor start.")] = False) -> None:
    """The links that there should be, on whichever node of the cluster."""
    found = with_node(lambda node: node.admin.federation_links(all_vhosts=options.all_vhosts))
    links = [one for one in found.links if not (down and one.status in UP)]
    if options.json or links:
        render.records(links, COLUMNS, empty="")
    else:
        render.print_line(f"no federation links {'are down' if down else 'run'} in vhost '{options.vhost}'")
    if found.missing_nodes and not options.json:
        render.print_line(f"not heard of in time: {', '.join(found.missing_nodes)}")


@app.command()
def restart(
    link: Annotated[str, typer.Argument(help="Its id, as `status` shows it.")],
    node: Annotated[str, typer.Argument(help="The node that runs it.")],
) -> None:
    """Connect a link anew."""
    with_node(lambda connected: connected.admin.restart_federation_link(link, node))
    render.print_line(f"federation link {link} begins again")
