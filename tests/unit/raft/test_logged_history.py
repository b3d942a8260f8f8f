"""What the log says for readers of later times: who began each term and when, and up to where groups are committed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from raft.core.core import Core
from raft.core.leadership import TermBegun
from raft.core.messages import Entry, EntryKind, Membership
from raft.core.ready import Facts
from raft.core.settings import Settings
from raft.store import node_log
from storage.doctor import Row, dump_records
from storage.history.file_names import FileNames
from storage.names import LOG_DIRECTORY, LOG_SUFFIX, log_file, numbers_in
from storage.record import Kind
from tests.unit.raft.memory_store import MemoryStore
from tests.unit.raft.store_world import World

ME = 1 << 32 | 1


def log_files(world: World) -> Sequence[int]:
    return numbers_in(world.disk.list(LOG_DIRECTORY), LOG_SUFFIX)


def commits(world: World) -> list[tuple[int, int]]:
    """The records of that kind in the log, as (group, index)."""
    rows = [row for number in log_files(world) for row in dump_records(world.disk, log_file(number))]
    return [(row["writer"], row["index"]) for row in rows if row["kind"] == Kind.RAFT_COMMIT.name]


def tick(world: World, now_ms: int = 0) -> None:
    world.store.tick(now_ms)
    world.log.flush_lazy()
    world.settle()


def test_the_log_says_once_a_tick_up_to_where_a_group_is_committed() -> None:
    world = World().open()
    for group in (5, 6):
        world.create(group)
        world.append(group, 1, 1, [b"a", b"b", b"c"])
    for index in (1, 2, 3):
        world.store.group(5).note_committed(index)
    world.store.group(6).note_committed(1)
    tick(world)
    tick(world)
    assert commits(world) == [(5, 3), (6, 1)]
    world.store.group(6).note_committed(3)
    tick(world)
    assert commits(world) == [(5, 3), (6, 1), (6, 3)]


def test_a_start_passes_over_it() -> None:
    world = World().open()
    world.create(5)
    world.append(5, 1, 1, [b"a", b"b"])
    world.store.group(5).note_committed(2)
    tick(world)
    world.log.close()
    again = world.reopened()
    world.check_recovered(world.log.durable, again)
    assert commits(again) == [(5, 2)]


def test_it_keeps_no_file_of_the_log() -> None:
    """Files that hold nothing else go as if it were not there."""
    world = World(file_bytes_max=500).open()
    world.create(5)
    world.append(5, 1, 1, [b"a"])
    for index in range(1, 40):
        world.store.group(5).note_committed(index)
        tick(world, index * 10_000)
    assert len(world.log.files()) <= world.limits.log_files_kept + 2 < world.log.files().start


def test_what_many_groups_have_committed_is_said_over_several_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_log, "COMMITS_PER_TICK_MAX", 2)
    world = World().open()
    for group in (5, 6, 7):
        world.create(group)
        world.append(group, 1, 1, [b"a"])
        world.store.group(group).note_committed(1)
    world.remove(6)
    tick(world)
    assert commits(world) == [(5, 1)]
    tick(world)
    assert commits(world) == [(5, 1), (7, 1)]


def test_nothing_is_said_in_a_log_that_has_failed() -> None:
    world = World().open()
    world.create(5)
    world.append(5, 1, 1, [b"a"])
    world.settle()
    world.store.group(5).note_committed(1)
    world.log._fail("the disk is gone")
    world.store.tick(0)
    assert commits(world) == []


def test_the_first_entry_of_a_term_says_who_leads_and_since_when() -> None:
    store = MemoryStore(Membership((ME,)))
    core = Core(ME, store, Settings(), lambda: 0.5, 0.0, wall_ms=lambda: 1_700_000_000_123)
    core.tick(10.0)
    entries: list[Entry] = []
    while (ready := core.ready(10.0)) is not None:
        store.write(ready.facts, ready.entries)
        entries += ready.entries
        core.persisted(ready.number, 10.0)
    assert [entry.kind for entry in entries] == [EntryKind.NOOP]
    assert TermBegun.decode(entries[0].data) == (ME, 1_700_000_000_123)


def test_a_first_entry_of_before_says_nothing_and_is_taken() -> None:
    assert TermBegun.decode(b"") is None
    store = MemoryStore(Membership((ME,)))
    store.write(Facts(3, ME), [Entry(1, 3, EntryKind.NOOP, b"")])
    core = Core(ME, store, Settings(), lambda: 0.5, 0.0)
    assert core.status().last == 1


def test_each_file_says_what_its_groups_are_called() -> None:
    world = World(file_bytes_max=600).open()
    world.create(5)
    world.create(6)
    world.store.names = FileNames(world.log, 3)
    rows: dict[tuple[int, int], Row] = {}
    for index in range(1, 9):
        for group in (5, 6):
            world.append(group, index, 1, [b"x" * 100])
            world.log.commit_now()
            rows |= {
                (number, row["offset"]): row
                for number in log_files(world)
                for row in dump_records(world.disk, log_file(number))
            }
    named: dict[int, list[int]] = {}
    for (number, _), row in sorted(rows.items()):
        if row["kind"] == Kind.NAME.name:
            named.setdefault(number, []).append(row["index"])
            assert row["says"] == {"kind": "map", "vhost": "", "name": f"g{row['index']}"}
        elif row["kind"] == Kind.RAFT_ENTRIES.name:
            assert row["writer"] in named[number], "a name stands before what it names"
    assert len(named) > 2
    assert all(len(groups) == len(set(groups)) for groups in named.values()), "once in a file"
