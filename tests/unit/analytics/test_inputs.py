"""Which files of logs a path means."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.inputs import (
    NodeExport,
    evened,
    export_of,
    files_of_tasks,
    log_files,
    snapshot_files,
    unless_deleted,
    without_bodies,
)
from analytics.queue_events import packed_groups
from storage.names import group_segment, group_snapshot, log_file


def node(directory: Path, *numbers: int, archived: tuple[int, ...] = ()) -> Path:
    for number in (*numbers, *archived):
        name = log_file(number)
        path = directory / (name.replace("log/", "archive/", 1) if number in archived else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * number)
    return directory


def test_a_data_directory_has_its_archive_before_its_log(tmp_path: Path) -> None:
    node(tmp_path / "n1", 3, 4, archived=(1, 2))
    found = log_files([str(tmp_path / "n1")])
    assert [(one.node, one.number, one.name.partition("/")[0], one.size, one.is_last) for one in found] == [
        ("n1", 1, "archive", 1, False), ("n1", 2, "archive", 2, False), ("n1", 3, "log", 3, False), ("n1", 4, "log", 4, True),
    ]  # fmt: skip


def test_a_directory_of_nodes_means_all_of_them(tmp_path: Path) -> None:
    node(tmp_path / "a", 1)
    node(tmp_path / "b", 7)
    (tmp_path / "other").mkdir()
    assert [(one.node, one.number) for one in log_files([str(tmp_path)])] == [("a", 1), ("b", 7)]


def test_a_file_that_is_being_moved_is_one_file(tmp_path: Path) -> None:
    node(tmp_path / "n1", 1, 2, archived=(1,))
    node(tmp_path / "n1", 1)
    assert [one.number for one in log_files([str(tmp_path / "n1")])] == [1, 2]


def test_what_is_no_log_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        log_files([str(tmp_path / "none")])
    with pytest.raises(ValueError, match="has no log"):
        log_files([str(tmp_path)])


def test_two_nodes_of_one_name_are_refused(tmp_path: Path) -> None:
    node(tmp_path / "x" / "n1", 1)
    node(tmp_path / "y" / "n1", 1)
    with pytest.raises(ValueError, match=r"two nodes are called 'n1'.*rename"):
        log_files([str(tmp_path / "x"), str(tmp_path / "y")])


def test_a_directory_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    """All that its node counted was told twice."""
    node(tmp_path / "nodes" / "n1", 1, 2)
    (tmp_path / "nodes" / "n1.link").symlink_to(tmp_path / "nodes" / "n1")
    one = [str(tmp_path / "nodes" / "n1")]
    assert log_files([*one, str(tmp_path / "nodes"), *one]) == log_files(one)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "n7").symlink_to(tmp_path / "nodes" / "n1")
    assert {file.node for file in log_files([str(linked)])} == {"n7"}, "a link names the node, where nothing else does"


def test_a_file_that_was_not_begun_is_none_yet(tmp_path: Path) -> None:
    node(tmp_path / "n1", 1, 2)
    (tmp_path / "n1" / log_file(3)).write_bytes(bytes(100))
    assert [(one.number, one.is_last) for one in log_files([str(tmp_path)])] == [(1, False), (2, True)]


def test_a_file_that_was_not_begun_says_that_the_one_before_it_is_missing(tmp_path: Path) -> None:
    """It was left out, and that the last one of a node's log had been deleted was seen by nothing."""
    node(tmp_path / "n1", 1, 2)
    for number in (4, 5):
        (tmp_path / "n1" / log_file(number)).write_bytes(bytes(100))
    found = [(one.number, one.is_last, one.is_behind_gap) for one in log_files([str(tmp_path)])]
    assert found == [(1, False, False), (2, False, False), (4, True, True)]
    (tmp_path / "n1" / log_file(3)).write_bytes(bytes(100))
    assert [(one.number, one.is_last) for one in log_files([str(tmp_path)])] == [(1, False), (2, True)]


def test_a_file_of_which_only_the_begin_is_zeros_was_begun(tmp_path: Path) -> None:
    """A disk gave the block back empty: the file was left out as one that is to be written, and nothing said so."""
    node(tmp_path / "n1", 1, 2, 3)
    (tmp_path / "n1" / log_file(2)).write_bytes(bytes(3 << 20) + b"record")
    (tmp_path / "n1" / log_file(3)).write_bytes(bytes(3 << 20))
    assert [one.number for one in log_files([str(tmp_path)])] == [1, 2]


def test_snapshots_are_found_where_they_count_and_where_they_are_kept(tmp_path: Path) -> None:
    node(tmp_path / "n1", 1)
    for name in (group_snapshot(7, 2), group_snapshot(7, 1).replace("raft/", "archive/"), group_segment(7, 3)):
        path = tmp_path / "n1" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 5)
    found = snapshot_files([str(tmp_path)])
    assert [(one.node, one.name.partition("/")[0], one.group, one.number, one.size) for one in found] == [
        ("n1", "archive", 7, 1, 5), ("n1", "raft", 7, 2, 5),
    ]  # fmt: skip


@pytest.mark.parametrize(("bodies", "withheld"), [("included", ()), ("withheld", ("n1",))])
def test_an_export_says_whether_contents_are_in_it(tmp_path: Path, bodies: str, withheld: tuple[str, ...]) -> None:
    node(tmp_path / "n1", 1)
    (tmp_path / "n1" / "export.json").write_text(f'{{"format": 1, "bodies": "{bodies}"}}')
    assert export_of(str(tmp_path / "n1")) == NodeExport(bodies_withheld=bool(withheld))
    assert without_bodies(log_files([str(tmp_path)])) == withheld


def test_a_data_directory_is_no_export(tmp_path: Path) -> None:
    assert export_of(str(node(tmp_path / "n1", 1))) is None


@pytest.mark.parametrize("said", [b"{}", b'{"format": 2, "bodies": "included"}', b"no JSON", b"\xff\xfe", b"[]"])
def test_a_manifest_that_is_not_understood_is_refused(tmp_path: Path, said: bytes) -> None:
    (tmp_path / "export.json").write_bytes(said)
    with pytest.raises(ValueError, match=r"export\.json (has format|is no manifest)"):
        export_of(str(tmp_path))


def test_a_file_may_be_deleted_meanwhile_and_a_directory_may_not(tmp_path: Path) -> None:
    """On a worker without the data all files seemed deleted, and a conversion was done with nothing in it."""
    (file,) = log_files([str(node(tmp_path / "n1", 1))])
    path = Path(file.directory, file.name)
    path.unlink()
    with unless_deleted(file):
        path.read_bytes()
    path.parent.rmdir()
    path.parents[1].rmdir()
    with pytest.raises(NotADirectoryError, match=f"there is no {tmp_path / 'n1'} on "), unless_deleted(file):
        path.read_bytes()


def test_numbers_of_groups_are_packed_though_a_damaged_log_has_them_below_zero() -> None:
    packed = packed_groups({5, -1, 1 << 33})
    assert [int.from_bytes(packed[at : at + 8], "little") for at in range(0, len(packed), 8)] == [
        5,
        1 << 33,
        (1 << 64) - 1,
    ]


def test_tasks_are_of_one_node_each_and_the_last_ones_of_one_file(tmp_path: Path) -> None:
    """Eleven tasks of two files had one of two cores wait for the last task of the other."""
    nodes = [node(tmp_path / f"n{number}", 10, 11, 12) for number in (1, 2)]
    files = log_files([str(one) for one in nodes])
    tasks = files_of_tasks(files, 21)
    assert [[(one.node, one.number) for one in task] for task in tasks] == [
        [("n1", 10), ("n1", 11)], [("n1", 12)], [("n2", 10), ("n2", 11)], [("n2", 12)],
    ]  # fmt: skip
    assert [len(task) for task in evened(tasks, 2)] == [2, 1, 1, 1, 1]
    assert [len(task) for task in evened(tasks, 9)] == [1] * 6
    assert [one for task in evened(tasks, 3) for one in task] == files
