"""Whatever AMQP lets in, every listing, export, table and client shows; and definitions bring it back as far as JSON can."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import leveret
from broker.catalog.commands import catalog_commands as commands
from broker.operations.resources import QueueView
from broker.queues.queue_type import QueueStatistics
from broker.records import BindingRecord, ExchangeRecord, QueueRecord
from front.grpc import convert, describe
from front.web.http.request import json_response
from front.web.samples.figures import SampledFigures
from front.web.views.declared_views import binding_view, exchange_view, queue_view
from leveret import records
from leveret.ctl import bindings as ctl_bindings
from leveret.ctl import queues as ctl_queues
from leveret.ctl.terminal import render
from leveret.ctl.terminal.run import options
from leveret.message import GotMessage, from_wire, to_wire
from leveret.v1 import consume_pb2, message_pb2, topology_pb2
from leveret.values import to_table
from native import content
from native.frame_split import FrameError, look_at
from tests.amqp_values import PROPERTY_LISTS, TABLES, field_table, json_carries, nested
from tests.unit.front.test_definitions import Broker
from wire.amqp.tables import Timestamp, decode_table, join_properties

FAR = b"T" + b"\xff" * 8
DEEP = [field_table((b"k", nested(31, letter))) for letter in (b"F", b"A")]


def declared(arguments: dict[str, Any]) -> list[Any]:
    """Everything that an application can put a table of its own into."""
    return [
        ExchangeRecord("/", "e", "headers", arguments=arguments),
        QueueRecord("/", "q", "classic", True, False, False, arguments, id=1),
        BindingRecord("/", "amq.headers", "q", "queue", "", arguments),
    ]


def declare(broker: Broker, arguments: dict[str, Any]) -> None:
    """Through the bytes of the catalog's log, as on a node."""
    exchange, queue, binding = declared(arguments)
    wish = commands.DeclareQueue("/", "q", durable=True, arguments=queue.arguments, home="n1")
    for command in (commands.DeclareExchange(exchange), wish, commands.Bind(binding)):
        broker.submit(commands.decode_command(commands.encode_command(command)))
    broker.end_turn()


@given(TABLES)
@example(field_table((b"since", b"T" + bytes(7) + b"\1"), (b"\xff\xfe", b"S\0\0\0\1x")))
@example(field_table((b"k", FAR)))
@example(DEEP[0])
def test_arguments_are_listed_over_http(raw: bytes) -> None:
    exchange, queue, binding = declared(decode_table(raw)[0])
    views = [
        exchange_view(exchange),
        queue_view(QueueView(queue, None, None, QueueStatistics()), SampledFigures()),
        binding_view(binding),
    ]
    shown = json.loads(json_response(views).body)
    shown[1]["arguments"].pop("x-queue-type")  # the kind of a queue is always among them
    assert all(len(view["arguments"]) == len(queue.arguments) for view in shown)


@given(TABLES)
@example(field_table((b"k", FAR)))
@example(DEEP[0])
@example(DEEP[1])
def test_arguments_are_listed_over_grpc_by_the_client_and_by_leveretctl(raw: bytes) -> None:
    binding = declared(decode_table(raw)[0])[2]
    answer = topology_pb2.ListBindingsResponse(bindings=[describe.binding(binding)])
    (stub,) = topology_pb2.ListBindingsResponse.FromString(answer.SerializeToString()).bindings
    listed = records.from_stub(records.Binding, stub)
    assert len(listed.arguments) == len(binding.arguments)
    to_table(listed.arguments)  # what the client was told, it can say

    def show() -> None:
        render.records([listed], ctl_bindings.COLUMNS, empty="none")

    assert as_json(show)[0]["source"] == "amq.headers"
    assert "amq.headers" in printed(show, as_json=False)


@given(TABLES)
@example(field_table((b"k", FAR), (b"\xff" * 255, b"x\0\0\0\2\xff\xfe")))
@example(DEEP[0])
def test_definitions_are_exported_and_imported_again(raw: bytes) -> None:
    arguments = {
        name: value for name, value in decode_table(raw)[0].items() if not name.startswith(("x-", "alternate"))
    }
    one, other = Broker(), Broker()
    declare(one, arguments)
    exported = one.document({})
    other.take(exported)
    assert other.document({}) == exported
    (binding,) = [record for record in other.catalog.bindings("/") if record.source]
    assert binding.arguments.keys() == arguments.keys()
    for name, value in arguments.items():
        if json_carries(value):
            assert binding.arguments[name] == value
            assert type(binding.arguments[name]) is type(value)


def test_what_json_has_no_word_for_comes_back_by_rabbitmqs_conventions() -> None:
    second = b"T" + bytes(7) + b"\1"
    table = field_table((b"at", second), (b"far", FAR), (b"raw", b"x\0\0\0\1\xff"), (b"price", b"D\2\0\0\0\xfa"))
    one, other = Broker(), Broker()
    declare(one, decode_table(table)[0])
    other.take(one.document({}))
    (binding,) = [record for record in other.catalog.bindings("/") if record.source]
    assert binding.arguments == {"at": 1, "far": 2**64 - 1, "raw": b"\xff", "price": 2.5}
    assert isinstance(binding.arguments["far"], Timestamp)


@given(PROPERTY_LISTS, st.binary(max_size=20))
@example({"timestamp": b"\xff" * 8}, b"1")
@example({"headers": field_table((b"h_ms", b"l\x7f" + b"\xff" * 7))}, b"1")
@example({"headers": DEEP[0]}, b"\x9b")
@example({"expiration": b"\2" + "\u00b2".encode()}, b"1")
def test_a_message_is_shown_whatever_its_properties_are(fields: dict[str, bytes], body: bytes) -> None:
    props = join_properties(fields)
    with contextlib.suppress(FrameError):
        look_at(props)
        _shown(props, body)  # only what the edge lets in is ever stored


def _shown(props: bytes, body: bytes) -> None:
    (stub,) = convert.messages(content.encode(props, body), 0, 1)
    batch = consume_pb2.ConsumeResponse(deliveries=consume_pb2.DeliveryBatch(messages=[stub]))
    (read,) = consume_pb2.ConsumeResponse.FromString(batch.SerializeToString()).deliveries.messages
    message = from_wire(read)
    assert message.body == body
    got = GotMessage(message, "", "q", False, {})
    assert ctl_queues.message_line(got).isprintable()
    assert as_json(lambda: render.print_json(ctl_queues.message_facts(got)))["routing_key"] == "q"
    assert (
        from_wire(message_pb2.Message.FromString(to_wire(message).SerializeToString())).timestamp == message.timestamp
    )


def test_a_property_list_that_says_nothing_is_shown_without_properties() -> None:
    assert convert.properties(b"\x80\x00").content_type == ""


def test_a_timestamp_beyond_the_year_9999_stays_a_timestamp() -> None:
    message = from_wire(message_pb2.Message(properties=message_pb2.Properties(timestamp_s=2**64 - 1)))
    assert message.timestamp == 2**64 - 1
    assert isinstance(message.timestamp, leveret.FarTimestamp)
    assert to_wire(message).properties.timestamp_s == 2**64 - 1
    near = from_wire(message_pb2.Message(properties=message_pb2.Properties(timestamp_s=253_402_300_799)))
    assert near.timestamp == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def test_a_table_too_deep_for_protobuf_is_told_as_json() -> None:
    value = convert.table(decode_table(DEEP[0])[0]).entries["k"]
    for _ in range(convert.NESTING_MAX - 1):
        value = value.table.entries["k"]
    assert json.loads(value.text)["k"]


def printed(show: Callable[[], None], *, as_json: bool) -> str:
    """What `leveretctl` prints: lines, in which nothing is that a terminal would obey."""
    options.json = as_json
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            show()
    finally:
        options.json = False
    assert all(line.isprintable() for line in out.getvalue().split("\n")), ascii(out.getvalue())
    return out.getvalue()


def as_json(show: Callable[[], None]) -> Any:
    return json.loads(printed(show, as_json=True), parse_constant=pytest.fail)
