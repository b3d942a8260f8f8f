"""A log on a simulated disk, as the tests of the log use it: open after whatever happened, append, look."""

from __future__ import annotations

from dataclasses import dataclass, field

from storage.names import LOG_DIRECTORY, LOG_SUFFIX, log_file, numbers_in
from storage.wal.facts import LogFacts, load_or_create
from storage.wal.files import LogKeeper
from storage.wal.log_core import LogCore, LogEnd
from storage.wal.replay import Damage, Replay
from storage.wal.writer import LogWriter
from tests.sim.clock import SimLoop
from tests.sim.disk import SimDisk

LOG_ID = bytes(range(100, 116))
KIND = 16
Entry = tuple[int, int, bytes]  # writer, index, payload


@dataclass
class Recovered:
    """What replay found."""

    entries: list[Entry]
    damage: list[Damage]
    end: LogEnd
    facts: LogFacts
    torn_bytes: int


def recover(
    disk: SimDisk, salvage: bool = False, chunk_bytes: int = 1 << 20, keeper: LogKeeper | None = None
) -> Recovered:
    facts = load_or_create(disk, LOG_ID)
    replay = Replay(disk, facts, salvage=salvage, chunk_bytes=chunk_bytes)
    entries = []
    for chunk in replay.chunks():
        for record in chunk.records:
            _, _, _, writer, index, start, end = record
            entries.append((writer, index, chunk.buffer[start:end]))
            location = chunk.location(record)
            assert location.file_number == chunk.file_number
            assert location.size == end - start
    return Recovered(entries, replay.damage, replay.finish(keeper), facts, replay.torn_bytes)


@dataclass
class Log:
    """An open log and what was appended to it."""

    disk: SimDisk
    recovered: Recovered
    file_bytes_max: int = 4096
    failures: list[str] = field(default_factory=list)
    keeper: LogKeeper | None = None

    def __post_init__(self) -> None:
        self.loop = SimLoop()
        self.core = LogCore(
            self.recovered.facts.log_id, self.recovered.end, self.file_bytes_max, self.loop.clock.wall_us
        )
        self.writer = LogWriter(
            self.core,
            self.disk,
            self.loop,
            self.recovered.facts,
            on_failed=self.failures.append,
            commit_inline_bytes_max=None,
            keeper=self.keeper,
        )

    def append(self, index: int, payload: bytes, writer: int = 7) -> Entry:
        self.writer.append(KIND, writer, index, [payload])
        return writer, index, payload


def open_log(disk: SimDisk | None = None, file_bytes_max: int = 4096, salvage: bool = False) -> Log:
    disk = disk or SimDisk()
    return Log(disk, recover(disk, salvage=salvage), file_bytes_max)


def log_files(disk: SimDisk) -> list[str]:
    return [log_file(number) for number in numbers_in(disk.list(LOG_DIRECTORY), LOG_SUFFIX)]
