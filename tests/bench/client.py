"""A load generator's AMQP client: blocking, one socket, bytes prepared once and sent many times.

It measures brokers, so it must cost less than they do: publishes go out as one prepared buffer repeated, and what comes
in is cut by the same kernel the broker uses. It is no client library: whatever it does not expect ends the run with an error.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from pamqp import body, commands, frame, header
from pamqp.base import Frame

from native.frame_split import ACK, FRAME, split
from native.sequence_set import SequenceSet

FRAME_MAX = 131_072
RECEIVE_BYTES = 1 << 18
FRAME_METHOD, FRAME_HEADER = 1, 2
REPLY_TO = "amq.rabbitmq.reply-to"
DELIVER = b"\x00\x3c\x00\x3c"
TIMEOUT_S = 60.0


class UnexpectedAnswer(Exception):
    """The broker said something that this workload does not provoke."""


class Client:
    """One connection with one channel, logged in as guest."""

    def __init__(self, host: str, port: int, vhost: str = "/") -> None:
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._wants_confirms = False
        self._published = 0  # on the channel, wanting confirms
        self._confirmed = SequenceSet()  # of their numbers, which begin at 1
        self._timed = 0  # deliveries whose latency was measured
        self._socket.sendall(b"AMQP\x00\x00\x09\x01")
        self.receive_method(0, "Connection.Start")
        response = b"\x00guest\x00guest".decode()
        self.send_method(0, commands.Connection.StartOk({}, "PLAIN", response, "en_US"))
        tune: Any = self.receive_method(0, "Connection.Tune")
        self.send_method(0, commands.Connection.TuneOk(tune.channel_max, FRAME_MAX, 0))
        self.call(0, commands.Connection.Open(vhost), "Connection.OpenOk")
        self.call(1, commands.Channel.Open(), "Channel.OpenOk")

    def close(self) -> None:
        self.call(0, commands.Connection.Close(200, "done", 0, 0), "Connection.CloseOk")
        self._socket.close()

    def abort(self) -> None:
        """Go without a word, as a client that crashes."""
        self._socket.close()

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_method(self, channel: int, method: Frame) -> None:
        self.send(frame.marshal(method, channel))

    def call(self, channel: int, method: Frame, answer: str) -> Any:
        self.send_method(channel, method)
        return self.receive_method(channel, answer)

    def receive_method(self, channel: int, name: str) -> Any:
        """The next method, which must be `name`; what is left of contents, and heartbeats, are passed over."""
        while True:
            while len(self._buffer) < 7 or len(self._buffer) < struct.unpack_from(">I", self._buffer, 3)[0] + 8:
                self._buffer += self._receive_bytes()
            size, _, method = frame.unmarshal(self._buffer)
            self._buffer = self._buffer[size:]
            if not isinstance(method, Frame):
                continue
            if method.name != name:
                raise UnexpectedAnswer(f"waiting for {name} on channel {channel}: {method.name} {dict(method)}")
            return method

    def _receive_bytes(self) -> bytes:
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise UnexpectedAnswer("the broker closed the connection")
        return data

    def receive_items(self) -> list[Any]:
        """What the splitter makes of the bytes that are here, or else of the next that come in."""
        items = self._split() if self._buffer else []
        if not items:
            self._buffer += self._receive_bytes()
            items = self._split()
        return items

    def _split(self) -> list[Any]:
        items, used, error = split(self._buffer, 0, 1 << 30, 1 << 40)
        if error:
            raise UnexpectedAnswer(f"not AMQP: {error}")
        self._buffer = self._buffer[used:]
        return items

    def declare_queue(self, name: str, *, durable: bool = True, arguments: dict[str, Any] | None = None) -> None:
        self.call(1, commands.Queue.Declare(queue=name, durable=durable, arguments=arguments or {}), "Queue.DeclareOk")

    def publish_unit(
        self, exchange: str, key: str, size: int, *, persistent: bool = True, reply_to: str | None = None
    ) -> bytes:
        """The frames of one message, ready to be sent any number of times."""
        properties = commands.Basic.Properties(delivery_mode=2 if persistent else 1, reply_to=reply_to)
        payload = b"x" * size
        step = FRAME_MAX - 8
        parts = [
            frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=key), 1),
            frame.marshal(header.ContentHeader(0, size, properties), 1),
            *(frame.marshal(body.ContentBody(payload[at : at + step]), 1) for at in range(0, size, step)),
        ]
        return b"".join(parts)

    def publish(self, units: list[bytes], count: int, window: int) -> None:
        """Send `count` messages, taking the units in turn; never more than `window` unconfirmed (0: no confirms)."""
        if window and not self._wants_confirms:
            self.call(1, commands.Confirm.Select(), "Confirm.SelectOk")
            self._wants_confirms = True
        sent = 0
        while sent < count:
            burst = min(count - sent, window - (self._published - self._confirmed.count) if window else 64)
            if burst > 0:
                units_now = [units[(sent + i) % len(units)] for i in range(burst)] if len(units) > 1 else units * burst
                self.send(b"".join(units_now))
                sent += burst
                self._published += burst if window else 0
            if window:
                self._receive_confirms()
        while self._confirmed.count < self._published:
            self._receive_confirms()

    def _receive_confirms(self) -> None:
        for item in self.receive_items():
            if item[0] != ACK:
                raise UnexpectedAnswer(f"waiting for confirms: {item!r}")
            _, _, first, last, multiple = item
            self._confirmed.add(1 if multiple else first, last + 1)

    def consume(self, queues: list[str], count: int, prefetch: int, arguments: dict[str, Any] | None = None) -> None:
        """Take `count` messages; prefetch 0 takes them with automatic acknowledgement. `arguments`: of the consumers."""
        if prefetch:
            self.call(1, commands.Basic.Qos(0, prefetch, False), "Basic.QosOk")
        for number, queue in enumerate(queues):
            # Without an answer, for deliveries of one queue may come before the answer for the next.
            consume = commands.Basic.Consume(
                0, queue, f"c{number}", no_ack=prefetch == 0, nowait=True, arguments=arguments
            )
            self.send_method(1, consume)
        got, acknowledged, half = 0, 0, max(1, prefetch // 2)
        while got < count:
            for item in self.receive_items():
                if item[0] == FRAME and item[1] == FRAME_METHOD:
                    if item[3][:4] != DELIVER:
                        raise UnexpectedAnswer(f"after {got} of {count} deliveries: {item!r}")
                    got += 1
            while prefetch and got - acknowledged >= half:
                acknowledged += half
                self.acknowledge(acknowledged)
        if prefetch and acknowledged < got:
            self.acknowledge(got)

    def acknowledge(self, tag: int) -> None:
        self.send(struct.pack(">BHIHHQBB", 1, 1, 13, 60, 80, tag, 1, 0xCE))

    def ask(self, queue: str, count: int) -> None:
        """Send requests, each once the one before is answered, directly to this channel."""
        self.send_method(1, commands.Basic.Consume(queue=REPLY_TO, consumer_tag="c", no_ack=True, nowait=True))
        request = self.publish_unit("", queue, 100, persistent=False, reply_to=REPLY_TO)
        for _ in range(count):
            self.send(request)
            while not any(item[0] == FRAME and item[3][:4] == DELIVER for item in self.receive_items()):
                pass

    def answer(self, queue: str, count: int) -> None:
        """Answer so many requests."""
        self.send_method(1, commands.Basic.Consume(queue=queue, consumer_tag="c", no_ack=True, nowait=True))
        answered = 0
        while answered < count:
            for item in self.receive_items():
                if item[0] == FRAME and item[1] == FRAME_HEADER:
                    asked = header.ContentHeader()
                    asked.unmarshal(bytes(item[3]))
                    to = asked.properties.reply_to
                    self.send(self.publish_unit("", to or "", 100, persistent=False))
                    answered += 1

    def measure_latency(self, queue: str, count: int, per_second: int) -> list[float]:
        """Seconds from publish to delivery, sorted; publishing and consuming on this connection at a steady rate."""
        self.call(1, commands.Basic.Qos(0, 1000, False), "Basic.QosOk")
        self.send_method(1, commands.Basic.Consume(queue=queue, consumer_tag="c", nowait=True))
        return self.latencies(queue, count, per_second)

    def latencies(self, queue: str, count: int, per_second: int) -> list[float]:
        """The same, where this channel consumes the queue already, and nothing else. May be asked again."""
        unit = self.publish_unit("", queue, 100)
        times: list[float] = []
        sent_at: list[float] = []
        begin = time.perf_counter()
        self._socket.settimeout(0.0005)
        while len(times) < count:
            now = time.perf_counter()
            while len(sent_at) < count and len(sent_at) < (now - begin) * per_second:
                sent_at.append(time.perf_counter())
                self.send(unit)
            try:
                items = self.receive_items()
            except TimeoutError:
                assert now - begin < TIMEOUT_S + count / per_second, f"{len(times)} of {count} messages came back"
                continue
            now = time.perf_counter()
            for item in items:
                if item[0] == FRAME and item[1] == FRAME_METHOD and item[3][:4] == DELIVER:
                    times.append(now - sent_at[len(times)])
            self.acknowledge(self._timed + len(times))
        self._timed += count
        self._socket.settimeout(TIMEOUT_S)
        return sorted(times)
