"""Messages say all that their bodies are: a byte that is another one is noticed."""

from __future__ import annotations

import pytest

from tests.crash.workload import SIZES, identity, payload


@pytest.mark.parametrize("size", sorted({1, *SIZES}))
def test_a_message_is_known_by_its_body(size: int) -> None:
    body = payload("one", 7, size)
    assert identity(body) == ("one", 7)
    assert len(body) == max(size, len(f"one:7:{size}:"))


@pytest.mark.parametrize("at", [0, 4, 60, -1])
def test_a_body_with_another_byte_is_a_failure(at: int) -> None:
    body = bytearray(payload("one", 7, 100))
    body[at] ^= 1
    with pytest.raises(AssertionError, match="not what was published"):
        identity(bytes(body))


@pytest.mark.parametrize("length", [99, 101])
def test_a_body_of_another_length_is_a_failure(length: int) -> None:
    body = payload("one", 7, 100)
    with pytest.raises(AssertionError, match="not what was published"):
        identity((body + b"o")[:length])
