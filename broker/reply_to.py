"""Direct reply-to: answers that go straight to the requester's session, through no queue.

A requester consumes from the pseudo queue and publishes requests whose reply-to names it; on the way the name is replaced
by one that only this requester has. Whoever publishes to that name through the default exchange reaches the requester at
most once, and nobody if it is gone.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from broker.consumer import Consumer
from broker.errors import PreconditionFailed
from broker.message import Run
from broker.names import DIRECT_REPLY_TO
from broker.queue_type import Queue, Slice
from broker.tables import join_properties, split_properties

if TYPE_CHECKING:
    from broker.session import Session

# What a consumer of replies consumes from: there is no queue, and nobody may ask it anything.
NO_QUEUE = cast(Queue, object())
REPLY_PREFIX = DIRECT_REPLY_TO + "."


def is_reply_name(name: str) -> bool:
    return name == DIRECT_REPLY_TO or name.startswith(REPLY_PREFIX)


class Replies:
    """Who waits for replies on this node, by the name that was given out."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._requesters: dict[str, tuple[Session, Consumer]] = {}
        self._names: dict[Session, str] = {}

    def subscribe(self, session: Session, consumer: Consumer) -> None:
        if not consumer.no_ack:
            raise PreconditionFailed("reply consumer cannot acknowledge")
        if session in self._names:
            raise PreconditionFailed("reply consumer already set")
        token = urlsafe_b64encode(self._random_bytes(24)).decode().rstrip("=")
        self._names[session] = REPLY_PREFIX + token
        self._requesters[REPLY_PREFIX + token] = session, consumer

    def unsubscribe(self, session: Session) -> None:
        name = self._names.pop(session, None)
        if name is not None:
            del self._requesters[name]

    def knows(self, name: str) -> bool:
        return name in self._requesters

    def addressed(self, session: Session, props: bytes) -> bytes:
        """The properties of a request with the name that leads back to this session."""
        fields = split_properties(props)
        if fields.get("reply_to", b"")[1:] != DIRECT_REPLY_TO.encode():
            return props  # a reply name that somebody passes on
        name = self._names.get(session)
        if name is None:
            raise PreconditionFailed("fast reply consumer does not exist")
        raw = name.encode()
        return join_properties({**fields, "reply_to": bytes((len(raw),)) + raw})

    def deliver(self, run: Run) -> bool:
        """Hand replies to their requester; False when it is gone."""
        found = self._requesters.get(run.routing_key)
        if found is None:
            return False
        session, consumer = found
        piece = Slice(consumer.queue, None, 0, run.count, 0, run.exchange, run.routing_key)
        session.deliver(consumer, piece, run.content)
        return True
