"""leveretctl user ..."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from leveret.ctl.terminal import completion, render
from leveret.ctl.terminal.arguments import given_or_none, numbers
from leveret.ctl.terminal.exits import UsageError
from leveret.ctl.terminal.run import with_node

app = typer.Typer(help="Users: list, add, delete, change password or tags.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The user's name.", autocompletion=completion.users)]
NewPassword = Annotated[
    str | None,
    typer.Option(
        "--new-password", help="Shown in the process list; without it you are asked, or it is read from a pipe."
    ),
]
NoPassword = Annotated[bool, typer.Option("--no-password", help="Nobody can log in with a password.")]


@app.command("list")
def list_users() -> None:
    """All users with their tags."""
    render.records(
        with_node(lambda node: node.admin.users()), ("name", "tags", "has_password", "limits"), empty="no users"
    )


@app.command()
def add(
    name: Name,
    new_password: NewPassword = None,
    no_password: NoPassword = False,
    tag: Annotated[list[str] | None, typer.Option(help="administrator, monitoring, policymaker, management.")] = None,
) -> None:
    """Add a user. It may do nothing until `permission set`."""
    password = None if no_password else _password(name, new_password)
    with_node(lambda node: node.admin.add_user(name, password, tag or ()))
    render.done(f"user '{name}' is added", name=name, tags=tag or [])


@app.command()
def delete(name: Name) -> None:
    """Delete a user and its permissions; its connections are closed."""
    with_node(lambda node: node.admin.delete_user(name))
    render.done(f"user '{name}' is deleted", name=name)


@app.command()
def password(name: Name, new_password: NewPassword = None, no_password: NoPassword = False) -> None:
    """Change a user's password, or take it away."""
    wanted = None if no_password else _password(name, new_password)
    with_node(lambda node: node.admin.set_password(name, wanted))
    render.done(f"user '{name}' has {'no' if no_password else 'a new'} password", name=name)


@app.command()
def tags(
    name: Name,
    tag: Annotated[list[str] | None, typer.Argument(help="All that the user is to have.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Take all away.")] = False,
) -> None:
    """Set a user's tags."""
    wanted = given_or_none("tags", tag, none)
    with_node(lambda node: node.admin.set_tags(name, wanted))
    render.done(f"user '{name}' has the tags: {', '.join(wanted) or 'none'}", name=name, tags=wanted)


@app.command()
def limits(
    name: Name,
    limit: Annotated[
        list[str] | None,
        typer.Argument(
            help="max-connections=N, max-channels=N; max-message-rate=N, max-byte-rate=N: what may be published per second "
            "on each node, or publishers wait. Those not named are lifted."
        ),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Lift all of them.")] = False,
) -> None:
    """Set how much a user may have open."""
    wanted = numbers("the limit", given_or_none("limits", limit, none))
    with_node(lambda node: node.admin.set_limits(name, wanted))
    render.done(f"user '{name}' has the limits: {', '.join(limit or ()) or 'none'}", name=name, limits=wanted)


def _password(name: str, given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        given = typer.prompt(f"New password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    elif given is None:
        given = sys.stdin.readline().rstrip("\n")
    if not given:
        raise UsageError("the new password is empty: give one, or --no-password")
    return str(given)
