"""The management API's paths that publish a message and that get some: for people and tests, not for programs that work."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from broker.messages.message import Run
from broker.pending import Pending
from broker.session.session import GotMessage, Session
from broker.session.silent_sink import SilentSink
from front.message_shape import Shape
from front.web.handlers import WebFront
from front.web.http import bodies
from front.web.http.bodies import Body
from front.web.http.refusals import bad_request
from front.web.http.request import JSON_BYTES_MAX, HttpError, Request, Response, json_response
from front.web.resources.exchanges_api import exchange_named
from front.web.router import WebRouter
from front.web.security.access import Right
from front.web.views.message_json import properties_shape, properties_view, text_or_base64
from native.content import encode, one

CONFIRM_S_MAX = 30.0
GOT_MAX = 1_000  # in one answer; what is more stays in the queue
GOT_BYTES_MAX = 32 << 20  # of bodies: no message is got behind these
ENCODINGS = ("auto", "base64")
ABSENT = msgspec.Raw()

# What becomes of what was got, by the mode of acknowledgement.
ACKNOWLEDGE, REQUEUE, REJECT = "acknowledge", "requeue", "reject"
ACK_MODES = {
    "ack_requeue_true": REQUEUE,
    "ack_requeue_false": ACKNOWLEDGE,
    "reject_requeue_true": REQUEUE,
    "reject_requeue_false": REJECT,
}


class LongPublication(msgspec.Struct):
    """A body with a long payload, of which nothing is read but where each part ends. Empty: it is not there."""

    routing_key: msgspec.Raw = ABSENT
    properties: msgspec.Raw = ABSENT
    payload: msgspec.Raw = ABSENT
    payload_encoding: msgspec.Raw = ABSENT


class MessagesApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front

    def add_routes(self, router: WebRouter) -> None:
        router.add("POST", "/api/exchanges/{vhost}/{exchange}/publish", self._publish, Right.VHOST)
        router.add("POST", "/api/queues/{vhost}/{queue}/get", self._get, Right.VHOST)

    # publishing

    async def _publish(self, request: Request, vhost: str, exchange: str) -> Response:
        body = publication(request)
        bodies.require(body, "routing_key", "properties", "payload", "payload_encoding")
        shape, payload = properties_shape(body), _payload(body)
        sink = ConfirmSink()
        with self._front.visit(request, vhost, sink) as session:
            session.publisher.select_confirms()
            run = _run(exchange_named(exchange), bodies.text(body, "routing_key"), shape, payload)
            published = session.publisher.publish(run, request.now)
            routed = await _within(CONFIRM_S_MAX, partial(self._confirmed, published, sink))
        return json_response({"routed": routed})

    async def _confirmed(self, published: Pending[None] | None, sink: ConfirmSink) -> bool:
        """Whether it was routed. Waits for a limit of rates as well, which may let nothing come."""
        if published is not None:
            await self._front.done(published)
        self._front.broker.end_turn()
        return await sink.answered()

    # getting

    async def _get(self, request: Request, vhost: str, queue: str) -> Response:
        body = request.json_object()
        bodies.require(body, "ackmode", "count", "encoding")
        becomes, encoding = ACK_MODES.get(bodies.text(body, "ackmode")), bodies.text(body, "encoding")
        if becomes is None:
            raise bad_request(f"ackmode is one of {', '.join(ACK_MODES)}, not {body['ackmode']!r}")
        if encoding not in ENCODINGS:
            raise bad_request("Unsupported encoding. Please use auto or base64.")
        count, truncate = bodies.number(body, "count"), bodies.number(body, "truncate", -1)
        with self._front.visit(request, vhost) as session:
            got = await self._got(session, queue, count, no_ack=becomes is ACKNOWLEDGE, now=request.now)
            shown = [_message_view(message, encoding, truncate) for message in got]
            if got:
                self._settle(session, got, becomes, request.now)
        return json_response(shown)

    async def _got(self, session: Session, queue: str, count: int, *, no_ack: bool, now: int) -> list[GotMessage]:
        got: list[GotMessage] = []
        room = GOT_BYTES_MAX
        while len(got) < min(count, GOT_MAX) and room > 0:
            message = await self._front.done(session.get(queue, no_ack, now))
            if message is None:
                break
            got.append(message)
            room -= len(message.content)
        return got

    @staticmethod
    def _settle(session: Session, got: list[GotMessage], becomes: str, now: int) -> None:
        """Only now that all were got: what is requeued is not got twice."""
        if becomes is REQUEUE:
            session.nack(got[-1].tag, multiple=True, requeue=True, now=now)
        elif becomes is REJECT:
            session.nack(got[-1].tag, multiple=True, requeue=False, now=now)


class ConfirmSink(SilentSink):
    """Waits for the confirm of one mandatory message."""

    def __init__(self) -> None:
        self._routed = True
        self._confirmed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def returned(self, run: Run, code: int, text: str) -> None:
        self._routed = False

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        if not self._confirmed.done():
            self._confirmed.set_result(ok)

    async def answered(self) -> bool:
        """Whether it was routed. Raises HttpError when a queue would not take it."""
        if not await self._confirmed:
            raise bad_request("the message was refused by a queue, or could not be kept")
        return self._routed


async def _within(seconds: float, answer: Callable[[], Awaitable[bool]]) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await answer()
    except TimeoutError:
        raise HttpError(503, "service_unavailable", f"no confirm came within {seconds:.0f} s") from None


def _run(exchange: str, routing_key: str, shape: Shape, payload: bytes) -> Run:
    return Run(
        exchange,
        routing_key,
        encode(shape.props, payload),
        1,
        len(payload),
        shape.persistent,
        True,
        shape.priority,
        shape.expiration_ms,
        shape.user_id,
        shape.look,
    )


def publication(request: Request) -> Body:
    """The body; only its payload may be long, and is a text then. Raises HttpError."""
    if len(request.body) <= JSON_BYTES_MAX:
        return request.json_object()
    try:
        found = msgspec.json.decode(request.body, type=LongPublication)
        parts = {name: raw for name, raw in msgspec.structs.asdict(found).items() if raw}
        others = sum(len(raw) for name, raw in parts.items() if name != "payload")
        if others > JSON_BYTES_MAX or not bytes(parts.get("payload", b"")).startswith(b'"'):
            raise bad_request(f"only the payload may have more than {JSON_BYTES_MAX} bytes, and it is a text")
        return {name: msgspec.json.decode(raw) for name, raw in parts.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"the body is not JSON, or no object: {error}") from error


def _payload(body: Body) -> bytes:
    """Raises HttpError."""
    payload, encoding = bodies.text(body, "payload"), bodies.text(body, "payload_encoding")
    if encoding == "string":
        return payload.encode()
    if encoding != "base64":
        raise bad_request(f"payload_encoding is string or base64, not {encoding!r}")
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("the payload is not base64") from None


def _message_view(message: GotMessage, encoding: str, truncate: int) -> dict[str, Any]:
    props, body, _ = one(message.content, message.piece.position)
    shown = body[:truncate] if truncate >= 0 else body
    payload, said = _said(shown, encoding)
    return {
        "payload_bytes": len(body),
        "redelivered": message.piece.redelivered,
        "exchange": message.piece.exchange,
        "routing_key": message.piece.routing_key,
        "message_count": message.remaining,
        "properties": properties_view(props, message.piece.headers),
        "payload": payload,
        "payload_encoding": said,
    }


def _said(raw: bytes, encoding: str) -> tuple[str, str]:
    return text_or_base64(raw) if encoding == "auto" else (base64.b64encode(raw).decode("ascii"), "base64")
