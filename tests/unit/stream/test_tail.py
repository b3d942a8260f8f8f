"""Chunks that a leader seals before it knows what becomes of the ones before: where they go, and when it has to look again."""

from __future__ import annotations

import pytest

from raft.core.errors import BadBytes
from replicated.peer_letters import RefusedProposal
from stream.chunks.chunk import SubBatch, message_item, sub_batch_item
from stream.chunks.entries import ChunkEntry, NamesForgotten, StoredOffsets, WriterPosition, decode
from stream.chunks.publish_ops import NamedPart, Publishing, check_publishing, publish_head, read_publishing
from stream.chunks.published_parts import PublishedPart
from stream.chunks.store_ops import Storing
from stream.group import tail as tail_of_stream
from stream.group.machine import StreamMachine, Written
from stream.group.tail import NAMES_KEPT_MS, StreamTail
from wire.stream.publish_frame import pack_ids

SEGMENT = 1 << 20
BATCH = sub_batch_item(SubBatch(0, 2, 16, message_item(b"body") * 2))


def said(sequence: int, count: int = 1, *, node: int = 1, life: int = 1) -> Publishing:
    return Publishing(WriterPosition(node, life, sequence), count, count, (message_item(b"body") * count,))


def sealed(tail: StreamTail, *publishings: Publishing, now: int = 0, segment: int = SEGMENT) -> list[bytes]:
    found = [tail.seal(one, now, segment) for one in publishings]
    assert None not in found
    return [one for one in found if one is not None]


def test_what_is_sealed_ahead_follows_on_itself() -> None:
    machine = StreamMachine()
    entries = sealed(StreamTail(machine, 3), said(2, 2), said(3), said(4, 4, node=2), said(5, 2))
    assert [machine.apply(index, entry) for index, entry in enumerate(entries, 1)] == [Written.DONE] * 4
    assert machine.state.next_offset == 9
    first = decode(entries[0])
    assert isinstance(first, ChunkEntry) and first.header.term == 3


def test_what_its_node_said_before_must_be_there() -> None:
    tail = StreamTail(StreamMachine(), 1)
    assert tail.seal(said(2), 0, SEGMENT) is None
    sealed(tail, said(1))
    assert tail.seal(said(3), 0, SEGMENT) is None
    assert tail.seal(said(3, life=2), 0, SEGMENT) is None
    sealed(tail, said(3, 2), said(1, life=2))


def test_what_is_said_again_takes_no_place() -> None:
    machine = StreamMachine()
    entries = sealed(StreamTail(machine, 1), said(2, 2), said(2, 2), said(3))
    written = [machine.apply(index, entry) for index, entry in enumerate(entries, 1)]
    assert written == [Written.DONE, Written.KNOWN, Written.DONE]


def test_behind_an_entry_that_was_lost_nothing_counts_until_the_tail_is_found_again() -> None:
    machine = StreamMachine()
    tail = StreamTail(machine, 1)
    lost, *entries = sealed(tail, said(2, 2), said(3), said(2, 2), said(1, node=2))
    assert [machine.apply(index, entry) for index, entry in enumerate(entries, 1)] == [Written.OUT_OF_PLACE] * 3
    again = sealed(StreamTail(machine, 1), said(2, 2), said(3))
    assert [machine.apply(index, entry) for index, entry in enumerate(again, 4)] == [Written.DONE] * 2
    assert lost != again[0] or machine.state.next_offset == 3


def test_time_never_goes_back() -> None:
    machine = StreamMachine()
    tail = StreamTail(machine, 1)
    entries = sealed(tail, said(1), now=50) + sealed(tail, said(2), now=20)
    assert [machine.apply(index, entry) for index, entry in enumerate(entries, 1)] == [Written.DONE] * 2
    assert sealed(StreamTail(machine, 2), said(3), now=10) and machine.state.time_ms == 50


@pytest.mark.parametrize("before", ["nothing new", "stored offsets", "forgotten names"])
def test_no_chunk_is_older_than_an_entry_without_one(before: str) -> None:
    """Every member found it out of place."""
    machine = StreamMachine()
    tail = StreamTail(machine, 1)
    entries: list[bytes | None] = [*sealed(tail, named_said(1)), tail.seal_stored([Storing("r", 0)], 0)]
    late = NAMES_KEPT_MS + 50
    if before == "nothing new":
        entries += sealed(tail, named_said(2), now=late)
    elif before == "stored offsets":
        entries.append(tail.seal_stored([Storing("r", 0)], late))
    else:
        entries.append(tail.seal_forgotten(late, 1))
    entries += sealed(tail, said(3 if before == "nothing new" else 2), now=20)
    assert None not in entries
    written = [machine.apply(index, entry) for index, entry in enumerate(entries, 1) if entry is not None]
    assert written == [Written.DONE] * 4
    assert machine.state.time_ms == late


def named_said(sequence: int) -> Publishing:
    """With the same id each time."""
    part = NamedPart("p", 1, 1, pack_ids([7]), message_item(b"body"))
    return said(sequence)._replace(parts=[part])


def test_names_are_forgotten_once_and_offsets_only_when_their_message_is_gone() -> None:
    tail = StreamTail(StreamMachine(), 1)
    tail.seal_stored([Storing("gone", 4), Storing("there", 5)], 0)
    forgotten = decode(tail.seal_forgotten(NAMES_KEPT_MS + 1, 5) or b"")
    assert isinstance(forgotten, NamesForgotten) and forgotten.references == ("gone",)
    assert tail.seal_forgotten(NAMES_KEPT_MS + 2, 5) is None
    again = decode(tail.seal_stored([Storing("gone", 1, again=True)], NAMES_KEPT_MS + 3))
    assert isinstance(again, StoredOffsets) and tuple(again.offsets) == (("gone", 1),)


def test_a_segment_of_small_chunks_ends_after_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_of_stream, "SEGMENT_CHUNKS_MAX", 3)
    entries = sealed(StreamTail(StreamMachine(), 1), *(said(number) for number in range(1, 8)))
    assert [decode(entry).ends_segment for entry in entries] == [False, False, True] * 2 + [False]


def test_a_segment_ends_with_the_chunk_that_fills_it_also_for_the_next_leader() -> None:
    machine = StreamMachine()
    tail = StreamTail(machine, 1)
    size = 48 + len(said(1).data)
    entries = sealed(tail, *(said(number) for number in range(1, 5)), segment=3 * size)
    assert [decode(entry).ends_segment for entry in entries] == [False, False, True, False]
    for index, entry in enumerate(entries, 1):
        machine.apply(index, entry)
    later = sealed(StreamTail(machine, 2), said(5), said(6), segment=3 * size)
    assert [decode(entry).ends_segment for entry in later] == [False, True]


def test_a_leader_that_begins_behind_the_end_of_a_segment_fills_the_next_one() -> None:
    """It made one of a single chunk."""
    machine = StreamMachine()
    size = 48 + len(said(1).data)
    for index, entry in enumerate(sealed(StreamTail(machine, 1), said(1), said(2), segment=2 * size), 1):
        machine.apply(index, entry)
    later = sealed(StreamTail(machine, 2), said(3), said(4), segment=2 * size)
    assert [decode(entry).ends_segment for entry in later] == [False, True]


def letter(one: Publishing) -> bytes:
    parts = [
        PublishedPart(some.item_count, some.message_count, bytes(some.data), reference=some.name, ids=some.ids)
        for some in one.parts
    ]
    head = publish_head(one.writer, one.item_count, one.message_count, one.chunk_filter, parts)
    return b"head" + head + b"".join(one.data)


def test_what_another_node_publishes_is_looked_at_first() -> None:
    check_publishing(letter(said(7, 3)), 4, 1)
    check_publishing(letter(Publishing(WriterPosition(1, 1, 2), 1, 2, [BATCH])), 4, 1)
    check_publishing(letter(Publishing(WriterPosition(1, 1, 4), 2, 4, [BATCH, BATCH])), 4, 1)


@pytest.mark.parametrize(
    "bad",
    [
        Publishing(WriterPosition(2, 1, 1), 1, 1, [message_item(b"")]),  # another node's
        Publishing(WriterPosition(1, 1, 1), 0, 0, []),
        Publishing(WriterPosition(1, 1, 1), 2, 1, [message_item(b"") * 2]),
        Publishing(WriterPosition(1, 1, 1), 1, 2, [message_item(b"")]),
        Publishing(WriterPosition(1, 1, 2), 2, 2, [message_item(b"")]),
        Publishing(WriterPosition(1, 1, 1), 1, 1, [message_item(b"") + b"x"]),
        Publishing(WriterPosition(1, 1, 70_000), 70_000, 70_000, [message_item(b"") * 70_000]),
    ],
)
def test_what_would_do_harm_in_a_stream_is_refused(bad: Publishing) -> None:
    with pytest.raises(RefusedProposal):
        check_publishing(letter(bad), 4, 1)


def test_cut_off_or_of_another_kind_it_says_nothing() -> None:
    whole = letter(said(1))
    for size in range(4, len(whole)):
        with pytest.raises(RefusedProposal):
            check_publishing(whole[:size], 4, 1)
    with pytest.raises(BadBytes):
        read_publishing((b"\x02" + whole[5:],))
    items = message_item(b"body")
    assert read_publishing((whole[4 : -len(items)], items)) == read_publishing((whole[4:],)) == said(1)


def named(*parts: NamedPart) -> Publishing:
    items, messages = sum([part.item_count for part in parts]), sum([part.message_count for part in parts])
    data = (b"".join([bytes(part.data) for part in parts]),)
    return Publishing(WriterPosition(1, 1, messages), items, messages, data, b"", parts)


def part(name: str, *ids: int) -> NamedPart:
    return NamedPart(name, len(ids), len(ids), message_item(b"body") * len(ids), pack_ids(list(ids)) if name else b"")


def test_parts_of_publishers_with_names_are_read_back() -> None:
    said = named(part("orders", 3, 4, 9), part("", 0), part("ümläut", 2**64 - 1))
    check_publishing(letter(said), 4, 1)
    assert read_publishing((letter(said)[4:],)) == said
    size = sum([len(part.data) for part in said.parts])
    in_pieces = (letter(said)[4:-size], *(part.data for part in said.parts))
    assert read_publishing(in_pieces)._replace(data=said.data) == said
    with pytest.raises(BadBytes):
        read_publishing(in_pieces[:-1])


@pytest.mark.parametrize(
    "bad",
    [
        named(part("p", 4, 4)),  # ids do not ascend
        named(part("p", 1)._replace(ids=b"")),
        named(part("p", 1), part("", 1)._replace(ids=pack_ids([1]))),
        named(part("p", 1)._replace(message_count=2)),
        named(part("p"), part("p", 1)),  # no items
        named(part("p", 1, 2))._replace(item_count=1, message_count=1),
        named(part("p", 1))._replace(chunk_filter=b"short"),
        named(part("p", 1), NamedPart("p", 1, 2, BATCH, pack_ids([2]))),  # they never share a chunk
        named(NamedPart("p", 1, 2, BATCH, pack_ids([1])), part("p", 2)),
    ],
)
def test_parts_that_are_not_sound_are_refused(bad: Publishing) -> None:
    with pytest.raises(RefusedProposal):
        check_publishing(letter(bad), 4, 1)
