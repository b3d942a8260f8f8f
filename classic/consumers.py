"""Whose turn it is: the highest priority with room, among equals each in turn; with a single active consumer only that one."""

from __future__ import annotations

from collections.abc import Iterator

from broker.errors import AccessRefused
from broker.names import labelled
from broker.queues.consumer import Consumer
from broker.records import QueueRecord


class Consumers:
    """The consumers of one queue."""

    __slots__ = ("_record", "_single_active", "active", "in_turn")

    def __init__(self, record: QueueRecord, single_active: bool) -> None:
        self._record = record
        self._single_active = single_active
        self.in_turn: list[Consumer] = []  # highest priority first; within a priority the longest waiting first
        self.active: Consumer | None = None  # the single active one, if the queue has one

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self.in_turn)

    @property
    def exclusive_tag(self) -> str | None:
        """Of the one that consumes alone."""
        return self.in_turn[0].tag if self.in_turn and self.in_turn[0].exclusive else None

    def add(self, consumer: Consumer) -> None:
        """Raises AccessRefused when the queue is, or would have to be, consumed exclusively."""
        others = self.in_turn  # an exclusive one would be alone
        if (others and (others[0].exclusive or consumer.exclusive)) or (consumer.exclusive and self._single_active):
            raise AccessRefused(f"{labelled('queue', self._record.name, self._record.vhost)} in exclusive use")
        self._insert(consumer)
        if self._single_active:
            consumer.active = False
            self._elect()

    def remove(self, consumer: Consumer) -> bool:
        """False for one that is not here."""
        try:
            self.in_turn.remove(consumer)
        except ValueError:
            return False
        if self.active is consumer:
            self.active = None
            self._elect()
        return True

    def next(self, ready: int) -> tuple[Consumer, int] | None:
        """The consumer whose turn it is and how many of `ready` messages it may have now; it goes behind its equals.
        Several that have room share what is ready. None when no consumer has room."""
        in_turn = self.in_turn
        if len(in_turn) == 1:
            room = in_turn[0].room()
            return (in_turn[0], room) if room > 0 else None
        for index, consumer in enumerate(in_turn):
            room = consumer.room()
            if room > 0:
                share = self._share(index, room, ready)
                del in_turn[index]
                self._insert(consumer)
                return consumer, share
        return None

    def _share(self, index: int, room: int, ready: int) -> int:
        """How many of `ready` messages this consumer may have, if all its equals that have room share them."""
        in_turn = self.in_turn
        if room == 1 or ready == 1:
            return 1
        if room * (len(in_turn) - index) <= ready:  # enough for all: then none needs to be counted
            return room
        priority = in_turn[index].priority
        sharing = sum(1 for one in in_turn[index:] if one.priority == priority and one.room() > 0)
        return min(room, -(-ready // sharing))

    def waiting(self) -> tuple[Consumer, int] | None:
        """Who would be next, and how many messages it has room for."""
        for consumer in self.in_turn:
            room = consumer.room()
            if room > 0:
                return consumer, room
        return None

    def served(self, consumer: Consumer) -> None:
        """It had its turn, without being asked for by `next`."""
        if len(self.in_turn) > 1:
            self.in_turn.remove(consumer)
            self._insert(consumer)

    def _insert(self, consumer: Consumer) -> None:
        index = len(self.in_turn)
        while index and self.in_turn[index - 1].priority < consumer.priority:
            index -= 1
        self.in_turn.insert(index, consumer)

    def _elect(self) -> None:
        """The longest waiting one of the highest priority becomes active; an active one is never displaced."""
        if self.active is None and self.in_turn:
            self.active = self.in_turn[0]
            self.active.active = True
