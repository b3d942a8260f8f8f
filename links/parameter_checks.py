"""Parameters of links: what shovels and federation upstreams have in common, and is refused in RabbitMQ's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from links.amqp.uri import UriError, parse_uri, without_secrets
from wire.amqp.tables import TableError, encode_table

PREFETCH_MAX = 65_535
RECONNECT_DELAY_S = 5.0
RECONNECT_DELAY_S_MIN = 1.0  # some microseconds would keep a node busy with connecting
ACK_MODES = ("on-confirm", "on-publish", "no-ack")
NAME_BYTES_MAX = 255

Check = Callable[[str, Any], None]


class DefinitionError(ValueError):
    """Raised when a parameter is no link. Its text names no secret."""


def uris_of(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def reconnect_delay_s(given: Mapping[str, Any]) -> float:
    """0: a link that ended stays so."""
    delay = float(given.get("reconnect-delay", RECONNECT_DELAY_S))
    return max(delay, RECONNECT_DELAY_S_MIN) if delay else delay


def shown(value: Any) -> str:
    return repr(value)[:100]


def check_uri(key: str, value: Any) -> None:
    if isinstance(value, list):
        if not value:
            raise DefinitionError(f"{key} should have at least one URI")
        for one in value:
            _check_one_uri(key, one)
    else:
        _check_one_uri(key, value)


def _check_one_uri(key: str, value: Any) -> None:
    if not isinstance(value, str):
        raise DefinitionError(f"{key} should be binary, actually was {type(value).__name__}")
    try:
        uri = parse_uri(value)
    except UriError as error:
        raise DefinitionError(f'"{without_secrets(value)}" not a valid URI: {error}') from error
    if not uri.host and uri.user is None:
        raise DefinitionError(
            f'"{uri.shown}" names no user: a URI without a host is this cluster, '
            "and needs one as whom the link works there, as in amqp://user:password@/vhost"
        )


def check_text(key: str, value: Any) -> None:
    if not isinstance(value, str):
        raise DefinitionError(f"{key} should be binary, actually was {shown(value)}")
    if len(value.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise DefinitionError(f"{key} should be at most {NAME_BYTES_MAX} bytes, actually was {len(value.encode())}")


def check_flag(key: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise DefinitionError(f"{key} should be boolean, actually was {shown(value)}")


def check_prefetch(key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise DefinitionError(f"{key} should be a number, actually was {shown(value)}")
    if not 0 <= value <= PREFETCH_MAX:
        raise DefinitionError(f"{key} should be between 0 and {PREFETCH_MAX}, actually was {value}")


def check_delay(key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DefinitionError(f"{key} should be a number, actually was {shown(value)}")
    if not 0 <= value <= 86_400:
        raise DefinitionError(f"{key} should be between 0 and 86400 seconds, actually was {shown(value)}")


def one_of(*options: str) -> Check:
    def check(key: str, value: Any) -> None:
        if value not in options:
            raise DefinitionError(f"{key} should be one of {', '.join(options)}, actually was {shown(value)}")

    return check


def check_arguments(key: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{key} should be a map, actually was {shown(value)}")
    try:
        encode_table(value)
    except TableError as error:
        raise DefinitionError(f"{key}: {error}") from error
