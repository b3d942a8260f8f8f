"""What a node says to one stream: which answer counts for which publish."""

from __future__ import annotations

from broker.confirms import Receipt
from replicated.portions import Owner, Portion
from stream.chunks.chunk import message_item
from stream.chunks.published_parts import PORTION_MESSAGES_MAX, PublishedPart
from stream.group.machine import Written
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
