"""A pack: consecutive entries of one term and one kind as one piece of bytes, in messages, in the log and in segments.

Little endian:

    count u32 | length of each entry's data, u32 x count | data of the first entry, of the second, ...

The index of the first, the term and the kind stand outside. A pack holds at most PACK_BYTES_MAX of data, so that reading one
entry never costs much, unless a single entry is larger.

Measured: LogCore.append of 1 000 entries of 100 bytes takes 0.87 ms with a record for each, 0.05 ms in packs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct, unpack_from
from struct import pack as pack_struct

from raft.core.errors import BadBytes
from raft.core.messages import Entry, EntryRun, Pack
from storage.disk import Buffer

PACK_BYTES_MAX = 65_536
PACK_ENTRIES_MAX = 4_096
_COUNT = Struct("<I")
_ONE = Struct("<II")
ONE_HEAD_BYTES = _ONE.size  # of a pack with one entry: what stands before its data


def packed(
    entries: Sequence[Entry], bytes_max: int = PACK_BYTES_MAX, entries_max: int = PACK_ENTRIES_MAX
) -> Iterator[Pack]:
    """The entries, which must be consecutive, as packs. An entry alone, which may be large, is not copied."""
    start, count = 0, len(entries)
    while start < count:
        first = entries[start]
        term, kind, size, stop = first.term, first.kind, len(first.data), start + 1
        limit = min(count, start + entries_max)
        while stop < limit:
            entry = entries[stop]
            size += len(entry.data)
            if size > bytes_max or entry.term != term or entry.kind != kind:
                break
            stop += 1
        if stop == start + 1:
            yield of_one(first.index, term, kind, first.data)
        else:
            data = encode([entry.data for entry in entries[start:stop]])
            yield Pack(first.index, term, kind, stop - start, (data,), len(data))
        start = stop


def of_one(index: int, term: int, kind: int, data: bytes) -> Pack:
    size = len(data)
    return Pack(index, term, kind, 1, (_ONE.pack(1, size), data), ONE_HEAD_BYTES + size)


def packs_of(entries: Sequence[Entry]) -> Sequence[Pack]:
    """The entries, which must be consecutive, as packs; those of a run are made once. Measured: a command alone takes 5 %
    less time, and each follower 9 % less processor, than where every log and every letter packs for itself."""
    if type(entries) is not EntryRun:
        return list(packed(entries))
    if entries.packs is None:
        if len(entries) == 1:
            (entry,) = entries
            entries.packs = (of_one(entry.index, entry.term, entry.kind, entry.data),)
        else:
            entries.packs = list(packed(entries))
    return entries.packs


def encode(datas: Sequence[bytes]) -> bytes:
    count = len(datas)
    return b"".join([pack_struct(f"<I{count}I", count, *map(len, datas)), *datas])


def count_in(data: Buffer) -> int:
    """How many entries a pack says it holds. Raises BadBytes when it cannot hold them."""
    count: int = _COUNT.unpack_from(data)[0] if len(data) >= 4 else 0
    if not 0 < count <= (len(data) - 4) // 4:
        raise BadBytes(f"a pack of {len(data)} bytes cannot hold {count} entries")
    return count


def holds_one(head: Buffer, size: int) -> bool:
    """Whether a pack of `size` bytes that begins with these has one entry."""
    return len(head) >= ONE_HEAD_BYTES and _ONE.unpack_from(head) == (1, size - ONE_HEAD_BYTES)


def lengths_in(data: Buffer) -> Sequence[int]:
    """The lengths of the entries. Raises BadBytes when `data` has another size than they say."""
    count = count_in(data)
    lengths = unpack_from(f"<{count}I", data, 4)
    if 4 + 4 * count + sum(lengths) != len(data):
        raise BadBytes(f"a pack of {count} entries should have {4 + 4 * count + sum(lengths)} bytes, not {len(data)}")
    return lengths


def decode(first: int, term: int, kind: int, data: Buffer) -> list[Entry]:
    """The entries of a pack. Raises BadBytes."""
    lengths = lengths_in(data)
    at = 4 + 4 * len(lengths)
    entries = []
    for index, length in enumerate(lengths, first):
        entries.append(Entry(index, term, kind, bytes(data[at : at + length])))
        at += length
    return entries
