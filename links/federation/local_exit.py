"""The downstream end of a link: a session of this node's broker. Nobody logs in: who may set policies and upstreams has decided
that these messages come here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.actors import GoneReason
from broker.client_connection import Connection
from broker.errors import BrokerError, PreconditionFailed
from broker.messages.expiration import expiration_ms
from broker.messages.message import Run
from broker.pending import Pending, ignore
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice
from broker.vouched.scopes import ScopeRights
from broker.vouched.vouched_user import VouchedUser
from links.amqp.events import Delivered
from links.federation.federation_link import DownstreamRefused, FederationLink
from native.content import body_bytes

if TYPE_CHECKING:
    from broker.broker import Broker

USER = "federation-link"
PROTOCOL = "Direct 0-9-1"
# It publishes to what is federated, for whoever published there.
LOGIN = VouchedUser(
    name=USER, password_hash=None, tags=("impersonator",), rights=ScopeRights(["write:*/*/*"]), until_ms=None
)


class LocalExit:
    """Fulfils DownstreamEnd and SessionSink."""

    writable = False  # it consumes nothing

    def __init__(
        self, link: FederationLink, broker: Broker, vhost: str, connection_id: str, name: str, now: Callable[[], int]
    ) -> None:
        """Raises DownstreamRefused."""
        self.name = name
        self._link = link
        self._broker = broker
        self._now = now
        self._under_way: Pending[None] | None = None  # to very many queues
        self._connection = Connection(
            id=connection_id,
            name=name,
            user=USER,
            login=LOGIN,
            vhost=vhost,
            protocol=PROTOCOL,
            client_properties={"connection_name": name, "product": "Leveret"},
            connected_at=now(),
            close=lambda error: link.downstream_ended(error.text),
            set_blocked=link.blocked,
            statistics=dict,
        )
        try:
            broker.open_connection(self._connection, now())
            self._session = broker.open_session(self._connection, self, now())
        except BrokerError as error:
            broker.connection_closed(self._connection, now())
            raise DownstreamRefused(error.text) from error
        self._session.publisher.select_confirms()

    # ------------------------------------------------------------------------- DownstreamEnd

    def publish(
        self, exchange: bytes, routing_key: bytes, content: bytes, count: int, delivered: Delivered, look: int
    ) -> bool:
        try:
            run = Run(
                exchange.decode("utf-8", "surrogateescape"),
                routing_key.decode("utf-8", "surrogateescape"),
                content,
                count,
                body_bytes(content, 0, count),
                delivered.persistent,
                False,
                delivered.priority,
                None if delivered.expiration is None else expiration_ms(delivered.expiration),
                self._user_id(delivered),
                look,
            )
            under_way = self._session.publisher.publish(run, self._now())
        except PreconditionFailed:
            return False
        except BrokerError as error:
            self._link.downstream_ended(error.text)
            return True
        if under_way is not None and under_way is not self._under_way:
            self._under_way = under_way
            self._link.writable(False)
            under_way.then(lambda _: self._link.writable(True), ignore)
        return True

    def _user_id(self, delivered: Delivered) -> str | None:
        if delivered.user_id is None or not self._link.upstream.trust_user_id:
            return None
        return delivered.user_id.decode("utf-8", "replace")

    def close(self) -> None:
        self._connection.left = GoneReason.CLOSED
        self._broker.connection_closed(self._connection, self._now())

    # ------------------------------------------------------------------------- SessionSink

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        self._link.confirmed(first, last, multiple=multiple, ok=ok)

    def returned(self, run: Run, code: int, text: str) -> None:
        raise AssertionError(f"return of {run.count} messages that were not mandatory")

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        raise AssertionError(f"{piece.count} messages delivered to a link")

    def cancelled(self, consumer_tag: str) -> None:
        raise AssertionError(f"consumer {consumer_tag!r} of a link cancelled")

    def timed_out(self, consumer_tag: str) -> None:
        self.cancelled(consumer_tag)
