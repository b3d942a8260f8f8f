"""Results on the screen: tables for people, JSON for programs. JSON keys are the field names of leveret.records."""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from leveret.ctl.terminal import lists
from leveret.ctl.terminal.run import options


def records(items: Sequence[Any], columns: Sequence[str], *, empty: str, count: int | None = None) -> None:
    """A table of dataclasses with these of their fields, or all their fields as JSON. `count`: at most so many of them."""
    items, columns = lists.arranged(items, columns, cell)
    items = items[:count]
    if options.json:
        print_json([lists.chosen(_jsonable(item)) for item in items])
        return
    if not items:
        print_line(empty)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        first = getattr(items[0], column)
        is_number = isinstance(first, (int, float)) and not isinstance(first, bool)
        table.add_column(column.removesuffix("_ms"), justify="right" if is_number else "left", overflow="fold")
    for item in items:
        table.add_row(*(Text(cell(column, getattr(item, column))) for column in columns))
    _console().print(table)


def rows(items: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """A table for people; columns in which nobody has anything are left out."""
    shown = [column for column in columns if any(cell(column, item[column]) for item in items)]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in shown:
        table.add_column(column.removesuffix("_ms"), overflow="fold")
    for item in items:
        table.add_row(*(Text(cell(column, item[column])) for column in shown))
    _console().print(table)


def fields_of(record: Any) -> Any:
    """A dataclass, as what JSON knows."""
    return _jsonable(record)


def print_record(record: Any) -> None:
    """A dataclass, as JSON."""
    print_json(_jsonable(record))


def facts(values: Mapping[str, Any], *, as_json: Any) -> None:
    """Names and values below each other."""
    if options.json:
        print_json(_jsonable(as_json))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(Text(name), Text(cell(name, value)))
    _console().print(table)


def done(text: str, **result: Any) -> None:
    """A change was made: a sentence, or as JSON what it concerns."""
    if options.json:
        print_json(_jsonable(result))
    else:
        print_line(text)


def gone(what: str, existed: bool, text: str, **result: Any) -> None:
    """`what` is not there any more, as was asked for. Whether it was: a name that was mistyped is deleted as easily."""
    done(text if existed else f"there is no {what}: nothing was changed", **result, existed=existed)


def cell(name: str, value: Any) -> str:
    """A field of a record as a person reads it; its name says the unit."""
    if isinstance(value, int) and not isinstance(value, bool):
        if name.endswith("_ms"):
            return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if value else ""
        if name.endswith("_bytes"):
            return size(value)
    return words(value)


def words(value: Any) -> str:
    """Any value in words. What clients chose has no units, and may hold control characters, which terminals would obey."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{printable(str(key))}={words(part)}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(words(part) for part in value)
    if isinstance(value, bytes):
        return printable(value.decode("utf-8", "backslashreplace"))
    return "" if value is None else printable(str(value))


def size(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable: GiB always returns")


def printable(text: str) -> str:
    return "".join(part if part.isprintable() else part.encode("unicode_escape").decode("ascii") for part in text)


def clear() -> None:
    """What comes next is shown in place of what is on the terminal; behind it where the output is none."""
    _console().clear()


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_json(value: Any, *, indent: int | None = 2) -> None:
    text = json.dumps(_jsonable(value), indent=indent, ensure_ascii=False, allow_nan=False)
    print_line("".join(part if part.isprintable() or part == "\n" else json.dumps(part)[1:-1] for part in text))


def _jsonable(value: Any) -> Any:
    """Any record or value as JSON has it; what JSON has no word for is text, and bytes that are no text say so."""
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: _jsonable(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _jsonable(part) for key, part in value.items()}
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Iterable):
        return [_jsonable(item) for item in value]
    return str(value)


def _console() -> Console:
    # A pipe has no width; folding lines at 80 columns would break what reads them.
    return Console(width=None if sys.stdout.isatty() else 400, highlight=False)
