"""A node's files, small enough that every prefix and every flipped bit of each of them can be tried.

Three queues: `q` has runs of several messages embedded beside two index segments, some of them acknowledged before they were
moved out of the log, some after; `r` shares large ones with it in the store; `passing` is what made the log roll. All of that
had been synced and the log let go of it; the last run is still in the log only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from broker.queues.queue_type import Outcome
from classic.queue import ClassicQueue
from classic.store import manifest
from classic.store.index_entries import IN_LOG, decode_ranges, read_block
from native.content import count, messages
from storage import names
from storage.record import PAYLOAD_BYTES_MAX, Kind, scan
from tests.sim.disk import SimDisk
from tests.unit.classic.classic_world import TINY, World, record_of

RECORDS = [record_of("q", 1), record_of("r", 2), record_of("passing", 3)]
LOG_FILE_BYTES_MAX = 700
LIMITS = replace(TINY, sequences_per_segment=16, store_file_bytes_max=2_000)
IMITATION = b"\x14\x01" + bytes(30) + b"\x17\x01" + b"\xff" * 20  # looks like our framing
RUNS = ((3, 1), (4, 2), (2, 0))  # how many small messages, and then how many large ones
LAST = b"99|in the log"


@dataclass
class Files:
    """The disk, and what a start has to find on it."""

    disk: SimDisk
    published: dict[str, list[bytes]] = field(default_factory=dict)  # bodies by queue, in order
    acknowledged: dict[str, set[bytes]] = field(default_factory=dict)
    index: str = ""  # names of files: q's first segment, the bodies beside it, the store
    body: str = ""
    store: str = ""
    _read: dict[str, list[tuple[int, int, int, list[bytes]]]] = field(default_factory=dict)  # records by file

    def alive(self, queue: str) -> list[bytes]:
        return [body for body in self.published[queue] if body not in self.acknowledged[queue]]

    def concerned(self, name: str, begin: int, end: int) -> tuple[set[bytes], set[bytes]]:
        """Bodies that may be missing when these bytes of a file are damaged, and acknowledged ones that may come back."""
        missing: set[bytes] = set()
        back: set[bytes] = set()
        if name in (names.CLASSIC_FILES, names.CLASSIC_CLEAN_STOP):
            return missing, back  # they only say what the other files and the log say too
        for kind, first, stop, bodies in self._records(name):
            if first < end and begin < stop:
                (back if kind == Kind.CLASSIC_INDEX_SETTLED else missing).update(bodies)
        return missing, back

    def _records(self, name: str) -> list[tuple[int, int, int, list[bytes]]]:
        if name not in self._read:
            self._read[name] = list(self._read_records(name))
        return self._read[name]

    def _read_records(self, name: str) -> Iterator[tuple[int, int, int, list[bytes]]]:
        data = self.disk.content(name)
        records, stop, _ = scan(data, 0, len(data), PAYLOAD_BYTES_MAX)
        assert stop == len(data), f"{name} is whole up to {stop} of {len(data)}"
        for kind, _, _, _, _, start, end in records:
            payload = data[start:end]
            if kind in (Kind.CLASSIC_BODY, Kind.CLASSIC_STORED):
                bodies = [body for _, body in messages(payload, 0, count(payload))]
            elif kind == Kind.CLASSIC_INDEX:
                entries = [fields for fields in read_block(payload)[1] if fields[4] != IN_LOG]
                bodies = [body for one in entries for body in self.published["q"][one[0] : one[0] + one[1]]]
            else:
                bodies = [body for first, last in decode_ranges(payload) for body in self.published["q"][first:last]]
            yield kind, start - 32, end, bodies


def embedded(number: int) -> bytes:
    return b"%d|" % number + (IMITATION[:40] if number % 4 == 1 else b"small")


def large(number: int) -> bytes:
    return b"%d|" % number + IMITATION + b"large"


class Builder:
    """Makes `Files`."""

    def __init__(self) -> None:
        self.world = World(RECORDS, limits=LIMITS, log_file_bytes_max=LOG_FILE_BYTES_MAX)
        self.files = Files(self.world.disk, {"q": [], "r": []}, {"q": set(), "r": set()})
        self.confirmed = 0

    def publish(self, queues: list[str], bodies: list[bytes]) -> None:
        for queue in queues:
            self.files.published[queue] += bodies
        self.world.publish(queues, bodies, confirm=self.confirmed)
        self.confirmed += len(bodies)
        self.world.loop.run_soon()

    def acknowledge(self, queue: str, numbers: set[int]) -> None:
        """Take all, acknowledge these, give the others back."""
        pieces = []
        while (got := self.world.get(queue)) is not None:
            pieces.append((messages(got.content[got.piece.position :], 0, 1)[0][1], got.piece))
        for body, piece in pieces:
            done = int(body.partition(b"|")[0]) in numbers
            if done:
                self.files.acknowledged[queue].add(body)
            outcome = Outcome.ACKNOWLEDGED if done else Outcome.REQUEUED
            self.world.queues[queue].settle(piece, outcome, self.world.now)

    def roll_log(self) -> None:
        start = self.world.log.files().start
        for _ in range(100):
            self.world.publish(["passing"], [b"passing by"])
            assert self.world.get("passing", no_ack=True) is not None
            self.world.loop.run_soon()
            self.world.tick()
            if self.world.log.files().start > start + 3:
                break
        self.world.tick(3)
        assert self.world.log.files().start > start + 3

    def build(self, clean: bool) -> Files:
        number = 0
        for small_count, large_count in RUNS:
            middle, end = number + small_count, number + small_count + large_count
            self.publish(["q"], [embedded(one) for one in range(number, middle)])
            if large_count:
                self.publish(["q", "r"], [large(one) for one in range(middle, end)])
            number = end
        self.acknowledge("q", {0, 5, 7})  # the begin, the middle and the end of runs: what is left out of contents
        self.roll_log()
        self.acknowledge("q", {2, 3, 9})
        self.acknowledge("r", {8})
        self.roll_log()
        self.publish(["q"], [LAST])
        self._name_files()
        if clean:
            self.world.stop()
        self.world.disk.kill()
        return self.files

    def _name_files(self) -> None:
        files, disk = self.files, self.world.disk
        queue = self.world.queues["q"]
        assert isinstance(queue, ClassicQueue)
        directory = queue.backing.index.directory
        files.index, files.body = names.index_segment(directory, 0), names.body_file(directory, 0)
        files.store = names.store_file(names.STORE_PERSISTENT, min(manifest.load(disk).store))
        segment = manifest.load(disk).queues[1][1][0]
        assert segment.index_size == len(disk.content(files.index)), "the last bytes of the index are not vouched for"
        assert segment.body_size == len(disk.content(files.body))


def small_files(clean: bool = False) -> Files:
    """As a crash left them, or with `clean` a stop in order."""
    return Builder().build(clean)


def start(disk: SimDisk) -> World:
    return World(RECORDS, disk, LIMITS, LOG_FILE_BYTES_MAX)


def bodies(world: World, queue: str) -> list[bytes]:
    """What waits there, and stays."""
    return [body for body, _ in world.waiting(queue)]


def quarantine(disk: SimDisk) -> list[bytes]:
    """The contents of all files that were put aside."""
    directory = names.QUARANTINE_DIRECTORY
    return [disk.content(f"{directory}/{name}") for name in disk.list(directory)]
