"""What was counted, under the names of `message_stats`, and the rates beside it."""

from __future__ import annotations

from typing import Any

from broker.counters import Counters
from broker.queue_type import QueueStatistics

Stats = dict[str, Any]


def with_rates(counted: dict[str, int]) -> Stats:
    """Each count, and beside it how fast it grows: 0 until shown_rates.py fills it in."""
    return {**counted, **{f"{name}_details": {"rate": 0.0} for name in counted}}


def session_counts(counters: Counters) -> dict[str, int]:
    handed_out = counters.delivered + counters.delivered_no_ack + counters.got + counters.got_no_ack
    return {
        "publish": counters.published,
        "confirm": counters.confirmed,
        "return_unroutable": counters.returned,
        "drop_unroutable": counters.dropped,
        "deliver": counters.delivered,
        "deliver_no_ack": counters.delivered_no_ack,
        "get": counters.got,
        "get_no_ack": counters.got_no_ack,
        "get_empty": counters.got_empty,
        "deliver_get": handed_out,
        "redeliver": counters.redelivered,
        "ack": counters.acknowledged,
    }


def session_stats(counters: Counters) -> Stats:
    return with_rates(session_counts(counters))


def queue_counts(figures: QueueStatistics) -> dict[str, int]:
    """A queue counts what was got together."""
    return {
        "publish": figures.published,
        "deliver": figures.delivered,
        "deliver_no_ack": figures.delivered_no_ack,
        "get": figures.got,
        "get_no_ack": 0,
        "get_empty": 0,
        "deliver_get": figures.delivered + figures.delivered_no_ack + figures.got,
        "redeliver": figures.redelivered,
        "ack": figures.acknowledged,
    }
