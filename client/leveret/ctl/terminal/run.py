"""From a command to its exit code: the options that every command has, the connection, and how results are shown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import leveret
from leveret.channels import DEFAULT_TARGET
from leveret.ctl.terminal.exits import ConfigError, UsageError
from leveret.errors import NotFound, QueueAway

T = TypeVar("T")

PASSWORD_VARIABLE = "LEVERET_PASSWORD"


@dataclass(slots=True)
class Options:
    """What stands before or after any command."""

    node: str = DEFAULT_TARGET
    user: str | None = None  # guest, or with a certificate whom that names
    password: str | None = None
    vhost: str = "/"
    json: bool = False
    timeout_s: float = 10.0
    tls_ca: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_server_name: str | None = None
    all_vhosts: bool = False
    sort: str | None = None  # this and what follows: of lists
    reverse: bool = False
    where: Sequence[str] = ()
    columns: Sequence[str] = ()
    watch_s: float = 0.0  # 0: once


# One process runs one command, so its options are a fact about the process.
options = Options()


def with_node(work: Callable[[leveret.Node], Awaitable[T]]) -> T:
    """Connect, do it, disconnect."""

    async def run() -> T:
        async with connected() as node:
            return await work(node)

    return asyncio.run(run())


async def is_there(asked: Awaitable[object]) -> bool:
    """Whether a passive declaration finds it. What is on a node that is down is there, too."""
    try:
        await asked
    except QueueAway:
        return True
    except NotFound:
        return False
    return True


def connected() -> leveret.Node:
    password = options.password if options.password is not None else os.environ.get(PASSWORD_VARIABLE, "guest")
    user = options.user
    if user is None and options.tls_certificate is None:
        user = "guest"
    tls = _tls()
    try:
        return leveret.connect(
            options.node,
            user=user,
            password=password,
            vhost=options.vhost,
            tls=tls,
            timeout_s=options.timeout_s,
            name="leveretctl",
        )
    except ValueError as error:
        raise UsageError(f"--node {options.node!r}: {error}") from error


def _tls() -> leveret.Tls | None:
    """What the options say of TLS; None: it is not spoken."""
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise UsageError("--tls-certificate and --tls-key go together: who we are, and the proof of it")
    given = (options.tls_ca, options.tls_certificate, options.tls_server_name)
    if all(one is None for one in given):
        return None
    return leveret.Tls(
        ca=_read("--tls-ca", options.tls_ca),
        certificate=_read("--tls-certificate", options.tls_certificate),
        key=_read("--tls-key", options.tls_key),
        server_name=options.tls_server_name,
    )


def _read(option: str, path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{option} {path} cannot be read: {error.strerror}") from error
