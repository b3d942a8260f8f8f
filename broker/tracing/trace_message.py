"""How a traced message looks, as RabbitMQ's firehose has it: the body as it was, and headers that say what became of it.

    routing key      publish.EXCHANGE, deliver.QUEUE; cut to the 255 bytes of a routing key
    every message    exchange_name S, routing_keys A of S, properties F, node S, vhost S, connection S, channel I, user S
    published        routed_queues A of S
    delivered        redelivered I

In `properties` each property is a field of its own: texts as S, numbers as I, headers as they came.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.names import NAME_BYTES_MAX
from broker.routing.dead_letter import listed_keys, readable_headers
from wire.amqp.tables import encode_value, join_properties, join_table, split_properties

TRACE_EXCHANGE = "amq.rabbitmq.trace"
PUBLISHED, DELIVERED = "publish", "deliver"  # beginnings of routing keys
NUMBERS = frozenset({"delivery_mode", "priority", "timestamp"})  # properties that are no texts

_INT = struct.Struct(">ci")
_LENGTH = struct.Struct(">I")


@dataclass(slots=True, frozen=True)
class TracedClient:
    """On whose channel a message passed."""

    node: str
    vhost: str
    connection: str
    channel: int
    user: str

    def fields(self) -> dict[str, bytes]:
        words = {"node": self.node, "vhost": self.vhost, "connection": self.connection, "user": self.user}
        return {**{name: encode_value(word) for name, word in words.items()}, "channel": _int(self.channel)}


def trace_key(event: str, name: str) -> str:
    """`name`: of the exchange that a message was published to, or of the queue that it was delivered from."""
    key = f"{event}.{name}".encode("utf-8", "surrogateescape")[:NAME_BYTES_MAX]
    return key.decode("utf-8", "ignore")


def trace_properties(
    exchange: str, keys: Sequence[str], props: bytes, client: Mapping[str, bytes], event: Mapping[str, bytes]
) -> bytes:
    """Properties of the traced message. `client`: TracedClient.fields; `event`: what became of it."""
    fields = split_properties(props)
    headers = readable_headers(fields.get("headers"))
    listed = [key for name in ("CC", "BCC") for key in listed_keys(headers.get(name))]
    told = frozenset(keys)  # there may be very many
    all_keys = [*keys, *(key for key in listed if key not in told)]
    table = {
        **client,
        **event,
        "exchange_name": encode_value(exchange),
        "routing_keys": encode_value(all_keys),
        "properties": b"F" + join_table(_as_fields(fields, headers)),
    }
    return join_properties({"headers": join_table(dict(sorted(table.items())))})


def of_published(queues: Sequence[str]) -> dict[str, bytes]:
    return {"routed_queues": encode_value(list(queues))}


def of_delivered(redelivered: bool) -> dict[str, bytes]:
    return {"redelivered": _int(int(redelivered))}


def _int(value: int) -> bytes:
    return _INT.pack(b"I", value)


def _as_fields(properties: Mapping[str, bytes], headers: Mapping[str, bytes]) -> dict[str, bytes]:
    """Properties as values of a table. Headers that cannot be read are left out, or nobody could read the others."""
    fields = {name: _as_field(name, raw) for name, raw in properties.items() if name != "headers"}
    return {**fields, "headers": b"F" + join_table(headers)} if headers else fields


def _as_field(name: str, raw: bytes) -> bytes:
    if name in NUMBERS:
        number = int.from_bytes(raw)
        return _int(number) if number < 1 << 31 else b"l" + raw
    return b"S" + _LENGTH.pack(len(raw) - 1) + raw[1:]
