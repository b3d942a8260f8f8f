"""leveretctl publish"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

import leveret
from leveret.ctl.terminal import render
from leveret.ctl.terminal.arguments import pairs
from leveret.ctl.terminal.exits import ConfigError
from leveret.ctl.terminal.run import options, with_node

T = TypeVar("T")

TELL_AFTER_S = 1.0  # a person who waits this long wonders what for
UNCONFIRMED = (
    "they may still be stored. A quorum queue waits for a majority of its members: see `leveretctl queue status`"
)


def publish(
    body: Annotated[str | None, typer.Argument(help="The message; without it, standard input is.")] = None,
    key: Annotated[
        str, typer.Option("--key", "-k", help="The routing key; a queue's name at the default exchange.")
    ] = "",
    exchange: Annotated[str, typer.Option("--exchange", "-x", help="Empty: the default exchange.")] = "",
    file: Annotated[Path | None, typer.Option(help="Read the message from this file.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line is a message.")] = False,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="KEY=VALUE", help="May be repeated.")
    ] = None,
    content_type: Annotated[str | None, typer.Option()] = None,
    priority: Annotated[int | None, typer.Option(min=0, max=255)] = None,
    expiration_ms: Annotated[int | None, typer.Option(min=0, help="The message's time to live.")] = None,
    transient: Annotated[bool, typer.Option(help="May be lost when the node stops.")] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Publish it so many times.")] = 1,
) -> None:
    """Publish, and return when everything is confirmed. A message that no queue takes is an error.

    When nothing is confirmed for as long as --timeout says, that is an error too; after a second it is told what is waited for.
    """
    headers = pairs("--header", header or ())
    raw = _input(body, file)
    bodies = (raw.splitlines() if lines else [raw]) * repeat
    messages = [
        leveret.Message(
            one,
            headers=headers,
            persistent=not transient,
            content_type=content_type,
            priority=priority,
            expiration_ms=expiration_ms,
        )
        for one in bodies
    ]

    where = f"exchange '{exchange}' with key '{key}'" if exchange else f"queue '{key}'"
    with_node(lambda node: _publish(node, messages, exchange, key, where))
    render.done(f"{len(messages)} confirmed", confirmed=len(messages), exchange=exchange, routing_key=key)


async def _publish(node: leveret.Node, messages: list[leveret.Message], exchange: str, key: str, where: str) -> None:
    """Publish, and raise TimedOut when for --timeout nothing is confirmed."""
    publisher = await _in_time(node.publisher(), f"the node at {node.target} opens no stream for publishing")
    publishing = asyncio.ensure_future(publisher.publish_many(messages, exchange=exchange, routing_key=key))
    answered, idle_s, told = 0, 0.0, False
    while not publishing.done():
        pause_s = min(TELL_AFTER_S, options.timeout_s - idle_s)
        await asyncio.wait({publishing}, timeout=pause_s)
        idle_s = idle_s + pause_s if publisher.answered == answered else 0.0
        answered = publisher.answered
        missing = f"{len(messages) - answered} of {len(messages)} confirms of {where}"
        if publisher.blocked_reason:
            missing += f" (the node takes nothing: {publisher.blocked_reason})"
        if not publishing.done() and idle_s >= options.timeout_s:
            publishing.cancel()
            raise leveret.TimedOut(f"waited {options.timeout_s:g} s for {missing}; {UNCONFIRMED}")
        if not publishing.done() and idle_s and not told:
            sys.stderr.write(render.printable(f"leveretctl: waiting for {missing}") + "\n")
            told = True
    await publishing


async def _in_time(work: Awaitable[T], what: str) -> T:
    try:
        return await asyncio.wait_for(work, options.timeout_s)
    except TimeoutError as error:
        raise leveret.TimedOut(f"{what} within {options.timeout_s:g} s") from error


def _input(body: str | None, file: Path | None) -> bytes:
    if body is not None:
        return body.encode()
    if file is None:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"--file {file} cannot be read: {error.strerror}") from error
