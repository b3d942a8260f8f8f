"""Login responses, well-formed and not; what is wrong is said without saying what was sent."""

from __future__ import annotations

import pytest

from front.amqp import sasl
from front.sockets.plain_login import MalformedResponse
from wire.amqp.tables import encode_table


def test_plain() -> None:
    assert sasl.credentials("PLAIN", b"\x00ann\x00s\xffcret") == ("ann", b"s\xffcret")
    assert sasl.credentials("PLAIN", b"authorization\x00ann\x00") == ("ann", b"")


def test_amqplain() -> None:
    response = encode_table({"LOGIN": "ann", "PASSWORD": "secret"})[4:]
    assert sasl.credentials("AMQPLAIN", response) == ("ann", b"secret")
    binary = encode_table({"LOGIN": "ann", "PASSWORD": b"\xff\xfe"})[4:]
    assert sasl.credentials("AMQPLAIN", binary) == ("ann", b"\xff\xfe")


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"canary"),
        ("PLAIN", b"\x00canary"),
        ("PLAIN", b"\x00ann\x00canary\x00"),
        ("PLAIN", b"\x00\xffcanary\x00x"),
        ("AMQPLAIN", b"canary"),
        ("AMQPLAIN", encode_table({"LOGIN": "canary"})[4:]),
        ("AMQPLAIN", encode_table({"LOGIN": 5, "PASSWORD": "canary"})[4:]),
        ("PLAIN", b"\x00ann\x00" + b"canary" * 3000),
    ],
)
def test_malformed_responses_are_refused_and_not_repeated(mechanism: str, response: bytes) -> None:
    with pytest.raises(MalformedResponse) as refused:
        sasl.credentials(mechanism, response)
    assert "canary" not in str(refused.value)


def test_external_is_offered_to_certified_users_only() -> None:
    assert "EXTERNAL" not in sasl.mechanisms(None, None)
    assert "EXTERNAL" in sasl.mechanisms("ann", None)


def test_anonymous_is_offered_when_somebody_stands_for_everybody() -> None:
    assert sasl.mechanisms(None, None) == ["PLAIN", "AMQPLAIN"]
    assert sasl.mechanisms(None, sasl.Credentials("guest", b"guest")) == ["PLAIN", "AMQPLAIN", "ANONYMOUS"]
