"""leveretctl definitions ..."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from leveret.channels import MESSAGE_BYTES_MAX
from leveret.ctl.terminal import render
from leveret.ctl.terminal.exits import UsageError
from leveret.ctl.terminal.run import options, with_node

app = typer.Typer(
    help="Everything declared, as one JSON document in RabbitMQ's form: to keep, or to move to another node.",
    no_args_is_help=True,
)

OneVhost = Annotated[
    bool, typer.Option("--one-vhost", help="Only what lies in the vhost of --vhost, without users and permissions.")
]
STANDARD = Path("-")
SAID_ANYWAY = ("kept", "skipped")  # and not as the document has it


@app.command("export")
def export_definitions(
    file: Annotated[Path, typer.Argument(help="Where to; - is standard output.")] = STANDARD,
    one_vhost: OneVhost = False,
    password_hashes: Annotated[
        bool,
        typer.Option(
            "--password-hashes/--no-password-hashes",
            help="With the hashes of passwords: who has them can guess at leisure. Without them new users have no password.",
        ),
    ] = True,
) -> None:
    """Write them to a file that only its owner can read, or to standard output."""
    vhost = options.vhost if one_vhost else None
    raw = with_node(lambda node: node.admin.export_definitions(vhost=vhost, password_hashes=password_hashes))
    if file == STANDARD:
        sys.stdout.write(raw.decode() + "\n")
        return
    try:
        _write(file, raw)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    render.done(f"{len(raw)} bytes of definitions are in {file}", file=str(file), bytes=len(raw))


@app.command("import")
def import_definitions(
    file: Annotated[Path, typer.Argument(help="Definitions of Leveret or RabbitMQ; - is standard input.")],
    one_vhost: OneVhost = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
) -> None:
    """Add what they have. Queues and exchanges that exist stay as they are. Nothing is changed where an entry has a fault."""
    raw = _read(file)
    vhost = options.vhost if one_vhost else None
    report = with_node(lambda node: node.admin.import_definitions(raw, vhost=vhost, dry_run=dry_run))
    if options.json:
        render.print_record(report)
        return
    shown = report.effects if dry_run else [one for one in report.effects if one.effect in SAID_ANYWAY]
    if shown:
        render.rows([render.fields_of(one) for one in shown], ("effect", "what", "text", "where"))
    counts = ", ".join(f"{count} {effect}" for effect, count in sorted(report.counts.items()))
    begin = "nothing was changed, this would be" if dry_run else "definitions are imported"
    render.done(f"{begin}: {report.applied} changes ({counts or 'they are empty'})")


def _write(file: Path, raw: bytes) -> None:
    """Hashes of passwords are in it: it is its owner's alone, also where there was a file that others could read. An earlier
    export stays whole until this one is."""
    if file.exists() and not file.is_file():
        file.write_bytes(raw)  # a pipe, a terminal
        return
    whole = file.resolve()
    descriptor, part = tempfile.mkstemp(prefix=".definitions-", dir=whole.parent)
    try:
        with open(descriptor, "wb") as target:
            target.write(raw)
            target.flush()
            os.fsync(descriptor)
        os.replace(part, whole)
    except BaseException:
        os.unlink(part)
        raise


def _read(file: Path) -> bytes:
    """What goes to the node in one piece: more than that, or what has no end, is not read. Raises UsageError."""
    try:
        if file == STANDARD:
            raw = sys.stdin.buffer.read(MESSAGE_BYTES_MAX + 1)
        else:
            with file.open("rb") as source:
                raw = source.read(MESSAGE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    if len(raw) > MESSAGE_BYTES_MAX:
        raise UsageError(f"{file} has more than {MESSAGE_BYTES_MAX} bytes: import it in parts, a vhost in each, say")
    return raw
