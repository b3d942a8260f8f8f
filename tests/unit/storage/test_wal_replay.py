"""What replay makes of every prefix, every flipped bit and every crash: never a record that was not written, never a
durable one silently gone."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from random import Random

import pytest

from storage.errors import Corrupt, StorageError
from storage.names import LOG_DIRECTORY, LOG_FACTS, log_file
from storage.record import HEADER_BYTES, MARK_BYTES, ROLL_BYTES, Mark, Roll, encode, encode_mark, encode_roll
from storage.wal.facts import load_or_create
from storage.wal.log_core import MARK_EVERY_BYTES, LogEnd
from storage.wal.replay import Replay
from tests.sim.disk import Fault, SimDisk, fault_at
from tests.unit.storage.log_world import KIND, LOG_ID, Entry, Log, log_files, open_log, recover

FIRST = log_file(1)


def small_log() -> tuple[SimDisk, list[Entry]]:
    """A closed log of one file below 4 KiB: eight commits of different sizes."""
    log = open_log(file_bytes_max=2200)
    entries = []
    for index in range(8):
        entries.append(log.append(index, bytes([index + 1]) * (index * 9), writer=index % 3))
        log.append(100 + index, b"", writer=5)
        entries.append((5, 100 + index, b""))
        log.loop.run_soon()
    log.writer.close()
    log.disk.kill()
    recover(log.disk)  # which cuts the zeros off
    assert len(log.disk.content(FIRST)) < 2200
    return log.disk, entries


def is_prefix(part: list[Entry], whole: list[Entry]) -> bool:
    return part == whole[: len(part)]


def is_subsequence(part: list[Entry], whole: list[Entry]) -> bool:
    rest = iter(whole)
    return all(entry in rest for entry in part)


def test_an_empty_directory_is_a_new_log() -> None:
    recovered = recover(SimDisk())
    assert recovered.entries == [] and recovered.end == LogEnd(0, 0, 0)


def test_a_log_comes_back_whole_with_any_chunk_size() -> None:
    disk, entries = small_log()
    for chunk_bytes in (1, 97, 100, 128, 333, 1 << 20):
        assert recover(disk, chunk_bytes=chunk_bytes).entries == entries


def test_every_prefix_of_the_only_file_gives_a_prefix_of_the_records() -> None:
    """A file cut short looks like a crash: nothing behind the cut can show that it was durable."""
    disk, entries = small_log()
    content = disk.content(FIRST)
    for length in range(len(content) + 1):
        disk.overwrite(FIRST, content[:length])
        recovered = recover(disk.copy())
        assert is_prefix(recovered.entries, entries), f"prefix of {length} bytes"
        assert recovered.damage == []
    assert recovered.entries == entries


def test_every_flipped_bit_is_reported_or_lies_beyond_the_last_mark() -> None:
    disk, entries = small_log()
    content = disk.content(FIRST)
    last_mark = content.rindex(LOG_ID) - HEADER_BYTES
    for bit in range(len(content) * 8):
        twin = bytearray(content)
        twin[bit // 8] ^= 1 << (bit % 8)
        disk.overwrite(FIRST, bytes(twin))
        found = recover(disk.copy(), salvage=True)
        assert is_subsequence(found.entries, entries), f"bit {bit} made a record that was never written"
        if bit // 8 < last_mark:
            assert len(found.damage) == 1, (
                f"bit {bit} is damage below the last mark, and was reported as {found.damage}"
            )
            damage = found.damage[0]
            assert damage.offset <= bit // 8 < damage.offset + damage.length
            assert len(entries) - len(found.entries) <= 2, f"bit {bit} cost more than its commit"
        else:
            assert found.entries == entries and found.damage == []


def test_every_flipped_bit_below_the_last_mark_stops_a_strict_replay_after_what_is_good() -> None:
    disk, _ = small_log()
    content = disk.content(FIRST)
    last_mark = content.rindex(LOG_ID) - HEADER_BYTES
    for byte in range(0, last_mark, 11):
        twin = bytearray(content)
        twin[byte] ^= 0x10
        disk.overwrite(FIRST, bytes(twin))
        with pytest.raises(Corrupt) as caught:
            recover(disk.copy())
        assert caught.value.name == FIRST
        assert caught.value.offset <= byte < caught.value.offset + caught.value.length


def several_files() -> tuple[SimDisk, list[Entry]]:
    log = open_log(file_bytes_max=600)
    entries = []
    for index in range(12):
        entries.append(log.append(index, bytes([index + 1]) * 150))
        log.loop.run_soon()
    log.writer.close()
    log.disk.kill()
    assert len(log_files(log.disk)) >= 4
    return log.disk, entries


def remove(disk: SimDisk, name: str) -> None:
    disk.delete(name)
    disk.sync_dir(LOG_DIRECTORY)


@pytest.mark.parametrize("what", ["missing", "empty", "one byte", "zeroed", "garbage", "another file's content"])
def test_a_lost_file_in_the_middle_is_reported_and_the_others_are_kept(what: str) -> None:
    disk, entries = several_files()
    name = log_file(2)
    size = len(disk.content(name))
    match what:
        case "missing":
            remove(disk, name)
        case "empty":
            disk.overwrite(name, b"")
        case "one byte":
            disk.overwrite(name, b"\x01")
        case "zeroed":
            disk.overwrite(name, bytes(size))
        case "garbage":
            disk.overwrite(name, Random(1).randbytes(size))
        case _:
            disk.overwrite(name, disk.content(log_file(3)))
    found = recover(disk, salvage=True)
    assert [damage.file_number for damage in found.damage] == [2]
    assert found.damage[0].offset == 0 and found.damage[0].length > 300
    assert is_subsequence(found.entries, entries) and 7 <= len(found.entries) < 12
    with pytest.raises(Corrupt, match=name.replace(".", r"\.")):
        recover(disk)


def test_every_prefix_of_a_file_in_the_middle_is_reported() -> None:
    disk, entries = several_files()
    content = disk.content(log_file(2))
    used = len(content.rstrip(b"\0"))
    for length in range(used):
        disk.overwrite(log_file(2), content[:length])
        found = recover(disk.copy(), salvage=True)
        assert [damage.file_number for damage in found.damage] == [2], f"prefix of {length} bytes"
        assert is_subsequence(found.entries, entries)


def test_every_prefix_of_the_last_file_boots() -> None:
    disk, entries = several_files()
    name = log_files(disk)[-1]
    content = disk.content(name)
    for length in range(len(content.rstrip(b"\0")) + 1):
        disk.overwrite(name, content[:length])
        found = recover(disk.copy())
        assert is_prefix(found.entries, entries) and len(found.entries) >= 9


def test_the_head_of_a_file_is_damaged_and_its_first_mark_stands_in_for_it() -> None:
    disk, entries = several_files()
    disk.flip_bit(log_file(3), 5 * 8)
    found = recover(disk, salvage=True)
    assert found.entries == entries
    assert [(damage.file_number, damage.offset, damage.length) for damage in found.damage] == [(3, 0, ROLL_BYTES)]


def imitation(log: Log) -> bytes:
    """What somebody would send who knows all about our format, except the log's id."""
    fake_id = bytes(16)
    return b"".join(
        [
            encode_roll(Roll(fake_id, 1, 0, 1)),
            encode_mark(Mark(fake_id, 1, 0, 1, 1 << 40, 1, True)),
            *map(bytes, encode(KIND, 666, 1, [b"never written"])),
            bytes(HEADER_BYTES),
            b"\xff" * 40,
            b"\xce" * 9,
        ]
    )


def test_payloads_that_imitate_our_framing_are_never_read_as_records() -> None:
    """C14: at every alignment, with damage at the record that holds them, so that reading has to start again."""
    for shift in range(0, 40, 3):
        log = open_log(file_bytes_max=1 << 20)
        payload = bytes(shift) + imitation(log) * 3
        entries = [log.append(index, payload) for index in range(4)]
        log.loop.run_soon()
        entries.append(log.append(4, b"after"))
        log.writer.close()
        log.disk.kill()
        disk = log.disk
        assert recover(disk.copy()).entries == entries
        for offset in (ROLL_BYTES + MARK_BYTES + 4, ROLL_BYTES + MARK_BYTES + 5, ROLL_BYTES + MARK_BYTES + 60):
            twin = disk.copy()
            twin.flip_bit(FIRST, offset * 8)
            found = recover(twin, salvage=True)
            assert len(found.damage) == 1
            assert found.entries == entries[4:]


def test_a_copy_of_the_log_inside_a_payload_is_only_a_payload() -> None:
    """Somebody sends a backup of this log through the broker: right id, right checksums, wrong place."""
    source, _ = small_log()
    copy = source.content(FIRST).rstrip(b"\0")
    log = open_log(file_bytes_max=1 << 20)
    entries = [log.append(1, copy), log.append(2, copy)]
    log.loop.run_soon()
    entries.append(log.append(3, b"after"))
    log.writer.close()
    log.disk.kill()
    assert recover(log.disk.copy()).entries == entries
    log.disk.flip_bit(FIRST, (ROLL_BYTES + MARK_BYTES + 8) * 8)
    found = recover(log.disk, salvage=True)
    assert found.entries == entries[2:] and len(found.damage) == 1


def test_marks_within_a_large_commit_bound_what_one_bit_costs() -> None:
    log = open_log(file_bytes_max=1 << 22)
    entries = [log.append(index, index.to_bytes(4, "little") * 250) for index in range(500)]
    log.loop.run_soon()
    log.writer.close()
    log.disk.kill()
    log.disk.flip_bit(FIRST, 200_000 * 8)
    found = recover(log.disk, salvage=True)
    assert len(found.damage) == 1
    assert found.damage[0].length <= MARK_EVERY_BYTES + 2000
    assert len(found.entries) >= len(entries) - MARK_EVERY_BYTES // 1000 - 2
    assert is_subsequence(found.entries, entries)


def test_stale_bytes_behind_the_end_are_not_resurrected() -> None:
    """The rest of an older log of this very file, commit by commit, stands where the file would go on."""
    disk, entries = small_log()
    content = disk.content(FIRST)
    first_commit_end = content.index(LOG_ID, ROLL_BYTES + MARK_BYTES) - HEADER_BYTES
    second = content.index(LOG_ID, first_commit_end + MARK_BYTES) - HEADER_BYTES
    disk.overwrite(FIRST, content[:first_commit_end] + bytes(64) + content[second : second + 400])
    found = recover(disk, salvage=True)
    assert found.entries == entries[:2]
    disk.overwrite(FIRST, content[:first_commit_end] + content[second : second + 400])
    assert recover(disk, salvage=True).entries == entries[:2]


def record(index: int, payload: bytes = b"") -> bytes:
    return b"".join(map(bytes, encode(KIND, 1, index, [payload])))


def crafted(*pieces: tuple[int, bool] | bytes, log_id: bytes = LOG_ID, head: bool = True) -> SimDisk:
    """The first log file, piece by piece: (commit, begins it) is a mark, bytes are bytes."""
    content = encode_roll(Roll(LOG_ID, 1, 0, 1)) if head else b""
    for piece in pieces:
        if isinstance(piece, bytes):
            content += piece
        else:
            content += encode_mark(Mark(log_id, 1, len(content), 1, len(content), *piece))
    disk = SimDisk()
    recover(disk)
    disk.overwrite(FIRST, content)
    return disk


def indexes(disk: SimDisk) -> list[int]:
    return [entry[1] for entry in recover(disk, salvage=True).entries]


def test_marks_must_follow_each_other_in_the_order_of_their_commits() -> None:
    assert indexes(crafted((1, True), record(1), (2, True), record(2), (2, False), record(3))) == [1, 2, 3]
    for wrong in ((3, True), (1, True), (2, False), (0, True)):
        assert indexes(crafted((1, True), record(1), wrong, record(2))) == [1], f"commit {wrong} after commit 1"


def test_a_mark_of_another_log_in_the_right_place_ends_the_reading() -> None:
    assert indexes(crafted((1, True), record(1), log_id=bytes(16))) == []


def test_a_file_without_a_head_gives_nothing_before_its_first_mark() -> None:
    assert indexes(crafted(record(1), (1, True), record(2), (2, True), record(3), head=False)) == [2, 3]


def test_records_behind_the_end_that_the_next_file_knows_are_not_read() -> None:
    disk, entries = several_files()
    recover(disk)
    content = disk.content(FIRST).rstrip(b"\0")
    end = content.index(b"\x02" * 150) + 150
    stale = encode_mark(Mark(LOG_ID, 1, end, 1, end, 3, True)) + record(666)
    disk.overwrite(FIRST, content[:end] + stale)
    found = recover(disk, salvage=True)
    assert found.entries == entries and found.damage == []


def test_a_large_commit_torn_in_its_middle_is_a_torn_tail_though_marks_of_it_got_through() -> None:
    """The device wrote its blocks in another order: marks within a commit vouch only for what was before it."""
    log = open_log(file_bytes_max=1 << 22)
    first = log.append(0, b"durable")
    log.loop.run_soon()
    start = log.core.position
    large = [log.append(index, bytes([index]) * 1000) for index in range(1, 200)]
    log.loop.run_soon()
    log.disk.kill()
    content = bytearray(log.disk.content(FIRST))
    content[start + 5000] ^= 1
    log.disk.overwrite(FIRST, bytes(content))
    found = recover(log.disk)
    assert found.entries == [first, *large[:4]] and found.damage == [] and found.torn_bytes > 190_000


def test_files_that_were_prepared_and_never_used_are_gone_for_good_after_recovery() -> None:
    for seed in range(10):
        log = open_log(file_bytes_max=600)
        log.append(1, bytes(400))
        log.loop.run_soon()
        assert log_files(log.disk) == [FIRST, log_file(2)]
        log.disk.kill()
        recover(log.disk)
        log.disk.crash(Random(seed))
        assert log_files(log.disk) == [FIRST]


def test_after_recovery_the_tail_is_gone_and_writing_goes_on_in_a_new_file() -> None:
    log = open_log()
    first = log.append(1, b"kept")
    log.loop.run_soon()
    log.append(2, b"torn" * 100)
    log.loop.run_soon()
    content = log.disk.content(FIRST)
    log.disk.kill()
    log.disk.overwrite(FIRST, content[:-1].rstrip(b"\0")[:-5])
    found = recover(log.disk)
    assert found.entries == [first] and found.torn_bytes > 0
    assert len(log.disk.content(FIRST)) == found.end.offset
    again = Log(log.disk, found)
    second = again.append(2, b"new")
    again.writer.close()
    assert log_files(log.disk)[:2] == [FIRST, log_file(2)]
    log.disk.kill()
    assert recover(log.disk).entries == [first, second]


def test_lost_facts_are_rebuilt_from_the_files_and_never_invented() -> None:
    disk, entries = several_files()
    disk.delete(LOG_FACTS)
    found = recover(disk)
    assert found.entries == entries and found.facts.rebuilt
    disk.delete(LOG_FACTS)
    for name in log_files(disk):
        disk.overwrite(name, Random(2).randbytes(300))
    with pytest.raises(Corrupt):
        recover(disk)


def test_a_file_that_release_was_deleting_is_not_read_and_goes() -> None:
    disk, entries = several_files()
    old = disk.content(log_file(1))
    log = open_log(disk)
    log.writer.release(3)
    log.writer.close()
    disk.kill()
    disk.overwrite(log_file(1), old)  # the deletion of 1 did not reach the disk, that of 2 did
    found = recover(disk)
    assert is_subsequence(found.entries, entries) and found.entries[0] != entries[0]
    assert log_file(1) not in log_files(disk)


def test_a_log_of_which_nothing_is_left_is_reported() -> None:
    disk, _ = several_files()
    leftover = disk.content(log_file(1))
    log = open_log(disk)
    log.writer.release(3)
    log.writer.close()
    disk.kill()
    for name in log_files(disk):
        remove(disk, name)
    disk.overwrite(log_file(1), leftover)  # was released, and proves nothing
    with pytest.raises(Corrupt, match="nothing is left"):
        recover(disk)
    replay = Replay(disk, load_or_create(disk, LOG_ID), salvage=True)
    assert not list(replay.chunks()) and replay.nothing_is_left
    found = recover(disk, salvage=True)
    assert [damage.file_number for damage in found.damage] == [3]
    assert found.end == LogEnd(3, 0, 0), "the log goes on behind all that was named"


def mutate(content: bytes, others: list[bytes], random: Random) -> bytes:
    """One of the things that happen to files."""
    at, length = random.randrange(len(content)), random.choice((1, 8, 32, 96, 512))
    end = min(at + length, len(content))
    match random.randrange(7):
        case 0:
            return content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :]
        case 1:
            return content[:at] + bytes(end - at) + content[end:]
        case 2:
            return content[:at]
        case 3:  # a piece of this file stands in another place of it, too
            source = random.randrange(len(content))
            piece = content[source : source + end - at]
            return content[:at] + piece + content[at + len(piece) :]
        case 4:  # a length field says something else
            return content[:at] + random.choice((0, 1, 2**31, 2**32 - 1)).to_bytes(4, "little") + content[at + 4 :]
        case 5:  # the end of another file
            return content[:at] + random.choice(others)[at:]
        case _:  # two blocks changed places
            other = at // 512 * 512
            return content[other : other + 512] + content[512:other] + content[:512] + content[other + 512 :]


@pytest.mark.parametrize("seed", range(150))
def test_whatever_happens_to_files_no_record_is_made_up_and_twice_is_the_same(seed: int) -> None:
    random = Random(seed)
    log = open_log(file_bytes_max=random.choice((700, 2500)))
    entries = []
    for index in range(25):
        entries.append(log.append(index, random.randbytes(random.randrange(300)), writer=index % 3))
        if random.random() < 0.7:
            log.loop.run_soon()
    log.writer.close()
    log.disk.kill()
    disk = log.disk
    recover(disk)
    names = log_files(disk)
    for _ in range(random.randrange(1, 4)):
        name = random.choice(names)
        if disk.content(name):
            disk.overwrite(name, mutate(disk.content(name), [disk.content(other) for other in names], random))
    found = recover(disk.copy(), salvage=True, chunk_bytes=random.choice((100, 1 << 20)))
    assert all(entry in entries for entry in found.entries)
    # A whole record that was moved onto the place of another one is still a record. Its writer's order shows it.
    assert is_subsequence(found.entries, entries) or not ascends([index for _, index, _ in found.entries])
    again = recover(disk, salvage=True)
    assert (again.entries, again.damage, again.end) == (found.entries, found.damage, found.end)
    with suppress(Corrupt):
        strict = recover(disk).entries
        assert is_prefix(strict, entries) or [index for _, index, _ in strict] != list(range(len(strict)))


def ascends(numbers: list[int]) -> bool:
    return all(first < second for first, second in pairwise(numbers))


class World:
    """A log that lives through crashes, and what it promised."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimDisk()
        self.entries: list[Entry] = []  # everything that a record may be
        self.next_index = 0
        self.log = open_log(self.disk, self.random.choice((300, 1500, 5000)))
        self.sync_promises()

    def sync_promises(self) -> None:
        self.promised = len(self.entries)
        self.waiting: list[tuple[int, int]] = []  # ticket, number of entries up to it
        self.log.writer.when_durable(self.on_durable)

    def on_durable(self, ticket: int) -> None:
        while self.waiting and self.waiting[0][0] <= ticket:
            self.promised = self.waiting.pop(0)[1]

    def work(self, rounds: int) -> None:
        for _ in range(rounds):
            for _ in range(self.random.randrange(1, 4)):
                self.next_index += 1
                size = self.random.choice((0, 1, 31, 200, 700, 3000))
                payload = self.random.choice((bytes(size), self.random.randbytes(size), b"\xff" * size))
                self.entries.append(self.log.append(self.next_index, payload))
                self.waiting.append((self.log.writer.gathering, len(self.entries)))
            if self.random.random() < 0.8:
                self.log.loop.run_soon()
            if self.random.random() < 0.2:
                self.log.writer.flush_lazy()

    def crash_in_flight(self) -> None:
        """The power goes at any call of a commit."""
        calls = self.disk.calls + self.random.randrange(1, 8)

        class PowerCut(BaseException):
            pass

        def cut(call: object) -> Fault | None:
            if self.disk.calls >= calls:
                raise PowerCut
            return None

        self.disk.faults = cut
        with suppress(PowerCut):
            self.work(5)
        self.disk.faults = lambda call: None
        if self.random.random() < 0.3:
            self.disk.kill()  # the process alone: what it wrote and never fsynced is read, and must be durable from then on
        else:
            self.disk.crash(self.random)

    def recover(self) -> None:
        size = self.log.file_bytes_max
        crashes = self.random.randrange(3)
        for _ in range(crashes):  # crashes during recovery
            self.disk.faults = fault_at(self.disk.calls + self.random.randrange(1, 30), Fault.EIO)
            with suppress(StorageError):
                recover(self.disk)
            self.disk.faults = lambda call: None
            self.disk.crash(self.random)
        found = recover(self.disk)
        assert is_prefix(found.entries, self.entries), "order or content is not what was appended"
        assert len(found.entries) >= self.promised, f"{self.promised} were promised, {len(found.entries)} are there"
        self.entries = found.entries
        self.log = Log(self.disk, found, size)
        self.sync_promises()


@pytest.mark.parametrize("seed", range(40))
def test_what_was_durable_survives_any_power_cut_in_order_even_during_recovery(seed: int) -> None:
    world = World(seed)
    for _ in range(6):
        world.work(world.random.randrange(8))
        world.crash_in_flight()
        world.recover()


@pytest.mark.parametrize("fault", [Fault.EIO, Fault.ENOSPC, Fault.ENOSPC_PARTIAL])
def test_a_fault_at_every_single_call_loses_nothing_that_was_durable(fault: Fault) -> None:
    number = 0
    while True:
        number += 1
        disk = SimDisk()
        log = open_log(disk, file_bytes_max=700)
        disk.calls = 0
        disk.faults = fault_at(number, fault)
        promised = 0
        entries = []
        for index in range(12):
            try:
                entries.append(log.append(index, bytes([index]) * 150))
            except Exception as error:
                assert log.failures, f"refused without having failed: {error}"
                break
            log.loop.run_soon()
            if index == 8:
                log.writer.release(2)
            if log.writer.failed is None:
                promised = index + 1
        calls = disk.calls
        disk.faults = lambda call: None
        disk.crash(Random(number))
        found = recover(disk, salvage=True)
        assert found.damage == [], f"{fault.name} at call {number} damaged what had been durable"
        first = found.entries[0][1] if found.entries else 0
        assert first in (0, 3), "three entries fill a file, and one file was released"
        assert is_prefix(found.entries, entries[first:])
        assert first + len(found.entries) >= promised, f"{fault.name} at call {number} lost a durable record"
        if number > calls:
            break
    assert number > 20
