"""Commands of the stream protocol for tests: one with every field for each row of the table, by strategies of hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from wire.stream.command_fields import LocatedStream, OffsetSpec, StreamBroker, VersionRange
from wire.stream.command_keys import RESPONSE_BIT, OffsetKind, ResponseCode
from wire.stream.publish_frame import pack_ids
from wire.stream.stream_commands import ALL_LAYOUTS, Command, CommandLayout

U8, U16, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64))
I16 = st.integers(-(2**15), 2**15 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.lists(TEXTS, max_size=3).map(tuple)
MAPS = st.dictionaries(TEXTS, TEXTS, max_size=3)
OFFSETS = (
    st.sampled_from([OffsetSpec(OffsetKind.NONE), OffsetSpec(OffsetKind.FIRST), OffsetSpec(OffsetKind.NEXT)])
    | st.builds(OffsetSpec, st.just(OffsetKind.OFFSET), U64)
    | st.builds(OffsetSpec, st.just(OffsetKind.TIMESTAMP), I64)
)

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "u8": U8,
    "u16": U16,
    "u32": U32,
    "u64": U64,
    "i16": I16,
    "i64": I64,
    "string": TEXTS,
    "bytes": st.binary(max_size=20),
    "map": MAPS,
    "map?": MAPS,
    "strings": NAMES,
    "offset": OFFSETS,
    "offset+": OFFSETS,
    "versions": st.lists(st.builds(VersionRange, U16, U16, U16), max_size=3).map(tuple),
    "numbers": st.dictionaries(TEXTS, I64, max_size=3),
    "brokers": st.lists(st.builds(StreamBroker, U16, TEXTS, U32), max_size=3).map(tuple),
    "located": st.lists(
        st.builds(LocatedStream, TEXTS, U16, U16, st.lists(U16, max_size=3).map(tuple)), max_size=3
    ).map(tuple),
    "ids": st.lists(U64, max_size=5).map(pack_ids),
    "refusals": st.lists(st.tuples(U64, U16), max_size=3).map(tuple),
    "challenge": st.binary(max_size=20),
    "rest": st.binary(max_size=30),
    "none": st.none(),
}


def commands_of(layout: CommandLayout) -> st.SearchStrategy[Command]:
    kinds = {
        **KINDS,
        "key": st.just(layout.key & ~RESPONSE_BIT),
        "version": st.just(layout.version),
    }
    fields = [kinds[kind] for kind in layout.kinds]
    if (at := layout.code_index) is not None:
        fields[at] = st.just(int(ResponseCode.OK))  # with another one, empty fields may be missing
    command: st.SearchStrategy[Command] = st.builds(layout.command, *fields)
    return command


COMMANDS = st.one_of([commands_of(layout) for layout in ALL_LAYOUTS])
