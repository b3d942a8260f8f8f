"""What was counted, under the names of `message_stats`, and the rates beside it."""

from __future__ import annotations

from typing import Any

from broker.counting.counters import Counters
from front.web.samples.figures import SampledFigures

Stats = dict[str, Any]


def with_rates(counted: dict[str, int]) -> Stats:
    """Each count, and beside it how fast it grows: 0 until with_details says what is known."""
    return {**counted, **{f"{name}_details": {"rate": 0.0} for name in counted}}


def with_details(shown: Stats, figures: SampledFigures) -> Stats:
    """The same, with what was sampled of each figure that is shown with details."""
    for name in figures.rates:
        if f"{name}_details" in shown:
            shown[f"{name}_details"] = figures.details(name)
    return shown


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
