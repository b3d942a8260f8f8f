"""leveretctl wal list, dump, export: the log of a running node, for questions that come later."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

import leveret
from leveret.ctl.terminal import exits, render
from leveret.ctl.terminal.exits import UsageError
from leveret.ctl.terminal.export_directory import ExportDirectory, held
from leveret.ctl.terminal.moments import moment
from leveret.ctl.terminal.run import options, with_node
from leveret.errors import RETRYABLE, LeveretError
from leveret.records import LogFile, LogListing
from leveret.retry import Backoff

app = typer.Typer(help="The log of a running node: what happened to messages.", no_args_is_help=True)

WITHOUT_A_BYTE_S = 120.0  # then it gives up: a node with a long log needs a while to start
RETRY_PAUSE_MAX_S = 2.0
MEBIBYTE = 1 << 20
DAMAGE = "damage"  # how a dump names what could not be read and had been written

Since = Annotated[
    str | None,
    typer.Option(
        "--since", help="Leave out files that end before: an age as 2h or 30m, or a time as 2026-11-25T08:30:00Z."
    ),
]


@app.command("list")
def list_files() -> None:
    """Show the files of the log and the archive, and how far back they reach."""
    found = with_node(lambda node: node.log.listing())
    if options.json:
        render.print_record(found)
        return
    render.print_line(_coverage(found))
    render.records(
        [_Row.of(file) for file in found.files], ("name", "size", "first", "last", "written"), empty="no files"
    )


@app.command("dump")
def dump(
    queue: Annotated[str, typer.Option("--queue", help="Only records about this queue: NAME, or VHOST/NAME.")] = "",
    since: Annotated[
        str | None, typer.Option("--from", help="Begin there: an age as 2h or 30m, or a time as 2026-11-25T08:30:00Z.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more; Ctrl-C ends it.")] = False,
) -> None:
    """Show the records of the log; --json prints an object a line. Contents of messages are not shown."""
    from_us = _microseconds("--from", since)

    async def work(node: leveret.Node) -> tuple[int, int]:
        shown = damaged = 0
        async with aclosing(node.log.rows(from_us=from_us, queue=queue, follow=follow)) as rows:
            async for row in rows:
                _show(row)
                is_damage = row.get("finding") == DAMAGE
                shown, damaged = shown + (not is_damage), damaged + is_damage
        return shown, damaged

    shown, damaged = with_node(work)
    if not shown and queue:
        typer.echo(f"no record here is about a queue '{render.printable(queue)}'", err=True)
    if damaged:
        typer.echo(f"{damaged} damaged ranges; docs/operations.md says what to do", err=True)
        raise typer.Exit(exits.DATA)


@app.command("export")
def export(
    directory: Annotated[
        Path, typer.Argument(help="New, or of an earlier export: gets a directory named after the node.")
    ],
    since: Since = None,
    no_bodies: Annotated[
        bool, typer.Option("--no-bodies", help="Zeros in place of properties and bodies of messages, and of hashes.")
    ] = False,
    rate: Annotated[
        float,
        typer.Option("--rate", min=0, help="MiB a second at most; 0 is the node's limit, history.export_bytes_per_s."),
    ] = 0,
) -> None:
    """Copy the log for leveret-analytics, while the node runs. Run again, it resumes and copies what is new.

    Without --no-bodies the files hold what clients published and hashes of passwords: keep them as safe as the node's own.
    """
    if "," in options.node:
        raise UsageError(f"--node {options.node!r} names several nodes: an export is of one of them")
    job = _Export(directory, _microseconds("--since", since), no_bodies, int(rate * MEBIBYTE))
    there = with_node(job.run)
    files, size = there.totals
    lost = "".join(f"\nnot in it: {name}, {why}" for name, why in sorted(there.unread.items()))
    render.done(
        f"{files} files with {render.size(size)} are in {there.path}, {render.size(job.received_bytes)} of it came now{lost}",
        directory=str(there.path),
        files=files,
        bytes=size,
        received_bytes=job.received_bytes,
        bodies="withheld" if no_bodies else "included",
        unread=there.unread,
    )
    if there.failed:
        raise typer.Exit(exits.TEMPORARY)


class _Export:
    """All files, however often the connection breaks."""

    def __init__(self, directory: Path, since_us: int, no_bodies: bool, bytes_per_s_max: int) -> None:
        self._directory = directory
        self._since_us = since_us
        self._no_bodies = no_bodies
        self._bytes_per_s_max = bytes_per_s_max
        self.received_bytes = 0

    async def run(self, node: leveret.Node) -> ExportDirectory:
        backoff, connected, came_at = Backoff(max_s=RETRY_PAUSE_MAX_S), False, time.monotonic()
        while True:
            before = self.received_bytes
            try:
                listing = await node.log.listing()
                connected = True
                return await self._receive(node, listing)
            except LeveretError as error:
                if self.received_bytes > before:
                    backoff.reset()
                    came_at = time.monotonic()
                if not connected or not isinstance(error, RETRYABLE) or time.monotonic() > came_at + WITHOUT_A_BYTE_S:
                    raise
                _progress(f"{error}; trying again")
                await asyncio.sleep(backoff.next_delay_s())

    async def _receive(self, node: leveret.Node, listing: LogListing) -> ExportDirectory:
        with held(self._directory, listing.node):
            there = ExportDirectory(self._directory, listing, without_bodies=self._no_bodies)
            await self._receive_into(there, node, listing)
        return there

    async def _receive_into(self, there: ExportDirectory, node: leveret.Node, listing: LogListing) -> None:
        asked = [file for file in listing.files if not 0 < file.last_us < self._since_us]
        total = sum(file.bytes for file in asked)
        parts = node.log.export(
            there.wanted(asked), without_bodies=self._no_bodies, bytes_per_s_max=self._bytes_per_s_max
        )
        shown = 0
        try:
            async with aclosing(parts):
                async for part in parts:
                    there.take(part)
                    if there.received_bytes >= shown + MEBIBYTE:
                        shown = there.received_bytes
                        _progress(f"{render.size(shown)} came, of at most {render.size(total)}")
        finally:
            self.received_bytes += there.received_bytes
            there.close()
            there.save()


@dataclass(slots=True, frozen=True)
class _Row:
    """A file of a listing, as it is shown."""

    name: str
    size: str
    first: str
    last: str
    written: bool

    @classmethod
    def of(cls, file: LogFile) -> _Row:
        return cls(file.name, render.size(file.bytes), _time(file.first_us), _time(file.last_us), file.open)


def _coverage(listing: LogListing) -> str:
    total = render.size(sum(file.bytes for file in listing.files))
    begin = f", from {_time(listing.first_us)} on" if listing.first_us else ""
    gaps = "".join(f"; files {gap.first} to {gap.last} are missing" for gap in listing.gaps)
    return f"{render.printable(listing.node)}: {len(listing.files)} files, {total}{begin}{gaps}"


def _time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if microseconds else ""


def _microseconds(option: str, given: str | None) -> int:
    """Raises UsageError."""
    return 0 if given is None else int(moment(option, given).timestamp() * 1_000_000)


def _show(row: dict[str, Any]) -> None:
    if options.json:
        render.print_json(row, indent=None)
    else:
        render.print_line("  ".join(f"{key} {render.words(value)}" for key, value in row.items() if value is not None))


def _progress(text: str) -> None:
    """For people who wait: on a line of its own, which the next one replaces."""
    if not options.json and sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{render.printable(text)}")
        sys.stderr.flush()
