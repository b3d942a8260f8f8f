"""What a log should have and has not is told of the file that ends too early, whatever is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.coverage import Coverage
from analytics.file_window import FileWindow, coverage_of, looked_through
from analytics.inputs import log_files, segment_files
from analytics.lost_records import CUT_OFF, NOT_BEGUN, OTHER_FILE, OTHER_LOG, RAM, lost_of
from node import identity
from storage import fact_file
from storage.history.column_reader import ColumnReader
from storage.names import NODE_FACTS, archived, group_segment, log_file
from storage.os_disk import OsDisk
from storage.record import scan
from storage.wal.facts import load_or_create
from storage.wal.log_core import LogCore, LogEnd
from storage.wal.writer import LogWriter
from tests.sim.clock import SimLoop
from tests.unit.storage.log_world import KIND, LOG_ID

FILE_BYTES = 1000


def log(directory: Path, log_id: bytes = LOG_ID) -> Path:
    """Of several files; the last of them has room that was never written."""
    disk = OsDisk(str(directory))
    core = LogCore(log_id, LogEnd(0, 0, 0), FILE_BYTES)
    written = LogWriter(
        core, disk, SimLoop(), load_or_create(disk, log_id), on_failed=pytest.fail, commit_inline_bytes_max=None
    )
    for index in range(10):
        written.append(KIND, 3, index, [bytes([index + 1]) * 200])
        written.commit_now()
    written.close()
    return directory


@pytest.fixture
def node(tmp_path: Path) -> Path:
    (tmp_path / "n1").mkdir()
    return log(tmp_path / "n1")


def covered(node: Path) -> Coverage:
    files = log_files([str(node)])
    seen = [FileWindow(file) for file in files]
    for one in seen:
        for _ in looked_through(one, tail=False):
            pass
    return coverage_of(files, seen)


def lost(node: Path) -> list[tuple[int, str]]:
    """Files of which something is lost, and why."""
    return [(one.file, one.reason) for one in covered(node).damage if not one.torn]


def whole_records(path: Path) -> list[int]:
    """Where they end."""
    content = path.read_bytes()
    found, _, _ = scan(content, 0, len(content), FILE_BYTES)
    return [one[6] for one in found]


def test_of_a_whole_log_nothing_is_lost_wherever_its_files_lie(node: Path) -> None:
    assert lost(node) == []
    (node / archived(log_file(1))).parent.mkdir()
    (node / log_file(1)).rename(node / archived(log_file(1)))
    assert lost(node) == []
    (node / archived(log_file(1))).unlink()
    assert lost(node) == [], "an archive has given way"


def test_a_file_that_lies_in_the_place_of_another_is_told(node: Path) -> None:
    """`queue --at` read it as the file whose number it has, and ended with 0."""
    whole = (node / log_file(1)).read_bytes()
    (node / log_file(1)).write_bytes((node / log_file(2)).read_bytes())
    (node / log_file(2)).write_bytes(whole)
    assert {(1, OTHER_FILE), (2, OTHER_FILE)} <= set(lost(node))


def test_a_file_that_was_cut_off_between_two_records_is_told(node: Path) -> None:
    path = node / log_file(2)
    content, ends = path.read_bytes(), whole_records(path)
    for end in (0, *ends[:-1]):
        path.write_bytes(content[:end])
        (told,) = [one for one in covered(node).damage if one.file == 2]
        assert (told.offset, told.length, told.torn, told.reason) == (end, ends[-1] - end, False, CUT_OFF)


def test_zeros_at_the_end_of_a_file_that_was_left_behind_are_told(node: Path) -> None:
    path = node / log_file(2)
    ends = whole_records(path)
    path.write_bytes(path.read_bytes()[: ends[1]] + bytes(FILE_BYTES))
    assert lost(node) == [(2, CUT_OFF)]
    path.write_bytes(bytes(FILE_BYTES))
    assert lost(node) == [(2, CUT_OFF)]


def test_damage_at_an_end_is_told_once(node: Path) -> None:
    path = node / log_file(2)
    content = bytearray(path.read_bytes())
    content[whole_records(path)[-1] - 1] ^= 1
    path.write_bytes(content)
    assert lost(node) == [(2, "the checksum of a record differs")]


def test_files_of_two_logs_are_not_taken_for_one(node: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = log(tmp_path / "other", bytes(reversed(LOG_ID)))
    (other / log_file(2)).replace(node / log_file(2))
    assert lost(node) == [(1, OTHER_LOG), (2, OTHER_LOG)]
    end = whole_records(node / log_file(1))[-1]
    assert [(one.offset, one.length) for one in covered(node).damage if one.file == 1] == [(end, 0)]


def test_a_node_whose_files_are_all_empty_is_told_of(node: Path) -> None:
    """As a copy leaves them that failed: the node was left out, and the answer looked as if there were none."""
    for path in (node / "log").iterdir():
        path.write_bytes(b"")
    assert covered(node).nodes == ["n1"]
    assert lost(node) == [(1, NOT_BEGUN)]
    (node / log_file(1)).write_bytes(bytes(700))
    assert [(one.offset, one.length) for one in covered(node).damage] == [(0, 700)]


def test_a_ram_node_makes_a_file_and_never_writes_to_it(node: Path) -> None:
    """Each answer about a cluster with one ended with 75, as if something of its log was lost."""
    for path in (node / "log").iterdir():
        path.write_bytes(bytes(700))
    disk = OsDisk(str(node))
    assert identity.RAM == RAM
    for kind, told in ((identity.DISK, [(1, NOT_BEGUN)]), (RAM, [])):
        fact_file.save(disk, NODE_FACTS, {"kind": kind})
        assert lost(node) == told, kind
    (node / NODE_FACTS).write_bytes(b"damage")
    assert lost(node) == [(1, NOT_BEGUN)]


def test_a_file_behind_which_another_one_lies_than_the_next_is_not_judged_by_that(node: Path) -> None:
    """Its head says where the log ended before another file."""
    end = whole_records(node / log_file(1))[-1]
    (node / log_file(2)).write_bytes((node / log_file(3)).read_bytes())
    assert [one for one in covered(node).damage if one.file == 1] == []
    with (node / log_file(1)).open("r+b") as file:
        file.truncate(end - 1)
    assert CUT_OFF not in [one.reason for one in covered(node).damage if one.file == 1]


@pytest.mark.parametrize("size", [0, 30])
def test_a_file_that_was_begun_is_none_that_was_not(node: Path, size: int) -> None:
    """Only the last one of a node may be: of this one a part of the head is there, or nothing but damage."""
    for path in sorted((node / "log").iterdir())[1:]:
        path.unlink()
    path = node / log_file(1)
    path.write_bytes(path.read_bytes()[:size] + b"damage" * 10)
    assert NOT_BEGUN not in [one.reason for one in covered(node).damage]


def test_a_segment_has_no_file_behind_it_and_no_number_in_its_head(node: Path) -> None:
    (node / "raft").mkdir()
    content = (node / log_file(2)).read_bytes()
    path = node / group_segment(5, 1)
    path.write_bytes(content[:-40])
    (file,) = segment_files(node, 5)
    reader = ColumnReader(OsDisk(str(node), read_only=True), file.name)
    list(reader.pieces())
    assert lost_of(file, reader) is reader.damage
