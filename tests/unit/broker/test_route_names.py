"""Exchange and routing key come back as they were, and bytes that end too early are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.messages import route_names

NAMES = st.binary(max_size=255).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


@given(NAMES, NAMES, st.binary(max_size=5), st.binary(max_size=5))
def test_they_come_back_wherever_they_lie(exchange: str, routing_key: str, before: bytes, behind: bytes) -> None:
    encoded = route_names.encode(exchange, routing_key)
    assert route_names.split(encoded) == (exchange, routing_key)
    whole = before + encoded + behind
    for data in (whole, memoryview(whole)):
        assert route_names.read(data, len(before)) == (exchange, routing_key, len(before) + len(encoded))


@given(NAMES, NAMES)
def test_bytes_that_end_too_early_are_refused(exchange: str, routing_key: str) -> None:
    encoded = route_names.encode(exchange, routing_key)
    for end in range(len(encoded)):
        with pytest.raises((IndexError, ValueError)):
            route_names.read(encoded[:end], 0)


def test_the_bytes_are_those_of_the_files_that_there_are() -> None:
    assert route_names.encode("amq.topic", "a.b") == b"\x09amq.topic\x03a.b"
