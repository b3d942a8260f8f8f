"""What the clients of a cluster saw of each message while its nodes were killed, and how sure they are of it.

A client is sure of a publish when it was answered, and of what it said of a delivery when the queue has answered something that
the client said later. All else is in doubt: the message may be in the log as the client wanted it, or as it was before.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

READ_WITHIN_S = 1.0  # what has come to a client, on a machine that is busy


class Answer(Enum):
    """What a client said of a delivery."""

    NONE = "none"
    ACK = "ack"
    NACK = "nack"  # to be requeued
    REQUEUE = "requeue"  # basic.reject, to be requeued
    REJECT = "reject"  # not to be requeued
    NO_ACK = "no-ack"  # a consumer that acknowledges nothing
    GOT = "got"  # by basic.get, without an acknowledgement


class Ended(Enum):
    """How a connection came to its end."""

    NOT = "not"
    LEFT = "left"  # closed in order
    BROKEN = "broken"  # without a word
    REFUSED = "refused"  # the node closed the channel
    KILLED = "killed"  # its node was


@dataclass(slots=True)
class ClientLife:
    """One connection of a client, and what its node calls it. `taking`: the queues that may have sent it what it has not seen,
    when it ended."""

    node: str
    name: str = ""
    ended: Ended = Ended.NOT
    ended_at: float = 0.0
    is_leaving: bool = (
        False  # it has asked for its end, and was not answered: who is killed then may have taken note of it
    )
    taking: set[str] = field(default_factory=set)

    @property
    def may_have_left(self) -> bool:
        """Whether its node may have seen its end before it was killed."""
        return self.is_leaving or self.ended not in (Ended.NOT, Ended.KILLED)

    def heard(self) -> None:
        """The queues have answered what was said last. When its node was killed before that, the answer was on its way."""
        if self.ended is Ended.NOT:
            self.taking.clear()


@dataclass(slots=True)
class Sighting:
    """One delivery."""

    life: ClientLife
    at: float
    deaths: tuple[tuple[str, str], ...] = ()  # queue and reason
    is_redelivered: bool = True
    is_consumed: bool = False  # by a consumer; else by a get
    answer: Answer = Answer.NONE
    answered_at: float = 0.0
    is_heard: bool = False  # the queue has answered something that was said later
    is_overdue: bool = False  # the queue took it back, for it was not settled in time, and told the client


@dataclass(slots=True)
class Publication:
    """One publish, to one or more queues."""

    by: ClientLife
    queues: tuple[str, ...]
    sent_at: float
    confirmed_at: float | None = None  # None: nobody knows whether it was stored
    is_returned: bool = False  # no queue took it


@dataclass(slots=True)
class Purging:
    """A purge. `ended_at`: when it was answered; infinite: it was not."""

    began_at: float
    ended_at: float = float("inf")


@dataclass(slots=True)
class Kill:
    """A node was killed, and was there again at `back_at`."""

    node: str
    at: float
    back_at: float = float("inf")


class Sightings:
    """All that was seen, by queue and body; of one message in the order in which clients had it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.now = clock
        self.published: dict[str, Publication] = {}
        self.seen: dict[str, dict[str, list[Sighting]]] = defaultdict(lambda: defaultdict(list))
        self.lives: list[ClientLife] = []
        self.purges: dict[str, list[Purging]] = defaultdict(list)
        self.kills: list[Kill] = []
        self.happened: Counter[str] = Counter()  # what has to happen now and then

    def connected(self, node: str, name: str = "") -> ClientLife:
        self.lives.append(ClientLife(node, name))
        return self.lives[-1]

    def kill(self, node: str) -> Kill:
        """Right before it is killed: whoever is connected there will find out."""
        self.kills.append(Kill(node, self.now()))
        for life in self.lives:
            if life.node == node and life.ended is Ended.NOT:
                self.end(life, Ended.KILLED)
        return self.kills[-1]

    def end(self, life: ClientLife, how: Ended) -> None:
        if life.ended is Ended.NOT:
            life.ended, life.ended_at = how, self.now()

    def publish(self, life: ClientLife, body: str, queues: tuple[str, ...]) -> Publication:
        assert body not in self.published, f"{body} is published twice"
        made = self.published[body] = Publication(life, queues, self.now())
        return made

    def deliver(
        self,
        life: ClientLife,
        queue: str,
        body: str,
        deaths: tuple[tuple[str, str], ...],
        *,
        is_redelivered: bool = True,
    ) -> Sighting:
        seen, others = Sighting(life, self.now(), deaths, is_redelivered), self.seen[queue][body]
        others.insert(len(others) - self._were_later(seen, others), seen)
        return seen

    def _were_later(self, seen: Sighting, others: list[Sighting]) -> int:
        """How many of the others came to their clients after this one, though they were read before: what is no redelivery was
        handed out before what is one. A process that was not run for a while reads its sockets in any order; behind a kill a
        queue may have forgotten who had a message."""
        later = 0
        for other in reversed(others):
            if seen.is_redelivered or not other.is_redelivered or seen.at - other.at > READ_WITHIN_S:
                break
            if any(kill.at >= other.at - READ_WITHIN_S for kill in self.kills):
                break
            later += 1
        return later

    def lost_its_node(self, life: ClientLife, since: float) -> bool:
        """Whether its node was killed while the connection lasted, or after that time."""
        killed_later = any(kill.node == life.node and kill.at >= since for kill in self.kills)
        return life.ended is Ended.KILLED or killed_later

    def purge(self, queue: str) -> Purging:
        self.purges[queue].append(Purging(self.now()))
        return self.purges[queue][-1]

    def answer(self, seen: Sighting, answer: Answer) -> None:
        seen.answer, seen.answered_at = answer, self.now()

    def in_doubt(self) -> int:
        """How many messages were published, and never confirmed."""
        return sum(one.confirmed_at is None for one in self.published.values())

    def not_seen(self) -> list[str]:
        """What each run has to have: without it nothing was compared, whatever the log tells."""
        every = [one for messages in self.seen.values() for those in messages.values() for one in those]
        there = {
            "a kill of a node": bool(self.kills),
            "a confirm": any(one.confirmed_at is not None for one in self.published.values()),
            "an acknowledgement that was heard": any(one.answer is Answer.ACK and one.is_heard for one in every),
        }
        return [f"nobody has seen {what}" for what, is_there in there.items() if not is_there]

    def missing(self, queues: tuple[str, ...]) -> set[tuple[str, str]]:
        """Queue and body of what must still be there: it was confirmed, and nobody ended it."""
        confirmed = {
            (queue, body)
            for body, publication in self.published.items()
            if publication.confirmed_at is not None and not publication.is_returned
            for queue in publication.queues
        }
        return {(queue, body) for queue, body in confirmed if queue in queues and not self._may_be_over(queue, body)}

    def _may_be_over(self, queue: str, body: str) -> bool:
        seen = self.seen[queue].get(body, [])
        if seen and seen[-1].answer in ENDING:
            return True
        return any(purge.ended_at >= (seen[-1].at if seen else 0.0) for purge in self.purges[queue])


ENDING = frozenset({Answer.ACK, Answer.REJECT, Answer.NO_ACK, Answer.GOT})
