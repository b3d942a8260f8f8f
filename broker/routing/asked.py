"""What the exchanges on a message's way ask of it and of this node, and so what its route depends on.

Most ask for nothing: then all messages with the same exchange and routing key go the same way, and travel in runs. What is
asked for is noted, so that whoever publishes knows how to divide a run: by headers, or message by message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.errors import refuses_malformed
from broker.routing.sender_selected import decoded, raw_headers
from wire.amqp.tables import decode_properties

if TYPE_CHECKING:
    from broker.exchanges.bindings import RecentHistoryBindings

Draw = Callable[[int], int]  # a number by chance, below this one
IsHere = Callable[[str], bool]  # whether a queue of this name lives on this node


def always_first(count: int) -> int:
    return 0


def nowhere(queue: str) -> bool:
    return False


class Asked:
    """For one message, or for all without headers and properties of their own. Called for the headers."""

    __slots__ = ("_draw", "_is_here", "_props", "by_headers", "by_message", "has_waited", "history_exchanges")

    def __init__(self, props: bytes | None = None, draw: Draw = always_first, is_here: IsHere = nowhere) -> None:
        self._props = props  # encoded
        self._draw = draw
        self._is_here = is_here
        self.has_waited = False
        self.by_headers = False  # the same headers go the same way
        self.by_message = False  # each message goes its own way
        self.history_exchanges: list[RecentHistoryBindings] = []

    def __call__(self) -> dict[str, Any] | None:
        self.by_headers = True
        return decoded(raw_headers(self._props)) if self._props is not None else None

    @refuses_malformed
    def property_of(self, name: str) -> Any:
        """None: the message does not have it. Raises MalformedTable."""
        self.by_message = True
        return decode_properties(self._props).get(name) if self._props is not None else None

    def draw(self, count: int) -> int:
        self.by_message = True
        return self._draw(count)

    def is_here(self, queue: str) -> bool:
        """Whether it lives on this node."""
        return self._is_here(queue)

    def remember_in(self, exchange: RecentHistoryBindings) -> None:
        """For those that are bound to the exchange later."""
        self.history_exchanges.append(exchange)
