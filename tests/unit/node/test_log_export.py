"""node/exporting/log_export.py: several clients read the log of a node that goes on writing it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConnectionForced, ResourceExhausted
from broker.login.audit import Audit
from front.grpc.log_service import LogBegin, LogSource, LogUnread, LogWhole, WantedFile
from node.background import Threads
from node.exporting.log_export import READERS_MAX, LogExports, first_file
from node.exporting.log_listing import ListedFile
from storage.errors import DiskFailed, NoDescriptors
from storage.names import log_file
from storage.os_disk import OsDisk
from tests.unit.node.log_to_export import LogToExport

FAST = 1 << 40


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogToExport]:
    made = LogToExport(tmp_path)
    made.publish(12)
    yield made
    made.log.close()


class Node:
    """What reads the log of the world."""

    def __init__(self, world: LogToExport, bytes_per_s_max: int, monotonic: Callable[[], float]) -> None:
        self.audited: list[str] = []
        self.audit = Audit(note=self.audited.append, warn=self.audited.append)
        self.thread = Threads(asyncio.get_running_loop(), 1, "test-export")
        self.exports = LogExports(
            OsDisk(str(world.root), read_only=True),
            self.thread,
            LogSource("n1", world.log.log_id),
            self.audit,
            durable_end=lambda: world.log.durable_end,
            bytes_per_s_max=bytes_per_s_max,
            monotonic=monotonic,
        )

    def parts(self, *wanted: WantedFile, without_bodies: bool = False, rate: int = 0) -> Any:
        return self.exports.parts(wanted, without_bodies=without_bodies, bytes_per_s_max=rate)


@asynccontextmanager
async def node_of(
    world: LogToExport, rate: int = FAST, monotonic: Callable[[], float] = lambda: 0.0
) -> AsyncIterator[Node]:
    node = Node(world, rate, monotonic)
    try:
        yield node
    finally:
        node.thread.close()


def run(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def test_all_that_is_listed_can_be_exported_and_is_counted_and_audited(world: LogToExport) -> None:
    async def work() -> None:
        async with node_of(world) as node:
            view = await node.exports.listing()
            assert view.source == LogSource("n1", world.log.log_id)
            found = [part async for part in node.parts(*(WantedFile(file.name) for file in view.files))]
            assert [part.name for part in found if isinstance(part, LogBegin)] == [file.name for file in view.files]
            assert [part.size for part in found if isinstance(part, LogWhole)] == [file.size for file in view.files]
            figures = node.exports.figures
            assert (figures.readers, figures.files) == (0, len(view.files))
            assert figures.bytes == sum(file.size for file in view.files)
            assert node.audited == [
                f"this node: export {len(view.files)} files of the log with the contents of messages"
            ]
            assert node.audit.changes["ExportLog", "done"] == 1

    run(work())


def test_files_are_read_in_the_thread_and_never_on_the_loop(
    world: LogToExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: set[str] = set()
    read_only = OsDisk.open

    def noted(disk: OsDisk, name: str) -> Any:
        readers.add(threading.current_thread().name)
        return read_only(disk, name)

    async def work() -> None:
        async with node_of(world) as node:
            monkeypatch.setattr(OsDisk, "open", noted)
            await node.exports.listing()
            async for _ in node.parts(WantedFile(log_file(1)), without_bodies=True):
                pass
            async for _ in node.exports.rows(from_us=0, queue="", follow=False):
                pass
            monkeypatch.undo()

    run(work())
    assert {name.rpartition("_")[0] for name in readers} == {"test-export"}


def test_one_file_that_is_gone_or_cannot_be_read_keeps_no_other_from_coming(
    world: LogToExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(12)
    opened = OsDisk.open

    def failing(disk: OsDisk, name: str) -> Any:
        if name == log_file(2):
            raise DiskFailed("the disk cannot read this")
        return opened(disk, name)

    async def work() -> None:
        async with node_of(world) as node:
            (world.root / log_file(1)).unlink()
            monkeypatch.setattr(OsDisk, "open", failing)
            found = [part async for part in node.parts(*(WantedFile(log_file(number)) for number in (1, 2, 3)))]
            assert found[0] == LogUnread(log_file(1), "the node has deleted it", gone=True)
            assert found[1] == LogUnread(log_file(2), "the disk cannot read this")
            assert found[2] == LogBegin(log_file(3), 0)
            assert isinstance(found[-1], LogWhole)
            monkeypatch.undo()

    run(work())


def test_only_a_few_may_read_at_a_time_and_one_that_leaves_makes_room(world: LogToExport) -> None:
    async def work() -> None:
        async with node_of(world) as node:
            open_ones = [node.parts(WantedFile(log_file(1))) for _ in range(READERS_MAX)]
            for one in open_ones:
                await anext(one)
            with pytest.raises(ResourceExhausted, match="try again later"):
                await anext(node.parts(WantedFile(log_file(1))))
            assert node.audit.changes["ExportLog", "refused"] == 1
            await open_ones.pop().aclose()
            async with aclosing(node.parts(WantedFile(log_file(1)))) as another:
                await anext(another)
            for one in open_ones:
                await one.aclose()
            assert node.exports.figures.readers == 0

    run(work())


def test_readers_wait_as_the_rate_of_the_node_and_their_own_say(
    world: LogToExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def seconds(node_rate: int, own_rate: int) -> float:
        slept: list[float] = []

        async def noted(pause: float) -> None:
            slept.append(pause)

        async with node_of(world, node_rate, lambda: sum(slept)) as node:
            monkeypatch.setattr(asyncio, "sleep", noted)
            async for _ in node.parts(WantedFile(log_file(1)), rate=own_rate):
                pass
            monkeypatch.undo()
        return sum(slept)

    async def work() -> None:
        assert await seconds(FAST, 0) == 0
        assert await seconds(1_000, 0) > 1.5
        assert await seconds(FAST, 500) > 3

    run(work())


def test_rows_are_those_of_a_queue_from_a_time_on(world: LogToExport) -> None:
    world.every_kind()

    async def rows(node: Node, **asked: Any) -> list[dict[str, Any]]:
        found = node.exports.rows(**{"from_us": 0, "queue": "", "follow": False} | asked)
        return [json.loads(row) async for some in found for row in some]

    async def work() -> None:
        async with node_of(world) as node:
            everything = await rows(node)
            assert {"ROLL", "MARK", "CLASSIC_PUBLISH", "RAFT_ENTRIES"} <= {row["kind"] for row in everything}
            assert [row["kind"] for row in await rows(node, queue="q")] == ["NAME", "RAFT_ENTRIES"]
            late = await rows(node, from_us=world.now_us)
            assert 0 < len(late) < len(everything)
            assert late == everything[-len(late) :]
            assert node.audited[1].endswith("dump records of queue 'q' of the log")
            assert not any("SECRET" in json.dumps(row) for row in everything)

    run(work())


def test_damage_is_told_to_who_asks_from_a_time_on(world: LogToExport) -> None:
    """It has no time, and what was there may have been later."""
    path = world.root / log_file(world.durable.file)
    content = bytearray(path.read_bytes())
    content[world.durable.offset // 2] ^= 1
    path.write_bytes(content)

    async def work() -> None:
        async with node_of(world) as node:
            rows = node.exports.rows(from_us=1, queue="", follow=False)
            assert [1 async for some in rows for row in some if "finding" in json.loads(row)]

    run(work())


def test_who_follows_gets_what_is_written_later(world: LogToExport) -> None:
    async def work() -> None:
        async with node_of(world) as node, aclosing(node.exports.rows(from_us=0, queue="", follow=True)) as rows:
            seen = 0
            async for some in rows:
                published = [row for row in map(json.loads, some) if row["kind"] == "CLASSIC_PUBLISH"]
                seen += len(published)
                if seen == 12:
                    world.publish()
                if seen == 13:
                    return

    run(work())


def test_files_that_end_before_the_asked_time_are_passed_over() -> None:
    ends = [200, 300, 0]
    files = [ListedFile(log_file(number), 9, 100 * number, end) for number, end in enumerate(ends, 1)]
    assert [first_file(files, asked) for asked in (0, 200, 201, 300, 301)] == [1, 1, 2, 2, 3]
    assert first_file([], 100) == 0


def test_the_file_that_is_written_is_read_whatever_its_last_time_is() -> None:
    """More may come, and a clock may have been set back."""
    files = [ListedFile(log_file(1), 9, 100, 200), ListedFile(log_file(2), 9, 100, 150, open=True)]
    assert first_file(files, 300) == 2


def test_a_disk_that_cannot_be_read_ends_the_call_and_not_the_node(
    world: LogToExport, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(disk: OsDisk, name: str) -> Any:
        raise NoDescriptors("too many open files")

    async def work() -> None:
        async with node_of(world) as node:
            monkeypatch.setattr(OsDisk, "open", failing)
            with pytest.raises(ResourceExhausted, match="cannot be read now: too many open files"):
                await node.exports.listing()
            with pytest.raises(ResourceExhausted, match="cannot be read now"):
                await anext(node.exports.rows(from_us=0, queue="", follow=False))
            assert node.exports.figures.readers == 0
            monkeypatch.undo()

    run(work())


@pytest.mark.parametrize("follow", [False, True])
def test_readers_of_a_node_that_stops_are_told_so(world: LogToExport, follow: bool) -> None:
    async def work() -> None:
        async with node_of(world) as node:
            rows = node.exports.rows(from_us=0, queue="", follow=follow)
            parts = node.parts(WantedFile(log_file(1)))
            await anext(parts)
            if follow:
                await anext(rows)
            node.exports.stop()
            for reader in (rows, parts):
                with pytest.raises(ConnectionForced, match="node n1 is stopping"):
                    async for _ in reader:
                        pass
            assert node.exports.figures.readers == 0

    run(work())
