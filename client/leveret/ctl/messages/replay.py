"""leveretctl replay: messages that left a queue are published again, as the log has them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated

import typer

import leveret
from leveret.ctl.terminal import completion, exits, render
from leveret.ctl.terminal.moments import moment
from leveret.ctl.terminal.run import options, with_node
from leveret.replay_records import ReplayCause, ReplayCoverage, ReplayProgress

CAUSE_COLUMNS = ("end", "exchange", "routing_key", "messages")
REFUSED = ("failed", "cancelled")
READ_S = 600.0  # that the node is given for its log before the first answer


def replay(
    queue: Annotated[str, typer.Argument(help="The queue that they left.", autocompletion=completion.queues)],
    exchange: Annotated[str, typer.Option(help="Publish there. Empty: the default exchange.")],
    key: Annotated[
        str | None,
        typer.Option(help="With this key; without it, with the key that each was published with.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be published, and publish nothing.")
    ] = False,
    end: Annotated[
        list[str] | None,
        typer.Option(
            help="Those that left like this: acked, got, no-ack (these three without it), rejected, expired, maxlen, "
            "delivery-limit or purged. May be given several times.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Those that left since then: an age as 2h, or a time as 2026-11-25T08:30:00Z."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Those that left before then.")] = None,
    after: Annotated[str, typer.Option(help="Only those behind this place: where an earlier replay ended.")] = "",
    published_key: Annotated[
        str | None, typer.Option(help="Only those that were published with this key.", show_default=False)
    ] = None,
    consumer: Annotated[
        str, typer.Option(help="Only those that this consumer, by its tag or its user, had last.")
    ] = "",
    limit: Annotated[int, typer.Option(min=0, help="At most so many; 0 is all.")] = 0,
    rate: Annotated[int, typer.Option(min=0, help="Messages a second; 0 is as fast as they are confirmed.")] = 1_000,
) -> int:
    """Publish messages again that have left a queue, as the node's log has them. The queue is not touched.

    Each has headers that say what it is of. How far back the log reaches, archive.hours decides; the answer says it. Ctrl-C
    cancels; what was published stays published, and --after goes on there. Ends with 75 where it failed or was cancelled,
    or the log may not have all that was asked for.
    """
    options.timeout_s = max(options.timeout_s, READ_S)

    async def work(node: leveret.Node) -> ReplayProgress:
        found = node.admin.replay(
            queue,
            exchange,
            routing_key=key,
            ends=end or (),
            since=None if since is None else moment("--since", since),
            until=None if until is None else moment("--until", until),
            after=after,
            published_key=published_key,
            consumer=consumer,
            limit=limit,
            rate=rate,
            dry_run=dry_run,
        )
        last: ReplayProgress | None = None
        async with aclosing(found):
            async for last in found:
                _progress(last)
        assert last is not None, "a replay that ended without a result"
        return last

    return _show(queue, with_node(work))


def _show(queue: str, last: ReplayProgress) -> int:
    if options.json:
        render.print_record(last)
    else:
        _show_result(queue, last)
    covered = last.coverage
    is_whole = covered is not None and not (covered.unknown or covered.uncommitted or covered.unnamed or covered.more)
    return exits.OK if is_whole and last.state not in REFUSED and not last.gone else exits.TEMPORARY


def _show_result(queue: str, last: ReplayProgress) -> None:
    if last.coverage is not None:
        _show_coverage(last.coverage)
    if last.state == "forecast":
        render.print_line(f"{last.chosen} messages of queue '{queue}' would be published")
        return
    others = [
        f"{count} {words}"
        for words, count in (
            ("that no queue gets", last.unroutable),
            ("passed over, for a replay had published them", last.is_replay),
            ("whose contents are gone", last.gone),
            ("whose headers cannot be marked", last.unreadable),
        )
        if count
    ]
    render.print_line(", ".join([f"{last.published} of {last.chosen} messages of queue '{queue}' published", *others]))
    if last.state in REFUSED:
        render.print_line(f"{last.state}: {last.error or 'it was ended'}")
        render.print_line(f"go on with --after {last.answered_to}" if last.answered_to else "nothing was published")


def _show_coverage(covered: ReplayCoverage) -> None:
    if covered.causes:
        render.rows([_cells(one) for one in sorted(covered.causes, key=_how_many, reverse=True)], CAUSE_COLUMNS)
    window = f", from {covered.from_time} to {covered.to_time}" if covered.from_time else ""
    render.print_line(f"the log tells of the queue in {covered.files} files{window}")
    for line in _doubts(covered):
        render.print_line(line)


def _cells(cause: ReplayCause) -> dict[str, object]:
    return {name: getattr(cause, name) for name in CAUSE_COLUMNS}


def _how_many(cause: ReplayCause) -> int:
    return cause.messages


def _doubts(covered: ReplayCoverage) -> Sequence[str]:
    """What is not known, or left out, in sentences."""
    said = (
        (covered.unknown, f"not known as a whole: {covered.unknown}"),
        (covered.uncommitted, f"{covered.uncommitted} messages left out: a later leader might yet replace them"),
        (
            covered.unnamed,
            f"{covered.unnamed} messages left out: this log does not name who had them; ask other nodes too",
        ),
        (covered.more, f"there are more than are chosen at once: go on with --after {covered.last}"),
        (covered.damaged_bytes, f"{covered.damaged_bytes} bytes of the log cannot be read"),
    )
    return [line for is_so, line in said if is_so]


def _progress(now: ReplayProgress) -> None:
    """For people who wait: on a line of its own, which the next one replaces."""
    if not options.json and now.state == "running" and sys.stderr.isatty():
        told = f"{now.published} of {now.chosen} published" if now.chosen else "reading the log"
        sys.stderr.write(f"\r\x1b[K{told}")
        sys.stderr.flush()
