"""A step of a conversion happens as a whole or not at all, wherever a crash ends it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analytics.coverage import MissingFiles
from analytics.parquet.conversion_log import (
    MAKING,
    STEPS,
    ConversionLog,
    ConversionStep,
    ConvertedFile,
    missing_in,
    rests_missing_in,
)
from storage.names import log_file

FILE = ConvertedFile("n1", "ab", 1, 100, 7, 9, is_whole=False, others=[1], streams=[2])
MOVES = [("lives/bucket=01", "lives/bucket=01"), ("queues.parquet", "queues.parquet")]


class Crash(Exception):
    pass


def made(log: ConversionLog, text: str) -> ConversionStep:
    """A step whose files say this."""
    making = log.begin()
    (making / "lives" / "bucket=01").mkdir(parents=True)
    (making / "lives" / "bucket=01" / f"{text}.parquet").write_text(text)
    (making / "queues.parquet").write_text(text)
    return ConversionStep([FILE._replace(base=len(text))], [("n1", 5, 2)], MOVES, {"lives": 1})


def there(directory: Path) -> list[str]:
    return sorted(
        str(one.relative_to(directory)) for one in directory.rglob("*") if one.is_file() and one.name != STEPS
    )


def test_a_step_replaces_what_the_one_before_had_made(tmp_path: Path) -> None:
    for text in ("one", "second"):
        with ConversionLog(tmp_path) as log:
            log.commit(made(log, text))
    assert there(tmp_path) == ["lives/bucket=01/second.parquet", "queues.parquet"]
    with ConversionLog(tmp_path) as log:
        assert log.converted() == {("n1", "ab", 1): FILE._replace(base=6)}
        assert log.snapshots() == {("n1", 5, 2)}


def test_what_was_being_made_when_a_crash_came_has_not_happened(tmp_path: Path) -> None:
    """Its files have the names of those that the step before had moved, and were moved as if they were these."""
    with ConversionLog(tmp_path) as log:
        log.commit(made(log, "one"))
        made(log, "second")
    with ConversionLog(tmp_path) as log:
        assert len(log.steps) == 1
    assert there(tmp_path) == ["lives/bucket=01/one.parquet", "queues.parquet"]


def test_what_a_step_has_made_is_on_the_disk_before_the_step_is_and_where_it_goes_is_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without power a step would be there whose files are empty, or are nowhere."""
    synced: list[str] = []
    with ConversionLog(tmp_path) as log:
        step = made(log, "one")
        making = tmp_path / f"{MAKING}1"
        whole = {str(one) for one in (making, *making.rglob("*"))}
        monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.readlink(f"/proc/self/fd/{number}")))
        log.commit(step)
    line = synced.index(str(tmp_path / STEPS))
    assert set(synced[:line]) == whole and len(whole) == 5
    assert synced[line + 1 :] == [str(tmp_path), str(tmp_path / "lives"), str(tmp_path)]


def test_a_step_leaves_nothing_of_what_was_made_and_no_open_file(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with ConversionLog(tmp_path) as log:
        step = made(log, "one")
        (tmp_path / f"{MAKING}1" / "left over").write_text("of a lost worker")
        log.commit(step)
        assert list(tmp_path.glob(f"{MAKING}*")) == []
    assert os.listdir("/proc/self/fd") == before


def test_the_last_batch_of_a_stream_is_known_though_steps_without_one_come_behind_it(tmp_path: Path) -> None:
    with ConversionLog(tmp_path) as log:
        assert log.last_batch() == -1
        for batch in (None, 0, 4, None):
            log.begin()
            log.commit(ConversionStep([], [], [], {}, batch))
    with ConversionLog(tmp_path) as log:
        assert log.last_batch() == 4


@pytest.mark.parametrize("moved", [0, 1])
def test_a_step_that_was_written_is_finished_by_whoever_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    """Also one that was crashed between taking the old away and moving the new."""
    with ConversionLog(tmp_path) as log:
        log.commit(made(log, "one"))
        step = made(log, "second")
        whole = log._move

        def crash(step: ConversionStep) -> None:
            whole(step._replace(moves=step.moves[:moved]))
            (tmp_path / "queues.parquet").unlink()
            raise Crash

        monkeypatch.setattr(log, "_move", crash)
        with pytest.raises(Crash):
            log.commit(step)
    with ConversionLog(tmp_path) as log:
        assert [one.files[0].base for one in log.steps] == [3, 6]
    assert there(tmp_path) == ["lives/bucket=01/second.parquet", "queues.parquet"]
    assert (tmp_path / "queues.parquet").read_text() == "second"
    assert list(tmp_path.glob(f"{MAKING}*")) == []


def test_a_line_that_was_cut_off_has_not_happened(tmp_path: Path) -> None:
    with ConversionLog(tmp_path) as log:
        log.commit(made(log, "one"))
    with (tmp_path / STEPS).open("ab") as lines:
        lines.write(b'{"files": [')
    for text in ("second", "third step"):
        with ConversionLog(tmp_path) as log:
            log.commit(made(log, text))
    with ConversionLog(tmp_path) as log:
        assert [one.files[0].base for one in log.steps] == [3, 6, 10]


def test_a_line_that_is_none_of_ours_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / STEPS).write_text("[]\n")
    with pytest.raises(ValueError, match=r"line 1 of .* is none of ours"):
        ConversionLog(tmp_path)


def test_two_processes_do_not_convert_to_one_directory(tmp_path: Path) -> None:
    with ConversionLog(tmp_path), pytest.raises(ValueError, match="another process is converting"):
        ConversionLog(tmp_path)


def test_files_that_were_gone_before_they_were_converted_are_missing_log_by_log() -> None:
    """A node that began anew numbers its files from 1 again."""
    numbered = [("n1", "ab", 7), ("n1", "ab", 9), ("n1", "cd", 1), ("n1", "cd", 2), ("n2", "ef", 3), ("n2", "ef", 6)]
    there = [FILE._replace(node=node, log_id=log_id, file=number) for node, log_id, number in numbered]
    assert missing_in(reversed(there)) == (MissingFiles("n1", 8, 8), MissingFiles("n2", 4, 5))


@pytest.mark.parametrize("steps", [None, b""])
def test_tables_that_no_step_tells_of_are_not_added_to(tmp_path: Path, steps: bytes | None) -> None:
    """All of the log was converted again into the same `raw`, which had each row twice then."""
    with ConversionLog(tmp_path) as log:
        log.commit(made(log, "one"))
    (tmp_path / STEPS).unlink()
    if steps is not None:
        (tmp_path / STEPS).write_bytes(steps)
    with pytest.raises(ValueError, match=f"has tables and no {STEPS}"):
        ConversionLog(tmp_path)
    assert there(tmp_path) == ["lives/bucket=01/one.parquet", "queues.parquet"]


def test_a_data_directory_of_a_node_is_not_converted_to(tmp_path: Path) -> None:
    (tmp_path / log_file(1)).parent.mkdir()
    (tmp_path / log_file(1)).write_bytes(b"x")
    with pytest.raises(ValueError, match="is a node's data directory: give another one"):
        ConversionLog(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_the_rest_of_a_file_that_was_deleted_before_it_was_converted_is_damage() -> None:
    """The file was read while its node wrote to it. Nothing said that more had come."""
    part = FILE._replace(file=2, base=700)
    assert rests_missing_in([FILE._replace(is_whole=True), part]) == [], "it may still come"
    behind = FILE._replace(file=3)
    (lost,) = rests_missing_in([FILE._replace(is_whole=True), part, behind, FILE._replace(node="n2", file=4)])
    assert (lost.node, lost.file, lost.offset, lost.torn) == ("n1", 2, 700, False)
    assert rests_missing_in([part, behind._replace(log_id="cd")]) == [], "a node that began anew has other files"
