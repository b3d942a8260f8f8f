"""The store with real files, the log's thread, and jobs in a thread of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from node.background import Threads
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry, SnapshotMeta, member_id
from raft.store.group_records import GroupIdentity
from raft.store.node_log import RaftStore
from raft.store.store_limits import StoreLimits
from storage.names import KEPT_SUFFIX, RAFT_DIRECTORY
from storage.os_disk import OsDisk
from storage.wal.facts import load_or_create
from storage.wal.log_core import LogCore
from storage.wal.log_users import LogUsers
from storage.wal.replay import Replay
from storage.wal.writer import LogWriter
from tests.unit.raft.store_world import FIRST, LOG_ID, Digest, digest_of, replicas_from

LIMITS = StoreLimits(
    segment_entries_max=100, kept_pack_bytes_min=1, log_files_kept=1, memory_bytes_max=100_000, compaction_interval_ms=0
)


async def opened(path: Path) -> tuple[RaftStore, LogWriter, Threads]:
    loop, disk = asyncio.get_running_loop(), OsDisk(str(path))
    facts = load_or_create(disk, LOG_ID)
    replay = Replay(disk, facts, salvage=True)
    threads = Threads(loop, 1, "raft-files")
    store = RaftStore(disk, LIMITS, threads, replicas_from(7), pytest.fail)
    for _ in store.recover(replay, replay.chunks(), facts.first_file):
        pass
    end = replay.finish()
    store.finish(end)
    log = LogWriter(LogCore(LOG_ID, end, 100_000), disk, loop, facts, on_failed=pytest.fail)
    store.attach(log, LogUsers(log).join("raft"))
    return store, log, threads


async def busy_life(path: Path, groups: range, size: int) -> dict[int, Digest]:
    store, log, threads = await opened(path)
    for group in groups:
        store.create_group(GroupIdentity(group, member_id(1, group), f"g{group}", "map", FIRST))
    for turn in range(60):
        for group in groups:
            first = turn * 10 + 1
            ticket = store.group(group).append(None, [Entry(first + at, 1, 0, bytes(size)) for at in range(10)])
        while log.durable < ticket:  # noqa: ASYNC110  each round of the loop looks again
            await asyncio.sleep(0)
        if turn % 20 == 19:
            for group in groups:
                index = turn * 10
                store.group(group).save_snapshot(
                    SnapshotMeta(index, 1, FIRST, 1), [b"s" * 999], LiveEntries(range(1, index + 1, 2)), lambda _: None
                )
        store.tick(turn * 1_000)
    async with asyncio.timeout(20):
        while not store.idle:  # noqa: ASYNC110
            await asyncio.sleep(0)
    digests = {group: digest_of(store.group(group)) for group in groups}
    assert store.failed is None and log.files().start > 5
    log.close()
    store.close()
    threads.close()
    return digests


async def looked_at(path: Path, groups: range) -> dict[int, Digest]:
    store, log, threads = await opened(path)
    digests = {group: digest_of(store.group(group)) for group in groups}
    log.close()
    store.close()
    threads.close()
    return digests


@pytest.mark.parametrize(("groups", "size", "keeps"), [(range(1, 21), 100, False), (range(1, 2), 2_000, True)])
def test_a_start_finds_what_threads_wrote(tmp_path: Path, groups: range, size: int, keeps: bool) -> None:
    before = asyncio.run(busy_life(tmp_path, groups, size))
    assert any(file.name.endswith(KEPT_SUFFIX) for file in (tmp_path / RAFT_DIRECTORY).iterdir()) == keeps
    assert asyncio.run(looked_at(tmp_path, groups)) == before
    assert before[1].last == 600 and before[1].snapshot.index == 590
