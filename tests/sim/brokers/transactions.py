"""Clients that use transactions: what they publish or settle counts from their commit on, or not at all.

A commit is not atomic across queues: each takes what it is given. A commit that was answered is in every queue as a whole. Of
one that was not, or that was answered with an error, any part may be there. What was rolled back, and what its client never
committed, is nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.errors import BrokerError
from tests.histories.records import Refused
from tests.sim.brokers.channel import Channel
from tests.sim.brokers.publisher import Publisher, Sent
from tests.sim.brokers.taker import Held, Taker

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld

OPEN_S = (0.0, 0.01, 0.1, 0.5)  # how long a transaction gathers
ROLLED_BACK = 0.2  # share of transactions


class Committer(Publisher):
    """Publishes in transactions. Several commits of it may wait for their answers."""

    may_be_named = False
    is_committed_at_once = False

    def __init__(self, world: BrokerWorld, number: int) -> None:
        super().__init__(world, number)
        self._is_gathering = False  # a transaction whose end is due
        self._commits: dict[int, Sequence[Sent]] = {}  # not answered

    @property
    def waits_for(self) -> str:
        return f"{self.name}: {len(self._commits)} commits" if self._commits else super().waits_for

    def opened(self, channel: Channel) -> None:
        channel.say(lambda: channel.session.select_transactions())
        self._is_ready = True
        self._send()

    def _send(self) -> None:
        super()._send()
        if self._open and not self._is_gathering:
            self._is_gathering = True
            self.world.loop.call_later(self._random.choice(OPEN_S), self._end_transaction, self._channel)

    def _end_transaction(self, channel: Channel) -> None:
        if channel is not self._channel:
            return
        gathered, self._open = list(self._open.values()), {}
        self._is_gathering = False
        if self._random.random() < ROLLED_BACK:
            self.world.watch.count("transaction rolled back")
            self._nowhere(gathered)
            channel.say(lambda: channel.session.rollback(channel.now))
        else:
            self._commit(channel, gathered)

    def _commit(self, channel: Channel, gathered: Sequence[Sent]) -> None:
        number = self.world.next_number()
        self._commits[number] = gathered
        self.world.committing([sent.body for sent in gathered])

        def committed(_: None) -> None:
            self.world.watch.count("transaction committed")
            self._committed(self._commits.pop(number))

        def refused(error: BrokerError) -> None:
            self.world.watch.count("transaction refused in part")
            now = self.world.loop.time()
            for sent in self._commits.pop(number):
                self.answered += 1
                self.world.record(Refused(now, sent.publisher, sent.number))
            channel.lose(error.text)

        channel.ask(lambda session, now: session.commit(now), committed, refused)

    def _committed(self, gathered: Sequence[Sent]) -> None:
        now = self.world.loop.time()
        stored = [sent for sent in gathered if not self._was_returned(sent, now)]
        self.answered += len(gathered)
        self.world.look_at_commit(self.name, [(sent.message.queue, sent.body) for sent in stored])
        for sent in stored:
            self._confirm(sent.body, now)

    def _nowhere(self, gathered: Sequence[Sent]) -> None:
        """They were never committed."""
        now = self.world.loop.time()
        for sent in gathered:
            self.world.record(Refused(now, sent.publisher, sent.number, certain=True))

    def lost(self, channel: Channel, why: str) -> None:
        if self._commits:
            self.world.watch.count("commit never answered")
        self._nowhere(list(self._open.values()))
        unanswered = [sent for gathered in self._commits.values() for sent in gathered]
        self._open = dict(enumerate([*unanswered, *self._open.values()]))
        self._commits.clear()
        self._is_gathering = False
        super().lost(channel, why)


class Settler(Taker):
    """Settles in transactions: what it says of a delivery is noted with its commit, and taken back by a rollback."""

    def __init__(self, world: BrokerWorld, number: int) -> None:
        super().__init__(world, number)
        self._gathered: list[tuple[Held, str]] = []

    def opened(self, channel: Channel) -> None:
        channel.say(lambda: channel.session.select_transactions())

    def _note(self, tag: int, outcome: str) -> None:
        if not self._gathered:
            self.world.loop.call_later(self._random.choice(OPEN_S), self._end_transaction, self._channel)
        self._gathered.append((self._held.pop(tag), outcome))

    def _end_transaction(self, channel: Channel) -> None:
        if channel is not self._channel:
            return
        gathered, self._gathered = self._gathered, []
        if self._random.random() < ROLLED_BACK:
            self.world.watch.count("settlements rolled back")
            channel.say(lambda: channel.session.rollback(channel.now))
            for held, _ in gathered:
                self._hold(channel, held)
            return
        for held, outcome in gathered:
            self._record(held, outcome)

        def committed(_: None) -> None:
            self.world.watch.count("settlements committed")

        def refused(error: BrokerError) -> None:
            raise AssertionError(f"{self.name} commits settlements only, and is refused: {error.text}")

        channel.ask(lambda session, now: session.commit(now), committed, refused)

    def lost(self, channel: Channel, why: str) -> None:
        self._gathered.clear()
        super().lost(channel, why)
