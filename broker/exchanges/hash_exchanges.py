"""Exchanges that choose one of their destinations: by a hash of the message, or by chance.

    x-consistent-hash   a hash of the routing key, or of what the arguments hash-header or hash-property name; the binding's key
                        is the destination's weight, an integer above 0. When a destination comes or goes, only messages to or
                        from it go another way (rendezvous hashing: each destination draws a number for the hash, the highest
                        wins). A destination that is bound twice has the weight of its oldest binding
    x-modulus-hash      a hash of the routing key, modulo the number of destinations
    x-random            any
    x-local-random      any that lives on the publisher's node; only classic queues, with an empty binding key

Hashes are the same on all nodes and after each start. With CC the first routing key counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from broker.errors import PreconditionFailed
from broker.exchanges.bindings import Destination, RoutingFacts, destination_of
from broker.records import Arguments, BindingRecord, QueueRecord

HASH_HEADER, HASH_PROPERTY = "hash-header", "hash-property"
PROPERTIES = ("correlation_id", "message_id", "timestamp")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MASK = (1 << 64) - 1
_BELOW_ONE = math.nextafter(1.0, 0.0)


def hashed(value: Any) -> int:
    """64 bits of anything that a key, header or property may be."""
    raw = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(raw, digest_size=8).digest())


def _mixed(number: int) -> int:
    """All bits of it in all bits of the result (the finalizer of MurmurHash3)."""
    number = (number ^ number >> 33) * 0xFF51AFD7ED558CCD & _MASK
    number = (number ^ number >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return number ^ number >> 33


class _Destinations:
    """Each once, in the order in which they were first bound."""

    __slots__ = ("bindings", "count")

    def __init__(self, arguments: Arguments) -> None:
        self.bindings: dict[Destination, list[BindingRecord]] = {}
        self.count = 0

    def add(self, binding: BindingRecord) -> None:
        self.bindings.setdefault(destination_of(binding), []).append(binding)
        self.count += 1

    def remove(self, binding: BindingRecord) -> None:
        destination = destination_of(binding)
        bindings = self.bindings[destination]
        bindings.remove(binding)
        if not bindings:
            del self.bindings[destination]
        self.count -= 1


class ConsistentHashBindings(_Destinations):
    __slots__ = ("_header", "_property", "_weights")

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._header = arguments.get(HASH_HEADER)
        self._property = arguments.get(HASH_PROPERTY)
        self._weights: list[tuple[Destination, int, float]] | None = None  # with the destination's own hash

    def add(self, binding: BindingRecord) -> None:
        super().add(binding)
        self._weights = None

    def remove(self, binding: BindingRecord) -> None:
        super().remove(binding)
        self._weights = None

    def match(self, keys: Sequence[str], asked: RoutingFacts) -> Iterable[Destination]:
        if not self.bindings:
            return ()
        if self._weights is None:
            self._weights = [
                (destination, hashed("\0".join(destination)), float(int(bindings[0].routing_key)))
                for destination, bindings in self.bindings.items()
            ]
        wanted = hashed(self._hashed_on(keys, asked))
        return (max(self._weights, key=lambda one: _score(wanted ^ one[1], one[2]))[0],)

    def _hashed_on(self, keys: Sequence[str], asked: RoutingFacts) -> Any:
        """A message without the header or property has a hash too, one for all such."""
        if self._header is not None:
            return (asked() or {}).get(self._header)
        if self._property is not None:
            return asked.property_of(self._property)
        return keys[0]


def _score(number: int, weight: float) -> float:
    """So that the highest is drawn in proportion to the weights."""
    # Of the greatest hashes the quotient is rounded to 1.0, whose logarithm nothing can be divided by.
    return -weight / math.log(min((_mixed(number) + 0.5) / (_MASK + 1), _BELOW_ONE))


class ModulusHashBindings(_Destinations):
    __slots__ = ()

    def match(self, keys: Sequence[str], asked: RoutingFacts) -> Iterable[Destination]:
        if not self.bindings:
            return ()
        in_order = sorted(self.bindings)
        return (in_order[hashed(keys[0]) % len(in_order)],)


class RandomBindings(_Destinations):
    __slots__ = ()

    def match(self, keys: Sequence[str], asked: RoutingFacts) -> Iterable[Destination]:
        return _any_of(list(self.bindings), asked)


class LocalRandomBindings(_Destinations):
    __slots__ = ()

    def match(self, keys: Sequence[str], asked: RoutingFacts) -> Iterable[Destination]:
        return _any_of([one for one in self.bindings if asked.is_here(one[1])], asked)


def _any_of(destinations: list[Destination], asked: RoutingFacts) -> Iterable[Destination]:
    return destinations if len(destinations) < 2 else (destinations[asked.draw(len(destinations))],)


def check_hash_arguments(arguments: Arguments) -> None:
    """Of an x-consistent-hash exchange. Raises PreconditionFailed."""
    given = [name for name in (HASH_HEADER, HASH_PROPERTY) if name in arguments]
    if len(given) == 2:
        raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
    for name in given:
        value = arguments[name]
        if not isinstance(value, str):
            raise PreconditionFailed(f"{name} is the name of a {name[5:]}, not {value!r}")
        if name == HASH_PROPERTY and value not in PROPERTIES:
            raise PreconditionFailed(f"Unsupported property: {value}; {', '.join(PROPERTIES)} can be hashed")


def check_weight(routing_key: str) -> None:
    """Raises PreconditionFailed for a key that is no weight."""
    if not _INTEGER.fullmatch(routing_key):
        raise PreconditionFailed(f"The binding key must be an integer: '{routing_key}'")
    if int(routing_key) < 1:
        raise PreconditionFailed(f"The binding key must be greater than 0, not {routing_key}")


def check_local(routing_key: str, queue: QueueRecord | None) -> None:
    """Raises PreconditionFailed for what an x-local-random exchange cannot be bound to; None is an exchange."""
    if routing_key:
        raise PreconditionFailed(f"Non empty binding '{routing_key}' key not permitted")
    if queue is None:
        raise PreconditionFailed("Destination not found: an x-local-random exchange leads to queues, not to exchanges")
    if queue.kind != "classic":
        raise PreconditionFailed(f"Queue type {queue.kind} not valid for this exchange type")
