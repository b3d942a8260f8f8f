"""A log that is read while its node writes, rolls and archives it: positions, limits, and that nothing is read twice or not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from analytics.follow.log_positions import (
    DELETED,
    LogEnds,
    LogRange,
    NodeLog,
    NodePosition,
    Positions,
    admitted,
    as_offset,
    ends_of,
    positions_of,
    ranges,
)
from analytics.follow.range_pieces import DataLost, RangeReader
from analytics.inputs import LogFile, log_files
from native.columns import numbers
from native.log_tables import RECORDS
from storage.history.column_reader import ColumnPiece, ColumnReader, durable_end
from storage.names import archived, log_file
from storage.os_disk import OsDisk
from storage.record import MARK_BYTES, ROLL_BYTES
from tests.unit.analytics.past_world import LOG_ID, PastWorld
from tests.unit.node.log_to_export import LogToExport

COLUMNS = [next(at for at, one in enumerate(RECORDS) if one.name == name) for name in ("offset", "kind", "time")]
Row = tuple[int, ...]
LOG = LOG_ID.hex()


@pytest.fixture
def world(tmp_path: Path) -> PastWorld:
    made = PastWorld(tmp_path / "n1", seed=1)
    made.live(1)
    return made


def rows_of(number: int, piece: ColumnPiece) -> list[Row]:
    """Of each record the file, its place in it, its kind and its time."""
    columns = [numbers(RECORDS[at], piece.records[1][at]) for at in COLUMNS]
    return [(number, *row) for row in zip(*columns, strict=True)]


def read(found: Sequence[LogRange]) -> list[Row]:
    rows: list[Row] = []
    for one in found:
        reader = RangeReader(one)
        for _ in reader.before():
            pass
        rows += [row for piece in reader.pieces() for row in rows_of(one.number, piece)]
        assert reader.damage == []
    return rows


def all_durable(data: Path) -> list[Row]:
    """As a reader of whole files has them."""
    rows: list[Row] = []
    for file in log_files([str(data)]):
        disk = OsDisk(file.directory, read_only=True)
        end = durable_end(disk, file.name) if file.is_last else None
        reader = ColumnReader(disk, file.name, is_followed=not file.is_last, end=end)
        rows += [row for piece in reader.pieces() for row in rows_of(file.number, piece)]
    return rows


def now(data: Path, ends: LogEnds, start: Positions, **limits: int) -> tuple[dict[str, NodePosition], list[LogRange]]:
    """How far the next step goes, and what it reads. Positions go through a checkpoint."""
    logs = ends.look(log_files([str(data)]))
    end = positions_of(json.loads(json.dumps(as_offset(admitted(start, logs, **limits)))))
    return end, ranges(start, end, logs)


@pytest.mark.parametrize("seed", range(8))
def test_steps_over_a_growing_log_have_each_record_once_wherever_they_end(tmp_path: Path, seed: int) -> None:
    """The last file grows commit by commit, files roll and are archived between any two steps, and readers start anew."""
    random = Random(seed)
    world = PastWorld(tmp_path / "whole" / "n1", seed)
    world.live(6)
    grown = tmp_path / "grown" / "n1"
    ends, position, seen = LogEnds(), dict[str, NodePosition](), list[Row]()
    for number in range(1, world.file + 1):
        whole = next(path for path in world.directory.glob(f"*/{number:020}.log")).read_bytes()
        for end in [*sorted(random.sample(range(ROLL_BYTES + MARK_BYTES, len(whole)), 4)), len(whole)]:
            file = grown / log_file(number)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(whole[:end] + bytes(200))  # it is made larger than what is written to it
            position, found = now(grown, ends, position)
            seen += read(found)
            if random.random() < 0.3:
                ends = LogEnds()
        moved = grown / archived(log_file(number))
        moved.parent.mkdir(exist_ok=True)
        if number < world.file and random.random() < 0.5:
            (grown / log_file(number)).rename(moved)
    assert seen == all_durable(world.directory)


def test_a_step_that_is_repeated_reads_the_same_though_the_log_has_grown(world: PastWorld, tmp_path: Path) -> None:
    end, found = now(tmp_path, LogEnds(), {})
    first = read(found)
    world.live(3)
    again = ranges({}, end, LogEnds().look(log_files([str(tmp_path)])))
    assert read(again) == first == [row for row in all_durable(tmp_path) if row[:2] < (end["n1"].file, end["n1"].base)]


def test_the_last_file_that_was_begun_is_lost_when_only_the_one_made_for_later_is_there(
    world: PastWorld, tmp_path: Path
) -> None:
    """And all before it is read."""
    world.live(2)
    (tmp_path / "n1" / log_file(3)).unlink()
    (tmp_path / "n1" / log_file(4)).write_bytes(bytes(100))
    end, found = now(tmp_path, LogEnds(), {})
    assert end == {"n1": NodePosition(LOG, 4, 0)}
    assert [(one.number, one.lost) for one in found] == [(1, None), (2, None), (3, DELETED)]
    assert now(tmp_path, LogEnds(), end) == (end, [])


@pytest.mark.parametrize("limit", [{"files_max": 1}, {"bytes_max": 1}, {"files_max": 2}])
def test_a_limit_takes_that_many_files_and_one_at_least(
    world: PastWorld, tmp_path: Path, limit: dict[str, int]
) -> None:
    world.live(4)
    position, steps, ends = dict[str, NodePosition](), [], LogEnds()
    while True:
        following, found = now(tmp_path, ends, position, **limit)
        if following == position:
            break
        steps.append(found)
        position = following
    assert {len(one) for one in steps[:-1]} == {limit.get("files_max", 1)}
    assert position == ends_of(ends.look(log_files([str(tmp_path)])))
    assert read([one for step in steps for one in step]) == all_durable(tmp_path)


def test_a_limit_takes_of_each_node_in_its_turn(world: PastWorld, tmp_path: Path) -> None:
    world.live(3)
    shutil.copytree(tmp_path / "n1", tmp_path / "n2")
    position, found = now(tmp_path, LogEnds(), {}, files_max=2)
    assert [(one.node, one.number) for one in found] == [("n1", 1), ("n2", 1)]
    assert position == {"n1": NodePosition(LOG, 2, 0), "n2": NodePosition(LOG, 2, 0)}


def test_a_node_that_comes_later_is_read_from_its_first_file(world: PastWorld, tmp_path: Path) -> None:
    position, _ = now(tmp_path, LogEnds(), {})
    shutil.copytree(tmp_path / "n1", tmp_path / "n2")
    _, found = now(tmp_path, LogEnds(), position)
    assert [(one.node, one.number, one.start) for one in found] == [("n2", 1, 0)]


def test_files_that_were_deleted_unread_are_told_and_those_behind_them_read(world: PastWorld, tmp_path: Path) -> None:
    position, _ = now(tmp_path, LogEnds(), {})
    world.live(4)
    for number in (1, 2, 3):
        (world.directory / archived(log_file(number))).unlink()
    _, found = now(tmp_path, LogEnds(), position)
    assert [(one.number, one.lost) for one in found] == [
        (1, DELETED), (2, DELETED), (3, DELETED), (4, None), (5, None)
    ]  # fmt: skip
    with pytest.raises(DataLost, match="deleted this file before it was read"):
        list(RangeReader(found[0]).before())


def test_a_file_that_goes_between_planning_and_reading_is_lost_and_one_that_moves_is_read(
    world: PastWorld, tmp_path: Path
) -> None:
    _, (one,) = now(tmp_path, LogEnds(), {})
    (world.directory / log_file(1)).rename(world.directory / archived(log_file(1)))
    assert read([one])
    (world.directory / archived(log_file(1))).unlink()
    with pytest.raises(DataLost, match="deleted this file before it was read"):
        read([one])


def test_a_directory_that_begins_another_log_is_read_from_its_beginning_and_the_rest_of_the_old_one_is_lost(
    world: PastWorld, tmp_path: Path
) -> None:
    position = {"n1": NodePosition("00" * 16, 7, 100)}
    end, found = now(tmp_path, LogEnds(), position)
    assert [(one.number, one.start, one.lost is None) for one in found] == [(7, 0, False), (1, 0, True)]
    assert end["n1"].log == LOG


def of_files(node: str, *sizes: int, log: str = LOG) -> NodeLog:
    """The last one is durable up to its byte 5."""
    files = [LogFile(node, node, log_file(number), number, size, False) for number, size in enumerate(sizes, 1)]
    return NodeLog(node, node, files, NodePosition(log, len(sizes), 5))


def test_a_file_counts_with_what_is_left_of_it_and_the_last_one_with_what_is_durable() -> None:
    log = of_files("n1", 10, 20, 30)
    assert [log.bytes_of(number, 4) for number in (1, 2, 3)] == [6, 16, 1]
    assert (log.bytes_of(1, 11), log.bytes_of(3, 6)) == (0, 0)
    ended = NodePosition(LOG, 2, 7)
    assert log.up_to(ended).end == ended
    assert log.up_to(NodePosition("other", 2, 7)).end == log.end


def test_another_log_is_read_a_file_at_a_time_as_far_as_the_limit_goes() -> None:
    start, log = {"n1": NodePosition("00" * 16, 7, 100)}, of_files("n1", 10, 20)
    assert admitted(start, [log], files_max=1) == {"n1": NodePosition(LOG, 2, 0)}
    assert admitted(start, [log], files_max=2) == {"n1": log.end}


def test_a_node_that_has_nothing_new_takes_no_part_of_the_limit() -> None:
    old, new = of_files("n1", 10), of_files("n2", 10)
    reached = admitted({"n1": old.end}, [old, new], files_max=1)
    assert reached == {"n1": old.end, "n2": new.end}


def test_who_has_read_more_than_there_is_does_not_go_back() -> None:
    """The log was cut at a start, or the directory is an older copy."""
    log = of_files("n1", 10, 20)
    for further in (NodePosition(LOG, 2, 9), NodePosition(LOG, 3, 0)):
        assert admitted({"n1": further}, [log]) == {"n1": further}


def test_what_is_left_of_a_log_that_is_not_there_any_more_is_lost() -> None:
    start, end = {"n1": NodePosition(LOG, 1, 0)}, {"n1": NodePosition(LOG, 2, 5)}
    for logs in ([], [of_files("n1", 10, log="00" * 16)]):
        (one,) = ranges(start, end, logs)
        assert (one.node, one.number, one.lost) == ("n1", 2, "the log of this node is not there any more")


def test_a_mark_about_the_file_before_says_nothing_of_the_one_that_it_is_in(tmp_path: Path) -> None:
    """The first one of a file."""
    node = LogToExport(tmp_path / "n1")
    while node.durable.file < 2:
        node.publish()
    (log,) = LogEnds().look(log_files([str(tmp_path)]))
    node.log.close()
    assert log.end.file == 2 and log.end.base <= node.durable.offset


def test_what_no_mark_vouches_for_is_left_for_later(world: PastWorld, tmp_path: Path) -> None:
    """The last commit, which a node that was killed may not have."""
    path = world.directory / log_file(1)
    end, _ = now(tmp_path, LogEnds(), {})
    assert end["n1"].base == path.stat().st_size - MARK_BYTES
    path.write_bytes(path.read_bytes()[:-MARK_BYTES])
    before, _ = now(tmp_path, LogEnds(), {})
    assert before["n1"].base < end["n1"].base


def test_a_damaged_byte_in_what_is_read_is_told_and_a_file_that_is_written_goes_on_behind_it(
    world: PastWorld, tmp_path: Path
) -> None:
    path = world.directory / log_file(1)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    end, (one,) = now(tmp_path, LogEnds(), {})
    assert end["n1"].base == len(whole) - MARK_BYTES
    reader = RangeReader(one)
    list(reader.before())
    list(reader.pieces())
    assert [lost.torn for lost in reader.damage] == [False]


def test_an_offset_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="offsets of version 2, and 1 is known"):
        positions_of({"version": 2, "nodes": {}})
