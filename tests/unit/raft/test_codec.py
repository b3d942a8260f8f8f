"""What members say survives the wire, and no bytes of a peer do anything but that or raise BadBytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raft.core import packs
from raft.core.codec import VERSION, decode_batch, decode_batches, encode_batch, encode_lone
from raft.core.errors import BadBytes
from raft.core.messages import (
    Append,
    AppendReply,
    Entry,
    EntryKind,
    EntryRun,
    LeaderCheck,
    LeaderLookup,
    MatchCheck,
    Membership,
    Message,
    NotLeading,
    Pack,
    Replaced,
    SnapshotChunk,
    SnapshotMeta,
    SnapshotReply,
    TransferDeclined,
    TransferNow,
    VoteReply,
    VoteRequest,
)
from storage.disk import Buffer

LENGTH_END = 5  # of the version and the length of a batch
U64 = st.integers(0, 2**64 - 1)
TERM = st.integers(0, 2**32 - 1)
HEAD = (U64, U64, TERM)


@st.composite
def memberships(draw: st.DrawFn) -> Membership:
    members = draw(st.lists(U64, unique=True, max_size=8))
    split = draw(st.integers(0, len(members)))
    learners = tuple(sorted(members[split:]))
    promotable = tuple(one for one in learners if draw(st.booleans()))
    return Membership(tuple(sorted(members[:split])), learners, promotable)


@st.composite
def appends(draw: st.DrawFn) -> Append:
    prev_index = draw(st.integers(0, 2**62))
    entries = draw(
        st.lists(st.tuples(st.sampled_from([1, 2, 7]), st.integers(0, 2), st.binary(max_size=9)), max_size=9)
    )
    numbered = tuple(Entry(prev_index + 1 + at, *rest) for at, rest in enumerate(entries))
    return Append(*draw(st.tuples(*HEAD)), prev_index, draw(TERM), draw(U64), numbered, draw(U64))


METAS = st.builds(SnapshotMeta, U64, TERM, memberships(), st.integers(0, 2**32 - 1))
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(VoteRequest, *HEAD, U64, TERM, st.booleans(), st.booleans()),
    st.builds(VoteReply, *HEAD, st.booleans(), st.booleans()),
    appends(),
    st.builds(AppendReply, *HEAD, st.booleans(), U64, U64, U64, TERM, U64),
    st.builds(SnapshotChunk, *HEAD, METAS, U64, st.binary(max_size=40), st.booleans()),
    st.builds(SnapshotReply, *HEAD, U64, U64, st.booleans()),
    st.builds(TransferNow, *HEAD),
    st.builds(TransferDeclined, *HEAD),
    st.builds(LeaderCheck, *HEAD),
    st.builds(LeaderLookup, *HEAD),
    st.builds(NotLeading, *HEAD),
    st.builds(MatchCheck, *HEAD, U64, TERM),
    st.builds(Replaced, *HEAD, U64),
)


@given(U64, st.lists(MESSAGES, max_size=5))
def test_what_is_said_is_what_is_heard(group: int, messages: list[Message]) -> None:
    assert decode_batch(encode_batch(group, messages)) == (group, messages)


def bytes_of(found: Iterable[Pack]) -> list[Pack]:
    """The packs, in one part each."""
    return [pack._replace(parts=(b"".join(pack.parts),)) for pack in found]


@given(appends())
def test_entries_come_with_the_packs_that_a_log_would_make_of_them(message: Append) -> None:
    (heard,) = decode_batch(encode_batch(1, [message]))[1]
    assert isinstance(heard, Append)
    assert bytes_of(packs.packs_of(heard.entries)) == bytes_of(packs.packed(message.entries))
    assert not heard.entries or isinstance(heard.entries, EntryRun), "nobody packs them again"


def test_a_large_entry_is_copied_once_out_of_its_letter_and_its_pack_shares_the_copy() -> None:
    data = bytes(range(256)) * 300
    small, large = Entry(5, 3, 0, b"small"), Entry(6, 3, 0, data)
    letter = memoryview(bytearray(encode_batch(1, [Append(1, 2, 3, 4, 3, 4, EntryRun((small, large)))])))
    (heard,) = decode_batch(letter)[1]
    assert isinstance(heard, Append) and isinstance(heard.entries, EntryRun)
    assert heard.entries == (small, large)
    first, second = packs.packs_of(heard.entries)
    letter[:] = bytes(len(letter))  # as what is read next overwrites it
    assert packs.decode(5, 3, 0, b"".join(first.parts)) == [small]
    assert second.parts[-1] is heard.entries[1].data
    assert packs.decode(6, 3, 0, b"".join(second.parts)) == [large]


def test_a_large_pack_of_several_entries_does_not_refer_to_its_letter() -> None:
    """No node makes one, but what arrives may be anything."""
    entries = [Entry(5, 3, 0, bytes(40_000)), Entry(6, 3, 0, b"6" * 40_000)]
    (pack,) = packs.packed(entries, bytes_max=100_000)
    run = EntryRun(entries)
    run.packs = [pack]
    letter = memoryview(bytearray(encode_batch(1, [Append(1, 2, 3, 4, 3, 4, run)])))
    (heard,) = decode_batch(letter)[1]
    letter[:] = bytes(len(letter))
    assert isinstance(heard, Append) and list(heard.entries) == entries
    assert bytes_of(packs.packs_of(heard.entries)) == bytes_of([pack])


def test_an_entry_alone_is_not_copied_into_its_pack() -> None:
    data = bytes(100_000)
    small, large, last = Entry(5, 3, 0, b"small"), Entry(6, 3, 0, data), Entry(7, 3, 0, b"last")
    found = list(packs.packed([small, large, last]))
    assert [pack.first for pack in found] == [5, 6, 7]
    assert found[1].parts[-1] is data
    assert all(pack.size == sum(map(len, pack.parts)) for pack in found)
    assert [packs.decode(one.first, 3, 0, b"".join(one.parts)) for one in found] == [[small], [large], [last]]


@given(st.lists(st.tuples(U64, st.lists(MESSAGES, max_size=2)), max_size=4))
def test_batches_may_follow_one_another(batches: list[tuple[int, list[Message]]]) -> None:
    joined = b"".join(encode_batch(*batch) for batch in batches)
    assert list(decode_batches(joined)) == batches


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_changed_bytes_are_messages_or_one_error(messages: list[Message], random: Random) -> None:
    data = bytearray(encode_batch(7, messages))
    for _ in range(20):
        twin = bytearray(data)
        for _ in range(random.randrange(1, 4)):
            twin[random.randrange(len(twin))] = random.choice((0, 1, 255, random.randrange(256)))
        cut = random.choice((len(twin), random.randrange(len(twin) + 1)))
        try:
            batches = list(decode_batches(bytes(twin[:cut]) + random.randbytes(random.choice((0, 0, 5)))))
        except BadBytes:
            continue
        for group, decoded in batches:
            assert decode_batch(encode_batch(group, decoded)) == (group, decoded)


def first_of(data: bytes) -> tuple[int, list[Message]] | None:
    """None: it cannot be read."""
    try:
        return next(iter(decode_batches(data)))
    except BadBytes:
        return None


ALONE = (
    AppendReply(1, 2, 3, True, 4, 5, 6, 7, 8),
    Append(1, 2, 3, 4, 3, 4, (Entry(5, 3, EntryKind.COMMAND, b"one"),), 9),
    Append(1, 2, 3, 4, 3, 4, (Entry(5, 2, EntryKind.NOOP, b""),)),
    Append(1, 2, 3, 4, 3, 4, ()),
    TransferNow(1, 2, 3),
)


def in_other_words(data: bytes) -> Iterator[bytes]:
    """Each byte behind the length as others: there another batch is to begin where this one ends."""
    for at in range(LENGTH_END, len(data)):
        for value in {0, 1, 2, 3, 4, 255, data[at] ^ 1, data[at] + 1 & 255}:
            yield data[:at] + bytes((value,)) + data[at + 1 :]


@pytest.mark.parametrize(
    "message", ALONE, ids=lambda message: f"{type(message).__name__} {len(encode_batch(7, [message]))}"
)
def test_a_batch_alone_is_read_as_before_another(message: Message) -> None:
    """Two kinds of message are read by other steps where nothing follows them."""
    data, behind = encode_batch(7, [message]), encode_batch(8, [TransferNow(1, 2, 3)])
    for changed in (data, *in_other_words(data)):
        assert first_of(changed) == first_of(changed + behind), changed.hex()


@pytest.mark.parametrize("message", ALONE)
def test_a_message_alone_has_the_bytes_that_a_batch_of_it_has(message: Message) -> None:
    lone = encode_lone(7, message)
    is_written_so = type(message) is AppendReply or (type(message) is Append and len(message.entries) == 1)
    assert (lone is not None) == is_written_so
    if lone is not None:
        assert b"".join(lone) == encode_batch(7, [message])


def test_a_large_entry_alone_is_left_to_the_steps_that_do_not_copy_it() -> None:
    entry = Entry(5, 3, EntryKind.COMMAND, bytes(packs.PACK_BYTES_MAX - packs.ONE_HEAD_BYTES))
    assert encode_lone(7, Append(1, 2, 3, 4, 3, 4, (entry,))) is not None
    entry.data += b"1"
    assert encode_lone(7, Append(1, 2, 3, 4, 3, 4, (entry,))) is None


@pytest.mark.parametrize(
    "message", ALONE, ids=lambda message: f"{type(message).__name__} {len(encode_batch(7, [message]))}"
)
def test_a_batch_alone_of_another_version_or_length_is_refused(message: Message) -> None:
    data = encode_batch(7, [message])
    for at in range(LENGTH_END):
        for value in {0, 1, 3, 255, data[at] ^ 1} - {data[at]}:
            assert first_of(data[:at] + bytes((value,)) + data[at + 1 :]) is None


def test_an_entry_alone_behind_the_last_index_is_refused() -> None:
    data = bytearray(encode_batch(7, [Append(1, 2, 3, 0, 0, 0, (Entry(1, 3, EntryKind.COMMAND, b"one"),))]))
    at = data.index((3).to_bytes(4, "little"), 30) + 4  # behind the term: the index before the entry
    data[at : at + 8] = b"\xff" * 8
    with pytest.raises(BadBytes, match="more than a log holds"):
        decode_batch(bytes(data))


@pytest.mark.parametrize("made", [bytes, memoryview])
def test_an_entry_alone_never_keeps_its_letter_in_memory(made: Callable[[bytes], Buffer]) -> None:
    for data in (b"small", bytes(packs.PACK_BYTES_MAX)):
        letter = encode_batch(1, [Append(1, 2, 3, 4, 3, 4, (Entry(5, 3, EntryKind.COMMAND, data),))])
        (heard,) = decode_batch(made(letter))[1]
        assert isinstance(heard, Append)
        assert type(heard.entries[0].data) is bytes
        (pack,) = packs.packs_of(heard.entries)
        assert not any(isinstance(part, memoryview) for part in pack.parts)
        assert b"".join(pack.parts).endswith(data)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_politely(data: bytes) -> None:
    try:
        list(decode_batches(data))
    except BadBytes as error:
        assert str(error)


def test_every_prefix_of_a_batch_is_refused() -> None:
    data = encode_batch(1, [Append(1, 2, 3, 4, 5, 6, (Entry(5, 3, 0, b"x"),)), TransferNow(1, 2, 3)])
    for length in range(1, len(data)):
        with pytest.raises(BadBytes):
            list(decode_batches(data[:length]))


def test_a_newer_version_is_told_apart_from_damage() -> None:
    data = bytearray(encode_batch(1, [TransferNow(1, 2, 3)]))
    data[0] = VERSION + 1
    with pytest.raises(BadBytes, match=rf"version {VERSION + 1} .* update this node"):
        decode_batch(bytes(data))


def test_a_claim_of_a_billion_messages_costs_nothing() -> None:
    data = bytearray(encode_batch(1, []))
    data[13:17] = (2**31).to_bytes(4, "little")
    started = time.thread_time()
    with pytest.raises(BadBytes, match="cannot hold"):
        decode_batch(bytes(data))
    assert time.thread_time() - started < 0.5
