"""What one client publishes to one stream under one number, until it is answered.

Each run has a receipt. Ids are handed over in the order in which they were published, so a run that is answered early waits
for those before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from broker.errors import BrokerError
from broker.messages.confirms import Receipt
from broker.queues.stream_contract import StreamContract
from wire.stream.publish_frame import StreamRun


class AnsweredItems(NamedTuple):
    """Consecutive runs with the same answer."""

    stored: bool
    ids: bytes
    message_count: int


class PublishReceipt(Receipt):
    """Of a run, with what its publisher is to be told."""

    __slots__ = ("ids", "message_count")

    def __init__(self, publisher: StreamPublisher, first: int, run: StreamRun) -> None:
        super().__init__(publisher, first, first + run.item_count - 1, 1)
        self.ids = run.ids
        self.message_count = run.message_count


class StreamPublisher:
    """See the module. Fulfils AnswersTo; `on_answered` is called when there is something to take."""

    __slots__ = (
        "_next_tag",
        "_on_answered",
        "_open",
        "confirmed",
        "number",
        "published",
        "queue",
        "reference",
        "refusal",
        "refused",
    )

    def __init__(
        self, number: int, reference: str, queue: StreamContract, on_answered: Callable[[StreamPublisher], None]
    ) -> None:
        self.number = number
        self.reference = reference
        self.queue = queue
        self.refusal: BrokerError | None = None  # why nothing more is taken: the user may not write any longer
        self.published = self.confirmed = self.refused = 0  # messages
        self._on_answered = on_answered
        self._open: deque[PublishReceipt] = deque()  # in the order of publishing
        self._next_tag = 1

    def publish(self, run: StreamRun) -> None:
        """Raises BrokerError, and then nothing of the run is stored."""
        if self.refusal is not None:
            raise self.refusal
        receipt = PublishReceipt(self, self._next_tag, run)
        self._open.append(receipt)
        try:
            self.queue.publish_items(self.reference, run, receipt)
        except BrokerError:
            self._open.pop()
            raise
        self._next_tag += run.item_count
        self.published += run.message_count

    def answered(self, receipt: Receipt) -> None:
        if receipt is self._open[0]:
            self._on_answered(self)

    def given_up(self, receipt: Receipt) -> None:
        raise AssertionError(f"a run of items is answered by its stream alone: tag {receipt.first}")

    def take(self) -> list[AnsweredItems]:
        """What was answered, up to the first run that was not."""
        found: list[AnsweredItems] = []
        together: list[PublishReceipt] = []
        while self._open and not self._open[0].waiting:
            receipt = self._open.popleft()
            if together and together[0].taken != receipt.taken:
                found.append(_joined(together))
                together = []
            together.append(receipt)
        if together:
            found.append(_joined(together))
        return found


def _joined(receipts: list[PublishReceipt]) -> AnsweredItems:
    ids = b"".join([one.ids for one in receipts])
    return AnsweredItems(receipts[0].taken, ids, sum([one.message_count for one in receipts]))
