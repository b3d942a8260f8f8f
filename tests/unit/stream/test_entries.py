"""Entries of a stream's log: each kind comes back as it was, from its head alone too, and anything else is refused."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stream.chunks.entries as entries_module
from raft.core.errors import BadBytes
from stream.chunks.bloom import make_filter
from stream.chunks.chunk import message_item, seal_chunk
from stream.chunks.entries import (
    AllKnown,
    ChunkEntry,
    LogEntry,
    NamesForgotten,
    RetentionCut,
    StoredOffsets,
    WriterPosition,
    decode,
    encode,
    encode_chunk,
    read_prefix,
)

FILTER = make_filter([b"eu"], False, 16)
DATA = message_item(b"one") + message_item(b"two")
HEADER = seal_chunk([DATA], 2, 2, 1_000, 3, 50)
WHOLE = ChunkEntry(
    HEADER + DATA, FILTER, (("orders", 9), ("ümläut", 2**64 - 1)), (WriterPosition(1, 2, 3), WriterPosition(4, 5, 6))
)

names = st.text(max_size=60)
u64 = st.integers(0, 2**64 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
numbered = st.lists(st.tuples(names, u64), max_size=4).map(tuple)
writers = st.lists(st.builds(WriterPosition, st.integers(0, 2**32 - 1), u64, u64), max_size=4).map(tuple)
entries = st.one_of(
    st.builds(
        ChunkEntry,
        st.binary(max_size=40).map(lambda data: seal_chunk([data], 1, 1, 7, 1, 0) + data),
        st.binary(max_size=255),
        numbered,
        writers,
        st.booleans(),
        st.integers(0, 2**32 - 1),
    ),
    st.builds(StoredOffsets, i64, numbered, st.booleans()),
    st.builds(RetentionCut, i64, u64, st.booleans()),
    st.builds(
        AllKnown, i64, u64, st.integers(0, 2**32 - 1), st.builds(WriterPosition, st.integers(0, 2**32 - 1), u64, u64)
    ),
    st.builds(NamesForgotten, i64, st.lists(names).map(tuple), st.lists(names).map(tuple), st.booleans()),
)


def plain(entry: LogEntry) -> LogEntry:
    return entry._replace(chunk=bytes(entry.chunk)) if isinstance(entry, ChunkEntry) else entry


@given(entries)
def test_an_entry_is_read_back(entry: LogEntry) -> None:
    assert plain(decode(encode(entry))) == entry


@given(entries.filter(lambda entry: isinstance(entry, ChunkEntry)), st.booleans())
def test_what_is_read_and_written_at_once_is_as_if_field_by_field(entry: ChunkEntry, reduced: bool) -> None:
    if reduced:
        entry = entry._replace(chunk_filter=b"", publishers=(), writers=(WriterPosition(7, 8, 9),), known_messages=0)
    encoded = encode(entry)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entries_module, "_read_usual", lambda data: None)
        assert plain(decode(encoded)) == entry


def test_every_kind_is_among_those_that_are_tried() -> None:
    assert {type(entry) for entry in EXAMPLES} == set(get_args(LogEntry))


def test_the_bytes_of_each_kind_stay_as_they_are() -> None:
    """Logs are read for ever: what changes here needs a new version."""
    assert encode(RetentionCut(258, 3, True)).hex() == "0301010018000000" + "0201000000000000" + "0300000000000000"
    assert encode(StoredOffsets(1, (("ab", 5),))).hex() == (
        "020100001f000000" + "0100000000000000" + "01000000" + "026162" + "0500000000000000"
    )
    assert encode(NamesForgotten(1, ("a",), ())).hex() == (
        "040100001a000000" + "0100000000000000" + "01000000" + "0161" + "00000000"
    )
    assert encode(AllKnown(1, 2, 3, WriterPosition(4, 5, 6), True)).hex() == (
        "0501010030000000"
        + "0100000000000000"
        + "0200000000000000"
        + "03000000"
        + "04000000"
        + "0500000000000000"
        + "0600000000000000"
    )
    assert (
        encode(WHOLE._replace(known_messages=7))[:8].hex()
        == "010102" + encode(WHOLE)[:8].hex()[6:8] + (len(encode(WHOLE)) - len(DATA) + 4).to_bytes(4, "little").hex()
    )
    usual = WHOLE._replace(chunk_filter=b"", publishers=(), writers=(WriterPosition(1, 2, 3),), ends_segment=True)
    assert encode(usual).hex() == (
        "0101010051000000" + "00" + "0000"
        + "0100" + "01000000" + "0200000000000000" + "0300000000000000" + HEADER.hex() + DATA.hex()
    )  # fmt: skip
    assert encode(WHOLE._replace(publishers=(("p", 7),), writers=(WriterPosition(1, 2, 3),))).hex() == (
        "010100006b000000" + "10" + FILTER.hex() + "0100" + "0170" + "0700000000000000"
        + "0100" + "01000000" + "0200000000000000" + "0300000000000000" + HEADER.hex() + DATA.hex()
    )  # fmt: skip


def test_the_head_of_a_chunk_says_all_but_its_data() -> None:
    encoded = encode(WHOLE)
    _, flags, head = read_prefix(encoded)
    assert encoded[head:] == DATA and flags == 0
    assert plain(decode(encoded[:head])) == WHOLE._replace(chunk=HEADER)
    found = decode(encoded[:head])
    assert isinstance(found, ChunkEntry) and found.chunk_filter == FILTER
    assert found.header.next_offset == 52


def test_data_may_gather_from_parts() -> None:
    encoded = encode_chunk(HEADER, [DATA[:3], memoryview(DATA)[3:]], FILTER, WHOLE.publishers, WHOLE.writers)
    assert encoded == encode(WHOLE)


EXAMPLES = [
    WHOLE,
    StoredOffsets(-1, (("a", 1), ("", 2)), True),
    RetentionCut(2**62, 9),
    NamesForgotten(0, ("p", "q"), ("r",)),
    AllKnown(1, 2, 3, WriterPosition(4, 5, 6)),
    WHOLE._replace(known_messages=7),
    WHOLE._replace(chunk_filter=b"", publishers=(), writers=(WriterPosition(1, 2, 3),)),
]


@pytest.mark.parametrize("entry", EXAMPLES, ids=lambda entry: type(entry).__name__)
def test_what_ends_too_early_or_too_late_is_refused(entry: LogEntry) -> None:
    encoded = encode(entry)
    whole_at = read_prefix(encoded)[2]
    for length in range(whole_at):
        with pytest.raises(BadBytes):
            decode(encoded[:length])
    if not isinstance(entry, ChunkEntry):
        with pytest.raises(BadBytes, match="left over"):
            decode(encoded + b"\0")


@pytest.mark.parametrize(
    "prefix", ["0001000008000000", "0601000008000000", "0501020008000000", "0302000008000000", "0301020008000000"]
)
def test_another_kind_version_or_flag_is_refused(prefix: str) -> None:
    with pytest.raises(BadBytes, match="not known here"):
        decode(bytes.fromhex(prefix))


@given(st.sampled_from(EXAMPLES), st.data())
def test_damaged_entries_are_entries_or_an_error(entry: LogEntry, data: st.DataObject) -> None:
    encoded = bytearray(encode(entry))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode(encoded)
    except BadBytes:
        return
    assert encode(found) == encoded
