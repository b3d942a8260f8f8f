"""Names that the shell completes: the node is asked which there are, as the command would ask it.

`leveretctl --install-completion` sets the shell up. What cannot be asked for, or not in a second, completes to nothing: a
message in the middle of a command line would help nobody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import typer

import leveret
from leveret.ctl.terminal.exits import ConfigError, UsageError
from leveret.ctl.terminal.run import options, with_node
from leveret.errors import LeveretError

ANSWER_S_MAX = 1.0

Lister = Callable[[leveret.Node], Awaitable[Iterable[Any]]]


def _names(lister: Lister, field: str = "name") -> Callable[[typer.Context, str], list[str]]:
    def complete(context: typer.Context, incomplete: str) -> list[str]:
        _take_options(context)
        try:
            found = with_node(lister)
        except (LeveretError, UsageError, ConfigError, OSError):
            return []
        return sorted({name for one in found if (name := getattr(one, field)).startswith(incomplete)})

    return complete


def _take_options(context: typer.Context) -> None:
    """Those that stand before the command, and of the environment: they say whom to ask."""
    given = context.find_root().params
    for name in ("node", "user", "password", "vhost", "tls_ca", "tls_certificate", "tls_key", "tls_server_name"):
        if given.get(name) is not None:
            setattr(options, name, given[name])
    options.timeout_s = ANSWER_S_MAX


async def _queues(node: leveret.Node) -> Iterable[Any]:
    return await node.topology.queues()


async def _streams(node: leveret.Node) -> Iterable[Any]:
    return [queue for queue in await node.topology.queues() if queue.kind == "stream"]


async def _shovels(node: leveret.Node) -> Iterable[Any]:
    return (await node.admin.shovels()).shovels


queues = _names(_queues)
streams = _names(_streams)
exchanges = _names(lambda node: node.topology.exchanges())
vhosts = _names(lambda node: node.admin.vhosts())
users = _names(lambda node: node.admin.users())
policies = _names(lambda node: node.admin.policies())
shovels = _names(_shovels)
connections = _names(lambda node: node.admin.connections(), "id")
