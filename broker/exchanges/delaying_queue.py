"""Quorum queues that delay messages by their headers, whatever exchange these were published to.

    x-delayed-messages  argument of the queue: true
    x-delay             header of a message: how long it waits, as at a delayed exchange (delayed_exchange.py)
    x-deliver-at        header of a message without such an x-delay: until when it waits, a timestamp of AMQP or milliseconds
                        since 1970, an integer, float or text. What lies behind us, or more than ten years ahead, goes on at
                        once

Such a message waits in a queue of the queue's own, to which `route_many` leads instead. When it goes on, the header is
negative: no queue delays it for that again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.exchanges.delayed_exchange import DELAY_MS_MAX, delay_ms_of, integer_of
from broker.records import QueueRecord
from wire.amqp.tables import Timestamp

DELAYED_MESSAGES = "x-delayed-messages"
DELIVER_AT = "x-deliver-at"
DELIVER_AT_END = 1 << 63  # ms


def delays(record: QueueRecord) -> bool:
    return record.kind == "quorum" and record.arguments.get(DELAYED_MESSAGES) is True


def is_to_wait(headers: Mapping[str, Any] | None) -> bool:
    """Whether a message with these headers waits. One whose time has come already goes the same way, and on at once."""
    return delay_ms_of(headers) is not None or deliver_at_of(headers) is not None


def wait_ms_of(headers: Mapping[str, Any] | None, now_ms: int) -> int:
    """For how long a message with these headers waits from now on; 0: it goes on at once."""
    delay, at = delay_ms_of(headers), deliver_at_of(headers)
    if delay is not None or at is None:
        return delay or 0
    return at - now_ms if 0 < at - now_ms <= DELAY_MS_MAX else 0


def deliver_at_of(headers: Mapping[str, Any] | None) -> int | None:
    """In ms since 1970; None: the headers say nothing of the kind."""
    value = headers.get(DELIVER_AT) if headers is not None else None
    at = int(value) * 1000 if isinstance(value, Timestamp) else integer_of(value)
    return at if at is not None and 0 < at < DELIVER_AT_END else None
