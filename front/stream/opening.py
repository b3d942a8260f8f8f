"""From the first frame to Open: what both sides are, who the client is, what they agree on, which virtual host. And logging in
again, which a client does whose secret runs out.

One function for each frame of the client, in order; connection.py calls them where the table of phases allows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from broker.errors import BrokerError, ResourceExhausted
from broker.pending import Pending
from front.sockets.heartbeat import Heartbeat
from front.sockets.peer import Outside, Peer
from front.sockets.plain_login import MalformedResponse, plain
from front.stream.phases import ConnectionPhase
from front.stream.session_port import StreamHost
from front.stream.stream_terms import StreamIdentity, StreamLimits
from wire.stream.command_keys import ResponseCode
from wire.stream.stream_commands import (
    Command,
    OpenRequest,
    OpenResponse,
    PeerPropertiesRequest,
    PeerPropertiesResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    Tune,
)

if TYPE_CHECKING:
    from broker.records import UserRecord

T = TypeVar("T")


class OpeningConnection(Protocol):
    """The connection whose terms are agreed on here."""

    host: StreamHost
    outside: Outside
    peer: Peer
    limits: StreamLimits
    identity: StreamIdentity
    heartbeat: Heartbeat
    state: ConnectionPhase
    frame_max: int
    client_properties: dict[str, str]
    login: UserRecord | None
    mechanism: str

    def send(self, command: Command) -> None: ...

    def await_answer(
        self, pending: Pending[T], answered: Callable[[T], None], refused: Callable[[BrokerError], None]
    ) -> None: ...

    def refuse(self, answer: Command, why: str, *, delayed: bool) -> None: ...

    def enter_vhost(self, vhost: str) -> None: ...

    def renew_login(self, user: UserRecord) -> None: ...

    @property
    def user(self) -> str: ...


def peer_properties(connection: OpeningConnection, request: PeerPropertiesRequest) -> None:
    connection.client_properties = request.properties
    connection.send(PeerPropertiesResponse(request.correlation, ResponseCode.OK, connection.identity.properties()))


def sasl_handshake(connection: OpeningConnection, request: SaslHandshakeRequest) -> None:
    connection.send(SaslHandshakeResponse(request.correlation, ResponseCode.OK, _mechanisms(connection)))


def _mechanisms(connection: OpeningConnection) -> tuple[str, ...]:
    return ("PLAIN",) if connection.peer.tls_user is None else ("PLAIN", "EXTERNAL")


def sasl_authenticate(connection: OpeningConnection, request: SaslAuthenticateRequest) -> None:
    if request.mechanism not in _mechanisms(connection):
        why = f"unknown authentication mechanism '{request.mechanism[:64]}'"
        _refuse(connection, request, ResponseCode.SASL_MECHANISM_UNSUPPORTED, why)
        return
    try:
        pending = _verified(connection, request)
    except MalformedResponse as error:
        connection.host.audit.login_failed(None, connection.peer.address, str(error))
        _refuse(connection, request, ResponseCode.SASL_ERROR, str(error))
        return
    connection.await_answer(
        pending,
        lambda user: _logged_in(connection, request, user),
        lambda error: _not_logged_in(connection, request, error),
    )


def _verified(connection: OpeningConnection, request: SaslAuthenticateRequest) -> Pending[UserRecord]:
    """Raises MalformedResponse."""
    peer = connection.peer
    if request.mechanism == "EXTERNAL":
        assert peer.tls_user is not None, "EXTERNAL was offered without a certificate"
        return connection.host.authenticate_external(peer.tls_user, peer.address)
    user, password = plain(request.data)
    return connection.host.authenticate(user, password, peer.address)


def _logged_in(connection: OpeningConnection, request: SaslAuthenticateRequest, user: UserRecord) -> None:
    connection.login = user
    connection.mechanism = request.mechanism
    connection.state = ConnectionPhase.TUNING
    limits = connection.limits
    connection.send(SaslAuthenticateResponse(request.correlation, ResponseCode.OK))
    connection.send(Tune(limits.frame_max, limits.heartbeat_s))


def _not_logged_in(connection: OpeningConnection, request: SaslAuthenticateRequest, error: BrokerError) -> None:
    """That a password could not be checked now is no refusal: a client that takes it for one does not try again."""
    if isinstance(error, ResourceExhausted):
        _refuse(connection, request, ResponseCode.INTERNAL_ERROR, error.text)
    else:
        _refuse(connection, request, ResponseCode.AUTHENTICATION_FAILED, error.text, delayed=True)


def _refuse(
    connection: OpeningConnection,
    request: SaslAuthenticateRequest,
    code: ResponseCode,
    why: str,
    *,
    delayed: bool = False,
) -> None:
    answer = SaslAuthenticateResponse(request.correlation, code)
    connection.refuse(answer, f"login refused: {why}", delayed=delayed)


def tune(connection: OpeningConnection, command: Tune) -> None:
    """The smaller frames of both; heartbeats as the client wants them."""
    offered = connection.limits.frame_max
    connection.frame_max = min(command.frame_max or offered, offered or command.frame_max)
    connection.heartbeat.agree(command.heartbeat_s, connection.outside.monotonic())


def open_vhost(connection: OpeningConnection, request: OpenRequest) -> None:
    try:
        connection.enter_vhost(request.vhost)
    except BrokerError as error:
        connection.refuse(OpenResponse(request.correlation, ResponseCode.VHOST_REFUSED), error.text, delayed=True)
        return
    connection.send(
        OpenResponse(request.correlation, ResponseCode.OK, connection.identity.address(tls=connection.peer.tls))
    )


def authenticate_again(connection: OpeningConnection, request: SaslAuthenticateRequest) -> None:
    """On an open connection: the same user in the same way, or nothing changes."""
    assert connection.login is not None, "an open connection without a login"
    if request.mechanism != connection.mechanism:
        connection.send(SaslAuthenticateResponse(request.correlation, ResponseCode.CANNOT_CHANGE_MECHANISM))
        return
    try:
        if _names_another_user(connection.login, request):
            connection.send(SaslAuthenticateResponse(request.correlation, ResponseCode.CANNOT_CHANGE_USER))
            return
        pending = _verified(connection, request)
    except MalformedResponse as error:
        connection.host.audit.login_failed(connection.login.name, connection.peer.address, str(error))
        _refuse(connection, request, ResponseCode.SASL_ERROR, str(error))
        return
    connection.await_answer(
        pending,
        lambda user: _logged_in_again(connection, request, user),
        lambda error: _not_logged_in(connection, request, error),
    )


def _names_another_user(login: UserRecord, request: SaslAuthenticateRequest) -> bool:
    """What a client says beside a token does not count. Raises MalformedResponse."""
    return request.mechanism == "PLAIN" and login.vouched is None and plain(request.data).user != login.name


def _logged_in_again(connection: OpeningConnection, request: SaslAuthenticateRequest, user: UserRecord) -> None:
    if user.name != connection.user:
        connection.send(SaslAuthenticateResponse(request.correlation, ResponseCode.CANNOT_CHANGE_USER))
        return
    try:
        connection.renew_login(user)
    except BrokerError as error:
        answer = SaslAuthenticateResponse(request.correlation, ResponseCode.VHOST_REFUSED)
        connection.refuse(answer, error.text, delayed=True)
        return
    connection.send(SaslAuthenticateResponse(request.correlation, ResponseCode.OK))


OPENING: dict[type[Any], Callable[[OpeningConnection, Any], None]] = {
    PeerPropertiesRequest: peer_properties,
    SaslHandshakeRequest: sasl_handshake,
    SaslAuthenticateRequest: sasl_authenticate,
    Tune: tune,
    OpenRequest: open_vhost,
}
