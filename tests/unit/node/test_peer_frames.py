"""Frames and hellos, however they are cut up on their way."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.peers import frames as peer_frames
from node.peers.frames import (
    EXCHANGE,
    FIELDS_MAX,
    FIRST_READ_BYTES,
    HELLO_BYTES_MAX,
    READ_BYTES,
    REFUSAL_LENGTH_MAX,
    VERSION,
    VIEWED_BYTES_MIN,
    FrameReader,
    Hello,
    Refused,
    WrongChecksum,
    checked_frame,
    decode_hello,
    encode_hello,
    encode_refusal,
    expect_hello,
    framed,
)
from node.peers.socket import PeerSocket
from raft.core.errors import BadBytes
from storage.disk import Buffer

NAMES = st.text(min_size=1, max_size=10)
LIMIT = 64 << 20


def reader_of(limit: int, checked: bool) -> FrameReader:
    reader = FrameReader(limit)
    reader.checked = checked
    return reader


def read(reader: FrameReader, data: bytes, cuts: list[int]) -> list[bytes]:
    """What it gives when the data comes in reads of these sizes, the last one again and again."""
    found: list[bytes] = []
    at, reads = 0, 0
    while at < len(data):
        room = reader.get_buffer()
        assert len(room) > 0
        size = min(len(room), len(data) - at, cuts[min(reads, len(cuts) - 1)])
        room[:size] = data[at : at + size]
        found += map(bytes, reader.payloads(size))
        at, reads = at + size, reads + 1
    return found


@given(
    st.lists(st.binary(max_size=300), max_size=20),
    st.lists(st.integers(1, 200), min_size=1, max_size=20),
    st.booleans(),
)
def test_payloads_come_out_as_they_went_in_wherever_reads_cut_them(
    payloads: list[bytes], cuts: list[int], checked: bool
) -> None:
    data = b"".join(framed(payloads, checked=checked))
    assert read(reader_of(LIMIT, checked), data, cuts) == payloads


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("cut", [1_000, 65_536, READ_BYTES, READ_BYTES + 1, 10 << 20])
def test_payloads_longer_than_the_buffer_come_out_whole_between_short_ones(cut: int, checked: bool) -> None:
    sizes = [
        3,
        FIRST_READ_BYTES - 12,
        FIRST_READ_BYTES,
        READ_BYTES - 12,
        READ_BYTES - 4,
        0,
        READ_BYTES - 3,
        5,
        READ_BYTES,
    ]
    sizes += [1, 3 * READ_BYTES + 7, 2]
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    assert read(reader_of(LIMIT, checked), b"".join(framed(payloads, checked=checked)), [cut]) == payloads


def test_a_read_as_long_as_the_frame_that_it_completes_has_more_than_that() -> None:
    """It is not a frame alone, which is taken by other steps."""
    payloads = [b"first", b"other"]
    data = b"".join(framed(payloads, checked=True))
    frame = len(data) // 2
    for cut in range(1, frame):
        assert read(reader_of(LIMIT, checked=True), data, [cut, frame, frame]) == payloads


def test_a_part_of_a_long_payload_as_long_as_the_frame_before_it_is_no_frame() -> None:
    payloads = [b"short", bytes(3 * READ_BYTES)]
    short, data = len(checked_frame(payloads[0])), b"".join(framed(payloads, checked=True))
    assert read(reader_of(LIMIT, checked=True), data, [short + 100, short, READ_BYTES]) == payloads


def test_no_flipped_bit_of_a_frame_alone_comes_through() -> None:
    frame = checked_frame(b"payload")
    for bit in range(8 * len(frame)):
        flipped = (int.from_bytes(frame, "big") ^ 1 << bit).to_bytes(len(frame), "big")
        with pytest.raises(WrongChecksum):
            read(reader_of(LIMIT, checked=True), flipped, [len(frame)])


@given(st.lists(st.lists(st.binary(max_size=30), min_size=1, max_size=5), max_size=5), st.booleans())
def test_a_letter_in_pieces_is_framed_as_if_it_were_whole(letters: list[list[Buffer]], checked: bool) -> None:
    whole = [b"".join(letter) for letter in letters]
    assert b"".join(framed(letters, checked=checked)) == b"".join(framed(whole, checked=checked))


@pytest.mark.parametrize("payload", [b"", b"one letter", bytes(VIEWED_BYTES_MIN)])
def test_a_letter_alone_is_framed_as_among_others(payload: bytes) -> None:
    assert checked_frame(payload) == b"".join(framed([payload], checked=True))


@pytest.mark.parametrize("size", [VIEWED_BYTES_MIN - 1, VIEWED_BYTES_MIN, READ_BYTES + 1])
@pytest.mark.parametrize("checked", [False, True])
def test_only_large_checked_payloads_are_views_for_hellos_and_requests_are_kept(size: int, checked: bool) -> None:
    reader, data, kinds = reader_of(LIMIT, checked), b"".join(framed([bytes(size)], checked=checked)), []
    while data:
        room = reader.get_buffer()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        kinds += map(type, reader.payloads(count))
        data = data[count:]
    assert kinds == [memoryview if checked and size >= VIEWED_BYTES_MIN else bytes]


def test_whichever_bit_of_a_checked_frame_changes_it_is_noticed_before_anything_waits_for_more() -> None:
    """Also in the size: a reader that waited for as many bytes would hear nothing for long."""
    data = b"".join(framed([b"before", b"pay 100 EUR", b"behind"], checked=True))
    for bit in range(8 * len(data)):
        wrong = bytearray(data)
        wrong[bit // 8] ^= 1 << bit % 8
        found: list[bytes] = []
        reader = reader_of(LIMIT, checked=True)
        reader.get_buffer()[: len(wrong)] = wrong
        with pytest.raises(WrongChecksum, match="was changed on its way"):
            found.extend(reader.payloads(len(wrong)))
        assert found == [b"before", b"pay 100 EUR", b"behind"][: len(found)]


def test_a_long_checked_frame_is_checked_at_its_end() -> None:
    wrong = bytearray(b"".join(framed([bytes(3 * READ_BYTES)], checked=True)))
    wrong[-1] ^= 1
    with pytest.raises(
        WrongChecksum, match=f"a frame of {3 * READ_BYTES} bytes was changed on its way: its checksum is"
    ):
        read(reader_of(LIMIT, checked=True), bytes(wrong), [READ_BYTES])


def test_frames_may_be_checked_ones_from_the_next_one_on() -> None:
    data = b"".join([*framed([b"hello"]), *framed([b"letter", b"another"], checked=True)])
    reader = FrameReader(LIMIT)
    reader.get_buffer()[: len(data)] = data
    found = []
    for payload in reader.payloads(len(data)):
        found.append(payload)
        reader.checked = True
    assert found == [b"hello", b"letter", b"another"]


@given(st.binary(max_size=400), st.lists(st.integers(1, 50), min_size=1, max_size=10), st.integers(0, 100))
def test_random_bytes_are_frames_or_bad_and_no_more_than_the_limit_is_kept(
    data: bytes, cuts: list[int], limit: int
) -> None:
    reader = reader_of(limit, checked=False)
    try:
        payloads = read(reader, data, cuts)
    except BadBytes:
        return
    assert all(len(payload) <= limit for payload in payloads)
    assert len(reader.get_buffer()) <= limit + 4


def test_the_limit_may_rise_between_two_payloads_of_one_read() -> None:
    payloads = [b"hello", bytes(20)]
    data = b"".join(framed(payloads))
    reader = FrameReader(len(data))
    reader.get_buffer()[: len(data)] = data
    reader.frame_bytes_max = len(payloads[0])
    found = []
    for payload in reader.payloads(len(data)):
        found.append(payload)
        reader.frame_bytes_max = len(payloads[1])
    assert found == payloads


def test_the_limit_may_rise_in_the_midst_of_a_payload() -> None:
    data = b"".join(framed([bytes(range(256)) * 40]))
    reader = FrameReader(len(data))
    reader.frame_bytes_max = HELLO_BYTES_MAX
    room = reader.get_buffer()
    room[:3] = data[:3]
    assert list(reader.payloads(3)) == []
    reader.frame_bytes_max = LIMIT
    assert read(reader, data[3:], [READ_BYTES]) == [data[4:]]


def test_a_reader_has_no_more_room_than_its_frames_may_need() -> None:
    """A stranger's connection is one of thousands: with room for what nodes say it cost 256 KiB."""
    reader = FrameReader(HELLO_BYTES_MAX)
    assert len(reader.get_buffer()) == HELLO_BYTES_MAX + 4
    assert len(reader.get_buffer().obj) < HELLO_BYTES_MAX + 64
    reader.frame_bytes_max = LIMIT
    assert len(reader.get_buffer().obj) == FIRST_READ_BYTES


def test_the_room_grows_with_reads_that_fill_it_and_with_what_has_to_fit() -> None:
    """A link that carries little should not pay for what others carry: memory costs when it is touched."""
    reader, rooms = reader_of(LIMIT, checked=True), []
    for payload in (bytes(1_000), bytes(FIRST_READ_BYTES - 12), bytes(10), bytes(3 * FIRST_READ_BYTES), bytes(10)):
        assert read(reader, b"".join(framed([payload], checked=True)), [READ_BYTES]) == [payload]
        rooms.append(len(reader.get_buffer().obj))
    wanted = 3 * FIRST_READ_BYTES + 12
    assert rooms[:3] == [FIRST_READ_BYTES, 2 * FIRST_READ_BYTES, 2 * FIRST_READ_BYTES]
    assert rooms[3:] == [2 * wanted, 2 * wanted], "the last read filled it once more"
    read(reader, b"".join(framed([bytes(READ_BYTES)] * 3, checked=True)), [READ_BYTES])
    assert len(reader.get_buffer().obj) == READ_BYTES


def test_a_connection_that_ended_keeps_no_buffer() -> None:
    """Objects that refer to each other are collected rarely, and strangers may come and go by the thousand."""

    async def end() -> None:
        one = PeerSocket(lambda payload: None)
        one.accept_frames(LIMIT)
        assert len(one.get_buffer(-1).obj) == FIRST_READ_BYTES
        one.connection_lost(None)
        assert len(one.get_buffer(-1).obj) < 64

    asyncio.run(end())


class Ending:
    """A transport that is on its way to its end."""

    def __init__(self) -> None:
        self.is_closing, self.written, self.aborted = lambda: False, list[bytes](), 0
        self.write = self.written.append
        self.writelines = self.written.extend
        self.set_write_buffer_limits = self.get_extra_info = lambda _: None

    def abort(self) -> None:
        self.aborted += 1
        self.is_closing = lambda: True


def test_a_connection_that_is_given_up_keeps_its_first_reason_and_takes_nothing_more() -> None:
    async def end() -> None:
        never, one, transport = PeerSocket(lambda payload: None), PeerSocket(lambda payload: None), Ending()
        never.send([b"before there is a connection"])
        one.connection_made(transport)  # type: ignore[arg-type]
        one.send([b"taken"])
        assert len(transport.written) == 1
        one.abort(ValueError("the first reason"))
        one.abort(OSError("what came of it"))
        one.send([b"too late"])
        one.connection_lost(ConnectionResetError())
        assert (one.why(), len(transport.written)) == ("the first reason", 1)

    asyncio.run(end())


@given(st.dictionaries(NAMES, st.text(max_size=40), max_size=FIELDS_MAX))
def test_a_hello_comes_back_as_it_was(fields: dict[str, str]) -> None:
    assert decode_hello(encode_hello(EXCHANGE, fields.items())) == Hello(EXCHANGE, fields)


@given(st.binary(max_size=200))
def test_random_hellos_are_read_or_refused(data: bytes) -> None:
    for payload in (data, b"LVRT" + data, b"LVRT" + bytes((VERSION, EXCHANGE)) + data):
        try:
            hello = decode_hello(payload)
        except BadBytes:
            continue
        assert decode_hello(encode_hello(hello.kind, hello.fields.items())) == hello


@given(st.data())
def test_a_hello_that_is_cut_off_is_refused_or_has_fewer_fields(data: st.DataObject) -> None:
    whole = encode_hello(EXCHANGE, [("leveret-node", "1"), ("leveret-to", "2")])
    cut = data.draw(st.integers(0, len(whole) - 1))
    try:
        fields = decode_hello(whole[:cut]).fields
    except BadBytes:
        return
    assert len(fields) < 2


def test_a_field_that_comes_twice_and_one_too_many_are_refused() -> None:
    for fields in ([("a", "1"), ("a", "2")], [(f"field-{number}", "") for number in range(FIELDS_MAX + 1)]):
        with pytest.raises(BadBytes, match="twice or as one of too many"):
            decode_hello(encode_hello(EXCHANGE, fields))


def test_a_refusal_is_told_on_one_line_and_not_at_any_length() -> None:
    with pytest.raises(Refused, match="it refuses: go away") as refused:
        expect_hello(encode_refusal("go away\nFATAL \x1b[31m" + "!" * 10_000), EXCHANGE)
    assert str(refused.value).isprintable() and len(str(refused.value)) < REFUSAL_LENGTH_MAX + 50
    with pytest.raises(BadBytes, match="kind 1 instead of 2"):
        expect_hello(encode_hello(peer_frames.CHALLENGE, []), EXCHANGE)


def test_the_longest_refusal_fits_a_hello() -> None:
    assert len(encode_refusal("\U0001f407" * 10_000)) <= HELLO_BYTES_MAX
