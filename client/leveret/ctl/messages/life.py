"""leveretctl life: what became of a message, as the logs of the nodes tell it."""

from __future__ import annotations

from typing import Annotated

import typer

from leveret.ctl.terminal import completion, exits, render
from leveret.ctl.terminal.exits import UsageError
from leveret.ctl.terminal.run import options, with_node
from leveret.life_records import FoundLives, LifePlace, MessageLife

ANSWER_S = 30.0  # that the nodes are given for their logs
NOT_FOUND = "no such message in the logs that were read: it may be older than they are, or not durable"


def life(
    queue: Annotated[str, typer.Argument(help="The queue that it was in.", autocompletion=completion.queues)],
    message_id: Annotated[
        str | None, typer.Option(help="The id that its publisher gave it.", show_default=False)
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option(help="What it answers, as its publisher said.", show_default=False)
    ] = None,
    place: Annotated[
        str | None,
        typer.Option(help="Its sequence in a classic queue, or 5/31/0 in a quorum queue.", show_default=False),
    ] = None,
    body_sha256: Annotated[
        str | None, typer.Option("--body-sha256", help="The SHA-256 of its body, in hexadecimal.", show_default=False)
    ] = None,
) -> int:
    """Who published a message, where it went, who had it, and what became of it: from the logs of all nodes.

    Nodes are given half a minute for it, or more with --timeout. Ends with 75 where the log of a node was not read, or no log
    that was read has such a message.
    """
    given = {"message_id": message_id, "correlation_id": correlation_id, "place": place, "body_sha256": body_sha256}
    asked = {name: value for name, value in given.items() if value is not None}
    if len(asked) != 1:
        raise UsageError("give one of --message-id, --correlation-id, --place and --body-sha256")
    options.timeout_s = max(options.timeout_s, ANSWER_S)
    found = with_node(lambda node: node.admin.message_lives(queue, **asked))
    if options.json:
        render.print_record(found)
    else:
        _show(found)
    is_known = bool(found.lives) and not any(one.error for one in found.nodes)
    return exits.OK if is_known else exits.TEMPORARY


def _show(found: FoundLives) -> None:
    for one in found.nodes:
        window = f"{one.files} files, from {one.first} to {one.last}" if one.first else f"{one.files} files"
        render.print_line(f"{one.node}: {'not read: ' + one.error if one.error else window}")
    for told in found.lives:
        _show_life(told)
    if not found.lives:
        render.print_line(NOT_FOUND)
    if found.more:
        render.print_line("... these are the first of more messages")


def _show_life(told: MessageLife) -> None:
    id_ = f", message id '{told.message_id}'" if told.message_id else ""
    render.print_line(f"\n{told.queue}, {told.place}: {told.body_bytes} bytes{id_}")
    by = f" by {told.publisher}" if told.publisher else ""
    kind = f"dead-lettered ({told.death_reason}{_from(told.was)})" if told.death_reason else "published"
    to = f" to exchange '{told.exchange}'" if told.exchange else ""
    _line(told.published_at, f"{kind}{to} with key '{told.routing_key}'{by}")
    for step in told.steps:
        _line(step.at, ", ".join(one for one in (step.event, step.reason, step.who) if one))
    if told.steps_left_out:
        _line("", f"{told.steps_left_out} steps more")
    for letter in told.became:
        _line("", f"became {letter.queue}, {letter.place}")
    if told.unknown or not told.committed:
        _line("", f"not known as a whole: {told.unknown or 'it is not known to be committed'}")


def _from(was: LifePlace) -> str:
    return f" in {was.queue}, {was.place}" if was.queue else ""


def _line(at: str, text: str) -> None:
    render.print_line(f"  {at.removesuffix('+00:00'):<23}  {text}")
