"""A consumer says how much it may be given, and counts what it holds."""

from __future__ import annotations

from typing import Any, cast

import pytest

from broker.queues.consumer import UNLIMITED_PORTION, Consumer
from broker.queues.queue_type import Slice
from broker.queues.shared_limit import SharedLimit

QUEUE = cast(Any, None)


class Sink:
    def __init__(self) -> None:
        self.writable = True
        self.pieces: list[Slice] = []

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        self.pieces.append(piece)

    def consumer_cancelled(self, consumer: Consumer) -> None:
        raise AssertionError("nobody cancels here")


@pytest.mark.parametrize(
    ("no_ack", "prefetch", "outstanding", "room"),
    [
        (False, 0, 0, UNLIMITED_PORTION),
        (False, 0, 1_000_000, UNLIMITED_PORTION),
        (False, 3, 0, 3),
        (False, 60_000, 0, UNLIMITED_PORTION),
        (False, 3, 2, 1),
        (False, 3, 3, 0),
        (False, 3, 5, 0),
        (True, 3, 0, UNLIMITED_PORTION),
    ],
)
def test_room(no_ack: bool, prefetch: int, outstanding: int, room: int) -> None:
    consumer = Consumer("c", QUEUE, Sink(), no_ack=no_ack, prefetch=prefetch)
    consumer.outstanding = outstanding
    assert consumer.room() == room


def test_one_that_is_not_active_or_whose_client_is_slow_has_no_room() -> None:
    sink = Sink()
    consumer = Consumer("c", QUEUE, sink, no_ack=True)
    sink.writable = False
    assert consumer.room() == 0
    sink.writable, consumer.active = True, False
    assert consumer.room() == 0


@pytest.mark.parametrize(("no_ack", "outstanding"), [(False, 4), (True, 0)])
def test_what_is_to_be_acknowledged_counts(no_ack: bool, outstanding: int) -> None:
    sink = Sink()
    consumer = Consumer("c", QUEUE, sink, no_ack=no_ack, prefetch=10)
    piece = Slice(QUEUE, None, 0, 4, 0, "", "k")
    consumer.deliver(piece, b"")
    assert (consumer.outstanding, sink.pieces) == (outstanding, [piece])


def test_the_limit_of_a_channel_means_nothing_to_one_that_acknowledges_nothing() -> None:
    shared = SharedLimit()
    shared.limit = shared.outstanding = 1
    consumer = Consumer("c", QUEUE, Sink(), no_ack=True, shared=shared)
    assert (consumer.room(), consumer.shared_left()) == (UNLIMITED_PORTION, UNLIMITED_PORTION)
