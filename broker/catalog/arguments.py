"""The optional arguments of queues, exchanges and consumers: which exist, what they may be, and for which kind of queue.

Names that are not in the tables are accepted and kept, as clients use them for their own notes. The texts are RabbitMQ's,
Erlang terms included, because client libraries and their tests read them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from broker.errors import PreconditionFailed, refuses_malformed
from broker.exchanges.delaying_queue import DELAYED_MESSAGES
from broker.names import NAME_BYTES_MAX, labelled
from broker.records import Arguments
from broker.table_values import same, show, type_name
from wire.amqp.tables import encode_table

QUEUE_KINDS = ("classic", "quorum", "stream")
TEN_YEARS_MS = 315_360_000_000
PRIORITY_MAX = 255
STREAM_SEGMENT_BYTES_MAX = 3_000_000_000
INTEGER_END = 1 << 63  # integers have 64 bits and a sign
OVERFLOW_MODES = ("drop-head", "reject-publish", "reject-publish-dlx")
LEADER_LOCATORS = ("client-local", "balanced")
OLD_LEADER_LOCATORS = ("random", "least-leaders", "min-masters")  # of streams: they mean balanced
REQUEUE_ORDERS = ("first", "in-place")
# A table of arguments is kept in memory and in the catalog for ever; no client comes near these.
ARGUMENTS_MAX = 128
ARGUMENTS_BYTES_MAX = 64 * 1024

_MAX_AGE = re.compile(r"(?=0*[1-9])[0-9]{1,12}[YMDhms]")


class _Refused(Exception):
    """The reason why a value is not acceptable, as the text says it."""


# Looks at the value and at all arguments; raises _Refused.
Check = Callable[[Any, Arguments], None]


def _expect_integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Refused(f'"expected integer, got {type_name(value)}"')
    return value


def _any_integer(value: Any, arguments: Arguments) -> None:
    _expect_integer(value)


def _long(value: Any, arguments: Arguments) -> None:
    """A timestamp is a number here, too, and can be one that no other integer of AMQP is."""
    if not -INTEGER_END <= _expect_integer(value) < INTEGER_END:
        raise _Refused(f"{{value_too_large,{value}}}")


def _not_negative(value: Any, arguments: Arguments) -> None:
    if _expect_integer(value) < 0:
        raise _Refused(f"{{value_negative,{value}}}")


def _positive(value: Any, arguments: Arguments) -> None:
    _not_negative(value, arguments)
    if value == 0:
        raise _Refused("{value_zero,0}")


def _up_to_ten_years(value: Any, arguments: Arguments) -> None:
    _not_negative(value, arguments)
    if value > TEN_YEARS_MS:
        raise _Refused(f"{{value_too_large,{value}}}")


def _expiry(value: Any, arguments: Arguments) -> None:
    _positive(value, arguments)
    _up_to_ten_years(value, arguments)


def _priority(value: Any, arguments: Arguments) -> None:
    _not_negative(value, arguments)
    if value > PRIORITY_MAX:
        raise _Refused(f"{{max_value_exceeded,{value}}}")


def _expect_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Refused(f"{{unacceptable_type,{type_name(value)}}}")
    return value


def _boolean(value: Any, arguments: Arguments) -> None:
    if not isinstance(value, bool):
        raise _Refused(f"{{unacceptable_type,{type_name(value)}}}")


def _overflow(value: Any, arguments: Arguments) -> None:
    if _expect_text(value) not in OVERFLOW_MODES:
        raise _Refused("invalid_overflow")


def _dead_letter_routing_key(value: Any, arguments: Arguments) -> None:
    size = len(_expect_text(value).encode("utf-8", "surrogateescape"))
    if size > NAME_BYTES_MAX:  # no client could be told the key of such a message
        raise _Refused(f"{{max_length_exceeded,{size}}}")
    if "x-dead-letter-exchange" not in arguments:
        raise _Refused("routing_key_but_no_dlx_defined")


def _dead_letter_strategy(value: Any, arguments: Arguments) -> None:
    if _expect_text(value) not in ("at-most-once", "at-least-once"):
        raise _Refused("invalid_dlx_strategy")


def _requeue_order(value: Any, arguments: Arguments) -> None:
    if _expect_text(value) not in REQUEUE_ORDERS:
        raise _Refused("invalid_requeue_order")


def _leader_locator(value: Any, arguments: Arguments) -> None:
    if _expect_text(value) not in LEADER_LOCATORS:
        raise _Refused("invalid_queue_locator_arg")


def _stream_leader_locator(value: Any, arguments: Arguments) -> None:
    if _expect_text(value) not in (*LEADER_LOCATORS, *OLD_LEADER_LOCATORS):
        raise _Refused("invalid_queue_locator_arg")


def _segment_bytes(value: Any, arguments: Arguments) -> None:
    _positive(value, arguments)
    if value > STREAM_SEGMENT_BYTES_MAX:
        raise _Refused(f"Exceeded max value {STREAM_SEGMENT_BYTES_MAX}")


def _filter_bytes(value: Any, arguments: Arguments) -> None:
    if not 16 <= _expect_integer(value) <= 255:
        raise _Refused(f"{{value_out_of_range,{value},16,255}}")


def _filter_values(value: Any, arguments: Arguments) -> None:
    for one in value if isinstance(value, list) else [value]:
        _expect_text(one)


def _queue_version(value: Any, arguments: Arguments) -> None:
    if _expect_integer(value) != 2:
        raise _Refused(f"\"unsupported queue version '{value}'\"")


def _max_age(value: Any, arguments: Arguments) -> None:
    if not _MAX_AGE.fullmatch(_expect_text(value)):
        raise _Refused("invalid_max_age")


def _anything(value: Any, arguments: Arguments) -> None:
    """Accepted and without effect, as in RabbitMQ."""


# Checked before everything else, and worded differently: the type of an exchange's name.
_EXCHANGE_NAMES = ("x-dead-letter-exchange",)

_CLASSIC: dict[str, Check] = {
    "x-expires": _expiry,
    "x-message-ttl": _up_to_ten_years,
    "x-dead-letter-exchange": _anything,
    "x-dead-letter-routing-key": _dead_letter_routing_key,
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-priority": _priority,
    "x-overflow": _overflow,
    "x-queue-mode": _anything,
    "x-queue-version": _queue_version,
    "x-single-active-consumer": _boolean,
    "x-queue-leader-locator": _leader_locator,
}
_QUORUM: dict[str, Check] = {
    "x-expires": _expiry,
    "x-message-ttl": _up_to_ten_years,
    "x-dead-letter-exchange": _anything,
    "x-dead-letter-routing-key": _dead_letter_routing_key,
    "x-dead-letter-strategy": _dead_letter_strategy,
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-in-memory-length": _not_negative,
    "x-max-in-memory-bytes": _not_negative,
    "x-overflow": _overflow,
    "x-single-active-consumer": _boolean,
    "x-queue-leader-locator": _leader_locator,
    "x-quorum-initial-group-size": _positive,
    "x-quorum-target-group-size": _positive,
    "x-delivery-limit": _any_integer,
    "x-consumer-timeout": _not_negative,
    "x-consumer-disconnected-timeout": _not_negative,
    "x-delayed-retry-type": _anything,
    "x-delayed-retry-min": _not_negative,
    "x-delayed-retry-max": _not_negative,
    "x-requeue-order": _requeue_order,
    DELAYED_MESSAGES: _boolean,
}
_STREAM: dict[str, Check] = {
    "x-max-length-bytes": _not_negative,
    "x-max-age": _max_age,
    "x-stream-max-segment-size-bytes": _segment_bytes,
    "x-stream-filter-size-bytes": _filter_bytes,
    "x-initial-cluster-size": _positive,
    "x-queue-leader-locator": _stream_leader_locator,
}
_OF_KIND: dict[str, dict[str, Check]] = {"classic": _CLASSIC, "quorum": _QUORUM, "stream": _STREAM}
_NAMES_OF_KIND = {kind: frozenset(checks) for kind, checks in _OF_KIND.items()}
_OF_ANY_KIND = frozenset(name for checks in _OF_KIND.values() for name in checks)


def kind_of_queue(vhost: str, name: str, arguments: Arguments, default: str) -> str:
    """The kind of queue that these arguments ask for."""
    if "x-queue-type" not in arguments:
        return default
    kind = arguments["x-queue-type"]
    if not isinstance(kind, str):
        raise _invalid("x-queue-type", "queue", name, vhost, f"{{unacceptable_type,{type_name(kind)}}}")
    if kind not in QUEUE_KINDS:
        raise _invalid("x-queue-type", "queue", name, vhost, f"\"unsupported queue type '{kind}'\"")
    return kind


class QueueWish(Protocol):
    """A queue as it is wanted (DeclareQueue)."""

    @property
    def vhost(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def durable(self) -> bool: ...
    @property
    def exclusive(self) -> bool: ...
    @property
    def auto_delete(self) -> bool: ...
    @property
    def arguments(self) -> Arguments: ...


def check_queue(wish: QueueWish, kind: str) -> None:
    """Raises PreconditionFailed when no queue of this kind can be like this."""
    check_size("queue", wish.name, wish.vhost, wish.arguments)
    if kind != "classic":
        _check_properties_of_replicated(wish)
    checks = _OF_KIND[kind]
    for argument in _EXCHANGE_NAMES:
        _check_exchange_name(argument, "queue", wish.name, wish.vhost, wish.arguments)
    for argument, value in wish.arguments.items():
        check = checks.get(argument)
        if check is not None:
            _run(check, argument, value, "queue", wish.name, wish.vhost, wish.arguments)
        elif argument in _OF_ANY_KIND:
            raise _not_for_kind(argument, wish.name, wish.vhost, kind)


def _check_properties_of_replicated(wish: QueueWish) -> None:
    for holds, text in (
        (wish.auto_delete, "auto-delete"),
        (wish.exclusive, "exclusive-owner"),
        (not wish.durable, "non-durable"),
    ):
        if holds:
            raise PreconditionFailed(f"invalid property '{text}' for {labelled('queue', wish.name, wish.vhost)}")


def check_exchange(vhost: str, name: str, arguments: Arguments) -> None:
    check_size("exchange", name, vhost, arguments)
    _check_exchange_name("alternate-exchange", "exchange", name, vhost, arguments)


_OF_STREAM_CONSUMERS = ("x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered")
_STREAM_CONSUMER: dict[str, Check] = {"x-stream-filter": _filter_values, "x-stream-match-unfiltered": _boolean}
_NOT_OF_STREAM_CONSUMERS = ("x-priority", "x-consumer-timeout")


def check_consumer(vhost: str, queue: str, kind: str, arguments: Arguments) -> None:
    """The arguments of a consumer of this queue. What a stream is asked for (x-stream-offset) it checks itself."""
    check_size("queue", queue, vhost, arguments)
    for argument in _NOT_OF_STREAM_CONSUMERS if kind == "stream" else _OF_STREAM_CONSUMERS:
        if argument in arguments:
            raise _not_for_kind(argument, queue, vhost, kind)
    if kind == "stream":
        for argument, check in _STREAM_CONSUMER.items():
            if argument in arguments:
                _run(check, argument, arguments[argument], "queue", queue, vhost, arguments)
    if "x-priority" in arguments:
        _run(_long, "x-priority", arguments["x-priority"], "queue", queue, vhost, arguments)
    if "x-consumer-timeout" in arguments:
        if kind == "classic":
            raise _not_for_kind("x-consumer-timeout", queue, vhost, kind)
        _run(_not_negative, "x-consumer-timeout", arguments["x-consumer-timeout"], "queue", queue, vhost, arguments)


@refuses_malformed
def encoded_arguments(arguments: Arguments) -> bytes:
    """As a field table. Raises MalformedTable for a value that has no place in one."""
    return encode_table(arguments)


def check_size(kind: str, name: str, vhost: str, arguments: Arguments) -> None:
    if len(arguments) > ARGUMENTS_MAX:
        raise PreconditionFailed(
            f"{len(arguments)} arguments for {labelled(kind, name, vhost)}, and at most {ARGUMENTS_MAX} are allowed"
        )
    size = len(encoded_arguments(arguments)) if arguments else 0
    if size > ARGUMENTS_BYTES_MAX:
        raise PreconditionFailed(
            f"arguments of {size} bytes for {labelled(kind, name, vhost)}, and at most {ARGUMENTS_BYTES_MAX} are allowed"
        )


def _check_exchange_name(argument: str, kind: str, name: str, vhost: str, arguments: Arguments) -> None:
    if argument in arguments and not isinstance(arguments[argument], str):
        found = type_name(arguments[argument])
        raise PreconditionFailed(f"invalid type '{found}' for arg '{argument}' in {labelled(kind, name, vhost)}")


def _run(check: Check, argument: str, value: Any, kind: str, name: str, vhost: str, arguments: Arguments) -> None:
    try:
        check(value, arguments)
    except _Refused as refused:
        raise _invalid(argument, kind, name, vhost, str(refused)) from None


def _invalid(argument: str, kind: str, name: str, vhost: str, reason: str) -> PreconditionFailed:
    return PreconditionFailed(f"invalid arg '{argument}' for {labelled(kind, name, vhost)}: {reason}")


def _not_for_kind(argument: str, name: str, vhost: str, kind: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"invalid arg '{argument}' for {labelled('queue', name, vhost)} of queue type rabbit_{kind}_queue"
    )


# ----------------------------------------------------------------------------- declaring what exists


def check_field_equivalent(field: str, kind: str, name: str, vhost: str, received: Any, current: Any) -> None:
    """A thing may be declared again only as it is."""
    if not same(received, current):
        raise PreconditionFailed(
            f"inequivalent arg '{field}' for {labelled(kind, name, vhost)}: "
            f"received '{show(received)}' but current is '{show(current)}'"
        )


def check_arguments_equivalent(
    compared: frozenset[str], kind: str, name: str, vhost: str, received: Arguments, current: Arguments
) -> None:
    """The same for arguments; those that have no meaning here may differ."""
    for argument in sorted(compared):
        if argument in received and argument in current:
            check_field_equivalent(argument, kind, name, vhost, received[argument], current[argument])
        elif argument in received or argument in current:
            raise PreconditionFailed(
                f"inequivalent arg '{argument}' for {labelled(kind, name, vhost)}: "
                f"received {_described(argument, received)} but current is {_described(argument, current)}"
            )


def _described(argument: str, arguments: Mapping[str, Any]) -> str:
    if argument not in arguments:
        return "none"
    value = arguments[argument]
    return f"the value '{show(value)}' of type '{type_name(value)}'"


def arguments_of_kind(kind: str) -> frozenset[str]:
    """The arguments that mean something to this kind of queue."""
    return _NAMES_OF_KIND[kind]


COMPARED_FOR_EXCHANGE = frozenset({"alternate-exchange"})


# ----------------------------------------------------------------------------- policies

# Key of a policy's definition, and the argument whose rules it follows.
_POLICY_CHECKS: dict[str, Check] = {
    **{f"{name[2:]}": check for checks in (_STREAM, _QUORUM, _CLASSIC) for name, check in checks.items()},
    "queue-version": _anything,
    "quorum-initial-group-size": _positive,
    "initial-cluster-size": _positive,
    "target-group-size": _positive,
}
FEDERATION_KEYS = frozenset({"federation-upstream", "federation-upstream-set", "federation-upstream-pattern"})
_POLICY_TEXTS = frozenset({"alternate-exchange", "dead-letter-exchange"}) | FEDERATION_KEYS
_NOT_IN_POLICIES = ("delayed-messages", "max-priority", "single-active-consumer")
OPERATOR_KEYS = frozenset(
    {
        "expires", "message-ttl", "max-length", "max-length-bytes", "delivery-limit", "overflow", "target-group-size",
        "delayed-retry-type", "delayed-retry-min", "delayed-retry-max", "max-in-memory-length", "max-in-memory-bytes",
    }
)  # fmt: skip


def check_policy_definition(what: str, definition: Mapping[str, Any], operator: bool) -> None:
    """Raises PreconditionFailed naming the first key that is unknown here or has an impossible value."""
    if not definition:
        raise PreconditionFailed(f"{what}: the definition is empty")
    federating = sorted(FEDERATION_KEYS & definition.keys())
    if len(federating) > 1:
        raise PreconditionFailed(f"{what}: {' and '.join(federating)} cannot be set together")
    for key, value in definition.items():
        if operator and key not in OPERATOR_KEYS:
            raise PreconditionFailed(f"{what}: '{key}' cannot be set by an operator policy")
        if key in _POLICY_TEXTS:
            if not isinstance(value, str):
                raise PreconditionFailed(f"{what}: '{key}' is a text, not {show(value)} ({type_name(value)})")
            continue
        check = _POLICY_CHECKS.get(key)
        if check is None or key in _NOT_IN_POLICIES:
            raise PreconditionFailed(f"{what}: '{key}' is not a recognised policy setting")
        try:
            # A routing key for dead letters may come from a policy while the exchange comes from an argument.
            check(value, {"x-dead-letter-exchange": ""})
        except _Refused as refused:
            raise PreconditionFailed(f"{what}: invalid value for '{key}': {refused}") from None
