"""The bindings of one exchange, in the shape in which they are asked: by key, as a list, as a tree of words.

Headers have a module of their own, and so have the kinds that choose one destination (hash_exchanges.py). A destination may be
bound in several ways at once; it is counted, and goes when the last one goes. Destinations come in the order in which they
were first bound, so that the same catalog always routes the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from broker.exchanges.topic_tree import TopicTree
from broker.records import Arguments, BindingRecord

# (queue or exchange, name)
Destination = tuple[str, str]

HISTORY_LENGTH = "x-recent-history-length"
HISTORY_LENGTH_DEFAULT = 20
NOT_REMEMBERED = "x-recent-history-no-store"  # a message's header


class RoutingFacts(Protocol):
    """What an exchange may want to know of a message (broker/routing/asked.py). Called for its headers, decoded only then."""

    @property
    def has_waited(self) -> bool:
        """Whether it is a delayed message whose time has come: no exchange delays it again."""

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
