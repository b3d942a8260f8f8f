"""How a list is wanted: which records, in which order, with which columns. The same for every list of leveretctl."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from leveret.ctl.terminal.exits import UsageError
from leveret.ctl.terminal.run import options

Cell = Callable[[str, Any], str]


def arranged(items: Sequence[Any], columns: Sequence[str], cell: Cell) -> tuple[list[Any], Sequence[str]]:
    """The records that are wanted, and the columns to show of them. Raises UsageError for a column that there is not."""
    if not items:
        return [], columns
    known = [part.name for part in fields(items[0])]
    found = list(items)
    for condition in options.where:
        found = [item for item in found if _holds(condition, item, columns, known, cell)]
    if options.sort is not None:
        name = _column(options.sort, known)
        found.sort(key=lambda item: _sort_key(getattr(item, name)), reverse=options.reverse)
    elif options.reverse:
        found.reverse()
    return found, [_column(name, known) for name in options.columns] or columns


def chosen(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record as JSON has it: with the columns that are asked for."""
    return {name: facts[name] for name in options.columns} if options.columns else facts


def _holds(condition: str, item: Any, columns: Sequence[str], known: Sequence[str], cell: Cell) -> bool:
    """COLUMN=TEXT: it is shown so; TEXT alone: some column that is shown has it, in whatever case."""
    name, equals, text = condition.partition("=")
    if equals:
        name = _column(name, known)
        return text in (cell(name, getattr(item, name)), str(getattr(item, name)))
    wanted = condition.casefold()
    return any(wanted in cell(column, getattr(item, column)).casefold() for column in columns)


def _column(name: str, known: Sequence[str]) -> str:
    if name not in known:
        raise UsageError(f"there is no column '{name}': there are {', '.join(known)}")
    return name


def _sort_key(value: Any) -> tuple[int, Any]:
    """Numbers, then texts, then the rest."""
    if isinstance(value, (int, float)):
        return 0, value
    return (1, value) if isinstance(value, str) else (2, repr(value))
