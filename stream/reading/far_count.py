"""How many messages a stream has, on a node without a member of it: as its members said when somebody wanted to know."""

from __future__ import annotations

from collections.abc import Callable

from broker.errors import BrokerError
from broker.pending import Pending
from broker.queues.stream_contract import Begin
from stream.group.chunk_reading import FoundPlace

AGAIN_S = 1.0  # what is shown now and then, to however many, is asked for so seldom

FindPlace = Callable[[Begin], Pending[FoundPlace | None]]


class FarCount:
    """Of one stream. What it counts is from where it begins to where its leader says that it ends."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.messages = 0
        self.is_answered = True  # the last time that it was asked
        self._monotonic = monotonic
        self._asked_at = -AGAIN_S
        self._open = 0  # questions

    def keep(self, find: FindPlace) -> None:
        """It is shown: ask, if that was not done just now."""
        if not self._open and self._monotonic() >= self._asked_at + AGAIN_S:
            self.ask(find)

    def ask(self, find: FindPlace) -> Pending[None]:
        """Answered when `messages` is right, or nobody says what is."""
        self._asked_at = self._monotonic()
        self._open += 1
        known: Pending[None] = Pending()
        begins = find(Begin.FIRST).then_ask(lambda first: find(Begin.NEXT).map(lambda end: (first, end)))

        def found(places: tuple[FoundPlace | None, FoundPlace | None]) -> None:
            first, end = places
            if first is not None and end is not None:
                self.messages = max(0, end.place.offset - first.place.offset)  # retention may have passed it meanwhile
                self.is_answered = True
            over()

        def unknown(_: BrokerError) -> None:
            self.is_answered = False
            over()

        def over() -> None:
            self._open -= 1
            known.resolve(None)

        begins.then(found, unknown)
        return known
