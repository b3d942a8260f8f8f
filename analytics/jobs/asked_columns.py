"""Which columns of `lives` a command looks at. Spark prunes none of what a fold makes, so those that nobody asks for are not
made at all: analytics/spark/lives_table.py."""

from __future__ import annotations

from argparse import Namespace

from analytics.jobs.questions import PUBLISHER, columns_of_groups

ALWAYS = ("queue", "unknown")  # whose they are, and what every command says of what is not known
_PLACE = ("pos", "off", "nth")
_ENDED = ("state", "exchange", "routing_key", "count", "ended_at", *_PLACE)
_COLUMNS = {
    "queues": ("state", "count", "committed"),
    "proof": ("pos", "nth", "count", "state", "committed", "of_term"),
    "dead": (*_ENDED, "last_consumer"),
    "dropped": (*_ENDED, *PUBLISHER),
    "redelivered": (*_PLACE, "count", "times_out", "last_consumer", "returned"),
    "latency": ("count", "wait_ms", "hold_ms"),
    "hot": ("published_at", "count", "body_bytes"),
    "duplicates": (*_PLACE, "count", "published_at", "of_term", *PUBLISHER),
    "terms": (),
    "compare": (),
}


def asked_columns(options: Namespace) -> tuple[str, ...] | None:
    """None: all, for the command shows whole rows, or asks once it has them."""
    if options.command not in _COLUMNS:
        return None
    by = columns_of_groups(getattr(options, "by", ()))
    return tuple(dict.fromkeys((*ALWAYS, *_COLUMNS[options.command], *by)))
