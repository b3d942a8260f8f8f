"""What a shovel declares on both sides before the first message, as Steps of a Conversation.

A queue that exists is taken as it is; one that does not is declared durable, unless it is to be predeclared. Passive declares
are asked on channels of their own: the broker closes the channel of one that fails.
"""

from __future__ import annotations

from typing import Any

from links.amqp.conversation import ChannelRefused, Request, Steps
from links.shovel.definition import DestinationTerms, SourceTerms

MAIN_CHANNEL = 1
NOT_FOUND = 404


def source_steps(terms: SourceTerms, prefetch: int, *, no_ack: bool) -> Steps:
    """Ends with how many messages the queue has."""
    yield _open(MAIN_CHANNEL)
    if terms.queue is None:
        declared = yield _declare(MAIN_CHANNEL, "", terms.queue_args, exclusive=True)
        queue, count = declared["queue"], 0
        yield _bind(queue, terms.exchange or "", terms.exchange_key)
    else:
        queue = terms.queue
        count = yield from _queue_there(queue, terms.queue_args, terms.predeclared)
    if not no_ack:
        yield MAIN_CHANNEL, "basic.qos", {"prefetch_size": 0, "prefetch_count": prefetch, "global": False}
    if not (terms.delete_after == "queue-length" and count == 0):
        yield _consume(queue, terms, no_ack=no_ack)
    return count


def destination_steps(terms: DestinationTerms, *, confirms: bool) -> Steps:
    yield _open(MAIN_CHANNEL)
    if terms.queue is not None:
        yield from _queue_there(terms.queue, terms.queue_args, terms.predeclared)
    if confirms:
        yield MAIN_CHANNEL, "confirm.select", {"no_wait": False}


def _queue_there(queue: str, arguments: dict[str, Any], predeclared: bool) -> Steps:
    asking, declaring = MAIN_CHANNEL + 1, MAIN_CHANNEL + 2
    yield _open(asking)
    try:
        declared = yield _declare(asking, queue, {}, passive=True)
    except ChannelRefused as refused:
        if refused.code != NOT_FOUND or predeclared:
            raise
        yield _open(declaring)
        declared = yield _declare(declaring, queue, arguments)
    return declared["message_count"]


def _open(channel: int) -> Request:
    return channel, "channel.open", {}


def _declare(
    channel: int, queue: str, arguments: dict[str, Any], *, passive: bool = False, exclusive: bool = False
) -> Request:
    return channel, "queue.declare", {
        "queue": queue, "passive": passive, "durable": not exclusive, "exclusive": exclusive,
        "auto_delete": False, "no_wait": False, "arguments": arguments,
    }  # fmt: skip


def _bind(queue: str, exchange: str, routing_key: str) -> Request:
    return MAIN_CHANNEL, "queue.bind", {
        "queue": queue, "exchange": exchange, "routing_key": routing_key, "no_wait": False, "arguments": {},
    }  # fmt: skip


def _consume(queue: str, terms: SourceTerms, *, no_ack: bool) -> Request:
    return MAIN_CHANNEL, "basic.consume", {
        "queue": queue, "consumer_tag": terms.consumer_name, "no_local": False, "no_ack": no_ack, "exclusive": False,
        "no_wait": False, "arguments": terms.consumer_args,
    }  # fmt: skip
