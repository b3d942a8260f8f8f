"""The kinds of exchange, by name, and what each of them can be declared and bound with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.errors import PreconditionFailed
from broker.exchanges import hash_exchanges
from broker.exchanges.bindings import (
    HISTORY_LENGTH,
    HISTORY_LENGTH_DEFAULT,
    Bindings,
    DirectBindings,
    FanoutBindings,
    RecentHistoryBindings,
    TopicBindings,
)
from broker.exchanges.delayed_exchange import (
    DELAYED_KIND,
    DELAYED_TYPE,
    DelayedBindings,
    check_delayed_type,
)
from broker.exchanges.federation_upstream import FEDERATION_KIND, FederationUpstreamBindings, check_max_hops
from broker.exchanges.headers_bindings import HeadersBindings
from broker.exchanges.topic_tree import check_pattern
from broker.records import Arguments, BindingRecord, QueueRecord
from broker.table_values import show, type_name

HISTORY_LENGTH_MAX = 10_000  # whoever is bound gets all of it in one turn of the event loop
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
    FEDERATION_KIND: FederationUpstreamBindings,
    DELAYED_KIND: lambda arguments: DelayedBindings(KINDS[arguments[DELAYED_TYPE]](arguments)),
}
# Kinds by which delayed messages may be routed. What has been delayed is remembered nowhere.
_ROUTES_DELAYED = tuple(kind for kind in KINDS if kind not in (DELAYED_KIND, FEDERATION_KIND, "x-recent-history"))
# Kinds that RabbitMQ knows as plugins say so in the error, which is worded differently there.
_PLUGIN_KIND_PREFIX = "x-"


def check_kind(kind: str, arguments: Arguments) -> None:
    """Raises PreconditionFailed for a kind that there is not, or that cannot have these arguments."""
    if kind == DELAYED_KIND:
        check_delayed_type(arguments, _ROUTES_DELAYED)
        check_kind(arguments[DELAYED_TYPE], arguments)
    elif kind == "x-consistent-hash":
        hash_exchanges.check_hash_arguments(arguments)
    elif kind == FEDERATION_KIND:
        check_max_hops(arguments)
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
