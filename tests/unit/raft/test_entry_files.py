"""Large entries that are sent from where they lie: raft/store/entry_files.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raft.core.errors import Damaged
from raft.store.entry_files import LARGE_BYTES_MIN, EntryInFile
from replicated.stored_entries import LargeEntry, StoredEntries
from storage.names import KEPT_SUFFIX, LOG_DIRECTORY, SEGMENT_SUFFIX
from tests.sim.disk import Fault, fault_on
from tests.unit.raft.store_world import TINY, World

GROUP = 7
LARGE = LARGE_BYTES_MIN * 2
COUNT = 6
KEPT = replace(TINY, segment_entries_max=1_000, kept_pack_bytes_min=1)
COPIED = replace(KEPT, kept_pack_bytes_min=1 << 30)
IN_LOG = replace(KEPT, log_files_kept=100)
WHERE = {"the log": (IN_LOG, LOG_DIRECTORY), "a kept file": (KEPT, KEPT_SUFFIX), "a segment": (COPIED, SEGMENT_SUFFIX)}


def data(index: int, size: int = LARGE) -> bytes:
    return (b"%d " % index * size)[:size]


def world(where: str, size: int = LARGE, at_once: int = 1) -> World:
    """Entries 1 to COUNT, all of which have left the memory."""
    run = World(limits=WHERE[where][0], file_bytes_max=2 * LARGE).open()
    run.create(GROUP)
    for first in range(1, COUNT + 2, at_once):
        run.append(GROUP, first, 1, [data(index, size) for index in range(first, first + at_once)])
        run.settle()
    return run


def entries(run: World) -> StoredEntries:
    return StoredEntries(run.store.group(GROUP), run.failures.append)


def found(run: World, index: int) -> LargeEntry:
    entry = entries(run).in_file(index)
    assert entry is not None, f"entry {index} is to be read"
    return entry


@pytest.mark.parametrize("where", WHERE)
def test_a_large_entry_is_found_where_it_lies(where: str) -> None:
    run = world(where)
    for index in range(1, 3):
        entry = found(run, index)
        assert WHERE[where][1] in entry.file_name
        first = entry.check()
        assert first is not None and data(index).startswith(first) and len(first) > 1_000
        assert bytes(entry.piece(0).read()) == data(index) == run.store.group(GROUP).read_entry(index)
        assert bytes(entry.piece(1_000).read()) == data(index)[1_000:]
        assert entry.size == len(data(index))


@pytest.mark.parametrize("where", WHERE)
def test_damage_anywhere_in_it_is_found_before_it_is_sent(where: str) -> None:
    run = world(where)
    entry = found(run, 2)
    name = entry.file_name
    at = run.disk.content(name).index(data(2))
    for byte in (at - 40, at - 8, at, at + LARGE // 2, at + LARGE - 1):
        run.disk.flip_bit(name, byte * 8 + 3)
        with pytest.raises(Damaged, match="entry 2 of group 7 cannot be read"):
            entry.check()
        run.disk.flip_bit(name, byte * 8 + 3)
    assert entry.check() is not None


@pytest.mark.parametrize("where", ["the log", "a segment"])
def test_a_sound_record_of_another_place_is_not_taken_for_it(where: str) -> None:
    run = world(where)
    entry, other = found(run, 1), found(run, 2)
    content = run.disk.content(entry.file_name)
    start, theirs = content.index(data(1)) - 40, run.disk.content(other.file_name)
    record = theirs[(at := theirs.index(data(2)) - 40) : at + 40 + LARGE]
    run.disk.overwrite(entry.file_name, content[:start] + record + content[start + len(record) :])
    with pytest.raises(Damaged, match="was written here"):
        entry.check()


def test_what_fails_the_disk_stops_the_node_and_is_no_damage_of_the_log() -> None:
    run = world("a kept file")
    entry = found(run, 2)
    run.disk.faults = fault_on("read", Fault.EIO)
    with pytest.raises(Damaged, match="and its node stops"):
        entry.check()
    assert len(run.failures) == 1 and "EIO" in run.failures[0]
    with pytest.raises(OSError, match="EIO"):
        entry.piece(0).read()
    assert len(run.failures) == 2


@pytest.mark.parametrize("where", WHERE)
def test_small_entries_and_those_that_share_a_record_are_to_be_read(where: str) -> None:
    small = world(where, size=LARGE_BYTES_MIN // 4, at_once=2)
    assert [entries(small).in_file(index) for index in range(1, 3)] == [None, None]
    assert entries(small).read(2) == data(2, LARGE_BYTES_MIN // 4)


def test_a_large_record_with_several_entries_is_found_out_by_checking_it() -> None:
    """None is written today: packs are smaller. What lies on the disk may be of another version."""
    run = world("the log", size=30_000, at_once=2)
    entry = found_whatever_size(run, 1)
    assert entry.check() is None


def found_whatever_size(run: World, index: int) -> EntryInFile:
    log = run.store.group(GROUP).log
    assert log.rows is not None
    location = log.rows.location(log.rows.find(index))
    file = run.log.file_of(location)
    assert file is not None
    name = f"{LOG_DIRECTORY}/{location.file_number}"
    return EntryInFile(GROUP, index, name, file, location.offset - 32, location.size + 32)


def test_what_is_in_memory_is_not_sent_from_a_file() -> None:
    run = World(limits=replace(IN_LOG, memory_bytes_max=LARGE * 10), file_bytes_max=2 * LARGE).open()
    run.create(GROUP)
    run.append(GROUP, 1, 1, [data(1)])
    run.settle()
    assert entries(run).in_file(1) is None


def others_append(run: World) -> None:
    """The log goes on, and what nobody needs is deleted."""
    run.create(GROUP + 1)
    for index in range(1, COUNT + 1):
        run.append(GROUP + 1, index, 1, [data(index)])
        run.settle()
        run.store.tick(index * 10**6)
        run.settle()


@pytest.mark.parametrize("where", WHERE)
def test_a_piece_that_is_on_its_way_outlives_its_file(where: str) -> None:
    run = world(where)
    entry = found(run, 1)
    piece = entry.piece(0)
    run.remove(GROUP)
    run.store.limits = KEPT
    others_append(run)
    assert not run.disk.exists(entry.file_name), "nobody needs it any more"
    assert bytes(piece.read()) == data(1)
