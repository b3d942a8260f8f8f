"""An answer on the screen: a table for people, one JSON object for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from analytics.coverage import Coverage, counted
from analytics.jobs.answer import JobAnswer

PIPE_WIDTH = 400  # a pipe has no width, and folded lines break what reads them


class ReaderGone(Exception):
    """Who reads the output has seen enough."""


@contextmanager
def while_read() -> Iterator[None]:
    """What is printed in it is read, or ReaderGone is raised; then nothing more is said to anybody."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the latter is what Rich makes of the former
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # what is still buffered goes there when the process ends
        os.close(nowhere)
        raise ReaderGone from None


@while_read()
def show(covered: Coverage, answer: JobAnswer, *, as_json: bool) -> None:
    """Raises ReaderGone."""
    if as_json:
        _print_json(_as_object(covered, answer))
        return
    print(covered.sentence())
    if answer.text is not None:
        print("\n".join(_shown(line) for line in answer.text))
        return
    if answer.rows:
        _print_table(answer)
    if answer.is_cut:
        print(f"... the first {len(answer.rows)} rows; --limit N asks for more", file=sys.stderr)


@while_read()
def show_now(at: str, answer: JobAnswer, missed: int = 0, damaged: int = 0, *, as_json: bool) -> None:
    """One of many, as one line of JSON or a table below its time. Raises ReaderGone."""
    if as_json:
        _print_json({"at": at, "missed_files": missed, "damaged_places": damaged, "rows": answer.rows})
        return
    lost = f", {missed} files of the log were deleted before they were read" if missed else ""
    lost += f", {counted(damaged, 'place', 'places')} of the log could not be read" if damaged else ""
    print(f"{at}{lost}" if answer.rows else f"{at}{lost}: nothing happened", flush=True)
    if answer.rows:
        _print_table(answer)


def _print_json(said: dict[str, object]) -> None:
    """Names are bytes that clients chose: where one is no UTF-8, or has what the output has no character for, escapes of JSON
    take the place of all that is not ASCII."""
    text = json.dumps(said, default=str, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")  # None where a program has put a buffer of text in its place
    except UnicodeEncodeError:
        text = json.dumps(said, default=str)
    print(text, flush=True)


def _print_table(answer: JobAnswer) -> None:
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False).print(_table(answer))


def _as_object(covered: Coverage, answer: JobAnswer) -> dict[str, object]:
    return {
        "schema": [{"name": name, "type": of} for name, of in answer.columns],
        "coverage": covered.as_object(),
        "rows": answer.rows,
        "more": answer.is_cut,  # than these
    }


def _table(answer: JobAnswer) -> Table:
    """Columns without a value are left out. What clients chose is never read as markup or as commands to the terminal."""
    shown = [name for name, _ in answer.columns if any(row[name] not in (None, "", {}, []) for row in answer.rows)]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in shown:
        table.add_column(name, overflow="fold")
    for row in answer.rows:
        table.add_row(*(Text(_shown(row[name])) for name in shown))
    return table


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{_shown(key)}:{_shown(part)}" for key, part in value.items())
    if isinstance(value, list):
        return ",".join(map(_shown, value))
    text = "" if value is None else str(value)
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )  # clients choose names
