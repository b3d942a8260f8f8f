"""Whether a decoded command is of the types that its class declares. What this node makes itself is, by mypy; what another one
submits is checked before it becomes an entry, because every node would have to live with it: at each start, and in what it
shows to people."""

from __future__ import annotations

from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from broker.catalog.commands.catalog_commands import NUMBERS, Command, Record

NUMBER_MIN, NUMBER_MAX = -(1 << 63), (1 << 63) - 1


class IllTyped(ValueError):
    """A field holds something else than its class declares; the text names both."""


def check_types(command: Command) -> None:
    """Raises IllTyped."""
    _check(type(command).__name__, type(command), command)


def _check(where: str, hint: Any, value: Any) -> None:
    if hint in _HINTS:
        if type(value) is not hint:
            raise IllTyped(f"{where} is a {type(value).__name__}, and a {hint.__name__} is due")
        for name, expected in _HINTS[hint].items():
            _check(f"{where}.{name}", expected, getattr(value, name))
    elif not _fits(hint, value):
        raise IllTyped(f"{where} is {str(value)[:80]!r} of type {type(value).__name__}, and {hint} is due")


def _fits(hint: Any, value: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(option, value) for option in inner)
    if origin is tuple:
        return type(value) is tuple and all(_fits(inner[0], one) for one in value)
    if origin is dict:
        return type(value) is dict and all(_fits(inner[0], key) and _fits(inner[1], one) for key, one in value.items())
    if hint is int:  # as gRPC can show it
        return type(value) is int and NUMBER_MIN <= value <= NUMBER_MAX
    return type(value) is hint  # exactly: a bool is no number


_HINTS: dict[Any, dict[str, Any]] = {kind: get_type_hints(kind) for kind in (*NUMBERS.values(), *get_args(Record))}
