"""What a client asks once its connection is open: a function for each frame that is more than a question to the session.

connection.py calls them; stream_requests.py has the questions, opening.py what comes before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from broker.errors import BrokerError
from broker.pending import Pending
from front.stream.deadlines import ConnectionDeadlines
from front.stream.opening import OpeningConnection, authenticate_again, sasl_handshake
from front.stream.publishers import StreamPublishers
from front.stream.response_codes import code_of, refusal_of
from front.stream.session_port import StreamClientSession
from front.stream.stream_requests import store_offset
from front.stream.subscriptions import StreamSubscriptions
from wire.stream.command_fields import VersionRange
from wire.stream.command_keys import VERSIONS, CommandKey, ResponseCode
from wire.stream.stream_commands import (
    Command,
    ConsumerUpdateResponse,
    CreditCommand,
    DeclarePublisherRequest,
    DeletePublisherRequest,
    ExchangeVersionsRequest,
    ExchangeVersionsResponse,
    HeartbeatCommand,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    StoreOffsetCommand,
    SubscribeRequest,
    UnsubscribeRequest,
)

T = TypeVar("T")


class RunningConnection(OpeningConnection, Protocol):
    """The connection, which has a session now."""

    now: int
    session: StreamClientSession | None
    deadlines: ConnectionDeadlines
    deliver_version: int

    @property
    def open_publishers(self) -> StreamPublishers: ...

    @property
    def open_subscriptions(self) -> StreamSubscriptions: ...

    def answer_later(self, request: Command, pending: Pending[Any]) -> None: ...

    def send_confirms(self) -> None: ...


def exchange_versions(connection: RunningConnection, request: ExchangeVersionsRequest) -> None:
    for one in request.versions:
        if one.key == CommandKey.DELIVER:
            connection.deliver_version = 2 if one.highest >= 2 else 1
    versions = tuple([VersionRange(key, *lowest_and_highest) for key, lowest_and_highest in VERSIONS.items()])
    connection.send(ExchangeVersionsResponse(request.correlation, ResponseCode.OK, versions))


def declare_publisher(connection: RunningConnection, request: DeclarePublisherRequest) -> None:
    connection.answer_later(request, connection.open_publishers.declare(request, connection.now))


def delete_publisher(connection: RunningConnection, request: DeletePublisherRequest) -> None:
    connection.send_confirms()  # its number may get another meaning
    connection.send(connection.open_publishers.delete(request, connection.now))


def subscribe(connection: RunningConnection, request: SubscribeRequest) -> None:
    subscriptions = connection.open_subscriptions

    def subscribed(answer: Command) -> None:
        connection.send(answer)
        subscriptions.start(request, connection.now)

    def refused(error: BrokerError) -> None:
        connection.send(refusal_of(request, code_of(error)))

    connection.await_answer(subscriptions.subscribe(request, connection.now), subscribed, refused)


def add_credit(connection: RunningConnection, command: CreditCommand) -> None:
    error = connection.open_subscriptions.add_credit(command, connection.now)
    if error is not None:
        connection.send(error)


def unsubscribe(connection: RunningConnection, request: UnsubscribeRequest) -> None:
    connection.send(connection.open_subscriptions.unsubscribe(request, connection.now))


def consumer_update(connection: RunningConnection, response: ConsumerUpdateResponse) -> None:
    connection.deadlines.clear(response.correlation)
    connection.open_subscriptions.updated(response, connection.now)


def keep_offset(connection: RunningConnection, command: StoreOffsetCommand) -> None:
    assert connection.session is not None, "a running connection without a session"
    store_offset(connection.session, command, connection.now)


def ignore(connection: RunningConnection, command: HeartbeatCommand) -> None:
    pass


RUNNING: dict[type[Any], Callable[[RunningConnection, Any], None]] = {
    HeartbeatCommand: ignore,
    ExchangeVersionsRequest: exchange_versions,
    SaslHandshakeRequest: sasl_handshake,
    SaslAuthenticateRequest: authenticate_again,
    DeclarePublisherRequest: declare_publisher,
    DeletePublisherRequest: delete_publisher,
    SubscribeRequest: subscribe,
    CreditCommand: add_credit,
    UnsubscribeRequest: unsubscribe,
    ConsumerUpdateResponse: consumer_update,
    StoreOffsetCommand: keep_offset,
}
