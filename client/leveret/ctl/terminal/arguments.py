"""What people type for headers, arguments and definitions: KEY=VALUE, or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from leveret.ctl.terminal.exits import UsageError
from leveret.values import to_value


def pairs(option: str, given: Sequence[str]) -> dict[str, Any]:
    """Each KEY=VALUE; the value is JSON where it is JSON (numbers, true, lists), else text."""
    table: dict[str, Any] = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {item!r} is not KEY=VALUE, such as x-max-length=1000")
        table[key] = _value(f"{option} {key}", value)
    return table


def numbers(what: str, given: Sequence[str]) -> dict[str, int]:
    """Each KEY=NUMBER."""
    table = pairs(what, given)
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"{what} {key}={value!r} is no number")
    return table


def given_or_none(what: str, given: Sequence[str] | None, none: bool) -> Sequence[str]:
    """What is to be instead of what was. Nothing at all may have been meant as a question: --none says that it was not."""
    if bool(given) == none:
        raise UsageError(f"give either {what}, or --none to take all away; `list` shows which there are")
    return given or ()


def json_object(what: str, text: str) -> dict[str, Any]:
    try:
        found = _parsed(what, text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{what} is no JSON: {error}; for example '{{\"max-length\": 1000}}'") from error
    if not isinstance(found, dict):
        raise UsageError(f"{what} is to be a JSON object, such as '{{\"max-length\": 1000}}', not {text!r}")
    return found


def _value(what: str, text: str) -> Any:
    try:
        return _parsed(what, text)
    except json.JSONDecodeError:
        return text


def _parsed(what: str, text: str) -> Any:
    """Raises UsageError for what no table can hold, and JSONDecodeError."""
    try:
        found = json.loads(text)
        to_value(found)
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # an integer of more than 64 bits, or half of a character
        raise UsageError(f"{what} has a value that no node can keep: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{what} is JSON nested too deeply") from error
    return found
