"""How paths name one binding of many between the same two things: its properties key.

    routing key alone        percent-encoded; ~ is %7E; the empty one is ~
    with arguments           the same, ~, and a hash of the arguments; the empty routing key is nothing

RabbitMQ's hash is of Erlang's own encoding of the arguments; clients take it as it is, and so ours may be another.
"""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import quote

import msgspec

from broker.json_values import to_json
from broker.records import Arguments, BindingRecord

HASH_BYTES = 6


def properties_key(record: BindingRecord) -> str:
    key = quote(record.routing_key, safe="", errors="surrogateescape").replace("~", "%7E")
    if not record.arguments:
        return key or "~"
    return f"{key}~{_hash(record.arguments)}"


def _hash(arguments: Arguments) -> str:
    raw = msgspec.json.encode(to_json(arguments), order="deterministic")
    return base64.urlsafe_b64encode(hashlib.sha256(raw).digest()[:HASH_BYTES]).rstrip(b"=").decode()
