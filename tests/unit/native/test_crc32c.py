"""native/crc32c.py: published values first, then that all forms agree."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native import compiled_twin
from native.crc32c import crc32c_plain
from tests.unit.native.both import forms

FORMS = forms("crc32c", "crc32c")
TWIN = compiled_twin("crc32c")
if TWIN is not None:
    FORMS.append(pytest.param(SimpleNamespace(crc32c=TWIN.crc32c_without_instruction), id="compiled, by tables"))


@pytest.mark.parametrize("form", FORMS)
class TestCrc32c:
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b"", 0),
            (b"123456789", 0xE3069283),
            (bytes(32), 0x8A9136AA),  # this and the next three: RFC 3720, B.4
            (b"\xff" * 32, 0x62A8AB43),
            (bytes(range(32)), 0x46DD794E),
            (bytes(range(31, -1, -1)), 0x113FDB5C),
        ],
    )
    def test_published_values(self, form: Any, data: bytes, expected: int) -> None:
        assert form.crc32c(data) == expected

    @given(st.binary(max_size=200), st.integers(0, 200))
    def test_a_sum_goes_on_where_the_last_one_stopped(self, form: Any, data: bytes, cut: int) -> None:
        assert form.crc32c(data[cut:], form.crc32c(data[:cut])) == form.crc32c(data) == crc32c_plain(data)

    @given(st.binary(max_size=100), st.integers(0, 9))
    def test_every_kind_of_buffer_and_alignment(self, form: Any, data: bytes, cut: int) -> None:
        expected = crc32c_plain(data[cut:])
        assert form.crc32c(memoryview(bytearray(data))[cut:]) == expected
        assert form.crc32c(bytearray(data[cut:])) == expected

    def test_a_large_buffer(self, form: Any) -> None:
        data = bytes(range(256)) * 300
        assert form.crc32c(data) == crc32c_plain(data)

    @pytest.mark.parametrize("size", [3071, 3072, 3073, 4096, 6143, 6144, 6151, 65_536])
    def test_blocks_that_are_summed_side_by_side(self, form: Any, size: int) -> None:
        data = Random(size).randbytes(size + 1)
        assert form.crc32c(data[1:]) == crc32c_plain(data[1:])
        assert form.crc32c(data[1:], form.crc32c(data[:1])) == crc32c_plain(data)

    @pytest.mark.parametrize("value", [-1, 2**32])
    def test_a_value_beyond_32_bits_is_refused(self, form: Any, value: int) -> None:
        with pytest.raises(OverflowError):
            form.crc32c(b"", value)
