"""What a quorum queue has to keep to: its own arguments and its policies, put together, as the machine needs them.

The bytes of a POLICY command and in snapshots, little endian; an optional number that is not set is 2^64 - 1:

    offset  size  field
         0     8  max_length            optional
         8     8  max_length_bytes      optional
        16     8  message_ttl_ms        optional
        24     8  expires_ms            optional
        32     8  delivery_limit        optional
        40     8  consumer_timeout_ms   optional
        48     8  disconnected_timeout_ms
        56     8  retry_min_ms
        64     8  retry_max_ms          optional
        72     1  retry                 0 disabled, 1 all, 2 failed, 3 returned
        73     1  dead_letters          0 none, 1 at most once, 2 at least once
        74     1  flags                 1 reject publishes, 2 single active consumer, 4 requeue in place
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

DELIVERY_LIMIT = 20
CONSUMER_TIMEOUT_MS = 30 * 60 * 1000
DISCONNECTED_TIMEOUT_MS = 60 * 1000

_LAYOUT = Struct("<9QBBB")
RULES_BYTES = _LAYOUT.size
_NOT_SET = (1 << 64) - 1
_REJECT_PUBLISH, _SINGLE_ACTIVE, _REQUEUE_IN_PLACE = 1, 2, 4


class Retry(IntEnum):
    """Which messages wait before they are delivered again (x-delayed-retry-type)."""

    DISABLED = 0
    ALL = 1
    FAILED = 2  # whose delivery failed
    RETURNED = 3  # that came back without a failure


class DeadLetters(IntEnum):
    """What becomes of messages that die."""

    NONE = 0  # dropped
    AT_MOST_ONCE = 1
    AT_LEAST_ONCE = 2  # held until they have arrived; only with overflow reject-publish, see quorum/queue_rules.py


@dataclass(slots=True, frozen=True)
class Rules:
    """None is: no limit, or not set."""

    max_length: int | None = None
    max_length_bytes: int | None = None
    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    delivery_limit: int | None = DELIVERY_LIMIT
    consumer_timeout_ms: int | None = CONSUMER_TIMEOUT_MS
    disconnected_timeout_ms: int = DISCONNECTED_TIMEOUT_MS
    retry: Retry = Retry.DISABLED
    retry_min_ms: int = 0
    retry_max_ms: int | None = None
    dead_letters: DeadLetters = DeadLetters.NONE
    reject_publish: bool = False
    single_active: bool = False
    requeue_in_place: bool = False  # back to the old position; else before all others, in the order of their return

    def encode(self) -> bytes:
        flags = (
            _REJECT_PUBLISH * self.reject_publish
            | _SINGLE_ACTIVE * self.single_active
            | _REQUEUE_IN_PLACE * self.requeue_in_place
        )
        return _LAYOUT.pack(
            _number(self.max_length),
            _number(self.max_length_bytes),
            _number(self.message_ttl_ms),
            _number(self.expires_ms),
            _number(self.delivery_limit),
            _number(self.consumer_timeout_ms),
            self.disconnected_timeout_ms,
            self.retry_min_ms,
            _number(self.retry_max_ms),
            self.retry,
            self.dead_letters,
            flags,
        )


def decode_rules(data: bytes) -> Rules:
    """Raises ValueError for bytes that are no rules."""
    if len(data) != RULES_BYTES:
        raise ValueError(f"rules have {RULES_BYTES} bytes, not {len(data)}")
    *numbers, retry, dead_letters, flags = _LAYOUT.unpack(data)
    length, length_bytes, ttl, expires, limit, timeout, disconnected, retry_min, retry_max = numbers
    if flags >= _REQUEUE_IN_PLACE << 1:
        raise ValueError(f"rules with flags {flags:#x} are unknown here")
    return Rules(
        max_length=_optional(length),
        max_length_bytes=_optional(length_bytes),
        message_ttl_ms=_optional(ttl),
        expires_ms=_optional(expires),
        delivery_limit=_optional(limit),
        consumer_timeout_ms=_optional(timeout),
        disconnected_timeout_ms=disconnected,
        retry=Retry(retry),
        retry_min_ms=retry_min,
        retry_max_ms=_optional(retry_max),
        dead_letters=DeadLetters(dead_letters),
        reject_publish=bool(flags & _REJECT_PUBLISH),
        single_active=bool(flags & _SINGLE_ACTIVE),
        requeue_in_place=bool(flags & _REQUEUE_IN_PLACE),
    )


def _number(value: int | None) -> int:
    return _NOT_SET if value is None else value


def _optional(value: int) -> int | None:
    return None if value == _NOT_SET else value
