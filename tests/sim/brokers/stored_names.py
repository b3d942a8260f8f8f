"""What clients of the stream protocol have stored under their names, and what they are told of it.

A store has no answer: it may come to the leader late, or never. So what is right to tell follows from the calls: an offset that
somebody has stored, and none that is less than what was told before, unless it was stored after that one, or over another
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
    _answers: int = 0

    def store(self, offset: int, connection: str = "") -> None:
        self.stores.append((offset, connection))

    def asked(self) -> int:
        """Returns what to say with the answer."""
        return self._answers

    def answered(self, who: str, asked: int, told: int | None) -> None:
        about = self.book.about
        invariants.stored_offsets_were_stored(about, who, told, [offset for offset, _ in self.stores])
        if asked != self._answers:
            return  # two ask at a time, and the answers may have overtaken each other
        if self._told is not None:
            invariants.stored_offsets_do_not_go_back(about, who, self._told, told, self._may_follow(told, self._told))
        self._answers += 1
        self._told = told

    def _may_follow(self, offset: int | None, before: int) -> bool:
        """Whether the leader may have had the calls in this order."""
        those_before = [(made, over) for made, (one, over) in enumerate(self.stores) if one == before]
        these = [(made, over) for made, (one, over) in enumerate(self.stores) if one == offset]
        return any(made > earlier or over != other for made, over in these for earlier, other in those_before)
