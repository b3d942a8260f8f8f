"""Points in time, as RabbitMQ's plugins show them."""

from __future__ import annotations

from datetime import UTC, datetime


def shown_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
