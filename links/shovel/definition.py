"""What the parameter of a shovel says: its keys, their defaults, and what is refused, in RabbitMQ's words.

A key without `src-` or `dest-` is its older name: prefetch-count, delete-after, delete-after-duration, add-forward-headers,
add-timestamp-header, publish-properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from links.parameter_checks import (
    ACK_MODES,
    Check,
    DefinitionError,
    check_arguments,
    check_delay,
    check_flag,
    check_prefetch,
    check_text,
    check_uri,
    one_of,
    reconnect_delay_s,
    shown,
    uris_of,
)
from wire.amqp.tables import PROPERTIES, TableError, encode_properties

PREFETCH = 1000
PROTOCOLS = ("amqp091", "local")
DURATION_S_MAX = 31_536_000  # a year

OLDER_NAMES = {
    "prefetch-count": "src-prefetch-count",
    "delete-after": "src-delete-after",
    "delete-after-duration": "src-delete-after-duration",
    "add-forward-headers": "dest-add-forward-headers",
    "add-timestamp-header": "dest-add-timestamp-header",
    "publish-properties": "dest-publish-properties",
}


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
    delete_after_s: float | None = None  # or so long after it began to run


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


def read_definition(name: str, value: Any) -> ShovelDefinition:
    """Raises DefinitionError."""
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{name} should be a map, actually was {type(value).__name__}")  # its texts may be URIs
    given: dict[str, Any] = {OLDER_NAMES.get(str(key), str(key)): item for key, item in value.items()}
    _check_keys(name, given)
    source = SourceTerms(
        uris_of(given["src-uri"]),
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
        given.get("src-delete-after-duration"),
    )
    destination = DestinationTerms(
        uris_of(given["dest-uri"]),
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
    return ShovelDefinition(source, destination, given.get("ack-mode", "on-confirm"), reconnect_delay_s(given))


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


def _check_delete_after(key: str, value: Any) -> None:
    if value in ("never", "queue-length"):
        return
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63:
        return
    raise DefinitionError(f'{key} should be number, "never" or "queue-length", actually was {shown(value)}')


def _check_duration(key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DefinitionError(f"{key} should be a number, actually was {shown(value)}")
    if not 0 < value <= DURATION_S_MAX:
        raise DefinitionError(
            f"{key} should be above 0 and at most {DURATION_S_MAX} seconds, actually was {shown(value)}"
        )


def _check_properties(key: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{key} should be a map, actually was {shown(value)}")
    for name, item in value.items():
        if name.replace("-", "_") not in PROPERTIES:
            raise DefinitionError(f"{key}: there is no message property '{shown(name)}'")
        try:
            encode_properties({name.replace("-", "_"): item})
        except TableError as error:
            raise DefinitionError(f"{key}: {error}") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise DefinitionError(f"{key}: {name} cannot be {shown(item)}") from error


CHECKS: dict[str, Check] = {
    "src-protocol": one_of(*PROTOCOLS),
    "src-uri": check_uri,
    "src-queue": check_text,
    "src-exchange": check_text,
    "src-exchange-key": check_text,
    "src-queue-args": check_arguments,
    "src-consumer-args": check_arguments,
    "src-consumer-name": check_text,
    "src-predeclared": check_flag,
    "src-prefetch-count": check_prefetch,
    "src-delete-after": _check_delete_after,
    "src-delete-after-duration": _check_duration,
    "dest-protocol": one_of(*PROTOCOLS),
    "dest-uri": check_uri,
    "dest-queue": check_text,
    "dest-exchange": check_text,
    "dest-exchange-key": check_text,
    "dest-queue-args": check_arguments,
    "dest-predeclared": check_flag,
    "dest-add-forward-headers": check_flag,
    "dest-add-timestamp-header": check_flag,
    "dest-publish-properties": _check_properties,
    "ack-mode": one_of(*ACK_MODES),
    "reconnect-delay": check_delay,
}
