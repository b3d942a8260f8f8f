"""native/crc32.py: a published value first, then that the compiled form is zlib's."""

from __future__ import annotations

import zlib
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native import compiled_twin
from tests.unit.native.both import forms

FORMS = forms("crc32", "crc32")
TWIN = compiled_twin("crc32")
if TWIN is not None:
    FORMS.append(pytest.param(SimpleNamespace(crc32=TWIN.crc32_by_instruction), id="compiled, by instruction"))


@pytest.mark.parametrize("form", FORMS)
class TestCrc32:
    def test_published_value(self, form: Any) -> None:
        assert form.crc32(b"123456789") == 0xCBF43926
        assert form.crc32(b"") == 0 and form.crc32(b"", 7) == 7

    @pytest.mark.parametrize("start", [0, 1, 7])
    def test_every_size_around_what_is_folded_at_a_time(self, form: Any, start: int) -> None:
        data = memoryview(Random(5).randbytes(400))[start:]
        for size in range(len(data) + 1):
            assert form.crc32(data[:size]) == zlib.crc32(data[:size]), size

    @pytest.mark.parametrize("size", [65_536, 1 << 20, (1 << 20) + 77])
    def test_a_large_buffer(self, form: Any, size: int) -> None:
        data = Random(size).randbytes(size)
        assert form.crc32(data) == zlib.crc32(data)
        assert form.crc32(bytes(size)) == zlib.crc32(bytes(size))
        assert form.crc32(b"\xff" * size, 2**32 - 1) == zlib.crc32(b"\xff" * size, 2**32 - 1)

    @given(st.binary(max_size=300), st.integers(0, 300), st.integers(0, 2**32 - 1))
    def test_a_sum_goes_on_where_the_last_one_stopped(self, form: Any, data: bytes, cut: int, value: int) -> None:
        whole = form.crc32(data, value)
        assert whole == zlib.crc32(data, value)
        assert form.crc32(data[cut:], form.crc32(data[:cut], value)) == whole

    @given(st.binary(max_size=200))
    def test_every_kind_of_buffer(self, form: Any, data: bytes) -> None:
        assert form.crc32(bytearray(data)) == form.crc32(memoryview(data)) == zlib.crc32(data)
