"""CC, BCC and headers: keys are read, BCC goes, everything else stays byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.errors import MalformedTable, PreconditionFailed
from broker.routing.asked import Asked
from broker.routing.sender_selected import decoded, further_keys, raw_headers, without_header
from wire.amqp.tables import decode_properties, encode_properties, encode_table, join_properties, join_table


def test_keys_come_from_cc_then_bcc() -> None:
    assert further_keys(encode_table({"BCC": ["c"], "CC": ["a", "b"]})) == ["a", "b", "c"]


def test_what_is_no_text_among_the_keys_is_passed_over() -> None:
    assert further_keys(encode_table({"CC": [1, "a", None, {"b": 1}]})) == ["a"]


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"CC": "a"}, 'invalid message: {unacceptable_type_in_header,"CC",longstr}'),
        ({"BCC": 7}, 'invalid message: {unacceptable_type_in_header,"BCC",signedint}'),
        ({"CC": ["a"], "BCC": {}}, 'invalid message: {unacceptable_type_in_header,"BCC",table}'),
    ],
)
def test_anything_but_a_list_is_refused(headers: dict[str, Any], text: str) -> None:
    with pytest.raises(PreconditionFailed) as raised:
        further_keys(encode_table(headers))
    assert raised.value.text == text


UNREADABLE = join_table({"CC": b"A\x00\x00\x00\x01?"})  # framed well, but an array with a value of no known type


@pytest.mark.parametrize(
    "read",
    [
        lambda: further_keys(UNREADABLE),
        lambda: decoded(UNREADABLE),
        lambda: without_header(join_properties({"headers": UNREADABLE}), "BCC"),
        Asked(join_properties({"headers": UNREADABLE})),
        lambda: Asked(join_properties({"headers": UNREADABLE})).property_of("message_id"),
    ],
    ids=["keys", "headers", "taking one out", "headers of an exchange", "property of an exchange"],
)
def test_headers_that_nobody_can_read_are_refused_in_the_words_of_the_broker(read: Callable[[], Any]) -> None:
    with pytest.raises(MalformedTable, match="malformed table: unknown type '\\?'"):
        read()


def test_a_header_is_taken_out_and_the_rest_stays() -> None:
    props = encode_properties({"content_type": "t", "headers": {"CC": ["x"], "BCC": ["y"], "k": 1}, "app_id": "me"})
    left = without_header(props, "BCC")
    assert decode_properties(left) == {"content_type": "t", "headers": {"CC": ["x"], "k": 1}, "app_id": "me"}
    assert without_header(left, "BCC") is left


def test_properties_without_headers_have_none() -> None:
    props = encode_properties({"type": "t"})
    assert raw_headers(props) is None
    assert decoded(None) is None
    assert without_header(props, "BCC") is props
