"""native/entry_scan.py: what an entry of a usual kind says, in both forms; any other entry is none of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.queues.queue_type import DeathReason, Outcome
from native import entry_scan as definition
from native.crc32c import crc32c
from native.entry_rows import whole_entry
from quorum.fifo import commands
from quorum.fifo.commands import (
    ConsumerKey,
    Origins,
    Producer,
    SessionKey,
    Settle,
    Tick,
    encode,
    encode_enqueue,
    entry_head,
)
from quorum.fifo.origins import DeathPlace, OriginPart
from tests.unit.native.both import forms

NOW = 1_700_000_000_123
SESSION, CONSUMER = SessionKey(7, 1 << 40), ConsumerKey(7, 1 << 40, 3)
HEAD = entry_head(NOW)
CONTENT = bytes(range(200))


def publish(
    sequence: int = 5, count: int = 2, content: bytes = CONTENT, flags: int = commands.PERSISTENT, **more: Any
) -> bytes:
    return b"".join(encode_enqueue(SESSION, sequence, count, 40, "x", "key", content, flags=flags, priority=9, **more))


def origins(*parts: OriginPart) -> bytes:
    return encode(Origins(list(parts)))


def settle(first: int = 11, count: int = 3, outcome: Outcome = Outcome.ACKNOWLEDGED) -> bytes:
    return encode(Settle(CONSUMER, outcome, [(first, count)]))


ORIGIN = origins(OriginPart(4, 90, 2, True))
OF_NOBODY = origins(OriginPart(0, 0, 2))
SETTLED = (CONSUMER, 11, 3)
LONE = {
    "a publish": (HEAD + publish(), (9, SESSION, 5, 2, 40, True, 9, b"xkey", 1, None, None, None), None),
    "of a publisher": (HEAD + ORIGIN + publish(), (31, SESSION, 5, 2, 40, True, 9, b"xkey", 1, 4, 90, True), None),
    "of nobody": (HEAD + OF_NOBODY + publish(), (31, SESSION, 5, 2, 40, True, 9, b"xkey", 1, None, None, None), None),
    "transient": (
        HEAD + publish(flags=0), (9, SESSION, 5, 2, 40, False, 9, b"xkey", 1, None, None, None), None
    ),
    "an acknowledgement": (HEAD + settle(), None, SETTLED),
    "both": (HEAD + publish() + settle(), (9, SESSION, 5, 2, 40, True, 9, b"xkey", 1, None, None, None), SETTLED),
    "both of a publisher": (
        HEAD + ORIGIN + publish() + settle(), (31, SESSION, 5, 2, 40, True, 9, b"xkey", 1, 4, 90, True), SETTLED
    ),
}  # fmt: skip
OTHERS = {
    "nothing": b"",
    "no op": HEAD,
    "of a newer version": b"\2" + (HEAD + publish())[1:],
    "a tick": HEAD + encode(Tick()),
    "rejected": HEAD + settle(outcome=Outcome.REJECTED),
    "two ranges": HEAD + encode(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(1, 1), (3, 1)])),
    "no range": HEAD + encode(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [])),
    "two acknowledgements": HEAD + settle() + settle(),
    "a range beyond all ids": HEAD + settle(first=commands.ID_END),
    "two publishes": HEAD + publish() + publish(7),
    "a publish behind an acknowledgement": HEAD + settle() + publish(),
    "rejected behind a publish": HEAD + publish() + settle(outcome=Outcome.REJECTED),
    "of no messages": HEAD + publish(count=0),
    "sequences beyond all": HEAD + publish(sequence=commands.ID_END),
    "that expires": HEAD + publish(expiration_ms=5),
    "numbered by its producer": HEAD + publish(count=1, producer=Producer(b"p", 7)),
    "of two publishers": HEAD + origins(OriginPart(4, 1, 1), OriginPart(5, 1, 1)) + publish(),
    "of a publisher of other messages, too": HEAD + origins(OriginPart(4, 1, 3)) + publish(),
    "a dead letter": HEAD + origins(OriginPart(4, 1, 2, False, DeathPlace(1, 2, 3, 4, DeathReason.MAXLEN))) + publish(),
    "an origin of nothing": HEAD + ORIGIN,
    "an origin of an acknowledgement": HEAD + ORIGIN + settle(),
}  # fmt: skip


def test_numbers_are_those_of_the_commands() -> None:
    assert definition.ENTRY_VERSION == commands.ENTRY_VERSION
    assert definition.ID_END == commands.ID_END
    assert definition.NO_EXPIRATION == commands.NO_EXPIRATION
    assert definition.ACKNOWLEDGED == Outcome.ACKNOWLEDGED


@pytest.mark.parametrize("form", forms("entry_scan", "lone_entry", "lone_entries"))
class TestLoneEntries:
    @pytest.mark.parametrize("name", LONE)
    def test_a_lone_entry_is_read(self, form: Any, name: str) -> None:
        data, published, settled = LONE[name]
        assert form.lone_entry(data, 0) == (NOW, crc32c(data), published, settled)

    @pytest.mark.parametrize("name", LONE)
    def test_contents_that_were_cut_out_are_zeros(self, form: Any, name: str) -> None:
        data, published, settled = LONE[name]
        if published is None:
            return
        skeleton = data.replace(CONTENT, b"")
        whole = whole_entry(skeleton, len(data))
        assert len(whole) == len(data) > len(skeleton)
        assert form.lone_entry(skeleton, len(data)) == (NOW, crc32c(whole), published, settled)

    def test_however_many_there_were(self, form: Any) -> None:
        data = HEAD + publish(content=bytes(10_000)) + settle()
        assert form.lone_entry(data.replace(bytes(10_000), b""), len(data)) == form.lone_entry(data, 0)

    @pytest.mark.parametrize("name", OTHERS)
    def test_any_other_entry_is_none(self, form: Any, name: str) -> None:
        assert form.lone_entry(OTHERS[name], 0) is None

    @pytest.mark.parametrize("name", LONE)
    def test_no_byte_may_be_missing(self, form: Any, name: str) -> None:
        data, published, settled = LONE[name]
        both = published is not None and settled is not None  # then what is published is one by itself
        assert [end for end in range(len(data)) if form.lone_entry(data[:end], 0)] == [len(data) - len(settle())] * both

    @pytest.mark.parametrize("size", [-1, 1, 60, 1 << 40])
    @pytest.mark.parametrize("name", LONE)
    def test_a_size_that_it_cannot_have_had(self, form: Any, name: str, size: int) -> None:
        assert form.lone_entry(LONE[name][0], size) is None

    def test_a_publish_whose_op_ends_within_its_head(self, form: Any) -> None:
        op = publish()
        assert form.lone_entry(HEAD + op[:1] + (30).to_bytes(4, "little") + op[5:35] + settle(), 0) is None

    def test_names_that_reach_beyond_their_op(self, form: Any) -> None:
        op = bytearray(publish(content=b""))
        op[commands.ENQUEUE_HEAD.size - 1] += 1
        assert form.lone_entry(HEAD + bytes(op), 0) is None
        assert form.lone_entry(HEAD + bytes(op) + settle(), 0) is None

    def test_several_are_read_at_once(self, form: Any) -> None:
        data = [*(one for one, *_ in LONE.values()), *OTHERS.values(), *(one for one, *_ in LONE.values())]
        assert form.lone_entries(data, [0] * len(data)) == [form.lone_entry(one, 0) for one in data]

    def test_each_is_to_have_its_bytes_and_its_size(self, form: Any) -> None:
        with pytest.raises(ValueError, match=r"argument 2|2 entries have 1 sizes"):
            form.lone_entries([HEAD, HEAD], [0])
        with pytest.raises(TypeError):
            form.lone_entries([HEAD, None], [0, 0])

    def test_each_has_its_own_names_and_clients(self, form: Any) -> None:
        data = [
            HEAD + b"".join(encode_enqueue(SessionKey(node, 1), 1, 1, 1, name, "k", b""))
            + encode(Settle(ConsumerKey(node, 1, number), Outcome.ACKNOWLEDGED, [(1, 1)]))
            for node in (1, 2)
            for number in (1, 2)
            for name in ("a", "b", "bb")
        ]  # fmt: skip
        said = form.lone_entries(data, [0] * len(data))
        assert said == [form.lone_entry(one, 0) for one in data]
        assert len(set(said)) == len(data)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_of_any_bytes_both_forms_say_the_same(data: st.DataObject) -> None:
    entry = bytearray(data.draw(st.sampled_from([*(one for one, *_ in LONE.values()), *OTHERS.values()])))
    skeleton = data.draw(st.booleans())
    size = len(entry) if skeleton else 0
    entry = entry.replace(CONTENT, b"") if skeleton else entry
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), max_size=3)):
        if at < len(entry):
            entry[at] = byte
    size += data.draw(st.sampled_from([0, 0, 0, 1, -1, 38]))
    said = definition.lone_entry(bytes(entry), size)
    assert said == definition.lone_entry_plain(bytes(entry), size)
    assert definition.lone_entries([bytes(entry)], [size]) == [said]
