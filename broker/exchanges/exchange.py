"""The kinds of exchange: from a message's routing keys or headers to the destinations bound for it.

Each kind keeps the bindings of one exchange in the shape in which it is asked: by key, as a list, as a tree of words, as
header conditions. Those that choose one destination are in hash_exchanges.py. A destination may be bound in several ways at
once; it is counted, and goes when the last one goes. Destinations come in the order in which they were first bound, so that
the same catalog always routes the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from broker.errors import PreconditionFailed
from broker.exchanges import hash_exchanges
from broker.exchanges.headers_bindings import HeadersBindings
from broker.exchanges.topic_tree import TopicTree, check_pattern
from broker.records import Arguments, BindingRecord, QueueRecord
from broker.table_values import show, type_name

# (queue or exchange, name)
Destination = tuple[str, str]


HISTORY_LENGTH = "x-recent-history-length"
HISTORY_LENGTH_DEFAULT = 20
HISTORY_LENGTH_MAX = 10_000  # whoever is bound gets all of it in one turn of the event loop
NOT_REMEMBERED = "x-recent-history-no-store"  # a message's header


class RoutingFacts(Protocol):
    """What an exchange may want to know of a message (broker/routing/asked.py). Called for its headers, decoded only then."""

    def __call__(self) -> dict[str, Any] | None: ...

    def property_of(self, name: str) -> Any: ...

    def draw(self, count: int) -> int: ...

    def is_here(self, queue: str) -> bool: ...

    def remember_in(self, exchange: RecentHistoryBindings) -> None: ...


class Bindings(Protocol):
    """What an exchange knows of its own bindings."""

    @property
    def count(self) -> int: ...

    def add(self, binding: BindingRecord) -> None: ...

    def remove(self, binding: BindingRecord) -> None:
        """The very record that was added before."""

    def match(self, keys: Sequence[str], asked: RoutingFacts, /) -> Iterable[Destination]:
        """Where a message with these keys goes; the same destination may come more than once."""


def destination_of(binding: BindingRecord) -> Destination:
    return binding.destination_kind, binding.destination


def _count_up(counts: dict[Destination, int], destination: Destination) -> None:
    counts[destination] = counts.get(destination, 0) + 1


def _count_down(counts: dict[Destination, int], destination: Destination) -> None:
    counts[destination] -= 1
    if counts[destination] == 0:
        del counts[destination]


class DirectBindings:
    """Exact key."""

    __slots__ = ("_by_key", "count")

    def __init__(self) -> None:
        self._by_key: dict[str, dict[Destination, int]] = {}
        self.count = 0

    def add(self, binding: BindingRecord) -> None:
        _count_up(self._by_key.setdefault(binding.routing_key, {}), destination_of(binding))
        self.count += 1

    def remove(self, binding: BindingRecord) -> None:
        destinations = self._by_key[binding.routing_key]
        _count_down(destinations, destination_of(binding))
        if not destinations:
            del self._by_key[binding.routing_key]
        self.count -= 1

    def match(self, keys: Sequence[str], asked: RoutingFacts) -> Iterable[Destination]:
        if len(keys) == 1:
            return self._by_key.get(keys[0], ())
        return [destination for key in keys for destination in self._by_key.get(key, ())]


class FanoutBindings:
    """Everybody, whatever the key."""

    __slots__ = ("_destinations", "count")

    def __init__(self) -> None:
        self._destinations: dict[Destination, int] = {}
        self.count = 0

    def add(self, binding: BindingRecord) -> None:
        _count_up(self._destinations, destination_of(binding))
        self.count += 1

    def remove(self, binding: BindingRecord) -> None:
        _count_down(self._destinations, destination_of(binding))
        self.count -= 1

    def match(self, keys: Sequence[str], asked: RoutingFacts) -> Iterable[Destination]:
        return self._destinations


class RecentHistoryBindings(FanoutBindings):
    """Everybody, and those that are bound later get the last messages then (broker/exchanges/recent_history.py)."""

    __slots__ = ("__weakref__", "length")

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()
        self.length: int = arguments.get(HISTORY_LENGTH, HISTORY_LENGTH_DEFAULT)  # messages that it remembers

    def match(self, keys: Sequence[str], asked: RoutingFacts) -> Iterable[Destination]:
        if (asked() or {}).get(NOT_REMEMBERED) is not True:
            asked.remember_in(self)
        return super().match(keys, asked)


class TopicBindings:
    """Patterns of words."""

    __slots__ = ("_tree",)

    def __init__(self) -> None:
        self._tree: TopicTree[Destination] = TopicTree()

    @property
    def count(self) -> int:
        return self._tree.count

    def add(self, binding: BindingRecord) -> None:
        self._tree.add(binding.routing_key, destination_of(binding))

    def remove(self, binding: BindingRecord) -> None:
        self._tree.remove(binding.routing_key, destination_of(binding))

    def match(self, keys: Sequence[str], asked: RoutingFacts) -> Iterable[Destination]:
        if len(keys) == 1:
            return self._tree.match(keys[0])
        return [destination for key in keys for destination in self._tree.match(key)]


_X_MATCH = ("all", "any", "all-with-x", "any-with-x")


def check_binding(kind: str, binding: BindingRecord, queue: QueueRecord | None, wildcards_max: int) -> None:
    """Raises PreconditionFailed for a binding that this kind of exchange cannot have. `queue` is what it leads to, if it does
    not lead to an exchange."""
    arguments = binding.arguments
    if kind == "topic":
        check_pattern(binding.routing_key, wildcards_max)
    elif kind == "x-consistent-hash":
        hash_exchanges.check_weight(binding.routing_key)
    elif kind == "x-local-random":
        hash_exchanges.check_local(binding.routing_key, queue)
    elif kind == "headers" and "x-match" in arguments:
        mode = arguments["x-match"]
        expected = "expected all, any, all-with-x, or any-with-x"
        if not isinstance(mode, str):
            raise PreconditionFailed(
                f"Invalid x-match field type {type_name(mode)} (value {show(mode)}); expected longstr"
            )
        if mode not in _X_MATCH:
            raise PreconditionFailed(f'Invalid x-match field value <<"{mode}">>; {expected}')


# Each made with the exchange's arguments.
KINDS: dict[str, Callable[[Arguments], Bindings]] = {
    "direct": lambda _: DirectBindings(),
    "fanout": lambda _: FanoutBindings(),
    "topic": lambda _: TopicBindings(),
    "headers": lambda _: HeadersBindings(),
    "x-consistent-hash": hash_exchanges.ConsistentHashBindings,
    "x-recent-history": RecentHistoryBindings,
    "x-modulus-hash": hash_exchanges.ModulusHashBindings,
    "x-random": hash_exchanges.RandomBindings,
    "x-local-random": hash_exchanges.LocalRandomBindings,
}
# Kinds that RabbitMQ knows as plugins say so in the error, which is worded differently there.
_PLUGIN_KIND_PREFIX = "x-"


def check_kind(kind: str, arguments: Arguments) -> None:
    """Raises PreconditionFailed for a kind that there is not, or that cannot have these arguments."""
    if kind == "x-consistent-hash":
        hash_exchanges.check_hash_arguments(arguments)
    elif kind == "x-recent-history":
        _check_history_length(arguments.get(HISTORY_LENGTH, HISTORY_LENGTH_DEFAULT))
    if kind in KINDS:
        return
    if kind.startswith(_PLUGIN_KIND_PREFIX):
        raise PreconditionFailed(f"unknown exchange type '{kind}'")
    raise PreconditionFailed(f"invalid exchange type '{kind}'")


def _check_history_length(length: Any) -> None:
    if type(length) is not int or length < 1:
        raise PreconditionFailed(f"Invalid argument {show(length)}, '{HISTORY_LENGTH}' must be a positive integer")
    if length > HISTORY_LENGTH_MAX:
        raise PreconditionFailed(
            f"Invalid argument {length}, '{HISTORY_LENGTH}' must be at most {HISTORY_LENGTH_MAX}, the messages that an "
            "exchange remembers at most"
        )
