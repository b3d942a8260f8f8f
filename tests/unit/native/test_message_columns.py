"""native/message_columns.py: messages of contents come back as rows, and lengths that lie give none."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native import content
from native.columns import Field, rows_of, values
from native.message_columns import MESSAGES, PROPERTIES
from tests.unit.native.both import forms
from wire.amqp.tables import Timestamp, decode_properties, encode_properties

FORMS = forms("message_columns", "messages", "properties", "gather")
BASE = 1_000
EVERYTHING = {
    "content_type": "text/plain", "content_encoding": "utf-8", "headers": {"x": 1, "deep": {"er": [1, None]}},
    "delivery_mode": 2, "priority": 3, "correlation_id": "c", "reply_to": "r", "expiration": "60", "message_id": "m",
    "timestamp": Timestamp(2**63 + 5), "type": "t", "user_id": "u", "app_id": "a", "cluster_id": "z",
}  # fmt: skip


def longs(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)


def laid(*pieces: bytes) -> tuple[bytes, bytes, bytes]:
    """A buffer with these pieces in it, where each lies, and how long it is."""
    at, places = BASE, []
    for piece in pieces:
        places.append(at)
        at += len(piece)
    return b"".join(pieces), longs(*places), longs(*map(len, pieces))


def run_of(messages: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(content.encode(props, body) for props, body in messages)


def contents(*runs: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes, bytes, bytes]:
    return *laid(*(run_of(run) for run in runs)), longs(*map(len, runs))


@pytest.mark.parametrize("form", FORMS)
class TestMessages:
    @given(
        st.lists(st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=9)), min_size=1, max_size=4), max_size=4)
    )
    def test_each_message_of_each_run_has_a_row(self, form: Any, runs: list[list[tuple[bytes, bytes]]]) -> None:
        buffer, at, size, count = contents(*runs)
        rows = rows_of(MESSAGES, form.messages(buffer, BASE, at, size, count))
        assert [(row["run"], row["nth"]) for row in rows] == [
            (run, nth) for run, messages in enumerate(runs) for nth in range(len(messages))
        ]

        def piece(start: int, length: int) -> bytes:
            return buffer[start - BASE : start - BASE + length]

        found = [(piece(row["props_at"], row["props_bytes"]), piece(row["body_at"], row["body_bytes"])) for row in rows]
        assert found == [message for run in runs for message in run]

    @pytest.mark.parametrize("claimed", [0, 1, 3, 2**31])
    def test_a_run_of_another_number_of_messages_gives_none_and_its_neighbours_all(
        self, form: Any, claimed: int
    ) -> None:
        run = [(b"", b"one"), (b"", b"two")]
        buffer, at, size, _ = contents(run, run, run)
        rows = rows_of(MESSAGES, form.messages(buffer, BASE, at, size, longs(2, claimed, 2)))
        assert [row["run"] for row in rows] == [0, 0, 2, 2]

    def test_what_is_not_in_the_buffer_is_refused(self, form: Any) -> None:
        buffer = bytes(10)
        for start, length in ((BASE - 1, 1), (BASE, 11), (BASE + 11, 0), (BASE, -1), (2**63 - 1, 2**63 - 1)):
            at, size = longs(start), longs(length)
            with pytest.raises(ValueError, match="are not in the 10 bytes"):
                form.messages(buffer, BASE, at, size, longs(1))
            with pytest.raises(ValueError, match="are not in the 10 bytes"):
                form.properties(buffer, BASE, at, size)
            with pytest.raises(ValueError, match="are not in the 10 bytes"):
                form.gather(buffer, BASE, at, size)

    def test_pieces_become_one_column(self, form: Any) -> None:
        pieces = [b"one", b"", b"three"]
        buffer, at, size = laid(*pieces)
        assert values(Field("pieces", 0), 3, form.gather(buffer, BASE, at, size)) == pieces


@pytest.mark.parametrize("form", FORMS)
class TestProperties:
    @given(st.sets(st.sampled_from(sorted(EVERYTHING))))
    def test_what_is_said_is_found_and_the_rest_is_null(self, form: Any, names: set[str]) -> None:
        said = {name: EVERYTHING[name] for name in names}
        buffer, at, size = laid(encode_properties(said))
        row = rows_of(PROPERTIES, form.properties(buffer, BASE, at, size))[0]
        headers = row.pop("headers")
        assert (headers is not None) == ("headers" in names)
        if headers is not None:
            listed = struct.pack(">HI", 1 << 13, len(headers)) + headers
            assert decode_properties(listed)["headers"] == EVERYTHING["headers"]
        timestamp = row.pop("timestamp")
        assert timestamp == (5 - 2**63 if "timestamp" in names else None)
        assert row == {name: said[name].encode() if name in said else None for name in row}  # type: ignore[attr-defined]

    @pytest.mark.parametrize("cut", range(1, 40))
    def test_a_list_that_is_cut_short_or_goes_on_gives_nulls(self, form: Any, cut: int) -> None:
        whole = encode_properties(EVERYTHING)
        buffer, at, size = laid(whole[: -cut or None], whole, whole + bytes(cut))
        broken, good, longer = rows_of(PROPERTIES, form.properties(buffer, BASE, at, size))
        assert set(broken.values()) == set(longer.values()) == {None}
        assert None not in good.values()

    @pytest.mark.parametrize("flags", [1, 2, 3])
    def test_flags_of_no_property_that_we_know_give_nulls(self, form: Any, flags: int) -> None:
        buffer, at, size = laid(struct.pack(">H", flags))
        assert set(rows_of(PROPERTIES, form.properties(buffer, BASE, at, size))[0].values()) == {None}


def test_both_forms_agree_on_bytes_at_random() -> None:
    chance = random.Random(5)
    whole = encode_properties(EVERYTHING)
    run = run_of([(whole, b"body"), (b"\0\0", b"")])
    for _ in range(2_000):
        buffer = bytearray(run)
        for _ in range(chance.randrange(1, 5)):
            buffer[chance.randrange(len(buffer))] = chance.choice((0, 1, 255, chance.randrange(256)))
        start = chance.randrange(len(run))
        at, size = longs(BASE, BASE + 8, BASE + start), longs(len(run), len(whole), len(run) - start)
        count = longs(2, 1, chance.randrange(4))
        answers = [
            [
                kernel.messages(buffer, BASE, at, size, count), kernel.properties(buffer, BASE, at, size),
                kernel.gather(buffer, BASE, at, size),
            ]
            for kernel in (form.values[0] for form in FORMS)
        ]  # fmt: skip
        assert all(answer == answers[0] for answer in answers)
