"""leveretctl publish"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import leveret
from leveret.ctl import render
from leveret.ctl.arguments import pairs
from leveret.ctl.exits import ConfigError
from leveret.ctl.run import with_node


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
    """Publish, and return when everything is confirmed. A message that no queue takes is an error."""
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

    async def work(node: leveret.Node) -> None:
        publisher = await node.publisher()
        await publisher.publish_many(messages, exchange=exchange, routing_key=key, mandatory=True)

    with_node(work)
    render.done(f"{len(messages)} confirmed", confirmed=len(messages), exchange=exchange, routing_key=key)


def _input(body: str | None, file: Path | None) -> bytes:
    if body is not None:
        return body.encode()
    if file is None:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"--file {file} cannot be read: {error.strerror}") from error
