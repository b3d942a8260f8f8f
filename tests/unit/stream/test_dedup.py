"""Publishers with names: what they publish again is stored once, whatever of it is committed, and whoever leads."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.disk import Buffer
from stream.chunks.chunk import CHUNK_HEADER_BYTES, SubBatch, items_in, message_item, sub_batch_item
from stream.chunks.entries import AllKnown, ChunkEntry, NamesForgotten, WriterPosition, decode, encode
from stream.chunks.publish_ops import NamedPart, Publishing
from stream.group.machine import StreamMachine, Written
from stream.group.stream_state import PUBLISHERS_MAX, PublisherPosition, decode_state, encode_state
from stream.group.tail import NAMES_KEPT_MS, StreamTail
from wire.stream.publish_frame import pack_ids

SEGMENT = 1 << 20


class Node:
    """What one node says, counted as its session counts it."""

    def __init__(self, number: int = 1) -> None:
        self.number = number
        self.sequence = 0

    def say(self, *parts: tuple[str, Sequence[int]] | NamedPart) -> Publishing:
        named = [one if isinstance(one, NamedPart) else part(*one) for one in parts]
        messages = sum([one.message_count for one in named])
        self.sequence += messages
        data = b"".join([bytes(one.data) for one in named])
        writer = WriterPosition(self.number, 1, self.sequence)
        return Publishing(writer, sum([one.item_count for one in named]), messages, [data], b"", named)


def part(name: str, ids: Sequence[int]) -> NamedPart:
    items = b"".join([message_item(b"%s-%d" % (name.encode(), number)) for number in ids])
    return NamedPart(name, len(ids), len(ids), items, pack_ids(list(ids)) if name else b"")


def batches(name: str, ids: Sequence[int]) -> NamedPart:
    """A sub-batch of one to three messages for each id."""
    data, messages = b"", 0
    for number in ids:
        count = number % 3 + 1
        items = message_item(b"%s-%d" % (name.encode(), number)) * count
        data += sub_batch_item(SubBatch(0, count, len(items), items))
        messages += count
    return NamedPart(name, len(ids), messages, data, pack_ids(list(ids)))


def seal(tail: StreamTail, said: Publishing, now: int = 0) -> bytes:
    entry = tail.seal(said, now, SEGMENT)
    assert entry is not None
    return entry


def bodies(entry: bytes) -> list[bytes]:
    found = decode(entry)
    if not isinstance(found, ChunkEntry):
        assert isinstance(found, AllKnown)
        return []
    data = found.chunk[CHUNK_HEADER_BYTES:]
    return [body for item in items_in(data, found.header.item_count) for body in bodies_of(item)]


def bodies_of(item: Buffer | SubBatch) -> list[bytes]:
    if isinstance(item, SubBatch):
        return [body for inner in items_in(item.data, item.message_count) for body in bodies_of(inner)]
    return [bytes(item)]


def apply(machine: StreamMachine, *entries: bytes) -> list[Written]:
    return [machine.apply(machine.applied + 1, entry) for entry in entries]


def test_what_a_publisher_says_again_is_left_out_item_by_item() -> None:
    node, machine = Node(), StreamMachine()
    tail = StreamTail(machine, 1)
    entries = [
        seal(tail, node.say(("p", [1, 2, 5]))),
        seal(tail, node.say(("p", [3, 5, 6]), ("q", [1]), ("p", [6, 7]))),
        seal(tail, node.say(("p", [4, 7]), ("q", [0]))),
        seal(tail, node.say(("", [0]), ("q", [2]))),
    ]
    assert [bodies(entry) for entry in entries] == [
        [b"p-1", b"p-2", b"p-5"], [b"p-6", b"q-1", b"p-7"], [], [b"-0", b"q-2"]
    ]  # fmt: skip
    assert apply(machine, *entries) == [Written.DONE] * 4
    assert machine.state.next_offset == 8
    assert {name: one.last_id for name, one in machine.state.publishers.items()} == {"p": 7, "q": 2}
    assert machine.state.publishers["q"] == PublisherPosition(2, 6, 0)


def test_a_sub_batch_that_is_known_is_left_out_with_all_its_messages() -> None:
    node, machine = Node(), StreamMachine()
    tail = StreamTail(machine, 1)
    entries = [
        seal(tail, node.say(batches("p", [2, 3]))),
        seal(tail, node.say(batches("p", [2, 3]))),
        seal(tail, node.say(batches("p", [2, 3, 5]), batches("q", [1]))),
        seal(tail, node.say(("p", [6]))),
    ]
    assert apply(machine, *entries) == [Written.DONE] * 4
    assert [bodies(entry) for entry in entries] == [
        [b"p-2"] * 3 + [b"p-3"], [], [b"p-5"] * 3 + [b"q-1"] * 2, [b"p-6"]
    ]  # fmt: skip
    assert machine.state.next_offset == 10


def test_the_next_leader_knows_what_was_committed_and_no_more() -> None:
    first, second, machine = Node(1), Node(2), StreamMachine()
    tail = StreamTail(machine, 1)
    apply(machine, seal(tail, first.say(("p", [1, 2]))))
    seal(tail, first.say(("p", [3])))  # never comes into the log
    again = seal(StreamTail(machine, 2), second.say(("p", [1, 2, 3])))
    assert bodies(again) == [b"p-3"]
    assert apply(machine, again) == [Written.DONE]


def test_what_was_known_only_from_something_that_is_lost_is_out_of_place() -> None:
    """It would be confirmed, and nobody had it."""
    first, second, machine = Node(1), Node(2), StreamMachine()
    tail = StreamTail(machine, 1)
    seal(tail, first.say(("p", [1, 2])))
    said = second.say(("p", [1, 2]))
    known = seal(tail, said)
    assert isinstance(decode(known), AllKnown)
    assert apply(machine, known) == [Written.OUT_OF_PLACE]
    again = seal(StreamTail(machine, 1), said)
    assert bodies(again) == [b"p-1", b"p-2"]
    assert apply(machine, again) == [Written.DONE]


def test_what_was_known_and_is_said_again_is_known_to_the_machine() -> None:
    node, machine = Node(), StreamMachine()
    tail = StreamTail(machine, 1)
    stored, repeated = node.say(("p", [1])), node.say(("p", [1]))
    entries = [seal(tail, one) for one in (stored, repeated, repeated, stored)]
    assert apply(machine, *entries) == [Written.DONE, Written.DONE, Written.KNOWN, Written.KNOWN]
    assert apply(machine, seal(tail, node.say(("p", [2])))) == [Written.DONE]


@pytest.mark.parametrize(
    "wrong",
    [
        AllKnown(0, 1, 2, WriterPosition(1, 1, 4)),  # its writer's message before is missing
        AllKnown(0, 2, 2, WriterPosition(1, 1, 3)),  # for another place
    ],
)
def test_an_entry_about_known_messages_counts_in_its_place_only(wrong: AllKnown) -> None:
    machine = StreamMachine()
    apply(machine, seal(StreamTail(machine, 1), Node().say(("p", [1]))))
    assert apply(machine, encode(wrong)) == [Written.OUT_OF_PLACE]
    assert apply(machine, encode(AllKnown(0, 1, 2, WriterPosition(1, 1, 3)))) == [Written.DONE]


def test_so_many_publishers_are_kept_those_that_published_last() -> None:
    node, machine = Node(), StreamMachine()
    tail = StreamTail(machine, 1)
    names = [f"p{number}" for number in range(PUBLISHERS_MAX)]
    for name in [*names, "p0", "new"]:
        apply(machine, seal(tail, node.say((name, [7 if name == "p0" and tail._publishers.get("p0") else 1]))))
    assert list(machine.state.publishers) == [*names[2:], "p0", "new"]
    assert bodies(seal(tail, node.say(("p1", [1])))), "it was forgotten"
    assert not bodies(seal(tail, node.say(("p0", [7]))))


def test_names_are_forgotten_when_nobody_has_used_them_for_long() -> None:
    node, machine = Node(), StreamMachine()
    tail = StreamTail(machine, 1)
    apply(machine, seal(tail, node.say(("old", [1])), now=0), seal(tail, node.say(("new", [1])), now=10))
    assert tail.seal_forgotten(NAMES_KEPT_MS, 0) is None
    entry = tail.seal_forgotten(NAMES_KEPT_MS + 5, 0)
    assert entry is not None and decode(entry) == NamesForgotten(NAMES_KEPT_MS + 5, ("old",), ())
    assert apply(machine, entry, seal(tail, node.say(("old", [1])), now=20)) == [Written.DONE, Written.DONE]
    assert list(machine.state.publishers) == ["new", "old"]


def test_a_state_of_the_format_without_publishers_is_read() -> None:
    machine = StreamMachine()
    tail = StreamTail(machine, 1)
    apply(machine, seal(tail, Node().say(("", [1, 2]))))
    encoded = encode_state(machine.state, begins_segment=False)
    places = machine.state.places.encode()
    old = (1).to_bytes(2, "little") + encoded[2 : -len(places) - 12] + places
    state, begins = decode_state(old)
    assert not begins and state.last_chunk == -1, "it is looked for when it is wanted"
    state.last_chunk = 0
    assert encode_state(state, begins_segment=False) == encoded


ids = st.lists(st.integers(0, 30), min_size=1, max_size=5, unique=True).map(sorted)
said = st.lists(st.tuples(st.sampled_from(["p", "q", "r"]), ids), min_size=1, max_size=4)
steps = st.lists(st.tuples(st.integers(1, 3), said, st.integers(0, 3), st.booleans()), max_size=25)


@given(steps)
def test_each_id_is_stored_once_and_ids_ascend_whatever_is_lost(
    story: list[tuple[int, list[tuple[str, list[int]]], int, bool]],
) -> None:
    """As messages or as sub-batches. Every so often a sealed entry is lost, and what its node said is said again, as
    its session does."""
    machine, nodes = StreamMachine(), {number: Node(number) for number in (1, 2, 3)}
    tail, stored = StreamTail(machine, 1), list[bytes]()
    confirmed = dict[str, set[int]]()
    sizes = dict[tuple[str, int], int]()
    for number, parts, losses, as_batches in story:
        publishing = nodes[number].say(*(batches(*one) if as_batches else one for one in parts))
        while True:
            entry = tail.seal(publishing, 0, SEGMENT)
            if entry is not None and losses == 0:
                (written,) = apply(machine, entry)
                if written is Written.DONE:
                    stored += bodies(entry)
                if written is not Written.OUT_OF_PLACE:
                    break
            losses = max(0, losses - 1)
            tail = tail if losses else StreamTail(machine, 1)
        for name, some in parts:
            before = max(confirmed.setdefault(name, set()), default=-1)
            sizes |= {(name, id_): id_ % 3 + 1 if as_batches else 1 for id_ in some if id_ > before}
            confirmed[name].update(some)
        for name, some in confirmed.items():
            assert machine.state.publisher_id(name) == max(some)
    for name in ("p", "q", "r"):
        mine = [int(body.split(b"-")[1]) for body in stored if body.startswith(name.encode())]
        assert mine == [id_ for id_ in sorted(set(mine)) for _ in range(sizes[name, id_])]
        assert set(mine) <= confirmed.get(name, set())
    assert machine.state.next_offset == len(stored)
