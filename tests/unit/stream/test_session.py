"""What a node says to one stream: which answer counts for which publish."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.errors import ResourceExhausted
from broker.messages.confirms import Receipt
from replicated.portions import AMPLE_BYTES, Owner, Portion
from stream.chunks.chunk import message_item
from stream.chunks.published_parts import PORTION_MESSAGES_MAX, PublishedPart
from stream.group.machine import Written
from stream.publishing.node_publishing import ALL_WAITING_BYTES_MAX, NodePublishing, WithoutLeader
from stream.publishing.session import StreamSession
from tests.unit.classic.classic_world import Confirmed


class Stream(Owner):
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.sent: list[tuple[Portion, int]] = []

    def send(self, portion: Portion, attempt: int) -> None:
        self.sent.append((portion, attempt))

    def enqueued(self, receipts: list[Receipt], result: object) -> None:
        for receipt in receipts:
            receipt.accepted()

    def lost_touch(self) -> None: ...


def part(messages: int) -> PublishedPart:
    return PublishedPart(messages, messages, message_item(b"body") * messages)


def test_what_takes_several_portions_is_confirmed_when_the_last_of_them_is_stored() -> None:
    """It was confirmed with the first, and the rest could still be lost."""
    stream, confirmed = Stream(), Confirmed()
    session = StreamSession(1, 1, stream, 16)
    count = PORTION_MESSAGES_MAX + 1
    session.publish([part(PORTION_MESSAGES_MAX), part(1)], Receipt(confirmed, 1, count, 1))
    session.flush()
    while not session.idle:
        assert not confirmed.accepted
        portion, attempt = stream.sent.pop(0)
        session.answered(portion, attempt, [Written.DONE])
    assert confirmed.accepted == set(range(1, count + 1))


def test_while_a_portion_is_on_its_way_a_little_waits_and_much_does_not() -> None:
    stream = Stream()
    session = StreamSession(1, 1, stream, 16)
    ample = PublishedPart(1, 1, message_item(bytes(AMPLE_BYTES)))
    for published, sent in ((part(1), 1), (part(1), 1), (ample, 2), (part(1), 2)):
        session.publish([published], None)
        session.flush()
        assert len(stream.sent) == sent
    session.answered(*stream.sent[0], [Written.DONE])
    assert len(stream.sent) == 2, "the other one is on its way yet"
    session.answered(*stream.sent[1], [Written.DONE])
    assert [portion.sequence_end for portion, _ in stream.sent] == [2, 4, 5]


def test_all_that_waits_for_leaders_is_counted_as_it_comes() -> None:
    """Between two counts a turn could take any amount."""
    route: Any = SimpleNamespace(propose=None)
    together = WithoutLeader()
    streams = [
        NodePublishing(
            1, 1, 16, route=route, without_leader=together, keep_asking=lambda: None, look_for_leader=lambda: None
        )
        for _ in range(8)
    ]
    large, taken = part(1 << 18), 0
    with pytest.raises(ResourceExhausted, match="wait for leaders of streams already"):
        for number in range(2 * ALL_WAITING_BYTES_MAX // len(large.items)):
            stream = streams[number % len(streams)]
            stream.session.open = False
            stream.publish([large], None, "stream")
            taken += len(large.items)
    assert ALL_WAITING_BYTES_MAX < taken <= ALL_WAITING_BYTES_MAX + len(large.items)
