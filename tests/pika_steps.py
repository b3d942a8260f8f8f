"""What tests do with unmodified pika as an application would: publish with confirms, consume with acknowledgements."""

from __future__ import annotations

import pika
from pika.adapters.blocking_connection import BlockingChannel

MESSAGES = 20
GET_WITHIN_S = 20.0


def declared(channel: BlockingChannel, queue: str) -> None:
    """A quorum queue."""
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})


def published(channel: BlockingChannel, queue: str, what: str, count: int = MESSAGES) -> list[bytes]:
    """Some messages, each confirmed before the next: pika raises when one is refused or returned. Their bodies."""
    bodies = [f"{what} {number}".encode() for number in range(count)]
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2), mandatory=True)
    return bodies


def consumed(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    """So many messages, each acknowledged as it comes. Their bodies."""
    got: list[bytes] = []
    for method, _, body in channel.consume(queue, inactivity_timeout=GET_WITHIN_S):
        assert method is not None, f"{len(got)} of {count} messages came, and no more within {GET_WITHIN_S:g} s"
        channel.basic_ack(method.delivery_tag)
        got.append(body)
        if len(got) == count:
            break
    channel.cancel()
    return got
