"""AMQP URIs: where a broker is, and how to log in there.

    amqp(s)://user:password@host:port/vhost?heartbeat=10&connection_timeout=30000&channel_max=10&frame_max=131072
        &auth_mechanism=external&cacertfile=…&certfile=…&keyfile=…&password=…&verify=verify_none&server_name_indication=…

`password` is that of the key in `keyfile`; `server_name_indication=disable` says no name, and asks the certificate for none.
No path is vhost `/`; `/` and nothing behind it is the vhost with the empty name. No host is this cluster. Read as RabbitMQ
does; what a URI may not say is refused, and passwords are in no text that is made here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

PORTS = {"amqp": 5672, "amqps": 5671}
MECHANISMS = {"plain": "PLAIN", "amqp_auth_mechanisms:plain": "PLAIN", "external": "EXTERNAL",
              "amqp_auth_mechanisms:external": "EXTERNAL"}  # fmt: skip
# Of these the first is meant for people, and nothing depends on the others here.
IGNORED = frozenset({"name", "fail_if_no_peer_cert", "depth", "customize_hostname_check"})
FILES = ("cacertfile", "certfile", "keyfile")
OF_TLS = {*FILES, "password", "verify", "server_name_indication"}
NO_NAME = "disable"
VERIFY = {"verify_peer": True, "verify_none": False}
HEARTBEAT_S = 10
CONNECTION_TIMEOUT_MS = 60_000
NUMBERS_MAX = {"heartbeat": 65_535, "channel_max": 65_535, "frame_max": 2**32 - 1, "connection_timeout": 3_600_000}

Value = TypeVar("Value")

# A password that nobody has encoded may hold every character, so all before the last @ may be one.
_SECRET = re.compile(r"^(\s*[a-zA-Z][a-zA-Z0-9+.-]*://)?.*@", re.DOTALL)


class UriError(ValueError):
    """Raised when a URI cannot be read. Its text names no secret."""


@dataclass(frozen=True, slots=True)
class AmqpUri:
    """One broker; `host` is empty for this cluster."""

    tls: bool
    host: str
    port: int
    vhost: str
    user: str | None
    password: str | None
    mechanism: str  # PLAIN or EXTERNAL
    heartbeat_s: int
    connection_timeout_ms: int
    channel_max: int
    frame_max: int
    files: tuple[tuple[str, str], ...]  # of TLS: what it is, and where
    key_password: str
    verify: bool
    server_name: str  # that the certificate has to have; NO_NAME: whichever

    def __repr__(self) -> str:
        return f"AmqpUri({self.shown})"

    @property
    def shown(self) -> str:
        """For people: without user, password and what else is nobody's business."""
        scheme = "amqps" if self.tls else "amqp"
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.host and self.port != PORTS[scheme] else ""
        return f"{scheme}://{host}{port}" + ("" if self.vhost == "/" else f"/{self.vhost}")


def parse_uri(text: str, vhost: str = "/") -> AmqpUri:
    """`vhost`: where one without a path leads. Raises UriError."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UriError("it cannot be read: a port is a number up to 65535, and [] hold an IPv6 address") from error
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        raise UriError(f"its scheme is '{scheme}', expected amqp or amqps")
    if parts.fragment:
        raise UriError("it has a #: write it as %23")
    if port is not None and (port == 0 or not parts.hostname):
        raise UriError("port 0 is none" if parts.hostname else "a port needs a host")
    query = _query(parts.query)
    return AmqpUri(
        scheme == "amqps",
        _decoded(parts.hostname or ""),
        port or PORTS[scheme],
        _vhost(parts.path, vhost),
        None if parts.username is None else _decoded(parts.username),
        None if parts.password is None else _decoded(parts.password),
        _one_of(query, "auth_mechanism", MECHANISMS, "PLAIN"),
        _number(query, "heartbeat", HEARTBEAT_S),
        _number(query, "connection_timeout", CONNECTION_TIMEOUT_MS),
        _number(query, "channel_max", 0),
        _number(query, "frame_max", 0),
        tuple((name, query[name]) for name in FILES if name in query),
        query.get("password", ""),
        _one_of(query, "verify", VERIFY, True),
        query.get("server_name_indication", ""),
    )


def without_secrets(text: str) -> str:
    """A URI for people, also one that cannot be read."""
    try:
        return parse_uri(text).shown
    except UriError:
        return _SECRET.sub(r"\1", text).split("?")[0]


def _vhost(path: str, default: str) -> str:
    if not path:
        return default
    if "/" in path[1:]:
        raise UriError("its vhost has a slash: write it as %2F")
    return _decoded(path[1:])


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise UriError("what % stands for is not UTF-8") from error


def _query(text: str) -> dict[str, str]:
    """What is about TLS may be in a URI without: tools set it in all URIs alike."""
    known = NUMBERS_MAX.keys() | {"auth_mechanism"} | OF_TLS | IGNORED
    query = dict(parse_qsl(text, keep_blank_values=True, strict_parsing=False))
    for name in query:
        if name not in known:
            raise UriError(f"'{name}' cannot be set by a URI")
    return query


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and int(text[:12]) <= NUMBERS_MAX[name] and len(text) <= 12):
        raise UriError(f"{name} is '{text[:40]}', expected a number from 0 to {NUMBERS_MAX[name]}")
    return int(text)


def _one_of(query: dict[str, str], name: str, values: Mapping[str, Value], default: Value) -> Value:
    if name not in query:
        return default
    if query[name].lower() not in values:
        raise UriError(f"{name} is '{query[name][:40]}', expected one of {', '.join(values)}")
    return values[query[name].lower()]
