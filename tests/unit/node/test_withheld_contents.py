"""What an export without bodies leaves of contents that are not those of messages: node/exporting/withheld_contents.py."""

from __future__ import annotations

from typing import Any

import pytest

from classic.store.log_records import encode_published
from native.content import one
from native.log_columns import FilePlace, records
from node.exporting.withheld_contents import WithheldContents
from storage.history.column_reader import ColumnPiece
from storage.record import HEADER_BYTES, PAYLOAD_BYTES_MAX, Kind, scan
from storage.record import encode as encode_record
from tests.unit.analytics.test_pursuit import message

SECRET = b"a secret that is no message"
BASE = 5_000


def withheld(*parts: list[Any], base: int = BASE) -> list[bytes]:
    """The payloads of these records, as they are exported."""
    buffer = b"".join(bytes(part) for record in parts for part in record)
    rows, columns, *_ = records(buffer, 0, len(buffer), PAYLOAD_BYTES_MAX, FilePlace(base))
    made = WithheldContents().of(ColumnPiece(base, buffer, (rows, columns)))
    found, stop, _ = scan(made, 0, len(made), PAYLOAD_BYTES_MAX)
    assert stop == len(buffer), "each record has a checksum that fits it"
    return [made[payload:end] for *_, payload, end in found]


def published(content: bytes, count: int = 1) -> list[Any]:
    head = encode_published([(7, 0)], 0, count, 10, None, "exchange", "key")
    return encode_record(Kind.CLASSIC_PUBLISH, 0, 1, [head, content])


@pytest.mark.parametrize(
    "content", [SECRET, message("m", SECRET) + b"x" + SECRET, message("m", SECRET)[:-1], b"\xff" * 8 + SECRET]
)
def test_a_content_that_is_not_that_of_messages_is_withheld_as_a_whole(content: bytes) -> None:
    """Behind another record, so that its place in the buffer is not 0."""
    settle = encode_record(Kind.CLASSIC_SETTLE, 0, 1, [bytes(8)])
    _, payload = withheld(settle, published(content))
    head = len(payload) - len(content)
    assert payload[head:] == bytes(len(content)) and b"exchange" in payload[:head]


def test_of_messages_properties_and_bodies_are_withheld_and_their_lengths_are_left() -> None:
    content = message("id", SECRET) + message("other", b"")
    _, payload = withheld(published(SECRET), published(content, 2))
    assert SECRET not in payload and b"id" not in payload
    properties, body = one(payload, len(payload) - len(content))[:2]
    assert (properties.strip(b"\0"), body) == (b"", bytes(len(SECRET)))
    assert len(payload) > HEADER_BYTES
