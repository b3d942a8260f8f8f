"""A history by message and queue: what the judge looks things up in. It checks that the records make sense at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.histories.records import (
    Acknowledged,
    Attempted,
    Confirmed,
    Delivered,
    Drained,
    History,
    Left,
    Message,
    Refused,
    Rejected,
    Requeued,
    Settled,
    WentBack,
)

Answer = Acknowledged | Requeued | Rejected


@dataclass(slots=True)
class Fate:
    """One delivery, and what became of it."""

    delivered: Delivered
    answer: Answer | None = None
    settled_at: float | None = None

    @property
    def is_consumed(self) -> bool:
        """The client has said that it will not be missed. That may have been lost, but then it comes again."""
        return isinstance(self.answer, Acknowledged)

    @property
    def is_surely_consumed(self) -> bool:
        return self.settled_at is not None and isinstance(self.answer, (Acknowledged, Rejected))


@dataclass(slots=True)
class Book:
    attempted: dict[Message, Attempted] = field(default_factory=dict)
    confirmed: dict[Message, Confirmed] = field(default_factory=dict)
    refused: dict[Message, Refused] = field(default_factory=dict)
    fates: dict[int, Fate] = field(default_factory=dict)
    seen: dict[tuple[str, Message], list[Fate]] = field(default_factory=lambda: defaultdict(list))
    left: dict[str, list[Left]] = field(default_factory=lambda: defaultdict(list))
    went_back: dict[tuple[str, Message], bool] = field(default_factory=dict)
    drained: dict[str, list[Drained]] = field(default_factory=lambda: defaultdict(list))

    def deliveries_of(self, queue: str) -> Iterator[tuple[Message, list[Fate]]]:
        return ((message, fates) for (name, message), fates in self.seen.items() if name == queue)


def kept(history: History) -> Book:
    """Raises ValueError when the records contradict each other: then whoever wrote them is wrong, not the broker."""
    book = Book()
    last: dict[str, int] = {}
    for record in history:
        match record:
            case Attempted(_, publisher, number):
                if number <= last.get(publisher, 0):
                    raise ValueError(f"{publisher} attempted {number} after {last[publisher]}: numbers must ascend")
                last[publisher] = number
                book.attempted[publisher, number] = record
            case Confirmed(_, publisher, number) | Refused(_, publisher, number):
                message = publisher, number
                if message not in book.attempted or message in book.confirmed or message in book.refused:
                    raise ValueError(f"{record} answers what was not attempted, or was answered already")
                if isinstance(record, Confirmed):
                    book.confirmed[message] = record
                else:
                    book.refused[message] = record
            case Delivered():
                if record.delivery in book.fates:
                    raise ValueError(f"{record} has the number of another delivery")
                fate = book.fates[record.delivery] = Fate(record)
                book.seen[record.queue, (record.publisher, record.number)].append(fate)
            case Acknowledged() | Requeued() | Rejected():
                fate = _fate(book, record.delivery)
                if fate.answer is not None:
                    raise ValueError(f"{record} answers a delivery that was answered by {fate.answer}")
                fate.answer = record
            case Settled(at, delivery):
                fate = _fate(book, delivery)
                if fate.answer is None:
                    raise ValueError(f"{record} settles a delivery that nobody answered")
                fate.settled_at = at
            case Left():
                book.left[record.queue].append(record)
            case WentBack(_, queue, publisher, number):
                book.went_back[queue, (publisher, number)] = True
            case Drained():
                book.drained[record.queue].append(record)
    return book


def _fate(book: Book, delivery: int) -> Fate:
    if delivery not in book.fates:
        raise ValueError(f"there is no delivery {delivery}")
    return book.fates[delivery]
