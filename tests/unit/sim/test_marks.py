"""What a simulated node's log may lose without a word: exactly what no mark vouches for any more, as recovery shows."""

from __future__ import annotations

from random import Random

import pytest

from storage.names import log_file
from storage.record import MARK_BYTES, ROLL_BYTES
from tests.sim import marks
from tests.sim.disk import BLOCK, SimDisk
from tests.unit.storage.log_world import open_log, recover

FILES = 3


def log_of_three_files() -> tuple[SimDisk, list[int]]:
    """And where the commits of its last file begin."""
    log = open_log(file_bytes_max=1200)
    starts: list[int] = []
    index = 0
    while log.core.file_number < FILES or len(starts) < 3:
        if log.core.file_number == FILES:
            starts.append(log.core.position - MARK_BYTES)
        log.append(index, bytes([index + 1]) * (index * 7 % 60))
        log.loop.run_soon()
        index += 1
    log.disk.kill()
    return log.disk, starts


def flip(disk: SimDisk, number: int, at: int) -> None:
    disk.flip_bit(log_file(number), 8 * at)


def test_the_last_mark_vouches_for_all_before_its_commit() -> None:
    disk, starts = log_of_three_files()
    assert starts[0] == ROLL_BYTES
    assert marks.vouched(marks.logs_on(disk)) == (FILES, starts[-1])
    flip(disk, FILES, starts[-1] + 50)
    assert marks.vouched(marks.logs_on(disk)) == (FILES, starts[-2])


def test_a_file_is_begun_when_all_before_it_is_fsynced() -> None:
    """One mark in its middle, or its head alone, says so."""
    disk, _ = log_of_three_files()
    disk.overwrite(log_file(FILES), disk.content(log_file(FILES))[: ROLL_BYTES + 10])
    assert marks.vouched(marks.logs_on(disk)) == (FILES, 0)
    flip(disk, FILES, 5)
    number, offset = marks.vouched(marks.logs_on(disk))
    assert number == FILES - 1
    assert offset > 0


@pytest.mark.parametrize("last_mark_goes", [False, True])
def test_a_bit_before_the_last_mark_is_noticed_unless_the_mark_goes_with_it(last_mark_goes: bool) -> None:
    disk, starts = log_of_three_files()
    before = marks.logs_on(disk)
    flip(disk, FILES, starts[-2] + MARK_BYTES + 3)
    if last_mark_goes:
        flip(disk, FILES, starts[-1] + 50)
    assert marks.look_torn(before, marks.logs_on(disk)) == last_mark_goes
    assert bool(recover(disk, salvage=True).damage) != last_mark_goes


def test_the_last_mark_alone_takes_nothing_with_it_that_was_vouched_for() -> None:
    disk, starts = log_of_three_files()
    before = marks.logs_on(disk)
    flip(disk, FILES, starts[-1] + 50)
    assert not marks.look_torn(before, marks.logs_on(disk))


@pytest.mark.parametrize("zeros", [False, True])
def test_recovery_notices_whatever_a_mark_still_vouches_for(zeros: bool) -> None:
    """Bits, or blocks of zeros, at one to six places of any files, a thousand times."""
    torn = noticed = 0
    for seed in range(1000):
        random = Random(seed)
        disk, _ = log_of_three_files()
        before = marks.logs_on(disk)
        for _ in range(random.randint(1, 6)):
            number = random.randint(1, FILES)
            content = disk.content(log_file(number))
            at = random.randrange(len(content.rstrip(b"\0")) or 1)
            if zeros:
                start = at - at % BLOCK
                end = min(len(content), start + BLOCK)
                disk.overwrite(log_file(number), content[:start] + bytes(end - start) + content[end:])
            else:
                flip(disk, number, at)
        after = marks.logs_on(disk)
        if marks.look_torn(before, after):
            torn += 1
        elif min(marks.changed(before, after)) < marks.vouched(before):
            noticed += 1
            assert recover(disk, salvage=True).damage, (
                f"seed {seed}: something that was vouched for is gone without a word"
            )
    assert torn > 20
    assert noticed > 200
