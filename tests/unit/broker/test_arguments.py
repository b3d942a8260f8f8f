"""Arguments of queues, exchanges and consumers: what is refused, in RabbitMQ 4.3.6's words as observed."""

from typing import Any

import pytest

from broker.catalog.arguments import (
    ARGUMENTS_BYTES_MAX,
    ARGUMENTS_MAX,
    check_consumer,
    check_exchange,
    check_policy_definition,
)
from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import DeclareQueue
from broker.errors import PreconditionFailed
from wire.amqp.tables import Timestamp

OF_QUEUE = "for queue 'obs.bad' in vhost '/'"


def declare(arguments: dict[str, Any], **properties: Any) -> None:
    catalog = Catalog()
    for command in default_commands("hash"):
        catalog.apply(command)
    catalog.apply(DeclareQueue("/", "obs.bad", arguments=arguments, **properties))


REFUSED: list[tuple[str, Any, str]] = [
    ("x-message-ttl", -1, "{value_negative,-1}"),
    ("x-message-ttl", "10", '"expected integer, got longstr"'),
    ("x-message-ttl", True, '"expected integer, got bool"'),
    ("x-message-ttl", None, '"expected integer, got void"'),
    ("x-message-ttl", 315360000001, "{value_too_large,315360000001}"),
    ("x-expires", 0, "{value_zero,0}"),
    ("x-expires", -1, "{value_negative,-1}"),
    ("x-expires", "1", '"expected integer, got longstr"'),
    ("x-expires", 315360000001, "{value_too_large,315360000001}"),
    ("x-max-length", -1, "{value_negative,-1}"),
    ("x-max-length", "5", '"expected integer, got longstr"'),
    ("x-max-length-bytes", -1, "{value_negative,-1}"),
    ("x-max-length-bytes", "x", '"expected integer, got longstr"'),
    ("x-overflow", "bad", "invalid_overflow"),
    ("x-overflow", 1, "{unacceptable_type,signedint}"),
    ("x-max-priority", 256, "{max_value_exceeded,256}"),
    ("x-max-priority", -1, "{value_negative,-1}"),
    ("x-max-priority", "5", '"expected integer, got longstr"'),
    ("x-dead-letter-routing-key", "rk", "routing_key_but_no_dlx_defined"),
    ("x-dead-letter-routing-key", 1, "{unacceptable_type,signedint}"),
    ("x-single-active-consumer", "yes", "{unacceptable_type,longstr}"),
    ("x-queue-type", "foo", "\"unsupported queue type 'foo'\""),
    ("x-queue-type", 1, "{unacceptable_type,signedint}"),
    ("x-queue-version", 1, "\"unsupported queue version '1'\""),
    ("x-queue-leader-locator", "bad", "invalid_queue_locator_arg"),
]


@pytest.mark.parametrize(("argument", "value", "reason"), REFUSED)
def test_refused_values_of_a_classic_queue(argument: str, value: Any, reason: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        declare({argument: value})
    assert refused.value.text == f"invalid arg '{argument}' {OF_QUEUE}: {reason}"


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 0},
        {"x-message-ttl": 315360000000},
        {"x-max-length": 0},
        {"x-max-priority": 0},
        {"x-max-priority": 255},
        {"x-overflow": "reject-publish-dlx"},
        {"x-dead-letter-exchange": "no.such.dlx"},
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "rk"},
        {"x-queue-mode": "bad"},
        {"x-queue-version": 2},
        {"x-queue-leader-locator": "client-local"},
        {"x-foo": "bar", "foo": [1, {"deep": None}]},
        {"x-ha-policy": "all"},
    ],
)
def test_accepted_arguments_of_a_classic_queue(arguments: dict[str, Any]) -> None:
    declare(arguments)


@pytest.mark.parametrize(
    ("kind", "argument", "value"),
    [
        ("classic", "x-delivery-limit", 5),
        ("classic", "x-requeue-order", "in-place"),
        ("classic", "x-delayed-messages", True),
        ("stream", "x-delayed-messages", True),
        ("classic", "x-quorum-initial-group-size", 3),
        ("classic", "x-max-age", "7D"),
        ("classic", "x-consumer-timeout", 1000),
        ("classic", "x-dead-letter-strategy", "at-least-once"),
        ("classic", "x-stream-max-segment-size-bytes", 100),
        ("classic", "x-max-in-memory-length", 1),
        ("quorum", "x-max-priority", 3),
        ("stream", "x-message-ttl", 1),
    ],
)
def test_arguments_of_another_kind_of_queue(kind: str, argument: str, value: Any) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        declare({"x-queue-type": kind, argument: value})
    assert refused.value.text == f"invalid arg '{argument}' {OF_QUEUE} of queue type rabbit_{kind}_queue"


def test_the_requeue_order_of_a_quorum_queue() -> None:
    for order in ("first", "in-place"):
        declare({"x-queue-type": "quorum", "x-requeue-order": order})
    for value, reason in (("last", "invalid_requeue_order"), (1, "{unacceptable_type,signedint}")):
        with pytest.raises(PreconditionFailed) as refused:
            declare({"x-queue-type": "quorum", "x-requeue-order": value})
        assert refused.value.text == f"invalid arg 'x-requeue-order' {OF_QUEUE}: {reason}"


def test_whether_a_quorum_queue_delays_messages_is_yes_or_no() -> None:
    for value in (True, False):
        declare({"x-queue-type": "quorum", "x-delayed-messages": value})
    with pytest.raises(PreconditionFailed) as refused:
        declare({"x-queue-type": "quorum", "x-delayed-messages": "yes"})
    assert refused.value.text == f"invalid arg 'x-delayed-messages' {OF_QUEUE}: {{unacceptable_type,longstr}}"


def test_an_exchange_name_of_the_wrong_type() -> None:
    with pytest.raises(PreconditionFailed) as refused:
        declare({"x-dead-letter-exchange": 1})
    assert refused.value.text == (
        "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'obs.bad' in vhost '/'"
    )
    with pytest.raises(PreconditionFailed) as refused:
        check_exchange("/", "obs.x3", {"alternate-exchange": 1})
    assert refused.value.text == (
        "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'obs.x3' in vhost '/'"
    )


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"durable": False}, "non-durable"),
        ({"exclusive": True, "owner": "c1"}, "exclusive-owner"),
        ({"auto_delete": True}, "auto-delete"),
    ],
)
def test_properties_that_replicated_queues_cannot_have(kind: str, properties: dict[str, Any], text: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        declare({"x-queue-type": kind}, **properties)
    assert refused.value.text == f"invalid property '{text}' {OF_QUEUE}"


def test_a_streams_max_age() -> None:
    declare({"x-queue-type": "stream", "x-max-age": "7D"})
    with pytest.raises(PreconditionFailed) as refused:
        declare({"x-queue-type": "stream", "x-max-age": "7X"})
    assert refused.value.text == f"invalid arg 'x-max-age' {OF_QUEUE}: invalid_max_age"


def test_arguments_of_consumers() -> None:
    check_consumer("/", "q", "classic", {"x-priority": -3, "anything": "else"})
    check_consumer("/", "q", "stream", {"x-stream-offset": "first"})
    for kind in ("classic", "quorum"):
        text = f"^invalid arg 'x-stream-offset' for queue 'obs.q' in vhost '/' of queue type rabbit_{kind}_queue$"
        with pytest.raises(PreconditionFailed, match=text):
            check_consumer("/", "obs.q", kind, {"x-stream-offset": "first"})
    with pytest.raises(PreconditionFailed) as refused:
        check_consumer("/", "obs.q", "classic", {"x-priority": "high"})
    assert refused.value.text == (
        "invalid arg 'x-priority' for queue 'obs.q' in vhost '/': \"expected integer, got longstr\""
    )
    with pytest.raises(
        PreconditionFailed, match=r"'x-priority' .* \{value_too_large,Timestamp\(9223372036854775808\)\}"
    ):
        check_consumer(
            "/", "obs.q", "quorum", {"x-priority": Timestamp(2**63)}
        )  # entries of its log have 64 bits for it
    with pytest.raises(PreconditionFailed) as refused:
        check_consumer("/", "obs.q", "classic", {"x-consumer-timeout": 1})
    assert refused.value.text == (
        "invalid arg 'x-consumer-timeout' for queue 'obs.q' in vhost '/' of queue type rabbit_classic_queue"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-stream-filter": 7},
        {"x-stream-filter": ["eu", b"us"]},
        {"x-stream-filter": {"eu": True}},
        {"x-stream-match-unfiltered": "true"},
        {"x-priority": 1},
        {"x-consumer-timeout": 1},
    ],
)
def test_a_stream_refuses_a_filter_that_is_none_and_what_it_does_not_know(arguments: dict[str, Any]) -> None:
    with pytest.raises(PreconditionFailed, match=f"invalid arg '{next(iter(arguments))}' for queue 'q' in vhost '/'"):
        check_consumer("/", "q", "stream", arguments)
    check_consumer("/", "q", "stream", {"x-stream-filter": ["eu"], "x-stream-match-unfiltered": True})
    check_consumer("/", "q", "stream", {"x-stream-filter": "eu"})


def test_tables_of_arguments_are_limited() -> None:
    declare({f"note-{number}": number for number in range(ARGUMENTS_MAX)})
    with pytest.raises(PreconditionFailed, match=f"{ARGUMENTS_MAX + 1} arguments for queue 'obs.bad'"):
        declare({f"note-{number}": number for number in range(ARGUMENTS_MAX + 1)})
    with pytest.raises(PreconditionFailed, match=f"at most {ARGUMENTS_BYTES_MAX} are allowed"):
        declare({"note": "x" * ARGUMENTS_BYTES_MAX})


@pytest.mark.parametrize(
    ("definition", "operator", "text"),
    [
        ({}, False, "the definition is empty"),
        ({"max-lenght": 1}, False, "'max-lenght' is not a recognised policy setting"),
        ({"max-priority": 1}, False, "'max-priority' is not a recognised policy setting"),
        ({"max-length": -1}, False, "invalid value for 'max-length': {value_negative,-1}"),
        ({"overflow": "bad"}, False, "invalid value for 'overflow': invalid_overflow"),
        ({"alternate-exchange": 1}, False, r"'alternate-exchange' is a text, not 1 \(signedint\)"),
        ({"dead-letter-exchange": "x"}, True, "'dead-letter-exchange' cannot be set by an operator policy"),
    ],
)
def test_refused_policy_definitions(definition: dict[str, Any], operator: bool, text: str) -> None:
    with pytest.raises(PreconditionFailed, match=f"policy 'p': {text}"):
        check_policy_definition("policy 'p'", definition, operator)


def test_accepted_policy_definitions() -> None:
    check_policy_definition(
        "policy 'p'", {"dead-letter-routing-key": "rk", "queue-mode": "lazy", "max-age": "1h"}, False
    )
    check_policy_definition("policy 'p'", {"max-length": 10, "overflow": "reject-publish"}, True)
