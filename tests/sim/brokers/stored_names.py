"""What clients of the stream protocol have stored under their names, and what they are told of it.

A store has no answer: it may come to the leader late, or never. So what is right to tell follows from the calls: an offset that
somebody has stored, and none that is less than what was told before, unless it was stored after that, or over another
connection: what is said through one node over a slow link may come after what was said through another, and the last counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.sim.brokers import invariants
from tests.sim.brokers.stream_book import StreamBook


@dataclass
class StoredName:
    """Of one stream and name."""

    book: StreamBook
    name: str
    stores: list[tuple[int, str]] = field(default_factory=list)  # as clients have made them, and over which connection
    _told: int | None = None  # the latest answer
    _stores_then: int = 0  # so many had been made when it was asked for
    _answers: int = 0

    def store(self, offset: int, connection: str = "") -> None:
        self.stores.append((offset, connection))

    def asked(self) -> tuple[int, int]:
        """Returns what to say with the answer."""
        return self._answers, len(self.stores)

    def answered(self, who: str, asked: tuple[int, int], told: int | None) -> None:
        about = self.book.about
        invariants.stored_offsets_were_stored(about, who, told, [offset for offset, _ in self.stores])
        answers, stores = asked
        if answers != self._answers:
            return  # two ask at a time, and the answers may have overtaken each other
        if self._told is not None:
            since = any(offset == told for offset, _ in self.stores[self._stores_then :])
            may_be_late = any(late != other for late in self._ways(told) for other in self._ways(self._told))
            invariants.stored_offsets_do_not_go_back(about, who, self._told, told, since or may_be_late)
        self._answers += 1
        self._told, self._stores_then = told, stores

    def _ways(self, offset: int | None) -> set[str]:
        return {connection for one, connection in self.stores if one == offset}
