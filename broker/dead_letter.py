"""What becomes of a message that its queue gives up: a new message with its history, and the queues it goes to.

The history is the header x-death: newest first, one entry for each queue and reason, with a count. A message that would
come back to a queue it has already died in is dropped, unless somebody rejected it on the way round: then it is the
consumers' loop, and theirs to end. What a client writes into x-death itself was removed when it published (rewriting starts
from what we wrote).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.message import LOOK_HEADERS, Run
from broker.queue_type import DeathReason
from broker.route import route_many
from broker.tables import Timestamp, decode_table, encode_table, join_properties, split_properties
from native.content import encode, one

if TYPE_CHECKING:
    from broker.catalog import Catalog
    from broker.policy import EffectiveArguments
    from broker.records import QueueRecord

_REASON_WORDS = {
    DeathReason.REJECTED: "rejected",
    DeathReason.EXPIRED: "expired",
    DeathReason.MAXLEN: "maxlen",
    DeathReason.DELIVERY_LIMIT: "delivery_limit",
}
# (exchange, routing key, content of one message, persistent)
DeadMessage = tuple[str, str, bytes, bool]


def dead_lettered(
    catalog: Catalog,
    source: QueueRecord,
    effective: EffectiveArguments,
    reason: DeathReason,
    message: DeadMessage,
    now: int,
) -> list[tuple[Run, str]]:
    """The message as it goes on, with the name of each queue that gets it."""
    exchange, routing_key, content, persistent = message
    props, body, _ = one(content, 0)
    fields = split_properties(props)
    headers = decode_table(fields["headers"])[0] if "headers" in fields else {}
    keys = [routing_key, *(key for key in headers.get("CC", []) if isinstance(key, str))]
    deaths = remembered(headers.get("x-death"))
    expiration = fields.pop("expiration", None)
    note_death(
        headers,
        deaths,
        source.name,
        _REASON_WORDS[reason],
        exchange,
        keys,
        expiration[1:].decode() if expiration else None,
        now,
    )
    fields["headers"] = encode_table(dict(sorted(headers.items())))
    if effective.dead_letter_routing_key is not None:
        keys = [effective.dead_letter_routing_key]
    assert effective.dead_letter_exchange is not None, f"queue {source.name!r} has no dead-letter exchange"
    rewritten = encode(join_properties(fields), body)
    run = Run(
        effective.dead_letter_exchange,
        keys[0],
        rewritten,
        1,
        len(body),
        persistent,
        look=LOOK_HEADERS,
        priority=fields["priority"][0] if "priority" in fields else 0,
    )
    targets = route_many(catalog, source.vhost, effective.dead_letter_exchange, keys, lambda: headers)
    return [(run, target) for target in targets if not is_idle_cycle(deaths, target)]


def remembered(value: Any) -> list[dict[str, Any]]:
    """The history so far, as far as it is one of ours."""
    if not isinstance(value, list):
        return []
    return [entry for entry in value if isinstance(entry, dict) and {"queue", "reason", "count"} <= entry.keys()]


def note_death(
    headers: dict[str, Any],
    deaths: list[dict[str, Any]],
    queue: str,
    reason: str,
    exchange: str,
    keys: list[str],
    expiration: str | None,
    now: int,
) -> None:
    """Add one death to the history and to the headers."""
    known = next((entry for entry in deaths if entry["queue"] == queue and entry["reason"] == reason), None)
    if known is not None:
        deaths.remove(known)
        known["count"] += 1
        deaths.insert(0, known)
    else:
        entry: dict[str, Any] = {} if expiration is None else {"original-expiration": expiration}
        entry |= {
            "count": 1,
            "reason": reason,
            "queue": queue,
            "time": Timestamp(now // 1000),
            "exchange": exchange,
            "routing-keys": list(keys),
        }
        deaths.insert(0, entry)
    headers["x-death"] = deaths
    for prefix in ("x-first-death", "x-last-death"):
        if prefix == "x-last-death" or f"{prefix}-queue" not in headers:
            headers[f"{prefix}-exchange"] = exchange
            headers[f"{prefix}-queue"] = queue
            headers[f"{prefix}-reason"] = reason


def is_idle_cycle(deaths: list[dict[str, Any]], target: str) -> bool:
    """Whether the message has been through the target already, and nobody rejected it since."""
    for entry in deaths:
        if entry["reason"] == "rejected":
            return False
        if entry["queue"] == target:
            return True
    return False
