"""The front's side of a session."""

from __future__ import annotations

from typing import Protocol

from broker.messages.message import Run
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice


class SessionSink(Protocol):
    """Where a session says what its client is to hear."""

    @property
    def writable(self) -> bool:
        """False while too much is unsent to the client; the front calls `Session.resume` when there is room again."""

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        """Messages for the client, with delivery tags from `first_tag` on; they begin at `piece.position` of content."""

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        """Confirms for publishes first .. last; `multiple`: all before have the same answer."""

    def returned(self, run: Run, code: int, text: str) -> None:
        """All messages of the run are returned to their publisher. Their confirms follow later."""

    def cancelled(self, consumer_tag: str) -> None:
        """The broker ended this subscription."""

    def timed_out(self, consumer_tag: str) -> None:
        """The same, because it did not settle in time. A client without consumer_cancel_notify loses its channel."""


class _Gone:
    """The sink of a session that has closed: its client hears nothing more, and what held the client's channel can go.
    Fulfils SessionSink."""

    writable = False

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        raise AssertionError(f"consumer {consumer.tag} of a closed session gets messages from {first_tag} on")

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        pass

    def returned(self, run: Run, code: int, text: str) -> None:
        pass

    def cancelled(self, consumer_tag: str) -> None:
        pass

    def timed_out(self, consumer_tag: str) -> None:
        pass


GONE = _Gone()
