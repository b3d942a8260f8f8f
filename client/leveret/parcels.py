"""What a publisher has been given and was not answered yet: parcels, and where they are by sequence number."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from leveret.errors import LeveretError, NotConfirmed
from leveret.message import Message, to_wire
from leveret.v1 import message_pb2

PARCEL_MESSAGES_MAX = 1024

Route = tuple[str, str, bool, str]  # exchange, routing key, mandatory, name of the publisher if it numbers its messages


class Parcel:
    """Messages given by one call, which wait together for their confirms."""

    __slots__ = (
        "answered", "done", "first_sequence", "indexes", "messages", "numbers", "problems", "route", "sent", "waiting",
    )  # fmt: skip

    def __init__(
        self, route: Route, messages: list[message_pb2.Message], indexes: list[int], first_number: int = 0
    ) -> None:
        self.route = route
        self.messages = messages
        self.indexes = indexes  # within the call
        # The publisher's own, which stay when messages are sent again; without a name all are 0.
        last = first_number + len(messages)
        self.numbers = list(range(first_number, last)) if first_number else [0] * len(messages)
        self.done: asyncio.Future[list[NotConfirmed]] = asyncio.get_running_loop().create_future()
        self.problems: list[NotConfirmed] = []
        self.begin_again()

    def begin_again(self) -> None:
        """Everything that `messages` still holds is to be sent, and answered."""
        self.first_sequence = 0  # numbers begin with 1: not sent on this stream yet
        self.sent = 0
        self.waiting = len(self.messages)
        self.answered = bytearray(len(self.messages))

    def drop_answered(self) -> None:
        still_open = [place for place, answered in enumerate(self.answered) if not answered]
        self.messages = [self.messages[place] for place in still_open]
        self.indexes = [self.indexes[place] for place in still_open]
        self.numbers = [self.numbers[place] for place in still_open]

    def answer(self, start: int, end: int, problem: NotConfirmed | None) -> int:
        """Messages from `start` to before `end` are answered; returns how many were not before."""
        new = self.answered.count(0, start, end)
        self.answered[start:end] = b"\1" * (end - start)
        self.waiting -= new
        if problem is not None:
            self.problems.append(problem)
        if self.waiting == 0 and not self.done.done():
            self.done.set_result(self.problems)
        return new

    def fail(self, error: LeveretError) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # whoever published may have stopped waiting; that is no news for the log


class Sent:
    """Parcels that were sent on this stream, findable by sequence number."""

    def __init__(self) -> None:
        self._parcels: list[Parcel] = []
        self._firsts: list[int] = []
        self._next_sequence = 1

    def add(self, parcel: Parcel) -> None:
        parcel.first_sequence = self._next_sequence
        self._next_sequence += len(parcel.messages)
        self._parcels.append(parcel)
        self._firsts.append(parcel.first_sequence)

    def find(self, first: int, last: int) -> Iterator[tuple[Parcel, int, int]]:
        """Each parcel that the numbers touch, with the places of its messages concerned: from, and before which."""
        place = max(0, bisect_right(self._firsts, first) - 1)
        while place < len(self._parcels) and self._firsts[place] <= last:
            parcel = self._parcels[place]
            place += 1
            start = max(first - parcel.first_sequence, 0)
            end = min(last - parcel.first_sequence + 1, len(parcel.messages))
            if start < end:
                yield parcel, start, end

    def forget_answered(self) -> None:
        done = 0
        while done < len(self._parcels) and self._parcels[done].waiting == 0:
            done += 1
        del self._parcels[:done], self._firsts[:done]

    def take(self) -> list[Parcel]:
        """All of them; the next stream begins anew."""
        taken = self._parcels
        self._parcels, self._firsts, self._next_sequence = [], [], 1
        return taken


def parts(
    messages: Iterable[Message | bytes], refused: Callable[[int, message_pb2.Message], bool]
) -> Iterator[tuple[list[int], list[message_pb2.Message]]]:
    """At most PARCEL_MESSAGES_MAX messages at a time with their indexes, without those that are refused."""
    part: list[message_pb2.Message] = []
    indexes: list[int] = []
    for index, message in enumerate(messages):
        wire = to_wire(message)
        if refused(index, wire):
            continue
        part.append(wire)
        indexes.append(index)
        if len(part) == PARCEL_MESSAGES_MAX:
            yield indexes, part
            part, indexes = [], []
    if part:
        yield indexes, part
