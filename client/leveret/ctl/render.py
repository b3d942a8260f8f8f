"""Results on the screen: tables for people, JSON for programs. JSON keys are the field names of leveret.records."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leveret.ctl.run import options


def records(items: Sequence[Any], columns: Sequence[str], *, empty: str) -> None:
    """A table of dataclasses with these of their fields, or all their fields as JSON."""
    if options.json:
        print_json([_jsonable(item) for item in items])
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
        table.add_row(*(escape(cell(column, getattr(item, column))) for column in columns))
    _console().print(table)


def rows(items: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """A table for people; columns in which nobody has anything are left out."""
    shown = [column for column in columns if any(cell(column, item[column]) for item in items)]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in shown:
        table.add_column(column.removesuffix("_ms"), overflow="fold")
    for item in items:
        table.add_row(*(escape(cell(column, item[column])) for column in shown))
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
        table.add_row(escape(name), escape(cell(name, value)))
    _console().print(table)


def done(text: str, **result: Any) -> None:
    """A change was made: a sentence, or as JSON what it concerns."""
    if options.json:
        print_json(_jsonable(result))
    else:
        print_line(text)


def cell(name: str, value: Any) -> str:
    """One value as a person reads it. What clients chose may hold control characters, which terminals would obey."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_ms") and isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if value else ""
    if name.endswith("_bytes") and isinstance(value, int):
        return size(value)
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Mapping):
        text = ", ".join(f"{key}={cell(str(key), part)}" for key, part in value.items())
    elif isinstance(value, (list, tuple)):
        text = ", ".join(cell("", part) for part in value)
    elif isinstance(value, bytes):
        text = value.decode("utf-8", "backslashreplace")
    else:
        text = "" if value is None else str(value)
    return printable(text)


def size(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable: GiB always returns")


def printable(text: str) -> str:
    return "".join(part if part.isprintable() else part.encode("unicode_escape").decode("ascii") for part in text)


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_json(value: Any, *, indent: int | None = 2) -> None:
    print_line(json.dumps(value, indent=indent, ensure_ascii=False, default=_leaf))


def _jsonable(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [_jsonable(item) for item in value]
    return value


def _leaf(value: Any) -> Any:
    """What JSON has no word for."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be shown as JSON: {value!r}")


def _console() -> Console:
    # A pipe has no width; folding lines at 80 columns would break what reads them.
    return Console(width=None if sys.stdout.isatty() else 400, highlight=False)
