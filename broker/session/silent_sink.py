"""The sink of a session that has nothing to hear."""

from __future__ import annotations

from broker.messages.message import Run
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice


class SilentSink:
    """Who expects something overrides it."""

    @property
    def writable(self) -> bool:
        return False

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        raise AssertionError(f"{piece.count} messages delivered to a session that did not subscribe")

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        raise AssertionError(f"confirm of {first} to {last} for a session that did not publish")

    def returned(self, run: Run, code: int, text: str) -> None:
        raise AssertionError(f"return of {run.count} messages to a session that did not publish")

    def cancelled(self, consumer_tag: str) -> None:
        raise AssertionError(f"consumer {consumer_tag!r} cancelled for a session that has none")

    def timed_out(self, consumer_tag: str) -> None:
        self.cancelled(consumer_tag)
