"""A path of Leveret's own that shows messages of a queue where they stand: none is taken, marked or moved."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from broker.messages.browsed import COUNT_MAX, Browsed
from broker.pending import Pending
from broker.session.session import Session
from front.slices import made_in_slices
from front.web.handlers import WebFront
from front.web.http.refusals import bad_request
from front.web.http.request import Request, Response, json_response
from front.web.router import WebRouter
from front.web.security.access import Right
from front.web.views.message_json import properties_view, text_or_base64
from front.whole_number import whole_number
from native.content import one

LIMIT_DEFAULT = 50
TRUNCATE_DEFAULT = 4_096  # bytes of each body: a page is for looking, and a message may have many megabytes
DIGITS_MAX = 19
DIGEST_BYTES_MAX = 1 << 20  # of a body: some 3 ms
UTF8_MORE_MAX = 3  # bytes of a character behind its first


class BrowsingApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/leveret/queues/{vhost}/{queue}/browse", self._get, Right.VHOST)

    async def _get(self, request: Request, vhost: str, queue: str) -> Response:
        """`limit` messages behind `skip` of them; of a stream from `offset`, which may be a number, first, last or next. With
        `digest` each has the SHA-256 of its body, by which the log can be searched for it."""
        truncate = number_asked(request, "truncate", TRUNCATE_DEFAULT)
        with_digest = request.asked("digest") == "true"
        with self._front.visit(request, vhost) as session:
            found = await self._front.done(_browsed(session, queue, request))
        views = (browsed_view(message, truncate, with_digest=with_digest) for message in found)
        return json_response([view async for view in made_in_slices(views)])


def _browsed(session: Session, queue: str, request: Request) -> Pending[list[Browsed]]:
    limit, offset = min(COUNT_MAX, number_asked(request, "limit", LIMIT_DEFAULT)), request.asked("offset")
    if offset is None:
        return session.looks.browse(queue, number_asked(request, "skip", 0), limit, request.now)
    number = whole_number(offset, DIGITS_MAX)
    return session.looks.browse_from(queue, offset if number is None else number, limit, request.now)


def browsed_view(message: Browsed, truncate: int, *, with_digest: bool = False) -> dict[str, Any]:
    """As a message that was got, and what the queue knows of it."""
    props, body, _ = one(message.content, 0)
    payload, encoding = text_or_base64(_beginning(body, truncate))
    return {
        "payload_bytes": len(body),
        "redelivered": message.redelivered,
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "properties": properties_view(props, None),
        "payload": payload,
        "payload_encoding": encoding,
        "persistent": message.persistent,
        "delivery_count": message.delivery_count,
        "acquired_count": message.acquired_count,
        "offset": message.offset,
        **({"payload_sha256": _digest(body)} if with_digest else {}),
    }


def _digest(body: bytes) -> str | None:
    """None: it takes longer than a turn of the event loop should."""
    return sha256(body).hexdigest() if len(body) <= DIGEST_BYTES_MAX else None


def _beginning(body: bytes, length: int) -> bytes:
    """Not cut in the middle of a character, if it is UTF-8: it would be shown as base64 for that."""
    end = length
    while length - end < UTF8_MORE_MAX and 0 < end < len(body) and body[end] & 0xC0 == 0x80:
        end -= 1
    return body[:end]


def number_asked(request: Request, name: str, default: int) -> int:
    given = request.asked(name)
    found = default if given is None else whole_number(given, DIGITS_MAX)
    if found is None:
        raise bad_request(f"'{name}' is {given!r}, a whole number is needed")
    return found
