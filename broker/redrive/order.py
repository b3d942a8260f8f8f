"""What a redrive is to do, and what that means for one message."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from broker import names
from broker.errors import InvalidRequest, NotSupported
from broker.messages.expiration import expiration_ms
from broker.messages.message import LOOK_HEADERS, Run
from broker.queues.queue_type import Queue
from broker.routing.dead_letter import REASON_WORDS
from broker.routing.history import HISTORY, History
from broker.session.publish import Publisher
from native.content import body_bytes, one
from native.frame_split import look_at
from wire.amqp.tables import TableError, split_properties, split_table

REASONS = tuple(REASON_WORDS.values())


class LastDeath(NamedTuple):
    """Why and where a message died most recently."""

    reason: str
    queue: str
    exchange: str
    routing_keys: tuple[str, ...]


class RedriveFate(StrEnum):
    """What a redrive does with a message."""

    MOVES = "moves"
    FILTERED = "filtered"  # it died elsewhere, or for another reason, than the order asks for
    NO_DEATH = "no_death"  # it never died, and the order names no exchange
    UNROUTABLE = "unroutable"  # no queue would get it
    COMES_BACK = "comes_back"  # it would be routed to the queue that it is taken from


class RedriveCandidate(NamedTuple):
    """A message, and what the order makes of it."""

    fate: RedriveFate
    death: LastDeath | None
    run: Run  # to be published if it moves


@dataclass(slots=True, frozen=True)
class RedriveOrder:
    """Without an exchange each message goes to the queue in which it died, and to no other."""

    vhost: str
    queue: str
    exchange: str | None = None
    routing_key: str | None = None  # None: the key with which each was published before it died
    reason: str = ""  # only those that died of this
    died_in: str = ""  # only those that died in this queue
    limit: int = 0  # 0: all that are ready when it begins

    def check(self) -> None:
        """Raises InvalidRequest."""
        if self.reason and self.reason not in REASONS:
            raise InvalidRequest(f"reason is one of {', '.join(REASONS)}, not '{self.reason}'")
        if self.routing_key is not None and self.exchange is None:
            raise InvalidRequest(
                "a routing key needs an exchange: without one, messages go to the queue where they died"
            )
        if self.limit < 0:
            raise InvalidRequest(f"limit is {self.limit}: give how many messages to move, or 0 for all")
        names.check_length("routing key", self.routing_key or "")

    @property
    def target(self) -> str:
        """For people."""
        if self.exchange is None:
            return "where they died"
        key = "their own keys" if self.routing_key is None else f"key '{self.routing_key}'"
        return f"exchange '{self.exchange}' with {key}"

    def candidate(self, publisher: Publisher, content: bytes, own_key: str) -> RedriveCandidate:
        """Raises AccessRefused or NotFound when its target cannot be published to."""
        props, _, _ = one(content, 0)
        death = last_death(props)
        run = self._run(content, props, own_key, death)
        if not self._wants(death):
            return RedriveCandidate(RedriveFate.FILTERED, death, run)
        if death is None and self.exchange is None:
            return RedriveCandidate(RedriveFate.NO_DEATH, death, run)
        reached = publisher.queues_of(run)
        fate = (
            RedriveFate.UNROUTABLE
            if not reached
            else RedriveFate.COMES_BACK
            if self.queue in reached
            else RedriveFate.MOVES
        )
        return RedriveCandidate(fate, death, run)

    def _wants(self, death: LastDeath | None) -> bool:
        if death is None:
            return not self.reason and not self.died_in
        return self.reason in ("", death.reason) and self.died_in in ("", death.queue)

    def _run(self, content: bytes, props: bytes, own_key: str, death: LastDeath | None) -> Run:
        """Who published it first was checked then, so its user id is not checked again; CC is part of that publish, too."""
        look = look_at(props)
        exchange, key = self._target_of(own_key, death)
        return Run(
            exchange,
            key,
            content,
            1,
            body_bytes(content, 0, 1),
            look.persistent,
            mandatory=True,
            priority=look.priority,
            expiration_ms=None if look.expiration is None else expiration_ms(look.expiration),
            look=look.look & LOOK_HEADERS,
        )

    def _target_of(self, own_key: str, death: LastDeath | None) -> tuple[str, str]:
        if self.exchange is None:
            return names.DEFAULT_EXCHANGE, "" if death is None else death.queue
        if self.routing_key is not None:
            return self.exchange, self.routing_key
        return self.exchange, death.routing_keys[0] if death is not None and death.routing_keys else own_key


def last_death(props: bytes) -> LastDeath | None:
    """None: it never died. Headers that nobody can read tell of no death."""
    raw = split_properties(props).get("headers")
    try:
        history = None if raw is None else split_table(raw, trusted=HISTORY).get(HISTORY)
    except TableError:
        return None
    newest = History(history).newest()
    if newest is None:
        return None
    keys = tuple(map(_name, newest["routing-keys"]))
    return LastDeath(_name(newest["reason"]), _name(newest["queue"]), _name(newest["exchange"]), keys)


def _name(value: str | bytes) -> str:
    """Clients may choose names that are not UTF-8."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


def check_redrivable(queue: Queue) -> None:
    """Raises NotSupported."""
    if queue.record.kind == "stream":
        raise NotSupported(
            f"{queue.record.label} is a stream: nothing can be taken out of it. Read it, and publish what is to be tried again"
        )
