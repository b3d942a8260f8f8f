"""How much a stream has, on a node without a member of it: as its members said when somebody wanted to know."""

from __future__ import annotations

from collections.abc import Callable

from broker.errors import BrokerError
from broker.pending import Pending
from broker.queues.stream_contract import Begin
from stream.group.chunk_reading import FoundPlace

FindPlace = Callable[[Begin], Pending[FoundPlace | None]]


class FarCount:
    """Of one stream. What it counts is from where it begins to where its leader says that it ends."""

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0  # that a member's node has told those who look on

    def ask(self, find: FindPlace) -> Pending[None]:
        """Answered when `messages` is right, or nobody says what is."""
        known: Pending[None] = Pending()
        begins = find(Begin.FIRST).then_ask(lambda first: find(Begin.NEXT).map(lambda end: (first, end)))

        def found(places: tuple[FoundPlace | None, FoundPlace | None]) -> None:
            first, end = places
            if first is not None and end is not None:
                self.messages = max(0, end.place.offset - first.place.offset)  # retention may have passed it meanwhile
            known.resolve(None)

        def unknown(_: BrokerError) -> None:
            known.resolve(None)

        begins.then(found, unknown)
        return known
