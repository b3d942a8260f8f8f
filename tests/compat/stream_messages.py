"""Asks a broker how its streams convert messages between AMQP 0-9-1 and AMQP 1.0.

    .venv/bin/python -m tests.compat.stream_messages --amqp HOST:PORT --stream HOST:PORT      compare with what is recorded
    .venv/bin/python -m tests.compat.stream_messages ... --record 'RabbitMQ 4.3.6'            write the answers down

The user is guest with the password guest, who may create queues. Messages and answers are those of
tests/unit/wire/amqp10/stream_messages.py and .json. The answer about the dead letter is kept: nobody can publish one.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from stream.chunks.chunk import CHUNK_HEADER_BYTES, SubBatch, items_in, message_item
from tests.unit.wire.amqp10.stream_messages import ENTRIES, PUBLISHED, PublishedMessage
from wire.amqp import spec
from wire.amqp.tables import join_properties, join_table, split_properties, split_table
from wire.stream import stream_commands as commands
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_frames import decode_frame, encode_frame, frame_end
from wire.stream.command_keys import OffsetKind, ResponseCode
from wire.stream.publish_frame import pack_ids

ANSWERS = Path(__file__).parents[1] / "unit" / "wire" / "amqp10" / "stream_messages.json"
QUEUE = "asked"
DEAD_LETTER = "a dead letter"
FRAME_MAX = 131_072
TIMEOUT_S = 20.0
_FRAME = struct.Struct(">BHI")
_CONTENT_HEAD = struct.Struct(">HHQ")
Answer = dict[str, Any]


class Refused(Exception):
    """The broker closed the channel or the connection, with this code and text."""


class _Socket:
    """Bytes until there are enough of them."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self.received = b""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> None:
        data = self._socket.recv(1 << 16)
        if not data:
            raise Refused("the connection was closed")
        self.received += data

    def close(self) -> None:
        self._socket.close()


class RawAmqp:
    """One channel whose properties are bytes, as no client library has them."""

    def __init__(self, address: str) -> None:
        self._socket = _Socket(address)
        self._socket.send(b"AMQP\0\0\x09\x01")
        self._wait("connection.start")
        login = {"client_properties": {}, "mechanism": "PLAIN", "response": b"\0guest\0guest", "locale": "en_US"}
        self._send(0, "connection.start-ok", **login)
        self._wait("connection.tune")
        self._send(0, "connection.tune-ok", channel_max=10, frame_max=FRAME_MAX, heartbeat=0)
        self._call(0, "connection.open", virtual_host="/")
        self._call(1, "channel.open")

    def close(self) -> None:
        self._socket.close()

    def declare_stream(self) -> None:
        flags = {"passive": False, "durable": True, "exclusive": False, "auto_delete": False, "no_wait": False}
        self._call(1, "queue.declare", queue=QUEUE, **flags, arguments={"x-queue-type": "stream"})

    def delete_stream(self) -> None:
        self._call(1, "queue.delete", queue=QUEUE, if_unused=False, if_empty=False, no_wait=False)

    def publish(self, message: PublishedMessage) -> None:
        exchange, key = message.exchange.decode(), message.routing_key.decode()
        self._call(1, "confirm.select", no_wait=False)
        if exchange:
            self._call(1, "queue.bind", queue=QUEUE, exchange=exchange, routing_key=key, no_wait=False, arguments={})
        self._send(1, "basic.publish", exchange=exchange, routing_key=key, mandatory=True, immediate=False)
        self._frame(2, 1, _CONTENT_HEAD.pack(60, 0, len(message.body)) + message.properties)
        if message.body:
            self._frame(3, 1, message.body)
        self._wait("basic.ack")

    def first_message(self) -> Answer:
        """What a consumer gets, without the offset."""
        return {name: part.hex() for name, part in self.messages(1)[0].items()}

    def messages(self, count: int) -> list[dict[str, bytes]]:
        """The same of so many, not acknowledged."""
        self._call(1, "basic.qos", prefetch_size=0, prefetch_count=max(10, count), **{"global": False})
        flags = {"no_local": False, "no_ack": False, "exclusive": False, "no_wait": False}
        self._send(1, "basic.consume", queue=QUEUE, consumer_tag="", **flags, arguments={"x-stream-offset": "first"})
        return [self._message() for _ in range(count)]

    def _message(self) -> dict[str, bytes]:
        delivery = self._wait("basic.deliver")
        _, head = self._read()
        body, size = b"", _CONTENT_HEAD.unpack_from(head)[2]
        while len(body) < size:
            body += self._read()[1]
        return {
            "exchange": delivery["exchange"].encode(),
            "routing_key": delivery["routing_key"].encode(),
            "properties": without_offset(head[_CONTENT_HEAD.size :]),
            "body": body,
        }

    def _call(self, channel: int, name: str, **arguments: Any) -> None:
        self._send(channel, name, **arguments)
        self._wait(f"{name}-ok")

    def _send(self, channel: int, name: str, **arguments: Any) -> None:
        self._frame(1, channel, spec.encode(name, **arguments))

    def _frame(self, kind: int, channel: int, payload: bytes) -> None:
        self._socket.send(_FRAME.pack(kind, channel, len(payload)) + payload + b"\xce")

    def _wait(self, name: str) -> spec.Arguments:
        """The next method of this name, whatever comes before it but the end."""
        while True:
            kind, payload = self._read()
            if kind != 1:
                continue
            method = spec.method_of(payload)
            arguments = spec.decode(method, payload)
            if method.name == name:
                return arguments
            if method.name in ("connection.close", "channel.close", "basic.return", "basic.nack"):
                raise Refused(f"{method.name} {arguments.get('reply_code')} {arguments.get('reply_text')}")

    def _read(self) -> tuple[int, bytes]:
        while True:
            received = self._socket.received
            if len(received) >= _FRAME.size:
                kind, _, size = _FRAME.unpack_from(received)
                if len(received) > _FRAME.size + size:
                    self._socket.received = received[_FRAME.size + size + 1 :]
                    return kind, received[_FRAME.size : _FRAME.size + size]
            self._socket.receive()


class RawStream:
    """A client of the stream protocol whose messages are bytes."""

    def __init__(self, address: str) -> None:
        self._socket = _Socket(address)
        self._call(commands.PeerPropertiesRequest(1, {}))
        self._call(commands.SaslHandshakeRequest(2))
        self._call(commands.SaslAuthenticateRequest(3, "PLAIN", b"\0guest\0guest"))
        self._wait(commands.Tune)
        self._socket.send(encode_frame(commands.Tune(1 << 20, 0)))
        self._call(commands.OpenRequest(4, "/"))

    def close(self) -> None:
        self._socket.close()

    def publish(self, entry: bytes) -> None:
        self._call(commands.DeclarePublisherRequest(5, 1, "", QUEUE))
        self._socket.send(encode_frame(commands.PublishFrame(1, 1, 1, pack_ids([1]) + message_item(entry))))
        self._wait(commands.PublishConfirm)

    def first_entry(self) -> bytes:
        self._call(commands.SubscribeRequest(6, 1, QUEUE, OffsetSpec(OffsetKind.FIRST), 1))
        chunk = self._wait(commands.DeliverFrame).chunk
        (item,) = items_in(chunk[CHUNK_HEADER_BYTES:], 1)
        assert not isinstance(item, SubBatch), "one message was published, by itself"
        return bytes(item)

    def _call(self, request: Any) -> None:
        self._socket.send(encode_frame(request))
        while getattr(answer := self._wait(object), "correlation", None) != request.correlation:
            continue
        if answer.code != ResponseCode.OK:
            raise Refused(f"{type(request).__name__}: {answer.code}")

    def _wait(self, kind: type[Any]) -> Any:
        while True:
            end = frame_end(self._socket.received, 0, 0)
            if end is None:
                self._socket.receive()
                continue
            command = decode_frame(self._socket.received[4:end])
            self._socket.received = self._socket.received[end:]
            if isinstance(command, kind):
                return command


def without_offset(properties: bytes) -> bytes:
    fields = split_properties(properties)
    headers = split_table(fields.pop("headers", b"\0\0\0\0"))
    headers.pop("x-stream-offset", None)
    return join_properties({**fields, **({"headers": join_table(headers)} if headers else {})})


def ask_published(amqp: str, stream: str, message: PublishedMessage) -> Answer:
    try:
        publisher = RawAmqp(amqp)
        publisher.publish(message)
        publisher.close()
    except Refused as error:
        return {"refused": str(error)}
    reader = RawStream(stream)
    stored = reader.first_entry()
    reader.close()
    return {"stored": stored.hex(), "delivered": ask_delivered(amqp)}


def ask_entry(amqp: str, stream: str, entry: bytes) -> Answer | str:
    publisher = RawStream(stream)
    publisher.publish(entry)
    publisher.close()
    return ask_delivered(amqp)


def ask_delivered(amqp: str) -> Answer | str:
    consumer = RawAmqp(amqp)
    try:
        return consumer.first_message()
    except Refused as error:
        return str(error)
    finally:
        consumer.close()


def ask_all(amqp: str, stream: str) -> Answer:
    recorded: Answer = json.loads(ANSWERS.read_text())
    answers: Answer = {"broker": recorded["broker"], "published": {}, "entries": {}}
    owner = RawAmqp(amqp)
    for name, message in PUBLISHED.items():
        if name != DEAD_LETTER:
            owner.declare_stream()
            answers["published"][name] = ask_published(amqp, stream, message)
            owner.delete_stream()
    for name, entry in ENTRIES.items():
        owner.declare_stream()
        answers["entries"][name] = ask_entry(amqp, stream, entry)
        owner.delete_stream()
    answers["published"][DEAD_LETTER] = recorded["published"][DEAD_LETTER]
    owner.close()
    return answers


def differences(answers: Answer) -> list[str]:
    recorded = json.loads(ANSWERS.read_text())
    return [
        f"{part}: {name}\n    recorded {recorded[part].get(name)}\n    now      {answer}"
        for part in ("published", "entries")
        for name, answer in answers[part].items()
        if answer != recorded[part].get(name)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.compat.stream_messages", description=__doc__.splitlines()[0])
    parser.add_argument("--amqp", default="127.0.0.1:5672")
    parser.add_argument("--stream", default="127.0.0.1:5552")
    parser.add_argument("--record", metavar="BROKER", help="write the answers down as those of this broker and version")
    options = parser.parse_args()
    answers = ask_all(options.amqp, options.stream)
    if options.record:
        ANSWERS.write_text(json.dumps({**answers, "broker": options.record}, indent=1) + "\n")
        return 0
    different = differences(answers)
    print("\n".join([*different, f"{len(different)} of {len(PUBLISHED) + len(ENTRIES)} answers differ"]))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
