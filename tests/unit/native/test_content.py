"""native/content.py: what was put in comes out, and damage is said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.native.both import forms

FORMS = forms("content", "encode", "skip", "take", "messages", "body_bytes", "count")

batches = st.lists(st.tuples(st.binary(max_size=12), st.binary(max_size=12)), max_size=8)


@pytest.mark.parametrize("form", FORMS)
class TestContent:
    @given(batches, st.integers(0, 8))
    def test_what_was_put_in_comes_out(self, form: Any, batch: list[tuple[bytes, bytes]], first: int) -> None:
        content = b"".join(form.encode(props, memoryview(body)) for props, body in batch)
        first = min(first, len(batch))
        left = len(batch) - first
        position = form.skip(content, 0, first)
        assert form.count(content) == len(batch)
        assert form.messages(content, 0, len(batch)) == batch
        assert form.messages(bytearray(content), position, left) == batch[first:]
        assert form.skip(content, position, left) == len(content)
        assert form.body_bytes(content, position, left) == sum(len(body) for _, body in batch[first:])

    @given(batches, st.integers(0, 9), st.integers(0, 60))
    def test_take_stops_at_the_first_limit(
        self, form: Any, batch: list[tuple[bytes, bytes]], count_max: int, bytes_max: int
    ) -> None:
        content = b"".join(form.encode(*message) for message in batch)
        taken, position, taken_bytes = form.take(content, 0, count_max, bytes_max)
        assert taken <= count_max
        assert position == form.skip(content, 0, taken)
        assert taken_bytes == form.body_bytes(content, 0, taken)
        assert taken_bytes <= bytes_max or taken == 1
        if taken < min(count_max, len(batch)):
            assert taken >= 1
            assert taken_bytes + len(batch[taken][1]) > bytes_max

    def test_the_bytes_are_as_drawn(self, form: Any) -> None:
        assert form.encode(b"pp", b"bbb") == b"\2\0\0\0\3\0\0\0ppbbb"

    def test_every_cut_is_damage(self, form: Any) -> None:
        content = form.encode(b"\x80\0\1a", b"hello") + form.encode(b"\0\0", b"")
        whole = (0, form.skip(content, 0, 1), len(content))
        for length in range(len(content)):
            if length in whole:
                continue
            for ask in (form.count, lambda cut: form.messages(cut, 0, 2), lambda cut: form.take(cut, 0, 9, 99)):
                with pytest.raises(ValueError, match="damaged content"):
                    ask(content[:length])

    @pytest.mark.parametrize("position", [-1, 1, 3, 2**62])
    def test_a_position_where_no_message_starts(self, form: Any, position: int) -> None:
        content = b"\1\0\0\0\1\0\0\0ab"
        for ask in (form.skip, form.body_bytes, form.messages):
            with pytest.raises(ValueError, match="damaged content"):
                ask(content, position, 1)

    def test_lengths_that_would_overflow_are_damage(self, form: Any) -> None:
        with pytest.raises(ValueError, match="4294967295"):
            form.count(b"\xff" * 40)


@given(st.binary(max_size=60), st.integers(-2, 60), st.integers(-1, 5))
def test_both_forms_agree_on_garbage(garbage: bytes, position: int, count: int) -> None:
    def answers(form: Any) -> list[object]:
        found: list[object] = []
        for ask in (
            lambda: form.count(garbage),
            lambda: form.messages(garbage, position, count),
            lambda: form.skip(garbage, position, count),
            lambda: form.take(garbage, position, count, 20),
        ):
            try:
                found.append(ask())
            except ValueError as error:
                found.append(str(error))
        return found

    all_answers = [answers(form.values[0]) for form in FORMS]
    assert all(answer == all_answers[0] for answer in all_answers)
