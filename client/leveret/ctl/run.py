"""From a command to its exit code: the options that every command has, the connection, and how results are shown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import leveret
from leveret.channels import DEFAULT_TARGET
from leveret.ctl.exits import ConfigError

T = TypeVar("T")

PASSWORD_VARIABLE = "LEVERET_PASSWORD"


@dataclass(slots=True)
class Options:
    """What stands before or after any command."""

    node: str = DEFAULT_TARGET
    user: str = "guest"
    password: str | None = None
    vhost: str = "/"
    json: bool = False
    timeout_s: float = 10.0
    tls_ca: Path | None = None
    all_vhosts: bool = False


# One process runs one command, so its options are a fact about the process.
options = Options()


def with_node(work: Callable[[leveret.Node], Awaitable[T]]) -> T:
    """Connect, do it, disconnect."""

    async def run() -> T:
        async with connected() as node:
            return await work(node)

    return asyncio.run(run())


def connected() -> leveret.Node:
    password = options.password if options.password is not None else os.environ.get(PASSWORD_VARIABLE, "guest")
    tls = None if options.tls_ca is None else leveret.Tls(ca=_read(options.tls_ca))
    return leveret.connect(
        options.node,
        user=options.user,
        password=password,
        vhost=options.vhost,
        tls=tls,
        timeout_s=options.timeout_s,
        name="leveretctl",
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--tls-ca {path} cannot be read: {error.strerror}") from error
