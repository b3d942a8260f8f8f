"""What people type for headers, arguments and definitions: KEY=VALUE, or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from leveret.ctl.exits import UsageError


def pairs(option: str, given: Sequence[str]) -> dict[str, Any]:
    """Each KEY=VALUE; the value is JSON where it is JSON (numbers, true, lists), else text."""
    table: dict[str, Any] = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {item!r} is not KEY=VALUE, such as x-max-length=1000")
        table[key] = _value(value)
    return table


def numbers(what: str, given: Sequence[str]) -> dict[str, int]:
    """Each KEY=NUMBER."""
    table = pairs(what, given)
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"{what} {key}={value!r} is no number")
    return table


def json_object(what: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{what} is no JSON: {error}; for example '{{\"max-length\": 1000}}'") from error
    if not isinstance(found, dict):
        raise UsageError(f"{what} is to be a JSON object, such as '{{\"max-length\": 1000}}', not {text!r}")
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
