"""What a handler of the HTTP front gets, and what it gives back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from broker.errors import bounded
from broker.json_values import readable
from broker.login.client_address import ClientAddress
from broker.records import UserRecord

# Of a body that is read as JSON; definitions are read in slices, and a message's payload for itself. A megabyte of little lists
# would hold the node for half a second until all that is in it is looked at.
JSON_BYTES_MAX = 262_144
RETRY_SOON = (("Retry-After", "2"),)  # seconds
ASK_FOR_LOGIN = (("WWW-Authenticate", 'Basic realm="RabbitMQ Management"'),)
BEARER = b"bearer"


class HttpError(Exception):
    """The request is answered with this status, an error word and a reason for people."""

    def __init__(self, status: int, error: str, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        reason = bounded(reason)
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers


@dataclass(slots=True)
class Request:
    """One request, whole. Raises HttpError 400 when its target is none."""

    method: str
    target: str
    headers: dict[bytes, bytes]  # names in lower case
    body: bytes
    client: ClientAddress
    now: int
    user: UserRecord | None = None  # set once the credentials are verified
    tls: bool = False
    # The path between its slashes, each part decoded. The name of the default exchange is an empty one.
    parts: tuple[str, ...] = field(init=False)
    query: dict[str, list[str]] = field(init=False)

    def __post_init__(self) -> None:
        try:
            split = urlsplit(self.target)
        except ValueError as error:
            raise HttpError(400, "bad_request", f"the target is no URL: {error}") from error
        try:
            self.parts = tuple(unquote(part, errors="strict") for part in split.path.strip("/").split("/"))
            self.query = parse_qs(split.query, keep_blank_values=True, errors="strict")
        except UnicodeDecodeError as error:  # with something in place of it, it would be the name of another thing
            raise HttpError(400, "bad_request", f"the target is not UTF-8 behind its percent signs: {error}") from error

    def asked(self, name: str) -> str | None:
        """What the query says last for this name, if it says anything."""
        return self.query[name][-1] if name in self.query else None

    def asks(self, name: str) -> bool:
        """Whether the query says `name=true`."""
        return self.asked(name) == "true"

    @property
    def bearer_token(self) -> bytes | None:
        """Of the Bearer scheme; None: something else is given, or nothing."""
        scheme, _, token = self.headers.get(b"authorization", b"").partition(b" ")
        return token.strip() if scheme.lower() == BEARER else None

    def credentials(self) -> tuple[str, bytes]:
        """User and password of the Basic scheme. Raises HttpError 401, which asks for them where none were given."""
        scheme, _, encoded = self.headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"basic":
            headers = () if self.is_of_script else ASK_FOR_LOGIN
            raise HttpError(401, "not_authorised", "give user and password (HTTP Basic) or a token (Bearer)", headers)
        try:
            user, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
            name = user.decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise HttpError(401, "not_authorised", "the Authorization header is not valid HTTP Basic") from error
        if not colon:
            raise HttpError(401, "not_authorised", "the Authorization header holds no password")
        return name, password

    @property
    def is_of_script(self) -> bool:
        """Asked by a page, which has a login of its own: its browser is not to open a dialog for one."""
        headers = self.headers
        return headers.get(b"sec-fetch-dest") == b"empty" or b"x-requested-with" in headers

    @property
    def media_type(self) -> bytes:
        return self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()

    def require_json(self) -> None:
        """For the few paths that take no other type. Raises HttpError 415."""
        if self.media_type != b"application/json":
            raise HttpError(415, "unsupported_media_type", "send the body as JSON, with Content-Type: application/json")

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object; nothing and null are an empty one. Raises HttpError 400."""
        if len(self.body) > JSON_BYTES_MAX:
            raise HttpError(
                400, "bad_request", f"the body has {len(self.body)} bytes, at most {JSON_BYTES_MAX} are read"
            )
        if not self.body.strip():
            return {}
        try:
            value = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HttpError(400, "bad_request", f"the body is not JSON: {error}") from error
        except RecursionError:
            raise HttpError(400, "bad_request", "the body is JSON nested too deeply") from None
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise HttpError(400, "bad_request", f"the body is a JSON {type(value).__name__}, an object is needed")
        return value


@dataclass(slots=True, frozen=True)
class Response:
    """Status, body and what kind it is."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    pieces: Sequence[bytes] = ()  # of a long body, in place of `body`: sent one after the other


def json_response(value: Any, status: int = 200) -> Response:
    return Response(status, msgspec.json.encode(value))


def error_response(error: HttpError) -> Response:
    body = msgspec.json.encode({"error": error.error, "reason": readable(error.reason)})
    return Response(error.status, body, headers=error.headers)
