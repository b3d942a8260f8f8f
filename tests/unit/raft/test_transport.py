"""Letters: whatever the bytes are, they are read as what was written or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.core.errors import BadBytes
from raft.core.messages import Append, AppendReply, Entry, EntryKind, Message, TransferNow, member_id
from raft.transport import (
    JOINED_BYTES_MAX,
    LETTER_BYTES,
    Letter,
    Sign,
    decode,
    encode_batches,
    encode_sign,
    joined,
    letter_bytes,
    letters_of,
)

ME, OTHER = member_id(1, 0), member_id(2, 0)


def append_of(size: int) -> Append:
    return Append(OTHER, ME, 1, 0, 0, 0, (Entry(1, 1, EntryKind.COMMAND, bytes(size)),))


def read(letter: Letter) -> list[tuple[int, list[object]]]:
    content = decode(joined(letter))
    assert not isinstance(content, Sign)
    return [(group, list(messages)) for group, messages in content]


@pytest.mark.parametrize("is_pong", [False, True])
def test_a_sign_is_read_as_it_was_written(is_pong: bool) -> None:
    sign = Sign(is_pong, 2**64 - 1, 7, 0)
    assert decode(encode_sign(sign)) == sign


def test_messages_of_many_groups_travel_in_one_letter() -> None:
    groups = [(group, [TransferNow(OTHER, ME, group), append_of(10)]) for group in range(1, 6)]
    (letter,) = encode_batches(groups)
    assert read(letter) == groups


def test_a_full_letter_is_followed_by_another_and_a_large_message_has_one_of_its_own() -> None:
    groups = [
        (1, [append_of(LETTER_BYTES // 2)]),
        (2, [append_of(LETTER_BYTES // 2)]),
        (3, [append_of(2 * LETTER_BYTES)]),
    ]
    letters = list(encode_batches(groups))
    assert [read(letter) for letter in letters] == [[one] for one in groups]


def test_letters_behind_a_full_one_are_filled_as_it_was() -> None:
    groups = [(group, [append_of(LETTER_BYTES * 2 // 5)]) for group in range(1, 7)]
    assert [read(letter) for letter in encode_batches(groups)] == [groups[:2], groups[2:4], groups[4:]]


@pytest.mark.parametrize("size", [10, JOINED_BYTES_MAX // 2, JOINED_BYTES_MAX, 3 * LETTER_BYTES])
def test_only_a_large_letter_is_in_pieces_and_its_entries_are_not_copied_into_it(size: int) -> None:
    message = append_of(size)
    (letter,) = encode_batches([(1, [message])])
    assert isinstance(letter, list) == (size >= JOINED_BYTES_MAX)
    assert letter_bytes(letter) == len(joined(letter))
    assert read(letter) == [(1, [message])]
    if isinstance(letter, list):
        assert any(part is message.entries[0].data for part in letter)


REPLY, NOW = AppendReply(OTHER, ME, 1, True, 1, 1), TransferNow(OTHER, ME, 1)
TWO = Append(OTHER, ME, 1, 0, 0, 0, tuple(Entry(index, 1, EntryKind.COMMAND, b"x") for index in (1, 2)))
NOTHING = Append(OTHER, ME, 1, 0, 0, 0, ())


@pytest.mark.parametrize(
    "groups",
    [
        {7: [REPLY]},
        {7: [append_of(10)]},
        {7: [NOW]},
        {7: [TWO]},
        {7: [NOTHING]},
        {7: [REPLY, append_of(10)]},
        {7: [REPLY], 8: [append_of(10)]},
        {7: [append_of(2 * LETTER_BYTES)]},
        {},
    ],
)
def test_whatever_is_said_to_one_node_has_the_bytes_of_batches(groups: dict[int, list[Message]]) -> None:
    """A message alone is written by other steps."""
    assert [joined(letter) for letter in letters_of(groups)] == [joined(one) for one in encode_batches(groups.items())]
    assert [one for letter in letters_of(groups) for one in read(letter)] == list(groups.items())


def test_nothing_to_send_is_no_letter() -> None:
    assert list(encode_batches([])) == []


@pytest.mark.parametrize(
    "letter", [b"", b"\x00", b"\x04", b"\x02", b"\x03" + bytes(23), b"\x02" + bytes(25), b"\x09" + bytes(24)]
)
def test_what_is_no_letter_is_refused(letter: bytes) -> None:
    with pytest.raises(BadBytes):
        decode(letter)


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_refused(data: bytes) -> None:
    for kind in (b"", b"\x01", b"\x02", b"\x03"):
        try:
            content = decode(kind + data)
            if not isinstance(content, Sign):
                list(content)
        except BadBytes:
            pass
