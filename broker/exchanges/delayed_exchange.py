"""Exchanges of the type x-delayed-message: a message with a header x-delay is routed that much later.

    x-delayed-type      argument of the exchange: how it routes, once it does
    x-delay             header of a message: milliseconds, 1 to ten years. Integers, floats and texts that are integers
                        count; with anything else, and with none, a message is routed at once

Until then the message waits in a queue of the exchange's own, which `route_many` finds for `HELD`. When it is routed, x-delay
is negative: an exchange that it comes to then does not delay it again, and consumers see how long it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from broker.errors import PreconditionFailed
from broker.exchanges.bindings import Bindings, Destination, RoutingFacts
from broker.records import Arguments, BindingRecord
from broker.table_values import show
from wire.amqp.tables import Timestamp

DELAYED_KIND = "x-delayed-message"
DELAYED_TYPE = "x-delayed-type"
DELAY = "x-delay"
DELAY_MS_MAX = 315_360_000_000  # ten years

HELD: Destination = ("held", "")  # where the exchange's messages wait

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")


class DelayedBindings:
    """The bindings of another kind of exchange, which only see what is not to wait."""

    __slots__ = ("_routes",)

    def __init__(self, routes: Bindings) -> None:
        self._routes = routes

    @property
    def count(self) -> int:
        return self._routes.count

    def add(self, binding: BindingRecord) -> None:
        self._routes.add(binding)

    def remove(self, binding: BindingRecord) -> None:
        self._routes.remove(binding)

    def match(self, keys: Sequence[str], asked: RoutingFacts) -> Iterable[Destination]:
        is_held = not asked.has_waited and delay_ms_of(asked()) is not None
        return (HELD,) if is_held else self._routes.match(keys, asked)


def delay_ms_of(headers: Mapping[str, Any] | None) -> int | None:
    """How long a message with these headers is to wait; None: not at all."""
    delay = integer_of(headers.get(DELAY)) if headers is not None else None
    return delay if delay is not None and 0 < delay <= DELAY_MS_MAX else None


def integer_of(value: Any) -> int | None:
    """What a header says as a number, if it says one."""
    if isinstance(value, (bool, Timestamp)):
        return None
    if isinstance(value, (float, Decimal)):
        return int(value) if isfinite(value) else None
    if isinstance(value, str):
        return int(value) if _INTEGER.fullmatch(value) else None
    return value if isinstance(value, int) else None


def routing_kind(kind: str, arguments: Arguments) -> str:
    """The kind by which an exchange routes."""
    return str(arguments[DELAYED_TYPE]) if kind == DELAYED_KIND else kind


def check_delayed_type(arguments: Arguments, kinds: Iterable[str]) -> None:
    """`kinds`: those that messages may be routed by. Raises PreconditionFailed."""
    kind = arguments.get(DELAYED_TYPE)
    if not isinstance(kind, str) or kind not in kinds:
        given = "none" if kind is None else f"'{show(kind)}'"
        raise PreconditionFailed(
            f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type: it is {given}, and may be "
            f"{', '.join(kinds)}"
        )
