"""From start-ok to open-ok: who the client is, what both sides agree on, which vhost. And update-secret, asked later on.

One function for each method of the client, in order; connection.py calls them where its table of states allows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from broker.client_connection import Connection as BrokerConnection
from broker.errors import AccessRefused, BrokerError, NotAllowed, ResourceExhausted
from broker.reply_codes import COMMAND_INVALID, NOT_ALLOWED
from front.amqp import sasl
from front.amqp.backpressure import Backpressure
from front.amqp.replies import ProtocolError
from front.amqp.terms import Identity, Limits
from front.sockets.heartbeat import Heartbeat
from front.sockets.peer import Outside, Peer
from front.sockets.plain_login import Credentials, MalformedResponse
from wire.amqp import frame
from wire.amqp.spec import Arguments

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.records import UserRecord

LOGIN_TIMEOUT_S = 60.0  # for this node to check a password, when hundreds log in at once
SECRET_REFUSED = "New secret was refused by one of the backends"  # RabbitMQ's words
FRAME_MAX_MIN = 8192  # what the smallest client must be able to receive

# The second is what early 0-9-1 clients send; it was never standardised, and RabbitMQ takes it too.
ACCEPTED_HEADERS = (frame.PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09")


class HandshakeConnection(Protocol):
    """The connection whose terms are agreed on here."""

    broker: Broker
    outside: Outside
    identity: Identity
    peer: Peer
    limits: Limits
    pressure: Backpressure
    heartbeat: Heartbeat
    now: int
    frame_max: int
    channel_max: int
    client_properties: dict[str, Any]
    mechanism: str
    login: UserRecord | None
    client: BrokerConnection | None

    @property
    def user(self) -> str: ...

    @property
    def awaits_login(self) -> bool: ...

    def go(self, event: str) -> None: ...

    def send_method(self, name: str, /, **arguments: Any) -> None: ...

    def refuse_login(self, mechanism: str, why: str) -> None: ...

    def login_not_checked(self, error: BrokerError) -> None: ...

    def permissions_changed(self) -> None: ...

    def close_for_broker(self, error: BrokerError) -> None: ...

    def set_blocked(self, reason: str | None) -> None: ...

    def statistics(self) -> dict[str, Any]: ...


def send_start(connection: HandshakeConnection) -> None:
    connection.send_method(
        "connection.start",
        version_major=0,
        version_minor=9,
        server_properties=connection.identity.properties(),
        mechanisms=" ".join(_mechanisms(connection)).encode(),
        locales=b"en_US",
    )


def _mechanisms(connection: HandshakeConnection) -> list[str]:
    return sasl.mechanisms(connection.peer.tls_user, connection.identity.anonymous)


def start_ok(connection: HandshakeConnection, arguments: Arguments) -> None:
    peer = connection.peer
    connection.client_properties = arguments["client_properties"]
    mechanism = arguments["mechanism"]
    if mechanism not in _mechanisms(connection):
        raise ProtocolError(COMMAND_INVALID, f"unknown authentication mechanism '{mechanism[:64]}'")
    connection.go("connection.start-ok")
    connection.mechanism = mechanism
    connection.pressure.wait_for_login()
    connection.outside.arm(LOGIN_TIMEOUT_S)  # it waits for this node now, which may have many to check
    if mechanism == "EXTERNAL":
        assert peer.tls_user is not None, "EXTERNAL was offered without a certificate"
        pending = connection.broker.authenticate_external(peer.tls_user, peer.address)
    else:
        try:
            user, password = _credentials(connection, mechanism, arguments["response"])
        except MalformedResponse as error:
            connection.broker.audit.login_failed(None, peer.address, str(error))
            connection.refuse_login(mechanism, str(error))
            return
        pending = connection.broker.authenticate(user, password, peer.address)
    pending.then(
        lambda user: _logged_in(connection, user),
        lambda error: _not_logged_in(connection, mechanism, error),
    )


def _credentials(connection: HandshakeConnection, mechanism: str, response: bytes) -> Credentials:
    """Raises MalformedResponse."""
    if mechanism != "ANONYMOUS":
        return sasl.credentials(mechanism, response)
    anonymous = connection.identity.anonymous
    assert anonymous is not None, "ANONYMOUS was offered without a user for it"
    return anonymous


def _logged_in(connection: HandshakeConnection, user: UserRecord) -> None:
    if not connection.awaits_login:
        return  # it ended while the password was checked
    connection.go("login accepted")
    connection.outside.arm(connection.limits.handshake_timeout_s)
    connection.login = user
    connection.send_method(
        "connection.tune",
        channel_max=connection.limits.channel_max,
        frame_max=connection.limits.frame_max,
        heartbeat=connection.limits.heartbeat_s,
    )
    connection.pressure.login_answered()


def _not_logged_in(connection: HandshakeConnection, mechanism: str, error: BrokerError) -> None:
    """That a password could not be checked now is no refusal: a client that takes it for one does not try again."""
    if isinstance(error, ResourceExhausted):
        connection.login_not_checked(error)
    else:
        connection.refuse_login(mechanism, error.text)


def refusal(mechanism: str) -> AccessRefused:
    """Says nothing of what was wrong: it is in the log, and would help who guesses."""
    return AccessRefused(
        f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
    )


def tune_ok(connection: HandshakeConnection, arguments: Arguments) -> None:
    frame_max = arguments["frame_max"]
    if 0 < frame_max < FRAME_MAX_MIN:
        raise ProtocolError(
            NOT_ALLOWED,
            f"negotiated frame_max = {frame_max} is lower than the minimum allowed value ({FRAME_MAX_MIN})",
        )
    connection.frame_max = _agreed("frame_max", frame_max, connection.limits.frame_max)
    connection.channel_max = _agreed("channel_max", arguments["channel_max"], connection.limits.channel_max)
    connection.heartbeat.agree(arguments["heartbeat"], connection.outside.monotonic())
    connection.go("connection.tune-ok")


def _agreed(name: str, asked: int, limit: int) -> int:
    """What the client chose, if it may: 0 says no limit, and nobody may raise what was offered."""
    if limit == 0:
        return asked
    if asked == 0 or asked > limit:
        shown = "0 (no limit)" if asked == 0 else str(asked)
        raise ProtocolError(
            NOT_ALLOWED, f"negotiated {name} = {shown} is higher than the maximum allowed value ({limit})"
        )
    return asked


def open_vhost(connection: HandshakeConnection, arguments: Arguments) -> None:
    client = BrokerConnection(
        id=connection.peer.id,
        name=connection.peer.name,
        user=connection.user,
        login=connection.login,
        vhost=arguments["virtual_host"],
        protocol=connection.peer.protocol,
        client_properties=connection.client_properties,
        connected_at=connection.now,
        close=connection.close_for_broker,
        set_blocked=connection.set_blocked,
        statistics=connection.statistics,
    )
    connection.broker.open_connection(client, connection.now)
    connection.client = client
    connection.go("connection.open")
    connection.outside.arm(connection.heartbeat.first_check_in_s(connection.outside.monotonic()))
    connection.send_method("connection.open-ok")


def update_secret(connection: HandshakeConnection, arguments: Arguments) -> None:
    """Renews a token. The password of a user that the catalog keeps is taken as it is, as RabbitMQ does: it does not run out.
    It gives nothing either: a connection whose password was changed has been closed by the broker.
    """
    client = connection.client
    assert client is not None, "an open connection that the broker does not know"
    if client.who.vouched is None:
        connection.permissions_changed()
        connection.send_method("connection.update-secret-ok")
        return
    pending = connection.broker.authenticate_token(arguments["new_secret"], connection.peer.address)
    pending.then(
        lambda user: _secret_renewed(connection, client, user),
        lambda error: _secret_refused(connection, client, error),
    )


def _secret_renewed(connection: HandshakeConnection, client: BrokerConnection, user: UserRecord) -> None:
    if connection.client is not client:
        return  # it ended while the token was checked
    try:
        connection.broker.renew_login(client, user, connection.now)
    except BrokerError as error:
        connection.close_for_broker(error)
        return
    connection.login = user
    connection.send_method("connection.update-secret-ok")


def _secret_refused(connection: HandshakeConnection, client: BrokerConnection, error: BrokerError) -> None:
    """As with a login, that it could not be checked now is no refusal."""
    if connection.client is client:
        refused = error if isinstance(error, ResourceExhausted) else NotAllowed(SECRET_REFUSED)
        connection.close_for_broker(refused)


HANDLERS: dict[str, Callable[[HandshakeConnection, Arguments], None]] = {
    "connection.start-ok": start_ok,
    "connection.tune-ok": tune_ok,
    "connection.open": open_vhost,
    "connection.update-secret": update_secret,
}
