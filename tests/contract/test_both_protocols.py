"""What a stream of a broker is for clients of AMQP 0-9-1, and for those of the stream protocol: one table of cases each for
its declaration, for the places that readers begin at, and for the messages that go in by one door and come out of the other.

The broker is a node that is started for it; `python -m tests.compat.both_protocols` has another one answer the same cases.
Messages must be as a genuine RabbitMQ stores and delivers them; where it refuses them, or loses something, is told in
docs/amqp-differences.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.compat.stream_messages import RawAmqp
from tests.contract.stream_doors import BROKER, ENDED, OK, AmqpDoor, BrokerUnderTest, StreamDoor, header_of
from tests.running_node import running_node
from tests.unit.wire.amqp10.stream_messages import ENTRIES, PUBLISHED
from tests.unit.wire.amqp10.test_conversion import (
    ANSWERS,
    COMES_BACK_OTHERWISE,
    DELIVERED_OTHERWISE,
    NAN_IS_DELIVERED,
    STORED_OTHERWISE,
    comparable,
    recorded,
)
from wire.amqp.tables import decode_properties
from wire.amqp10.from_amqp10 import DeliveredMessage
from wire.amqp10.sections import decode_sections
from wire.stream import stream_commands as commands
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_keys import OffsetKind

CREATED, EXISTS, PRECONDITION, NOT_THERE = 1, 5, 17, 2
FIRST = OffsetSpec(OffsetKind.FIRST)
CHUNKS = 4
CHUNK = 5  # messages
END = CHUNKS * CHUNK


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[BrokerUnderTest]:
    if (named := request.config.stash.get(BROKER, None)) is not None:
        yield named
        return
    with running_node() as node:
        yield BrokerUnderTest("{}:{}".format(*node.amqp), "{}:{}".format(*node.addresses["stream"]))


@pytest.fixture
def amqp(broker: BrokerUnderTest) -> Iterator[AmqpDoor]:
    door = AmqpDoor(broker.amqp)
    yield door
    door.close()


@pytest.fixture
def raw(broker: BrokerUnderTest) -> Iterator[StreamDoor]:
    door = StreamDoor(broker.stream)
    yield door
    door.close()


# Declarations

IGNORED = {"of-nobody": "v"}  # by the stream protocol; AMQP keeps it, and compares
DECLARED: dict[
    str, tuple[dict[str, Any], dict[str, str], int, int]
] = {  # arguments over AMQP, the same over the stream protocol, codes
    "without arguments": ({}, {}, OK, CREATED),
    "length": ({"x-max-length-bytes": 5_000_000}, {"max-length-bytes": "5000000"}, OK, CREATED),
    "length of 0": ({"x-max-length-bytes": 0}, {"max-length-bytes": "0"}, OK, CREATED),
    "negative length": ({"x-max-length-bytes": -5}, {"max-length-bytes": "-5"}, 406, PRECONDITION),
    "length that is no number": ({"x-max-length-bytes": "abc"}, {"max-length-bytes": "abc"}, 406, PRECONDITION),
    **{f"age of 1{unit}": ({"x-max-age": f"1{unit}"}, {"max-age": f"1{unit}"}, OK, CREATED) for unit in "YMDhms"},
    "age of nothing": ({"x-max-age": "0s"}, {"max-age": "0s"}, 406, PRECONDITION),
    "age that is none": ({"x-max-age": "banana"}, {"max-age": "banana"}, 406, PRECONDITION),
    "age without unit": ({"x-max-age": "10"}, {"max-age": "10"}, 406, PRECONDITION),
    "largest segments": (
        {"x-stream-max-segment-size-bytes": 3_000_000_000},
        {"stream-max-segment-size-bytes": "3000000000"},
        OK,
        CREATED,
    ),
    "segments too large": (
        {"x-stream-max-segment-size-bytes": 3_000_000_001},
        {"stream-max-segment-size-bytes": "3000000001"},
        406,
        PRECONDITION,
    ),
    "segments of 0": (
        {"x-stream-max-segment-size-bytes": 0},
        {"stream-max-segment-size-bytes": "0"},
        406,
        PRECONDITION,
    ),
    "filter of 16 bytes": ({"x-stream-filter-size-bytes": 16}, {"stream-filter-size-bytes": "16"}, OK, CREATED),
    "filter of 255 bytes": ({"x-stream-filter-size-bytes": 255}, {"stream-filter-size-bytes": "255"}, OK, CREATED),
    "filter too small": ({"x-stream-filter-size-bytes": 15}, {"stream-filter-size-bytes": "15"}, 406, PRECONDITION),
    "filter too large": ({"x-stream-filter-size-bytes": 256}, {"stream-filter-size-bytes": "256"}, 406, PRECONDITION),
    "one member": ({"x-initial-cluster-size": 1}, {"initial-cluster-size": "1"}, OK, CREATED),
    "no member": ({"x-initial-cluster-size": 0}, {"initial-cluster-size": "0"}, 406, PRECONDITION),
    **{
        f"leader by {locator}": ({"x-queue-leader-locator": locator}, {"queue-leader-locator": locator}, OK, CREATED)
        for locator in ("client-local", "balanced", "random", "least-leaders", "min-masters")
    },
    "leader by nobody": ({"x-queue-leader-locator": "me"}, {"queue-leader-locator": "me"}, 406, PRECONDITION),
    "argument of other queues": ({"x-message-ttl": 5}, {"message-ttl": "5"}, 406, CREATED),
    "argument of nobody": ({"x-of-nobody": "v"}, IGNORED, OK, CREATED),
}
RABBITMQ_DECLARES = {  # otherwise than that: codes over AMQP, and over the stream protocol
    "negative length": (406, CREATED),
    "length that is no number": (406, ENDED),
    "age of nothing": (406, CREATED),
    "age that is none": (406, CREATED),
    "age without unit": (406, CREATED),
    "segments of 0": (OK, CREATED),
}


@pytest.mark.parametrize("case", DECLARED)
def test_a_declaration_is_taken_or_refused(case: str, broker: BrokerUnderTest, amqp: AmqpDoor, raw: StreamDoor) -> None:
    over_amqp, over_stream, *codes = DECLARED[case]
    amqp_code, stream_code = RABBITMQ_DECLARES.get(case, codes) if broker.is_rabbitmq else codes
    assert amqp.declare("declared", over_amqp) == amqp_code
    assert raw.code(commands.DeleteStreamRequest, "declared") == (CREATED if amqp_code == OK else NOT_THERE)
    assert raw.declare("declared", over_stream) == stream_code
    assert amqp.deleted("declared") == (stream_code == CREATED)


@pytest.mark.parametrize(
    "case", [name for name, case in DECLARED.items() if case[2:] == (OK, CREATED) and case[1] != IGNORED]
)
def test_what_is_declared_by_one_door_is_the_same_by_the_other(case: str, amqp: AmqpDoor, raw: StreamDoor) -> None:
    over_amqp, over_stream, *_ = DECLARED[case]
    assert amqp.declare("twice", over_amqp) == OK
    assert raw.declare("twice", over_stream) == EXISTS
    assert raw.declare("twice", {**over_stream, "max-age": "77s"}) == PRECONDITION
    assert amqp.declare("twice", {**over_amqp, "x-max-age": "77s"}) == 406
    assert amqp.deleted("twice")


# Places


@pytest.fixture(scope="module")
def filled(broker: BrokerUnderTest) -> Iterator[list[int]]:
    """Four chunks of five messages, seconds apart: the time of each, in milliseconds."""
    raw = StreamDoor(broker.stream)
    assert raw.declare("filled", {}) == CREATED
    times: list[int] = []
    for chunk in range(CHUNKS):
        raw.publish_to("filled", [b"\0Su\xa0\2%02d" % (chunk * CHUNK + at) for at in range(CHUNK)])
        spec = OffsetSpec(OffsetKind.OFFSET, chunk * CHUNK)
        times.append(header_of(raw.chunks("filled", spec, chunk * CHUNK)[0]).time_ms)
        time.sleep(1.1)  # AMQP names a time in seconds
    yield times
    assert raw.code(commands.DeleteStreamRequest, "filled") == 1
    raw.close()


PLACES: dict[str, tuple[Any, OffsetSpec, int, int]] = {  # over each protocol, first message, first of its chunk
    "first": ("first", FIRST, 0, 0),
    "last": ("last", OffsetSpec(OffsetKind.LAST), END - CHUNK, END - CHUNK),
    "next": ("next", OffsetSpec(OffsetKind.NEXT), END, END),
    **{
        f"offset {offset}": (offset, OffsetSpec(OffsetKind.OFFSET, offset), offset, offset - offset % CHUNK)
        for offset in (0, 1, 4, 5, 7, 10, 14, 19)
    },
    "offset at the end": (END, OffsetSpec(OffsetKind.OFFSET, END), END, END),
    "offset behind the end": (1_000_000, OffsetSpec(OffsetKind.OFFSET, 1_000_000), END, END),
}


@pytest.mark.parametrize("place", PLACES)
def test_readers_begin_at_the_same_place(place: str, filled: list[int], amqp: AmqpDoor, raw: StreamDoor) -> None:
    """With the message over AMQP, with the whole chunk over the stream protocol."""
    argument, spec, message, chunk = PLACES[place]
    assert raw.answer(commands.ResolveOffsetRequest, "filled", spec).offset.value == chunk
    if message < END:
        assert_begins(amqp, raw, argument, spec, message, chunk)


def assert_begins(amqp: AmqpDoor, raw: StreamDoor, argument: Any, spec: OffsetSpec, message: int, chunk: int) -> None:
    given = amqp.read("filled", argument, END - 1)
    assert given == [(offset, b"%02d" % offset) for offset in range(message, END)]
    firsts = [header_of(one).first_offset for one in raw.chunks("filled", spec, END - 1)]
    assert firsts == list(range(chunk, END, CHUNK))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_readers_begin_at_the_same_time(chunk: int, filled: list[int], amqp: AmqpDoor, raw: StreamDoor) -> None:
    """AMQP counts seconds: of the one behind the chunk before."""
    seconds = filled[chunk] // 1000
    spec = OffsetSpec(OffsetKind.TIMESTAMP, seconds * 1000)
    assert_begins(amqp, raw, datetime.fromtimestamp(seconds, UTC), spec, chunk * CHUNK, chunk * CHUNK)
    at_the_chunk = OffsetSpec(OffsetKind.TIMESTAMP, filled[chunk])
    assert raw.answer(commands.ResolveOffsetRequest, "filled", at_the_chunk).offset.value == chunk * CHUNK
    behind_it = OffsetSpec(OffsetKind.TIMESTAMP, filled[chunk] + 1)
    assert raw.answer(commands.ResolveOffsetRequest, "filled", behind_it).offset.value == (chunk + 1) * CHUNK


@pytest.mark.parametrize("place", ["soon", "5", "1x", "", True])
def test_what_names_no_place_is_refused(place: Any, filled: list[int], broker: BrokerUnderTest, amqp: AmqpDoor) -> None:
    assert amqp.refusal_to_read("filled", place) == (541 if broker.is_rabbitmq and place is True else 406)


# Messages

STORED_AS_RABBITMQ = sorted(set(PUBLISHED) - STORED_OTHERWISE - COMES_BACK_OTHERWISE)
DELIVERED_AS_RABBITMQ = sorted(set(ENTRIES) - set(DELIVERED_OTHERWISE) - NAN_IS_DELIVERED)


def delivered_of(client: RawAmqp, names: list[str]) -> dict[str, DeliveredMessage]:
    """All messages of a stream, by the names of what was published."""
    found = client.messages(len(names))
    messages = [
        DeliveredMessage(one["exchange"].decode(), one["routing_key"].decode(), one["properties"], one["body"])
        for one in found
    ]
    return dict(zip(names, messages, strict=True))


@pytest.fixture
def asked(broker: BrokerUnderTest) -> Iterator[RawAmqp]:
    """A client with an empty stream."""
    client = RawAmqp(broker.amqp)
    client.declare_stream()
    yield client
    client.delete_stream()
    client.close()


def test_messages_that_come_over_amqp_are_those_of_rabbitmq_by_both_doors(asked: RawAmqp, raw: StreamDoor) -> None:
    names = STORED_AS_RABBITMQ
    for name in names:
        asked.publish(PUBLISHED[name])
    entries = raw.entries("asked", FIRST, len(names) - 1)
    delivered = delivered_of(asked, names)
    assert len(names) > 100
    for name, entry in zip(names, entries, strict=True):
        answer = ANSWERS["published"][name]
        assert decode_sections(entry) == decode_sections(bytes.fromhex(answer["stored"])), name
        assert comparable(delivered[name]) == recorded(answer["delivered"]), name


def test_messages_that_come_over_the_stream_protocol_are_those_of_rabbitmq(asked: RawAmqp, raw: StreamDoor) -> None:
    names = DELIVERED_AS_RABBITMQ
    raw.publish_to("asked", [ENTRIES[name] for name in names])
    assert raw.entries("asked", FIRST, len(names) - 1) == [ENTRIES[name] for name in names]
    delivered = delivered_of(asked, names)
    assert len(names) > 100
    for name in names:
        assert comparable(delivered[name]) == recorded(ANSWERS["entries"][name]), name


def test_messages_that_rabbitmq_fails_on_are_delivered(asked: RawAmqp, raw: StreamDoor) -> None:
    names = list(DELIVERED_OTHERWISE)
    raw.publish_to("asked", [ENTRIES[name] for name in names])
    for name, message in delivered_of(asked, names).items():
        assert (message.exchange, message.routing_key) == ("", "asked")
        assert (decode_properties(message.properties), message.body) == DELIVERED_OTHERWISE[name], name
