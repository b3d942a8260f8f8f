"""native/record_scan.py: whole records come back, everything else ends the scan for the right reason."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native.record_scan import CLEAN_END, DAMAGED, HEADER_SIZE, REACHED_END, TORN
from tests.unit.native.both import forms

FORMS = forms("record_scan", "scan", "seal")
PAYLOAD_MAX = 1 << 20

fields = st.tuples(
    st.integers(0, 255), st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)  # fmt: skip
written_records = st.lists(st.tuples(fields, st.lists(st.binary(max_size=20), max_size=3)), max_size=6)


def write(form: Any, records: Any) -> tuple[bytes, list[tuple[int, ...]]]:
    """The log of some records, and what a scan of it has to find."""
    log, expected = b"", []
    for (kind, flags, term, writer, index), parts in records:
        header = form.seal(parts, kind, flags, term, writer, index, 1)
        assert len(header) == HEADER_SIZE
        start = len(log) + HEADER_SIZE
        log += header + b"".join(parts)
        expected.append((kind, flags, term, writer, index, start, len(log)))
    return log, expected


def one_log(form: Any) -> tuple[bytes, list[tuple[int, ...]]]:
    return write(form, [((1, 2, 3, 4, 5), [b"hello"]), ((1, 0, 3, 4, 6), [b""]), ((2, 0, 3, 4, 7), [b"wor", b"ld"])])


@pytest.mark.parametrize("form", FORMS)
class TestScan:
    @given(written_records, st.binary(max_size=9))
    def test_what_was_sealed_is_found(self, form: Any, records: Any, before: bytes) -> None:
        log, expected = write(form, records)
        shifted = [(*record[:5], record[5] + len(before), record[6] + len(before)) for record in expected]
        found = form.scan(memoryview(before + log + b"more"), len(before), len(before) + len(log), PAYLOAD_MAX)
        assert found == (shifted, len(before) + len(log), REACHED_END)

    def test_the_header_is_as_drawn(self, form: Any) -> None:
        header = form.seal([b"ab", b"c"], 7, 0x0102, 3, 4, 5, 9)
        assert struct.unpack("<IIBBHIQQ", header)[1:] == (3, 7, 9, 0x0102, 3, 4, 5)

    @pytest.mark.parametrize("zeros", [1, 31, 32, 33, 500])
    def test_zeros_behind_the_last_record_are_a_clean_end(self, form: Any, zeros: int) -> None:
        log, expected = one_log(form)
        buffer = log + bytes(zeros)
        assert form.scan(buffer, 0, len(buffer), PAYLOAD_MAX) == (expected, len(log), CLEAN_END)

    def test_every_prefix_ends_at_the_last_whole_record(self, form: Any) -> None:
        log, expected = one_log(form)
        for length in range(len(log) + 1):
            whole = [record for record in expected if record[6] <= length]
            stop = whole[-1][6] if whole else 0
            reason = REACHED_END if stop == length else TORN
            assert form.scan(log, 0, length, PAYLOAD_MAX) == (whole, stop, reason)

    def test_no_flipped_bit_goes_unseen(self, form: Any) -> None:
        log, expected = one_log(form)
        for bit in range(len(log) * 8):
            damaged = bytearray(log)
            damaged[bit // 8] ^= 1 << bit % 8
            records, stop, reason = form.scan(damaged, 0, len(damaged), PAYLOAD_MAX)
            whole = [record for record in expected if record[6] <= bit // 8]
            assert records == whole
            assert stop == (whole[-1][6] if whole else 0)
            assert reason in (DAMAGED, TORN)

    def test_a_length_beyond_the_limit_is_damage_and_not_a_torn_tail(self, form: Any) -> None:
        log, _ = one_log(form)
        assert form.scan(log, 0, len(log), 4) == ([], 0, DAMAGED)
        assert form.scan(b"\xff" * 64, 0, 64, 2**32 - 2) == ([], 0, DAMAGED)
        assert form.scan(b"\xff" * 64, 0, 64, 2**32 - 1) == ([], 0, TORN)

    @pytest.mark.parametrize("span", [(-1, 3), (2, 1), (0, 11), (11, 11)])
    def test_a_span_outside_of_the_buffer_is_refused(self, form: Any, span: tuple[int, int]) -> None:
        with pytest.raises(ValueError, match="cannot scan from"):
            form.scan(bytes(10), *span, PAYLOAD_MAX)

    @pytest.mark.parametrize("field", range(6))
    def test_a_field_out_of_range_is_refused(self, form: Any, field: int) -> None:
        values = [0] * 6
        values[field] = 2**64
        with pytest.raises(OverflowError):
            form.seal([b""], *values)


@given(
    written_records, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4), st.binary(max_size=70)
)
@settings(deadline=None)
def test_both_forms_agree_on_damaged_logs(records: Any, changes: list[tuple[int, int]], tail: bytes) -> None:
    plain = FORMS[0].values[0]
    log = bytearray(write(plain, records)[0] + tail)
    for at, byte in changes:
        if at < len(log):
            log[at] = byte
    answers = [form.values[0].scan(log, 0, len(log), 1000) for form in FORMS]
    assert all(answer == answers[0] for answer in answers)
