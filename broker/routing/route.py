"""From an exchange and routing keys to queues: the walk through exchanges that are bound to each other.

Every exchange is visited once, so cycles do no harm, and every queue comes once, however many ways lead to it. An
exchange at which nothing matched passes the message to its alternate exchange, if it has one that exists. One at which the
message is to wait leads to the queue in which it waits, and so does a queue that delays it; no name leads there otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.catalog.catalog import Catalog
from broker.exchanges.bindings import RoutingFacts
from broker.exchanges.delayed_exchange import HELD
from broker.exchanges.delaying_queue import is_to_wait
from broker.names import DEFAULT_EXCHANGE, holding_queue, holding_queue_of, is_of_the_broker
from broker.routing.asked import Asked


def route(
    catalog: Catalog, vhost: str, exchange: str, routing_key: str, asked: RoutingFacts | None = None
) -> list[str]:
    """Names of the queues that get a message published so. `asked` tells what exchanges want to know of it."""
    return route_many(catalog, vhost, exchange, (routing_key,), asked)


def route_many(
    catalog: Catalog, vhost: str, exchange: str, routing_keys: Sequence[str], asked: RoutingFacts | None = None
) -> list[str]:
    """The same for a message with several keys (CC and BCC): each queue that any key leads to, once."""
    namespace = catalog.namespace(vhost)
    asked = asked or Asked()
    if exchange == DEFAULT_EXCHANGE:
        return _delayed(namespace.delaying, _named(namespace.queues, routing_keys), asked)
    queues: dict[str, None] = {}
    visited = {exchange}
    ahead = [exchange]  # in the order found; it grows while it is walked
    for name in ahead:
        if name == DEFAULT_EXCHANGE:  # as an alternate exchange
            queues.update(dict.fromkeys(_named(namespace.queues, routing_keys)))
            continue
        source = namespace.exchanges.get(name)
        if source is None:
            continue
        matched = False
        for kind, destination in source.bindings.match(routing_keys, asked):
            matched = True
            if kind == "queue":
                queues[destination] = None
            elif kind == HELD[0]:
                queues[holding_queue(name)] = None
            elif destination not in visited:
                visited.add(destination)
                ahead.append(destination)
        if not matched:
            alternate = catalog.alternate_exchange(vhost, source)
            if alternate is not None and alternate not in visited:
                visited.add(alternate)
                ahead.append(alternate)
    return _delayed(namespace.delaying, list(queues), asked)


def _delayed(delaying: set[str], queues: list[str], asked: RoutingFacts) -> list[str]:
    """Of queues that delay messages by their headers, those in which this one is to wait for them."""
    if not delaying or delaying.isdisjoint(queues) or asked.has_waited or not is_to_wait(asked()):
        return queues
    return [holding_queue_of(name) if name in delaying else name for name in queues]


def _named(queues: dict[str, Any], routing_keys: Sequence[str]) -> list[str]:
    if len(routing_keys) == 1:
        return [routing_keys[0]] if routing_keys[0] in queues and not is_of_the_broker(routing_keys[0]) else []
    return [key for key in dict.fromkeys(routing_keys) if key in queues and not is_of_the_broker(key)]
