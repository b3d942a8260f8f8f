"""Publishers and consumers that work all the time, and can be moved from one broker to another.

Each message says who published it, to which queue, and its number among those: what is lost or out of order shows.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import pika
from pika.adapters.blocking_connection import BlockingChannel

PERSISTENT = pika.BasicProperties(delivery_mode=2)
PREFETCH = 20
PAUSE_S = 0.01  # of a publisher, between two rounds over its queues
LOOK_S = 0.1  # of a consumer, whether it is to stop
REJECTED_EVERY = 25  # messages of a queue, by its consumer

Source = tuple[str, str]  # publisher, and the queue it published to


class Working(threading.Thread):
    """One client of one broker, until it is stopped."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._over = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            connection = pika.BlockingConnection(pika.URLParameters(self._url))
            self.work(connection, connection.channel())
            connection.close()
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self._over.set()
        self.join()
        if self.error is not None:
            raise self.error

    def work(self, connection: pika.BlockingConnection, channel: BlockingChannel) -> None:
        raise NotImplementedError


@dataclass
class Journal:
    """What all clients did: numbers that were confirmed, and those that came, in order and where."""

    confirmed: dict[Source, int] = field(default_factory=lambda: defaultdict(int))  # the first numbers, so many
    came: dict[tuple[str, Source], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )  # by the queue they came from

    def missing(self) -> dict[Source, list[int]]:
        everywhere: dict[Source, set[int]] = defaultdict(set)
        for (_, source), numbers in self.came.items():
            everywhere[source].update(numbers)
        lost = {one: sorted(set(range(count)) - everywhere[one]) for one, count in self.confirmed.items()}
        return {one: numbers for one, numbers in lost.items() if numbers}

    def out_of_order(self) -> dict[tuple[str, Source], list[int]]:
        """Where a message came for the first time behind a later one of the same publisher and queue."""
        firsts = {where: list(dict.fromkeys(numbers)) for where, numbers in self.came.items()}
        return {where: numbers for where, numbers in firsts.items() if numbers != sorted(numbers)}


class PublisherClient(Working):
    """Publishes to its queues in turn, each message when the one before is confirmed."""

    def __init__(self, url: str, name: str, queues: Sequence[str], journal: Journal) -> None:
        super().__init__(url)
        self.who, self._queues, self._journal = name, queues, journal

    def work(self, connection: pika.BlockingConnection, channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        while not self._over.is_set():
            for queue in self._queues:
                number = self._journal.confirmed[self.who, queue]
                body = json.dumps([self.who, queue, number]).encode()
                channel.basic_publish("work", queue, body, PERSISTENT, mandatory=True)
                self._journal.confirmed[self.who, queue] = number + 1
            connection.process_data_events(0)
            time.sleep(PAUSE_S)  # a publisher at work, not a flood


class ConsumerClient(Working):
    """Notes what comes and acknowledges it; rejects some of it, if it is to."""

    def __init__(self, url: str, queues: Sequence[str], journal: Journal, *, rejects: bool) -> None:
        super().__init__(url)
        self._queues, self._journal, self._rejects = queues, journal, rejects

    def work(self, connection: pika.BlockingConnection, channel: BlockingChannel) -> None:
        channel.basic_qos(prefetch_count=PREFETCH)
        for queue in self._queues:
            channel.basic_consume(
                queue, lambda _, method, __, body, queue=queue: self._take(channel, queue, method, body)
            )
        while not self._over.is_set():
            connection.process_data_events(LOOK_S)

    def _take(self, channel: BlockingChannel, queue: str, method: pika.spec.Basic.Deliver, body: bytes) -> None:
        who, to, number = json.loads(body)
        if self._rejects and number % REJECTED_EVERY == 0:
            channel.basic_reject(method.delivery_tag, requeue=False)
        else:
            self._journal.came[queue, (who, to)].append(number)
            channel.basic_ack(method.delivery_tag)
