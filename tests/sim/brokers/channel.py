"""A client of AMQP 0-9-1: a connection with one channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.messages.message import Run
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice
from broker.session.session import GotMessage, Session
from native.content import messages
from quorum.fifo.commands import ConsumerKey
from quorum.queue import QuorumQueue
from tests.sim.brokers.client_connection import ClientConnection, ConnectionOwner
from tests.sim.brokers.lives import label_of

if TYPE_CHECKING:
    from tests.sim.brokers.process import BrokerProcess


class Owner(ConnectionOwner, Protocol):
    """Who uses a channel."""

    def confirmed(self, channel: Channel, first: int, last: int, multiple: bool, ok: bool) -> None: ...

    def returned(self, channel: Channel, bodies: list[bytes]) -> None: ...

    def delivered(self, channel: Channel, deliveries: list[Given]) -> None: ...

    def cancelled(self, channel: Channel, tag: str) -> None: ...


class Given:
    """One message as a client gets it."""

    __slots__ = (
        "acquired", "body", "consumer_tag", "failures", "headers", "key", "message_id", "offset", "props", "queue",
        "redelivered", "tag",
    )  # fmt: skip

    def __init__(self, tag: int, piece: Slice, at: int, props: bytes, body: bytes, key: ConsumerKey | None) -> None:
        headers = piece.headers or {}
        self.tag = tag
        self.queue = label_of(piece.queue.record)
        self.props = props
        self.body = body
        self.redelivered = piece.redelivered
        self.failures = int(headers.get("x-delivery-count", 0))
        self.acquired = int(headers.get("x-acquired-count", 0))
        self.headers = headers
        self.key = key
        self.message_id = piece.sequence + at
        self.offset = piece.offset + at if piece.offset is not None else None
        self.consumer_tag = ""  # a get has none


class Channel(ClientConnection[Owner, Session]):
    """See the module. Fulfils SessionSink."""

    def _enter(self, process: BrokerProcess) -> Session:
        return process.broker.open_session(self._connection, self, self.now)

    @property
    def session(self) -> Session:
        return self.door

    # SessionSink

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        found = self._given(first_tag, piece, content)
        for given in found:
            given.consumer_tag = consumer.tag
        process = self.process
        assert process is not None, f"{self.name} is given messages by a node that is down"
        self.world.look_at_deliveries(process, consumer, piece, found)
        self._tell(self.owner.delivered, self, found)

    def given(self, got: GotMessage) -> Given:
        """What a get brought."""
        return self._given(got.tag, got.piece, got.content)[0]

    def _given(self, tag: int, piece: Slice, content: bytes) -> list[Given]:
        key = None
        if isinstance(piece.queue, QuorumQueue):
            key = ConsumerKey(*piece.queue.session.key, piece.handle)
        found = enumerate(messages(content, piece.position, piece.count))
        return [Given(tag + at, piece, at, props, body, key) for at, (props, body) in found]

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        self._tell(self.owner.confirmed, self, first, last, multiple, ok)

    def returned(self, run: Run, code: int, text: str) -> None:
        self._tell(self.owner.returned, self, [body for _, body in messages(run.content, 0, run.count)])

    def cancelled(self, consumer_tag: str) -> None:
        self._tell(self.owner.cancelled, self, consumer_tag)

    def timed_out(self, consumer_tag: str) -> None:
        self.cancelled(consumer_tag)
