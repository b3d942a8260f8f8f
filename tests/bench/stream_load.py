"""Load over the stream protocol: a publisher, and a reader of whole chunks. Blocking, one socket each.

Like the AMQP client of the benchmarks they must cost less than the node: frames are made before they are timed, and only the
heads of what comes in are looked at.
"""

from __future__ import annotations

import select
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.bench.workloads import Address
from tests.crash.stream_publishers import StreamSocket
from wire.stream import stream_commands as commands
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_frames import SIZE_BYTES, encode_frame
from wire.stream.command_keys import CommandKey

PUBLISHER = SUBSCRIPTION = 1
RECEIVE_BYTES = 1 << 20
TICK_S = 0.001  # between the frames of a publisher with a rate
_CONFIRM = struct.Struct(">IHxxxI")  # size, key, how many ids
_DELIVER = struct.Struct(">IH7xI16xQ")  # size, key; of the chunk how many messages, and the first offset
_ANSWER_BYTES = 14  # size, key, version, correlation, code
_SECTION = b"\0Su\xb0"  # an AMQP 1.0 message: one data section


class Heads:
    """Cuts what comes in into frames and gives what `head` says of each, but for its size."""

    def __init__(self, head: struct.Struct) -> None:
        self._head = head
        self._rest = b""
        self._missing = 0  # bytes of a frame whose head was seen

    def feed(self, data: bytes) -> list[tuple[Any, ...]]:
        if self._missing >= len(data):
            self._missing -= len(data)
            return []
        data, found, at = self._rest + data[self._missing :], [], 0
        while len(data) - at >= self._head.size:
            size, *values = self._head.unpack_from(data, at)
            found.append(tuple(values))
            at += SIZE_BYTES + size
        self._missing, self._rest = max(0, at - len(data)), data[at:]
        return found


class LoadPublisher:
    """Publishes messages of `size` bytes to one stream."""

    def __init__(self, address: Address, stream: str, size: int = 100) -> None:
        self._node = StreamSocket(address)
        self._node.call(commands.DeclarePublisherRequest(5, PUBLISHER, "", stream))
        message = _SECTION + struct.pack(">I", size) + bytes(size)
        self._item = struct.pack(">I", len(message)) + message
        self._heads = Heads(_CONFIRM)

    def close(self) -> None:
        self._node.close()

    def publish(self, count: int, window: int, frame_messages: int = 1) -> float:
        """Seconds that it took, with at most `window` unconfirmed; all three are multiples of `frame_messages`."""
        frames = [self._frame(range(first, first + frame_messages)) for first in range(0, count, frame_messages)]
        data, size = memoryview(b"".join(frames)), len(frames[0])
        sent = confirmed = 0
        began = time.perf_counter()
        while confirmed < count:
            until = min(len(frames), (confirmed + window) // frame_messages)
            if until > sent:
                self._node.send_bytes(data[sent * size : until * size])
                sent = until
            confirmed += self._confirmed()
        return time.perf_counter() - began

    def publish_at(self, rate: int, ends: Callable[[], bool]) -> list[float]:
        """So many messages a second, a frame each millisecond, until `ends`. How many seconds each frame took from when it was
        due until it was confirmed, sorted."""
        count, due, waits = round(rate * TICK_S), deque[float](), list[float]()
        next_at, sent, partly = time.perf_counter(), 0, 0
        while due or not ends():
            now = time.perf_counter()
            if now >= next_at and not ends():
                self._node.send_bytes(self._frame(range(sent, sent + count)))
                due.append(next_at)
                sent, next_at = sent + count, next_at + TICK_S
            elif select.select([self._node], [], [], max(0.0, min(TICK_S, next_at - now)))[0]:
                confirmed, partly = divmod(partly + self._confirmed(), count)
                waits += [time.perf_counter() - due.popleft() for _ in range(confirmed)]
        return sorted(waits)

    def _confirmed(self) -> int:
        """How many messages are confirmed by what has come."""
        heads = self._heads.feed(self._node.receive_bytes(RECEIVE_BYTES))
        assert all(key == CommandKey.PUBLISH_CONFIRM for key, _ in heads), f"no confirms: {heads}"
        return sum([count for _, count in heads])

    def _frame(self, ids: range) -> bytes:
        entries = b"".join([struct.pack(">Q", one) + self._item for one in ids])
        return encode_frame(commands.PublishFrame(1, PUBLISHER, len(ids), entries))


class LoadReader:
    """Is given whole chunks of one stream, and gives a credit for each."""

    def __init__(self, address: Address, stream: str, offset: OffsetSpec, credit: int = 10) -> None:
        self._node = StreamSocket(address)
        self._heads = Heads(_DELIVER)
        self.got = 0  # messages
        self.next_offset = 0  # behind the last chunk
        self._node.send(commands.SubscribeRequest(5, SUBSCRIPTION, stream, offset, credit))
        self._subscribed()

    def _subscribed(self) -> None:
        """The answer comes before the first chunk."""
        answer = b""
        while len(answer) < _ANSWER_BYTES:
            answer += self._node.receive_bytes(_ANSWER_BYTES - len(answer))
        assert answer.endswith(b"\0\1"), f"not subscribed: {answer!r}"

    def fileno(self) -> int:
        """For a selector."""
        return self._node.fileno()

    def close(self) -> None:
        self._node.close()

    def receive(self) -> None:
        heads = self._heads.feed(self._node.receive_bytes(RECEIVE_BYTES))
        for key, messages, first_offset in heads:
            assert key == CommandKey.DELIVER, f"no chunk: {heads}"
            self.got += messages
            self.next_offset = first_offset + messages
        if heads:
            self._node.send(commands.CreditCommand(SUBSCRIPTION, len(heads)))
