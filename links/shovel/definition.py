"""What the parameter of a shovel says: its keys, their defaults, and what is refused, in RabbitMQ's words.

A key without `src-` or `dest-` is its older name: prefetch-count, delete-after, add-forward-headers, add-timestamp-header,
publish-properties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from links.amqp.uri import UriError, parse_uri, without_secrets
from wire.amqp.tables import PROPERTIES, TableError, encode_properties, encode_table

PREFETCH = 1000
PREFETCH_MAX = 65_535
RECONNECT_DELAY_S = 5.0
RECONNECT_DELAY_S_MIN = 1.0  # some microseconds would keep a node busy with connecting
PROTOCOLS = ("amqp091", "local")
ACK_MODES = ("on-confirm", "on-publish", "no-ack")
NAME_BYTES_MAX = 255

OLDER_NAMES = {
    "prefetch-count": "src-prefetch-count",
    "delete-after": "src-delete-after",
    "add-forward-headers": "dest-add-forward-headers",
    "add-timestamp-header": "dest-add-timestamp-header",
    "publish-properties": "dest-publish-properties",
}


class DefinitionError(ValueError):
    """Raised when a parameter is no shovel. Its text names no secret."""


@dataclass(frozen=True, slots=True)
class SourceTerms:
    uris: tuple[str, ...] = field(repr=False)
    protocol: str
    queue: str | None
    exchange: str | None
    exchange_key: str
    queue_args: dict[str, Any]
    consumer_args: dict[str, Any]
    consumer_name: str
    predeclared: bool
    prefetch: int
    delete_after: str | int  # never, queue-length, or so many messages


@dataclass(frozen=True, slots=True)
class DestinationTerms:
    uris: tuple[str, ...] = field(repr=False)
    protocol: str
    queue: str | None
    exchange: str | None
    exchange_key: str | None  # None: as it was published
    queue_args: dict[str, Any]
    predeclared: bool
    forward_headers: bool
    timestamp_header: bool
    properties: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ShovelDefinition:
    source: SourceTerms
    destination: DestinationTerms
    ack_mode: str
    reconnect_delay_s: float  # 0: a shovel that ended stays so


Check = Callable[[str, Any], None]


def read_definition(name: str, value: Any) -> ShovelDefinition:
    """Raises DefinitionError."""
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{name} should be a map, actually was {type(value).__name__}")  # its texts may be URIs
    given: dict[str, Any] = {OLDER_NAMES.get(str(key), str(key)): item for key, item in value.items()}
    _check_keys(name, given)
    source = SourceTerms(
        _uris(given["src-uri"]),
        given.get("src-protocol", "amqp091"),
        given.get("src-queue"),
        given.get("src-exchange"),
        given.get("src-exchange-key", ""),
        given.get("src-queue-args", {}),
        given.get("src-consumer-args", {}),
        given.get("src-consumer-name", ""),
        given.get("src-predeclared", False),
        given.get("src-prefetch-count", PREFETCH),
        given.get("src-delete-after", "never"),
    )
    destination = DestinationTerms(
        _uris(given["dest-uri"]),
        given.get("dest-protocol", "amqp091"),
        given.get("dest-queue"),
        given.get("dest-exchange"),
        given.get("dest-exchange-key"),
        given.get("dest-queue-args", {}),
        given.get("dest-predeclared", False),
        given.get("dest-add-forward-headers", False),
        given.get("dest-add-timestamp-header", False),
        {key.replace("-", "_"): item for key, item in given.get("dest-publish-properties", {}).items()},
    )
    delay = float(given.get("reconnect-delay", RECONNECT_DELAY_S))
    delay = max(delay, RECONNECT_DELAY_S_MIN) if delay else delay
    return ShovelDefinition(source, destination, given.get("ack-mode", "on-confirm"), delay)


def _uris(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _check_keys(name: str, given: Mapping[str, Any]) -> None:
    for key in ("src-uri", "dest-uri"):
        if key not in given:
            raise DefinitionError(f'Key "{key}" not found in {name}')
    unknown = given.keys() - CHECKS.keys()
    if unknown:
        raise DefinitionError(f"Unrecognised terms {', '.join(sorted(unknown))} in {name}")
    for key, value in given.items():
        CHECKS[key](key, value)
    if "src-queue" not in given and "src-exchange" not in given:
        raise DefinitionError("Must specify 'src-exchange' or 'src-queue'")
    if "src-queue" in given and "src-exchange" in given:
        raise DefinitionError("Cannot specify 'src-exchange' and 'src-queue'")
    if "dest-queue" in given and "dest-exchange" in given:
        raise DefinitionError("Cannot specify 'dest-exchange' and 'dest-queue'")
    if given.get("ack-mode") == "no-ack" and isinstance(given.get("src-delete-after"), int):
        raise DefinitionError("Cannot specify 'no-ack' and numerical 'delete-after'")


def _shown(value: Any) -> str:
    return repr(value)[:100]


def _check_uri(key: str, value: Any) -> None:
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
            "and needs one as whom the shovel works there, as in amqp://user:password@/vhost"
        )


def _check_text(key: str, value: Any) -> None:
    if not isinstance(value, str):
        raise DefinitionError(f"{key} should be binary, actually was {_shown(value)}")
    if len(value.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise DefinitionError(f"{key} should be at most {NAME_BYTES_MAX} bytes, actually was {len(value.encode())}")


def _check_flag(key: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise DefinitionError(f"{key} should be boolean, actually was {_shown(value)}")


def _check_prefetch(key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise DefinitionError(f"{key} should be a number, actually was {_shown(value)}")
    if not 0 <= value <= PREFETCH_MAX:
        raise DefinitionError(f"{key} should be between 0 and {PREFETCH_MAX}, actually was {value}")


def _check_delay(key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DefinitionError(f"{key} should be a number, actually was {_shown(value)}")
    if not 0 <= value <= 86_400:
        raise DefinitionError(f"{key} should be between 0 and 86400 seconds, actually was {_shown(value)}")


def _check_delete_after(key: str, value: Any) -> None:
    if value in ("never", "queue-length"):
        return
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63:
        return
    raise DefinitionError(f'{key} should be number, "never" or "queue-length", actually was {_shown(value)}')


def _one_of(*options: str) -> Check:
    def check(key: str, value: Any) -> None:
        if value not in options:
            raise DefinitionError(f"{key} should be one of {', '.join(options)}, actually was {_shown(value)}")

    return check


def _check_arguments(key: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{key} should be a map, actually was {_shown(value)}")
    try:
        encode_table(value)
    except TableError as error:
        raise DefinitionError(f"{key}: {error}") from error


def _check_properties(key: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{key} should be a map, actually was {_shown(value)}")
    for name in value:
        if name.replace("-", "_") not in PROPERTIES:
            raise DefinitionError(f"{key}: there is no message property '{_shown(name)}'")
    try:
        encode_properties({name.replace("-", "_"): item for name, item in value.items()})
    except (TableError, TypeError, ValueError, AttributeError) as error:
        raise DefinitionError(f"{key}: {error}") from error


CHECKS: dict[str, Check] = {
    "src-protocol": _one_of(*PROTOCOLS),
    "src-uri": _check_uri,
    "src-queue": _check_text,
    "src-exchange": _check_text,
    "src-exchange-key": _check_text,
    "src-queue-args": _check_arguments,
    "src-consumer-args": _check_arguments,
    "src-consumer-name": _check_text,
    "src-predeclared": _check_flag,
    "src-prefetch-count": _check_prefetch,
    "src-delete-after": _check_delete_after,
    "dest-protocol": _one_of(*PROTOCOLS),
    "dest-uri": _check_uri,
    "dest-queue": _check_text,
    "dest-exchange": _check_text,
    "dest-exchange-key": _check_text,
    "dest-queue-args": _check_arguments,
    "dest-predeclared": _check_flag,
    "dest-add-forward-headers": _check_flag,
    "dest-add-timestamp-header": _check_flag,
    "dest-publish-properties": _check_properties,
    "ack-mode": _one_of(*ACK_MODES),
    "reconnect-delay": _check_delay,
}
