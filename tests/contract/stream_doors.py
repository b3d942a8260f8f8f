"""A stream of a broker, through both of its doors: AMQP 0-9-1 and the stream protocol, by clients that hide nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from stream.chunks.chunk import CHUNK_HEADER_BYTES, ChunkHeader, SubBatch, items_in, message_item, read_header
from tests.compat.stream_messages import RawStream, Refused
from wire.stream import stream_commands as commands
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_frames import encode_frame
from wire.stream.publish_frame import pack_ids

WITHIN_S = 20.0
OK = 200  # what AMQP has no code for
ENDED = 0  # the broker ended the connection where the stream protocol has a code
_FILTER_AT = 44  # in a chunk's header: the size of its filter, which RabbitMQ tells and Leveret does not
STREAM = {"x-queue-type": "stream"}


@dataclass(frozen=True)
class BrokerUnderTest:
    """Where it listens, each HOST:PORT. The user is guest with the password guest."""

    amqp: str
    stream: str
    is_rabbitmq: bool = False  # and answers otherwise where docs/amqp-differences.md says so


BROKER = pytest.StashKey[BrokerUnderTest]()  # the one that tests are to ask, where no node is to be started for them


def header_of(chunk: memoryview) -> ChunkHeader:
    return read_header(bytes(chunk[:_FILTER_AT]) + bytes(CHUNK_HEADER_BYTES - _FILTER_AT))


class AmqpDoor:
    """Each call has a channel of its own, as an error ends it. Returns codes: OK, or that of its end."""

    def __init__(self, address: str) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(f"amqp://guest:guest@{address}/"))

    def close(self) -> None:
        if self._connection.is_open:
            self._connection.close()

    @contextmanager
    def channel(self) -> Iterator[BlockingChannel]:
        channel = self._connection.channel()
        yield channel
        if channel.is_open:
            channel.close()

    def declare(self, name: str, arguments: Mapping[str, Any]) -> int:
        with self.channel() as channel:
            try:
                channel.queue_declare(name, durable=True, arguments={**STREAM, **arguments})
            except ChannelClosedByBroker as error:
                return error.reply_code
            return OK

    def deleted(self, name: str) -> bool:
        """Whether it was there."""
        with self.channel() as channel:
            try:
                channel.queue_declare(name, passive=True)
            except ChannelClosedByBroker:
                return False
            channel.queue_delete(name)
            return True

    def publish(self, name: str, bodies: list[bytes]) -> None:
        """Each is confirmed, and a chunk of its own."""
        with self.channel() as channel:
            channel.confirm_delivery()
            for body in bodies:
                channel.basic_publish("", name, body, mandatory=True)

    def read(self, name: str, place: Any, wanted_until: int) -> list[tuple[int, bytes]]:
        """Offset and body of all messages up to the one with this offset."""
        with self.channel() as channel:
            channel.basic_qos(prefetch_count=50)
            found: list[tuple[int, bytes]] = []
            asked = {"x-stream-offset": place}
            for method, properties, body in channel.consume(name, arguments=asked, inactivity_timeout=WITHIN_S):
                if method is None:
                    break
                found.append((properties.headers["x-stream-offset"], body))
                channel.basic_ack(method.delivery_tag)
                if found[-1][0] >= wanted_until:
                    return found
        raise AssertionError(f"{name} ends before {wanted_until}")

    def refusal_to_read(self, name: str, place: Any) -> int:
        with self.channel() as channel:
            channel.basic_qos(prefetch_count=1)
            try:
                channel.basic_consume(name, lambda *_: None, arguments={"x-stream-offset": place})
            except (ChannelClosedByBroker, ConnectionClosedByBroker) as error:
                return error.reply_code
            return OK


class StreamDoor(RawStream):
    """Each subscription has number 1. Returns response codes, or ENDED."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._correlation = 100

    def code(self, request: type[Any], *fields: Any) -> int:
        """Of the answer to it."""
        try:
            return int(self.answer(request, *fields).code)
        except Refused:
            return ENDED

    def answer(self, request: type[Any], *fields: Any) -> Any:
        self._correlation += 1
        self._socket.send(encode_frame(request(self._correlation, *fields)))
        while getattr(answer := self._wait(object), "correlation", None) != self._correlation:
            continue
        return answer

    def declare(self, name: str, arguments: Mapping[str, str]) -> int:
        return self.code(commands.CreateStreamRequest, name, dict(arguments))

    def publish_to(self, name: str, bodies: list[bytes]) -> None:
        """All of them in one frame, which is a chunk."""
        assert self.code(commands.DeclarePublisherRequest, 1, "", name) == 1
        entries = b"".join(pack_ids([at]) + message_item(body) for at, body in enumerate(bodies, 1))
        self._socket.send(encode_frame(commands.PublishFrame(1, 1, len(bodies), entries)))
        confirmed = 0
        while confirmed < len(bodies):
            confirmed += len(self._wait(commands.PublishConfirm).ids) // 8
        assert self.code(commands.DeletePublisherRequest, 1) == 1

    def chunks(self, name: str, spec: OffsetSpec, wanted_until: int) -> list[memoryview]:
        """All up to the one that has this offset."""
        assert self.code(commands.SubscribeRequest, 1, name, spec, 1000) == 1
        found: list[memoryview] = []
        while not found or header_of(found[-1]).next_offset <= wanted_until:
            found.append(memoryview(self._wait(commands.DeliverFrame).chunk))
        assert self.code(commands.UnsubscribeRequest, 1) == 1
        return found

    def entries(self, name: str, spec: OffsetSpec, wanted_until: int) -> list[bytes]:
        """Messages as they are stored."""
        found: list[bytes] = []
        for chunk in self.chunks(name, spec, wanted_until):
            for item in items_in(chunk[CHUNK_HEADER_BYTES:], header_of(chunk).item_count):
                assert not isinstance(item, SubBatch), "single messages were published"
                found.append(bytes(item))
        return found
