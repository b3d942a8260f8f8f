"""A snapshot as it is sent: the same bytes from any place on, and each live entry is read once on the way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry, EntryKind, Membership, SnapshotMeta
from raft.store.snapshots import SnapshotStream, write
from tests.sim.disk import SimDisk

META = SnapshotMeta(40, 3, Membership((1, 2), ()), 1)
LIVE = LiveEntries([*range(1, 30), 35, 36])
ENTRIES = {index: Entry(index, 1, EntryKind.COMMAND, b"%02d" % index * 15_000) for index in LIVE}


class Sent:
    """A snapshot stream, and how often each entry was read for it. Entries come three at a time, as packs have them."""

    def __init__(self) -> None:
        disk = SimDisk()
        disk.make_dir("raft")
        self.reads: list[int] = []
        self.stream = SnapshotStream(disk, 7, write(disk, 7, 1, META, LIVE, [b"state"]), LIVE, self._read)

    def _read(self, first: int, end: int) -> Sequence[Entry]:
        found = [ENTRIES[index] for index in range(first, min(end, first + 3))]
        self.reads += [entry.index for entry in found]
        return found

    def parts(self, size: int, offset: int = 0) -> list[bytes]:
        parts: list[bytes] = []
        at_the_end = False
        while not at_the_end:
            part, at_the_end = self.stream.read(offset, size)
            parts.append(part)
            offset += len(part)
        return parts


@pytest.mark.parametrize("size", [1_000, 70_000, 250_000, 1 << 30])
def test_each_entry_is_read_once_however_the_stream_is_cut(size: int) -> None:
    sent = Sent()
    parts = sent.parts(size)
    assert b"".join(parts) == b"".join(Sent().parts(1 << 30))
    assert all(len(part) == size for part in parts[:-1])
    assert sent.reads == list(LIVE)


@pytest.mark.parametrize("offset", [1, 100_000, 500_000, 800_000])
def test_it_goes_on_at_any_byte(offset: int) -> None:
    whole = b"".join(Sent().parts(1 << 30))
    sent = Sent()
    assert b"".join(sent.parts(50_000, offset)) == whole[offset:]
    again = sent.parts(50_000, 0)
    assert b"".join(again) == whole, "and again from the first byte"


def test_no_more_entries_are_read_in_one_go_than_fill_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that was published to one message at a time: 2,000 entries were read for one chunk, in one turn."""
    monkeypatch.setattr("raft.store.snapshots.ENTRIES_MAX", 3)
    sent = Sent()
    whole, at_the_end, most = b"", False, 0
    while not at_the_end:
        before = len(sent.reads)
        part, at_the_end = sent.stream.read(len(whole), 1 << 30)
        assert part
        whole += part
        most = max(most, len(sent.reads) - before)
    assert most <= 6, "three at a time come from the store, and the last of them begin the next record"
    assert whole == b"".join(Sent().parts(1 << 30))
    assert sent.reads == list(LIVE)
