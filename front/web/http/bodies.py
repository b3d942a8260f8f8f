"""Fields of a request's body, each read as what it has to be. Unknown keys are passed over. Everything raises HttpError 400."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from broker.catalog.definitions.definition_item import ENTRY_NESTING_MAX, nested_at_most
from broker.json_values import table_from_json
from front.web.http.refusals import bad_request
from front.whole_number import whole_number

Body = Mapping[str, Any]
SECRET = ("password", "password_hash")  # never said back
DIGITS_MAX = 19
TABLE_BYTES_MAX = 65_536  # as JSON: no queue takes more arguments, and each value is looked at several times
TABLE_NESTING_MAX = ENTRY_NESTING_MAX - 1  # it lies in an entry of definitions


def require(body: Body, *names: str) -> None:
    """All that are missing are named at once."""
    absent = [name for name in names if name not in body]
    if absent:
        raise bad_request(f"{', '.join(map(repr, absent))} {'is' if len(absent) == 1 else 'are'} missing")


def text(body: Body, name: str, default: str | None = None) -> str:
    """Without a default it has to be there."""
    if default is None:
        require(body, name)
    value = body.get(name, default)
    if value is None:
        value = default
    if not isinstance(value, str):
        raise _wrong(name, value, "a text")
    return value


def flag(body: Body, name: str, default: bool = False) -> bool:
    """Some tools send it as a text."""
    value = body.get(name, default)
    if isinstance(value, str) and value in ("true", "false"):
        return value == "true"
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false")
    return value


def number(body: Body, name: str, default: int | None = None) -> int:
    """Without a default it has to be there. Some tools send it as a text."""
    if default is None:
        require(body, name)
    value = body.get(name, default)
    found = whole_number(value, DIGITS_MAX, signed=True) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int):
        raise _wrong(name, value, "a whole number")
    return found


def table(body: Body, name: str) -> dict[str, Any]:
    """As AMQP tables have it. An empty list is an empty one: so PHP writes it."""
    value = body.get(name)
    if value is None or value == []:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "an object")
    _check_table(name, value)
    return table_from_json(value)


def _check_table(name: str, value: Mapping[str, Any]) -> None:
    """Its size first, which takes no Python for each value."""
    try:
        size, is_flat = len(msgspec.json.encode(value)), True
    except RecursionError:
        size, is_flat = 0, False
    if size > TABLE_BYTES_MAX:
        raise bad_request(f"'{name}' has more than {TABLE_BYTES_MAX} bytes")
    if not is_flat or not nested_at_most(value, TABLE_NESTING_MAX):
        raise bad_request(f"'{name}' has more than {TABLE_NESTING_MAX} lists or objects within each other")


def tags(body: Body, name: str = "tags") -> tuple[str, ...]:
    """A list of texts, or one text with commas between them."""
    value = body.get(name, "")
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(name, value, "a list of texts or one text with commas")
    return tuple([item.strip() for item in value if item.strip()])


def texts(body: Body, name: str) -> list[str]:
    """A list of texts."""
    value = body.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(name, value, "a list of texts")
    return value


def _wrong(name: str, value: Any, wanted: str) -> Exception:
    shown = f"a JSON {type(value).__name__}" if name in SECRET else repr(value)
    return bad_request(f"'{name}' is {shown}, {wanted} is needed")
