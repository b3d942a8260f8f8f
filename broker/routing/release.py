"""What becomes of a delayed message when its time has come: the message as it was published, routed by its exchange.

Its header x-delay is negative from here on (broker/exchanges/delayed_exchange.py), and the header BCC goes, as with any other
message that is routed. Its own time to live begins now: it counts in the queues that get the message.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.errors import PreconditionFailed
from broker.exchanges.delayed_exchange import DELAY, delay_ms_of
from broker.messages.expiration import expiration_ms
from broker.messages.message import LOOK_HEADERS, DiedIn, Run
from broker.names import delayed_exchange
from broker.queues.queue_type import DeadMessage, DeathReason
from broker.routing.asked import Asked
from broker.routing.dead_letter import listed_keys, readable_headers
from broker.routing.history import HISTORY, History
from broker.routing.route import route_many
from broker.routing.sender_selected import HEADERS_WITH_KEYS
from native.content import body_bytes, encode, one
from wire.amqp.tables import decode_value, encode_value, join_properties, join_table, split_properties

if TYPE_CHECKING:
    from broker.catalog.catalog import Catalog
    from broker.records import QueueRecord


def released(
    catalog: Catalog, holding: QueueRecord, message: DeadMessage, asks: Callable[[str, bytes | None], Asked]
) -> tuple[Run, list[str]]:
    """The message as it goes on, and the names of the queues that get it."""
    props, body, _ = one(message.content, 0)
    fields = split_properties(props)
    headers = readable_headers(fields.get("headers"))
    keys = [message.routing_key]
    for name in HEADERS_WITH_KEYS:
        keys += listed_keys(headers.get(name))
    headers.pop("BCC", None)
    if DELAY in headers:
        headers[DELAY] = _negative(headers[DELAY])
    fields["headers"] = join_table(headers)
    properties = join_properties(fields)
    content = encode(properties, body)
    exchange = delayed_exchange(holding.name)
    run = Run(
        exchange,
        message.routing_key,
        content,
        1,
        body_bytes(content, 0, 1),
        message.persistent,
        priority=fields["priority"][0] if "priority" in fields else 0,
        expiration_ms=_time_to_live(fields.get("expiration")),
        look=LOOK_HEADERS,
        redelivered=History(headers.get(HISTORY)).was_delivered(),
        died_in=None if message.position is None else DiedIn(holding.id, message.position, DeathReason.EXPIRED),
    )
    return run, route_many(catalog, holding.vhost, exchange, keys, asks(holding.vhost, properties))


def _negative(raw: bytes) -> bytes:
    value = decode_value(raw)[0]
    delay = delay_ms_of({DELAY: value})
    return raw if delay is None else encode_value(-delay)


def _time_to_live(raw: bytes | None) -> int | None:
    if raw is not None:
        with suppress(PreconditionFailed):  # it was checked when it was published
            return expiration_ms(raw[1:])
    return None
