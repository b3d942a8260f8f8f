"""Who is calling: verified before anything of a handler runs.

Credentials come with every call, as `authorization: Basic base64(user:password)` or `Bearer` and a token, or as the certificate
of a TLS client. Checking a password is slow on purpose; that a call after the first one is quick, and that a changed password
counts at once, is the broker's authenticator's doing.

Health checks and reflection are open to everybody: probes have no password, and the protocol is no secret.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import grpc
import grpc.aio

from broker.errors import AccessRefused, BrokerError, ConnectionForced, InvalidRequest, ResourceExhausted
from broker.login.audit import Actor, acting_for
from broker.login.client_address import ClientAddress
from broker.pending import Pending
from broker.records import UserRecord
from front.answers import answered
from front.grpc import call
from front.grpc.caller import Caller, set_caller
from front.grpc.convert import Unauthenticated
from front.grpc.relay import Relay
from front.loopback import is_loopback

OPEN_SERVICES = (
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1.ServerReflection/",
    "/grpc.reflection.v1alpha.ServerReflection/",
)

CREDENTIALS_BYTES_MAX = 12_288  # with a token among them; less than the metadata of a call may be
OPEN_CALLS_MAX = 16  # of one connection at a time, for health checks and reflection


class GrpcLogins(Protocol):
    """What is asked of the catalog and the broker."""

    def authenticate(self, user: str, password: bytes, client: ClientAddress) -> Pending[UserRecord]: ...

    def authenticate_token(self, token: bytes, client: ClientAddress) -> Pending[UserRecord]: ...

    def authenticate_external(self, user: str, client: ClientAddress) -> Pending[UserRecord]: ...


class Authenticate(grpc.aio.ServerInterceptor):
    """Puts the check in front of every handler that is not open to everybody."""

    def __init__(self, users: GrpcLogins, relay: Relay) -> None:
        self._users = users
        self._relay = relay

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(details)
        if handler is None:
            return None
        if details.method.startswith(OPEN_SERVICES):
            return self._open(handler)
        return self._guarded(handler)

    def _open(self, handler: Any) -> grpc.RpcMethodHandler[Any, Any]:
        """A call that needs no login; a connection may have a few of them at a time."""

        async def one(request: Any, context: call.Context) -> Any:
            async with self._open_call(context):
                return await handler.unary_unary(request, context)

        async def watch(request: Any, context: call.Context) -> None:
            async with self._open_call(context):
                await handler.unary_stream(request, context)

        async def stream(requests: Any, context: call.Context) -> Any:
            async with self._open_call(context):
                async for response in handler.stream_stream(requests, context):
                    yield response

        codec = (handler.request_deserializer, handler.response_serializer)
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(stream, *codec)
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(watch, *codec)
        return grpc.unary_unary_rpc_method_handler(one, *codec)

    @asynccontextmanager
    async def _open_call(self, context: call.Context) -> AsyncIterator[None]:
        side = self._relay.side_of(context.peer())
        if side is None:  # it hung up
            await call.abort(context, ConnectionForced("the connection has ended"))
            return
        if side.open_calls >= OPEN_CALLS_MAX:
            text = f"a connection may have {OPEN_CALLS_MAX} calls at a time that need no login"
            await call.abort(context, ResourceExhausted(text))
        side.open_calls += 1
        try:
            yield
        finally:
            side.open_calls -= 1

    def _guarded(self, handler: Any) -> grpc.RpcMethodHandler[Any, Any]:
        async def guarded_stream(requests: Any, context: call.Context) -> None:
            await self._admit(context)
            await handler.stream_stream(requests, context)

        async def guarded_call(requests: Any, context: call.Context) -> Any:
            await self._admit(context)
            request = await _only_request(context)
            return await handler.unary_unary(request, context)

        async def guarded_answers(requests: Any, context: call.Context) -> None:
            await self._admit(context)
            request = await _only_request(context)
            await handler.unary_stream(request, context)

        codec = (handler.request_deserializer, handler.response_serializer)
        if handler.request_streaming:
            assert handler.response_streaming, "a kind of call that we do not have"
            return grpc.stream_stream_rpc_method_handler(guarded_stream, *codec)
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(guarded_answers, *codec)
        # A single request is read as a stream of one, for gRPC would read it, however large, before asking us anything.
        return grpc.stream_unary_rpc_method_handler(guarded_call, *codec)

    async def _admit(self, context: call.Context) -> None:
        """Note who calls, or end the call."""
        try:
            set_caller(await self._verify(context))
        except BrokerError as error:
            await call.abort(context, error)

    async def _verify(self, context: call.Context) -> Caller:
        side = self._relay.side_of(context.peer())
        if side is None:
            raise ConnectionForced("the connection has ended")
        client = ClientAddress(*side.address, is_loopback(side.address[0]), call.PROTOCOL)
        scheme, encoded = _authorization(context)
        try:
            record = await answered(self._asked(context, scheme, encoded, client))
        except AccessRefused as error:
            raise Unauthenticated(error.text) from error
        self._relay.logged_in(side)
        acting_for(Actor(record.name, client))
        return Caller(record.name, tuple(record.tags), client.address, _is_tls(context), record)

    def _asked(self, context: call.Context, scheme: str, encoded: str, client: ClientAddress) -> Pending[UserRecord]:
        if scheme == "basic":
            return self._users.authenticate(*_user_and_password(encoded), client)
        if scheme == "bearer":
            return self._users.authenticate_token(encoded.encode(), client)
        return self._users.authenticate_external(named_by_certificate(context), client)


def named_by_certificate(context: call.Context) -> str:
    """Raises Unauthenticated."""
    names = context.auth_context().get("x509_common_name", ()) if _certificate_verified(context) else ()
    if not names:
        raise Unauthenticated(
            "no credentials: send metadata `authorization: Basic <base64 of user:password>`, or `Bearer <token>`, with "
            "each call"
        )
    return _text(next(iter(names)))


async def _only_request(context: call.Context) -> Any:
    try:
        request = await call.next_request(context)
        if request is grpc.aio.EOF:
            raise InvalidRequest("the call ended without its request")
    except InvalidRequest as error:
        await call.abort(context, error)
    return request


def _is_tls(context: call.Context) -> bool:
    return b"ssl" in context.auth_context().get("transport_security_type", ())


def _certificate_verified(context: call.Context) -> bool:
    return bool(context.peer_identities())


def _authorization(context: call.Context) -> tuple[str, str]:
    """The scheme, in lower case, and what follows it; two empty texts when there is no such metadata. Raises Unauthenticated
    when it cannot be read."""
    values = [item for key, item in (context.invocation_metadata() or ()) if key == "authorization"]
    if not values:
        return "", ""
    scheme, _, encoded = _text(values[0]).partition(" ")
    if scheme.lower() not in ("basic", "bearer") or len(values) > 1 or len(encoded) > CREDENTIALS_BYTES_MAX:
        raise Unauthenticated(
            "metadata `authorization` is to be, once: Basic <base64 of user:password>, or Bearer <token>"
        )
    return scheme.lower(), encoded.strip()


def _user_and_password(encoded: str) -> tuple[str, bytes]:
    """Raises Unauthenticated."""
    try:
        user, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        name = user.decode()
    except (binascii.Error, ValueError):
        colon = b""
    if not colon:
        raise Unauthenticated("metadata `authorization` holds no base64 of user:password")
    return name, password


def _text(raw: str | bytes) -> str:
    return raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
