"""Messages that carry their number, as many as a broker takes: published with confirms, and read again.

Bodies have DIGITS digits, so that the frames of one message are the same bytes but for those.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from pamqp import commands
from pamqp.exceptions import PAMQPException

from native.frame_split import FRAME, FRAME_BODY
from tests.bench.client import Client, UnexpectedAnswer

DIGITS = 8
WINDOW = 5_000
PREFETCH = 1_000
GONE = (OSError, UnexpectedAnswer, PAMQPException)
AGAIN_S = 0.5


def client_of(url: str) -> Client:
    parts = urlsplit(url)
    return Client(parts.hostname or "127.0.0.1", parts.port or 5672)


def publish_numbers(client: Client, exchange: str, key: str, count: int) -> None:
    """All of 0 .. count - 1, persistent. Returns when they are confirmed."""
    unit = client.publish_unit(exchange, key, DIGITS)
    head, tail = unit[: -DIGITS - 1], unit[-1:]
    units = [b"%s%0*d%s" % (head, DIGITS, number, tail) for number in range(count)]
    client.publish(units, count, WINDOW)


def take_numbers(client: Client, queue: str) -> Iterator[int]:
    """Each as it comes, acknowledged by its delivery."""
    client.send_method(1, commands.Basic.Consume(queue=queue, no_ack=True, nowait=True))
    while True:
        yield from numbers_in(client)


def numbers_in(client: Client) -> list[int]:
    """Of the deliveries that are here, or else of the next that come in."""
    return [int(item[3]) for item in client.receive_items() if item[0] == FRAME and item[1] == FRAME_BODY]


class Collector(threading.Thread):
    """A consumer that notes every number and then acknowledges it, and comes back when its broker does."""

    def __init__(
        self,
        url: Callable[[], str],
        queue: str,
        count: int,
        arguments: dict[str, Any] | None = None,
        prefetch: int = PREFETCH,
    ) -> None:
        """`arguments`: with which the queue is declared."""
        super().__init__(daemon=True)
        self._arguments = arguments
        self._prefetch = prefetch
        self.seen = bytearray(count)  # how often each came, 255 at most
        self.distinct = self.delivered = 0
        self._url, self._queue, self._over = url, queue, False

    def end(self) -> None:
        """It goes when the next message comes, or with the process."""
        self._over = True

    def run(self) -> None:
        while not self._over:
            try:
                client = client_of(self._url())
            except GONE:
                time.sleep(AGAIN_S)
                continue
            try:
                self._collect(client)
            except GONE:
                client.abort()

    def _collect(self, client: Client) -> None:
        client.declare_queue(self._queue, arguments=self._arguments)
        client.call(1, commands.Basic.Qos(0, self._prefetch, False), "Basic.QosOk")
        client.send_method(1, commands.Basic.Consume(queue=self._queue, nowait=True))
        delivered = 0
        while not self._over:
            numbers = numbers_in(client)
            self.note(numbers)
            delivered += len(numbers)
            if numbers:
                client.acknowledge(delivered)

    def note(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.distinct += not self.seen[number]
            self.seen[number] = min(255, self.seen[number] + 1)
        self.delivered += len(numbers)
