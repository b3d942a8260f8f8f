"""A snapshot while it arrives: part by part into the files that it will be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from raft.core.messages import SnapshotChunk, SnapshotMeta
from raft.store import incoming
from raft.store.incoming import SnapshotAssembly
from storage.errors import Corrupt
from storage.names import INCOMING_SUFFIX, RAFT_DIRECTORY, RAFT_GROUPS
from tests.sim.disk import Call, Fault, SimDisk, SimFile, fault_on, no_faults
from tests.unit.raft.store_world import TINY, World

GROUP = 7
INDEX = 25
CHUNK_BYTES = 100


def donor(last_live: int = 24) -> World:
    world = World(node=2).open()
    world.create(GROUP)
    world.append(GROUP, 1, 1, [b"%d " % index * 40 for index in range(1, INDEX + 6)])
    world.settle()
    world.snapshot(GROUP, INDEX, [1, 2, 9, 10, 11, last_live], b"state" * 100)
    return world


def stream_of(world: World) -> tuple[SnapshotMeta, bytes]:
    store = world.store.group(GROUP)
    part = store.read_snapshot(INDEX, 0, 1 << 20)
    assert part is not None and part[1]
    return store.snapshot(), part[0]


def chunks_of(meta: SnapshotMeta, stream: bytes) -> Iterator[SnapshotChunk]:
    for at in range(0, len(stream), CHUNK_BYTES):
        data = stream[at : at + CHUNK_BYTES]
        yield SnapshotChunk(0, 0, 1, meta, at, data, at + len(data) == len(stream))


def files(world: World, *suffixes: str) -> list[str]:
    here = [name for name in world.disk.files() if name.startswith(RAFT_DIRECTORY) and name not in RAFT_GROUPS]
    return [name for name in here if name.endswith(suffixes)] if suffixes else here


def receiver() -> World:
    world = World().open()
    world.create(GROUP)
    world.settle()
    return world


def test_no_more_than_a_part_waits_for_the_end() -> None:
    """Gigabytes lay aside until the last byte was there; then they were read, written once more and synced, 64 MiB at a time,
    and whoever shared the disk waited 30 ms for a commit."""
    world, (meta, stream) = receiver(), stream_of(donor())
    for chunk in chunks_of(meta, stream):
        world.store.group(GROUP).receive(chunk)
        parts = files(world, INCOMING_SUFFIX)
        assert sum(len(world.disk.content(name)) for name in parts) < TINY.snapshot_part_bytes
    assert len(stream) > 3 * TINY.snapshot_part_bytes
    assert files(world, ".seg", ".seg.tmp", ".snap.tmp"), "most of it is where it will be"
    told: list[bytes | None] = []
    world.store.group(GROUP).install(meta, told.append)
    world.settle()
    assert told == [b"state" * 100] and not files(world, INCOMING_SUFFIX, ".tmp")


def test_what_arrives_leaves_the_memory_of_the_system_when_it_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 GB of a stream pushed out what clients read, and each fresh page of them took its time."""
    unsynced: list[str] = []
    left: dict[str, int] = {}

    def uncache(file: SimFile, offset: int, size: int) -> None:
        assert offset == 0
        left[file._name] = size
        if file._inode.durable[:size] != file._inode.current[:size]:
            unsynced.append(file._name)

    monkeypatch.setattr(SimFile, "uncache", uncache)
    meta, stream = stream_of(donor())
    assert left == {}, "what a node writes of its own may be read soon"
    world = receiver()
    assert received(world, chunks_of(meta, stream), meta) == [b"state" * 100]
    segments = {name: len(world.disk.content(name)) for name in files(world, ".seg")}
    assert segments and {name.removesuffix(".tmp"): size for name, size in left.items()} == segments
    assert unsynced == []


def received(world: World, chunks: Iterator[SnapshotChunk], meta: SnapshotMeta) -> list[bytes | None]:
    """What is told of a snapshot that has come and is installed."""
    told: list[bytes | None] = []
    for chunk in chunks:
        world.store.group(GROUP).receive(chunk)
    world.store.group(GROUP).install(meta, told.append)
    world.settle()
    world.store.tick(10**7)
    world.settle()
    return told


@pytest.mark.parametrize("number", range(1, 6))
@pytest.mark.parametrize("fault", [Fault.ENOSPC, Fault.ENOSPC_PARTIAL])
def test_a_part_that_finds_no_room_ends_the_snapshot_and_leaves_nothing_of_it(number: int, fault: Fault) -> None:
    """It is not taken again, when there is room: some of it may be where it goes already. The sender begins anew."""
    world, (meta, stream) = receiver(), stream_of(donor())
    found: list[int] = []

    def no_room(call: Call) -> Fault | None:
        is_of_a_job = call.operation == "write" and call.name.startswith(RAFT_DIRECTORY) and call.name.endswith(".tmp")
        found.append(1) if is_of_a_job else None
        return fault if is_of_a_job and len(found) == number else None

    world.disk.faults = no_room
    told = received(world, chunks_of(meta, stream), meta)
    assert len(found) >= number
    world.disk.faults = no_faults
    world.store.tick(2 * 10**7)
    world.settle()
    assert (told, files(world)) == ([None], [])
    assert [finding for finding in world.findings if "there is no room" in finding]
    assert received(world, chunks_of(meta, stream), meta) == [b"state" * 100]


def test_what_of_a_dropped_attempt_cannot_be_deleted_goes_later() -> None:
    world, (meta, stream) = receiver(), stream_of(donor())
    for chunk in [*chunks_of(meta, stream)][:-1]:
        world.store.group(GROUP).receive(chunk)
    before = files(world)
    assert before
    world.disk.faults = fault_on("delete", Fault.EIO)
    world.store.group(GROUP).receive(next(chunks_of(meta, stream)))
    world.settle()
    assert set(before) <= set(files(world)), "the disk deletes nothing"
    world.disk.faults = no_faults
    assert received(world, chunks_of(meta, stream), meta) == [b"state" * 100]
    assert not files(world, ".tmp") and len(files(world, ".snap")) == 1


def test_the_log_begins_behind_a_snapshot_that_came() -> None:
    world, (meta, stream) = receiver(), stream_of(donor())
    assert received(world, chunks_of(meta, stream), meta) == [b"state" * 100]
    assert world.store.group(GROUP).log.snapshot.first_index == INDEX + 1


@pytest.mark.parametrize("count_before", range(1, 14))
def test_a_snapshot_that_is_begun_anew_leaves_nothing_of_the_attempt_before(count_before: int) -> None:
    world, (meta, stream) = receiver(), stream_of(donor())
    chunks = list(chunks_of(meta, stream))
    assert len(chunks) >= 13
    for chunk in [*chunks[:count_before], *chunks]:
        world.store.group(GROUP).receive(chunk)
    told: list[bytes | None] = []
    world.store.group(GROUP).install(meta, told.append)
    world.settle()
    world.store.tick(10**7)
    world.settle()
    assert told == [b"state" * 100]
    stored = world.store.group(GROUP).log
    named = {name for row in stored.segments for name in row.files(GROUP)}
    assert set(files(world)) - named == {name for name in files(world) if name.endswith(".snap")}
    assert len(files(world, ".snap")) == 1


def begun(disk: SimDisk) -> SnapshotAssembly:
    numbers = count(1)
    disk.make_dir(RAFT_DIRECTORY)
    return SnapshotAssembly(disk, GROUP, lambda: next(numbers), TINY.of_segments)


def assembled(meta: SnapshotMeta, stream: bytes, part_bytes: int = 333) -> bytes:
    """The machine's state in a snapshot that came in such parts. Raises Corrupt."""
    disk = SimDisk()
    assembly = begun(disk)
    for at in range(0, len(stream), part_bytes):
        name = f"{RAFT_DIRECTORY}/part{at}"
        disk.create(name).write_at(0, [stream[at : at + part_bytes]])
        assembly.take(name)
    try:
        if assembly.why:
            raise Corrupt("a part", 0, 0, assembly.why)
        return assembly.finish(meta)[2]
    finally:
        assembly.close()


@pytest.mark.parametrize("part_bytes", [1, 7, 43, 333, 100_000])
def test_parts_may_end_anywhere(part_bytes: int) -> None:
    assert assembled(*stream_of(donor()), part_bytes) == b"state" * 100


def test_parts_are_taken_whole_however_little_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "READ_BYTES", 100)
    assert assembled(*stream_of(donor())) == b"state" * 100


def test_damage_is_known_with_the_part_that_has_it_and_what_follows_is_not_kept_in_memory() -> None:
    _, stream = stream_of(donor())
    wrong = bytearray(stream)
    wrong[len(stream) // 3] ^= 1
    disk = SimDisk()
    assembly = begun(disk)
    for at in (0, len(stream) // 2):
        disk.create(f"{RAFT_DIRECTORY}/part{at}").write_at(0, [wrong[at : at + len(stream) // 2]])
        assembly.take(f"{RAFT_DIRECTORY}/part{at}")
        assert "checksum" in assembly.why
    assert len(assembly._rest) <= len(stream) // 2
    assembly.close()


def test_why_a_snapshot_cannot_be_used_is_what_was_found_first() -> None:
    assembly = begun(SimDisk())
    assembly.take(f"{RAFT_DIRECTORY}/gone")
    assembly.refuse("another reason")
    assert assembly.why == f"{RAFT_DIRECTORY}/gone is missing"


def test_a_snapshot_that_is_cut_anywhere_is_refused() -> None:
    meta, stream = stream_of(donor())
    for end in range(len(stream)):
        with pytest.raises(Corrupt):
            assembled(meta, stream[:end])


def test_a_snapshot_with_any_other_bit_is_refused() -> None:
    meta, stream = stream_of(donor())
    for at in range(len(stream)):
        wrong = bytearray(stream)
        wrong[at] ^= 1 << at % 8
        with pytest.raises(Corrupt):
            assembled(meta, bytes(wrong))


@pytest.mark.parametrize("behind", [b"\0", bytes(100), b"rubbish" * 20])
def test_a_snapshot_with_something_behind_its_end_is_refused(behind: bytes) -> None:
    meta, stream = stream_of(donor())
    with pytest.raises(Corrupt):
        assembled(meta, stream + behind)


@pytest.mark.parametrize("part_bytes", [333, 100_000, None])
def test_records_in_another_order_are_refused(part_bytes: int | None) -> None:
    """Each of them is sound: the last one twice, the first ones again behind the others, or where the entries should be."""
    meta, stream = stream_of(donor())
    file_bytes = donor().store.group(GROUP).log.snapshot.size
    head, entries = stream[:file_bytes], stream[file_bytes:]
    for wrong in (stream + entries, stream + head, entries + head, head + head + entries):
        with pytest.raises(Corrupt):
            assembled(meta, wrong, part_bytes or len(stream))


def test_other_entries_than_those_that_are_live_are_refused() -> None:
    (meta, stream), (same, other) = stream_of(donor()), stream_of(donor(last_live=23))
    file_bytes = donor().store.group(GROUP).log.snapshot.size
    assert meta == same and len(stream) == len(other)
    with pytest.raises(Corrupt, match="is not the next one that is live"):
        assembled(meta, stream[:file_bytes] + other[file_bytes:])


def test_another_snapshot_is_refused() -> None:
    meta, stream = stream_of(donor())
    with pytest.raises(Corrupt, match="it is snapshot"):
        assembled(SnapshotMeta(meta.index, meta.term + 1, meta.membership, meta.machine_version), stream)
