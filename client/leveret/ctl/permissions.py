"""leveretctl permission ... and leveretctl topic-permission ..."""

from __future__ import annotations

from typing import Annotated

import typer

from leveret.connection import Node
from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.run import options, with_node

app = typer.Typer(help="What users may configure, write to and read from.", no_args_is_help=True)
topic_app = typer.Typer(help="Which routing keys users may use at topic exchanges.", no_args_is_help=True)

User = Annotated[str, typer.Argument(help="The user's name.", autocompletion=completion.users)]
OnlyUser = Annotated[str, typer.Option("--of", help="Only of this user.")]
Exchange = Annotated[str, typer.Argument(help="The topic exchange.")]
Pattern = Annotated[str, typer.Argument(help="A regular expression on names; '^$' matches nothing, '.*' everything.")]


@app.command("list")
def list_permissions(of: OnlyUser = "") -> None:
    """Permissions in the vhost."""
    found = with_node(lambda node: node.admin.permissions(user=of, all_vhosts=options.all_vhosts))
    render.records(found, ("vhost", "user", "configure", "write", "read"), empty="no permissions")


@app.command("set")
def set_permissions(user: User, configure: Pattern, write: Pattern, read: Pattern) -> None:
    """Set all three patterns of a user in the vhost."""
    with_node(lambda node: node.admin.set_permissions(user, configure, write, read))
    render.done(f"user '{user}' has new permissions in vhost '{options.vhost}'", user=user, vhost=options.vhost)


@app.command()
def clear(user: User) -> None:
    """Take a user's access to the vhost away."""

    async def work(node: Node) -> bool:
        there = await node.admin.permissions(user=user)  # of a user that there is, or it is refused
        await node.admin.clear_permissions(user)
        return bool(there)

    what = f"permission of user '{user}' in vhost '{options.vhost}'"
    cleared = f"user '{user}' has no access to vhost '{options.vhost}'"
    render.gone(what, with_node(work), cleared, user=user, vhost=options.vhost)


@topic_app.command("list")
def list_topic_permissions(of: OnlyUser = "") -> None:
    """Topic permissions in the vhost."""
    found = with_node(lambda node: node.admin.topic_permissions(user=of, all_vhosts=options.all_vhosts))
    render.records(found, ("vhost", "user", "exchange", "write", "read"), empty="no topic permissions")


@topic_app.command("set")
def set_topic_permissions(user: User, exchange: Exchange, write: Pattern, read: Pattern) -> None:
    """Set both patterns of a user at a topic exchange of the vhost."""
    with_node(lambda node: node.admin.set_topic_permissions(user, exchange, write, read))
    render.done(f"user '{user}' has new topic permissions at '{exchange}'", user=user, exchange=exchange)


@topic_app.command("clear")
def clear_topic_permissions(
    user: User, exchange: Annotated[str, typer.Argument(help="Not given: all of them.")] = ""
) -> None:
    """Take a user's restrictions away, at one exchange or at all."""

    async def work(node: Node) -> bool:
        there = await node.admin.topic_permissions(user=user)
        await node.admin.clear_topic_permissions(user, exchange)
        return any(exchange in ("", one.exchange) for one in there)

    where = f"at exchange '{exchange}'" if exchange else "at any exchange"
    what = f"topic permission of user '{user}' {where} in vhost '{options.vhost}'"
    render.gone(what, with_node(work), f"user '{user}' has no topic permissions {where}", user=user, exchange=exchange)
