"""What becomes of a message that its queue gives up: a new message with its history, and the queues it goes to.

The history is the header x-death (history.py). A message that would come back to a queue it has already died in is dropped,
unless somebody rejected it on the way round: then it is the consumers' loop, and theirs to end.

A history that does not fit a message any more ends it too (HistoryTooLong): it has died in hundreds of places, or its own
headers are as large as they may be, and without its history it could go round for ever.

Only the broker writes the history. A client that publishes a message with x-death (it took one from a queue and sends it
again, or lies) publishes it without: `without_history` is asked for every run with headers. So what a queue holds is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.messages.message import LOOK_HEADERS, PROPERTIES_BYTES_MAX, DiedIn, Run
from broker.queues.queue_type import DeadMessage, DeathReason
from broker.routing.asked import Asked
from broker.routing.history import HISTORY, History
from broker.routing.route import route_many
from broker.routing.sender_selected import without_header
from native.content import body_bytes, encode, messages, one
from wire.amqp.tables import (
    TableError,
    decode_value,
    encode_value,
    join_properties,
    join_table,
    split_properties,
    split_table,
)

if TYPE_CHECKING:
    from broker.catalog.catalog import Catalog
    from broker.catalog.policy import EffectiveArguments
    from broker.records import QueueRecord

_HISTORY_FIELD = bytes((len(HISTORY),)) + HISTORY.encode()  # as the name stands in a table
REASON_WORDS = {
    DeathReason.REJECTED: "rejected",
    DeathReason.EXPIRED: "expired",
    DeathReason.MAXLEN: "maxlen",
    DeathReason.DELIVERY_LIMIT: "delivery_limit",
}


class HistoryTooLong(Exception):
    """With what has become of the message, its properties would be larger than a frame to a client can carry."""


def without_history(run: Run) -> Run:
    """The run as it may be published: no message claims to have died before."""
    if _HISTORY_FIELD not in run.content:
        return run
    content = b"".join(
        [encode(without_header(props, HISTORY), body) for props, body in messages(run.content, 0, run.count)]
    )
    return run.with_content(content)


def dead_lettered(
    catalog: Catalog,
    source: QueueRecord,
    effective: EffectiveArguments,
    reason: DeathReason,
    message: DeadMessage,
    asks: Callable[[str, bytes | None], Asked],
    now: int,
) -> tuple[Run, list[str]]:
    """The message as it goes on, and the names of the queues that get it. `asks` makes what exchanges ask of it. Raises
    HistoryTooLong."""
    dead_letter_exchange = effective.dead_letter_exchange
    assert dead_letter_exchange is not None, f"queue {source.name!r} has no dead-letter exchange"
    exchange, routing_key, content, persistent, position = message
    props, body, _ = one(content, 0)
    fields = split_properties(props)
    headers = readable_headers(fields.get("headers"))
    keys = [routing_key, *listed_keys(headers.get("CC"))]
    expiration = fields.pop("expiration", None)
    history = _with_death(headers, source.name, REASON_WORDS[reason], exchange, keys, expiration, now)
    fields["headers"] = join_table(dict(sorted(headers.items())))
    if effective.dead_letter_routing_key is not None:
        keys = [effective.dead_letter_routing_key]
    properties = join_properties(fields)
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise HistoryTooLong(f"{len(properties)} bytes of properties, and at most {PROPERTIES_BYTES_MAX} fit")
    rewritten = encode(properties, body)
    run = Run(
        dead_letter_exchange,
        keys[0],
        rewritten,
        1,
        body_bytes(rewritten, 0, 1),
        persistent,
        priority=fields["priority"][0] if "priority" in fields else 0,
        look=LOOK_HEADERS,
        redelivered=history.was_delivered(),
        died_in=None if position is None else DiedIn(source.id, position, reason),
    )
    found = route_many(catalog, source.vhost, dead_letter_exchange, keys, asks(source.vhost, properties))
    return run, [name for name in found if not history.is_idle_cycle(name)]


def readable_headers(raw: bytes | None) -> dict[str, bytes]:
    """The headers, values as they came. What a protocol let pass and nobody can read is left behind, not the message."""
    if raw is None:
        return {}
    try:
        return split_table(raw, trusted=HISTORY)
    except TableError:
        return {}


def listed_keys(raw: bytes | None) -> Iterable[str]:
    """Of the header CC or BCC."""
    value = decode_value(raw)[0] if raw is not None else None
    return [key for key in value if isinstance(key, str)] if isinstance(value, list) else []


def _with_death(
    headers: dict[str, bytes],
    queue: str,
    reason: str,
    exchange: str,
    keys: list[str],
    expiration: bytes | None,
    now: int,
) -> History:
    """Add one death to the headers; returns the whole history."""
    before = History(headers.get(HISTORY))
    words = {"exchange": exchange, "queue": queue, "reason": reason}
    if not before:
        headers |= {f"x-first-death-{name}": encode_value(word) for name, word in words.items()}
    headers |= {f"x-last-death-{name}": encode_value(word) for name, word in words.items()}
    original = None if expiration is None else expiration[1:].decode("utf-8", "replace")
    history = before.with_death(queue, reason, exchange, keys, original, now)
    headers[HISTORY] = history.header
    return history
