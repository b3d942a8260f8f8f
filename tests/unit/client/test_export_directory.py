"""leveret/ctl/terminal/export_directory.py: what comes from a node becomes a directory, also in parts, and nothing else."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from leveret.ctl.terminal.exits import ConfigError
from leveret.ctl.terminal.export_directory import ExportDirectory, held
from leveret.errors import ConnectionLost
from leveret.node_log import LogBegin, LogEnd, LogUnread, WantedLogFile
from leveret.records import LogFile, LogListing

DATA = b"records " * 100


def name(directory: str, number: int) -> str:
    return f"{directory}/{number:020d}.log"


LOG, ARCHIVED, NEXT = name("log", 1), name("archive", 1), name("log", 2)


def listing(*files: str, log_id: str = "aa", node: str = "leveret@n1") -> LogListing:
    return LogListing(node, log_id, 0, (), tuple(LogFile(one, 0, 0, 0, False) for one in files))


def begun(root: Path, *files: str, without_bodies: bool = False, log_id: str = "aa") -> ExportDirectory:
    return ExportDirectory(root, listing(*files, log_id=log_id), without_bodies=without_bodies)


def wanted(export: ExportDirectory, *files: str) -> list[WantedLogFile]:
    return export.wanted(listing(*files).files)


def end(data: bytes, *, is_open: bool = False) -> LogEnd:
    return LogEnd(len(data), sha256(data).digest(), is_open)


def take_whole(export: ExportDirectory, file: str, data: bytes, *, is_open: bool = False) -> None:
    for part in (LogBegin(file, 0), data[:100], data[100:], end(data, is_open=is_open)):
        export.take(part)


def test_a_file_comes_to_its_place_and_is_not_asked_for_again(tmp_path: Path) -> None:
    export = begun(tmp_path, LOG)
    assert wanted(export, LOG) == [WantedLogFile(LOG, 0, b"")]
    take_whole(export, LOG, DATA)
    export.save()
    assert (tmp_path / "leveret@n1" / LOG).read_bytes() == DATA
    again = begun(tmp_path, LOG)
    assert wanted(again, LOG) == []
    assert again.totals == (1, len(DATA))
    said = json.loads((tmp_path / "leveret@n1" / "export.json").read_text())
    assert (said["node"], said["bodies"], said["files"][LOG]["sha256"]) == (
        "leveret@n1",
        "included",
        sha256(DATA).hexdigest(),
    )


@pytest.mark.parametrize("cut", [1, 99, 100, 700])
def test_an_interrupted_file_goes_on_where_it_was(tmp_path: Path, cut: int) -> None:
    first = begun(tmp_path, LOG)
    wanted(first, LOG)
    first.take(LogBegin(LOG, 0))
    first.take(DATA[:cut])
    first.close()  # and nothing more is written: as after a kill
    second = begun(tmp_path, LOG)
    assert wanted(second, LOG) == [WantedLogFile(LOG, cut, sha256(DATA[:cut]).digest())]
    for part in (LogBegin(LOG, cut), DATA[cut:], end(DATA)):
        second.take(part)
    assert (tmp_path / "leveret@n1" / LOG).read_bytes() == DATA


def test_an_export_that_was_killed_before_its_first_file_goes_on(tmp_path: Path) -> None:
    begun(tmp_path, LOG)
    manifest = tmp_path / "leveret@n1" / "export.json"
    manifest.rename(manifest.with_name("export.json.tmp"))
    assert wanted(begun(tmp_path, LOG), LOG) == [WantedLogFile(LOG, 0, b"")]


def test_what_came_whole_is_known_to_be_whole_after_a_kill(tmp_path: Path) -> None:
    take_whole(begun(tmp_path, LOG), LOG, DATA)
    assert wanted(begun(tmp_path, LOG), LOG) == []


def test_a_node_that_has_other_bytes_begins_again(tmp_path: Path) -> None:
    first = begun(tmp_path, LOG)
    take_whole(first, LOG, b"old" * 400, is_open=True)
    first.save()
    second = begun(tmp_path, LOG)
    assert wanted(second, LOG)[0].offset == 1200
    take_whole(second, LOG, DATA)
    assert (tmp_path / "leveret@n1" / LOG).read_bytes() == DATA


def test_the_file_that_is_written_is_asked_for_again(tmp_path: Path) -> None:
    export = begun(tmp_path, LOG)
    take_whole(export, LOG, DATA, is_open=True)
    export.save()
    assert wanted(begun(tmp_path, LOG), LOG) == [WantedLogFile(LOG, len(DATA), sha256(DATA).digest())]


def test_what_comes_damaged_is_dropped_and_asked_for_again(tmp_path: Path) -> None:
    export = begun(tmp_path, LOG)
    export.take(LogBegin(LOG, 0))
    export.take(DATA[:-1] + b"?")
    with pytest.raises(ConnectionLost, match="checksum"):
        export.take(end(DATA))
    assert wanted(export, LOG) == [WantedLogFile(LOG, 0, b"")]


def test_a_complete_file_that_somebody_has_cut_is_asked_for_again(tmp_path: Path) -> None:
    export = begun(tmp_path, LOG)
    take_whole(export, LOG, DATA)
    export.save()
    (tmp_path / "leveret@n1" / LOG).write_bytes(DATA[:5])
    assert wanted(begun(tmp_path, LOG), LOG) == [WantedLogFile(LOG, 5, sha256(DATA[:5]).digest())]


def test_a_file_that_was_archived_since_is_moved_and_not_copied_again(tmp_path: Path) -> None:
    export = begun(tmp_path, LOG)
    take_whole(export, LOG, DATA)
    export.save()
    again = begun(tmp_path, ARCHIVED, NEXT)
    assert [one.name for one in wanted(again, ARCHIVED, NEXT)] == [NEXT]
    assert (tmp_path / "leveret@n1" / ARCHIVED).read_bytes() == DATA
    assert not (tmp_path / "leveret@n1" / LOG).exists()


def test_a_part_of_a_file_that_was_archived_since_goes_on_in_the_archive(tmp_path: Path) -> None:
    first = begun(tmp_path, LOG)
    first.take(LogBegin(LOG, 0))
    first.take(DATA[:300])
    first.close()
    first.save()
    second = begun(tmp_path, ARCHIVED)
    assert wanted(second, ARCHIVED) == [WantedLogFile(ARCHIVED, 300, sha256(DATA[:300]).digest())]
    for part in (LogBegin(ARCHIVED, 300), DATA[300:], end(DATA)):
        second.take(part)
    assert (tmp_path / "leveret@n1" / ARCHIVED).read_bytes() == DATA


def test_a_file_that_is_archived_between_the_listing_and_its_turn_has_one_name(tmp_path: Path) -> None:
    first = begun(tmp_path, LOG)
    take_whole(first, LOG, DATA[:200], is_open=True)
    assert wanted(first, LOG) == [WantedLogFile(LOG, 200, sha256(DATA[:200]).digest())]
    for part in (LogBegin(ARCHIVED, 200), DATA[200:], end(DATA)):
        first.take(part)
    first.save()
    assert (tmp_path / "leveret@n1" / ARCHIVED).read_bytes() == DATA
    assert not (tmp_path / "leveret@n1" / LOG).exists()
    assert first.totals == (1, len(DATA))


def test_what_the_node_has_deleted_is_said_and_what_came_of_it_is_not_kept(tmp_path: Path) -> None:
    export = begun(tmp_path, LOG, NEXT)
    export.take(LogBegin(LOG, 0))
    export.take(DATA)
    export.take(LogUnread(LOG, "the node has deleted it", gone=True))
    take_whole(export, NEXT, DATA)
    export.save()
    assert export.unread == {LOG: "deleted by the node before it came"}
    assert not (tmp_path / "leveret@n1" / LOG).exists()
    assert begun(tmp_path, NEXT).unread == {LOG: "deleted by the node before it came"}, (
        "it is said as long as the export lacks it"
    )


def test_what_the_node_leaves_out_is_said_as_long_as_it_does(tmp_path: Path) -> None:
    export = begun(tmp_path, LOG)
    export.take(LogUnread(LOG, "it holds hashes", gone=False))
    export.save()
    assert export.unread == {LOG: "it holds hashes"}
    assert begun(tmp_path, NEXT).unread == {}


def test_the_rest_of_a_file_that_was_written_then_and_deleted_since_is_said_to_be_missing(tmp_path: Path) -> None:
    export = begun(tmp_path, LOG)
    take_whole(export, LOG, DATA, is_open=True)
    export.save()
    again = begun(tmp_path, NEXT)
    assert again.unread == {ARCHIVED: "deleted by the node before the rest of it came"}
    assert (tmp_path / "leveret@n1" / ARCHIVED).read_bytes() == DATA


def test_a_directory_of_another_log_or_of_something_else_is_refused(tmp_path: Path) -> None:
    begun(tmp_path, LOG).save()
    with pytest.raises(ConfigError, match="another log"):
        begun(tmp_path, LOG, log_id="bb")
    with pytest.raises(ConfigError, match=r"included.*leave out --no-bodies"):
        begun(tmp_path, LOG, without_bodies=True)
    (tmp_path / "other" / "leveret@n1").mkdir(parents=True)
    (tmp_path / "other" / "leveret@n1" / "notes").write_text("mine")
    with pytest.raises(ConfigError, match="no export"):
        begun(tmp_path / "other", LOG)


@pytest.mark.parametrize(
    "said", ["", "[]", "{}", '{"format": 1}', '{"format": 2}', '{"format": 1, "log_id": "aa", "bodies": "included"}']
)
def test_a_manifest_that_is_not_understood_is_refused(tmp_path: Path, said: str) -> None:
    (tmp_path / "leveret@n1").mkdir()
    (tmp_path / "leveret@n1" / "export.json").write_text(said)
    with pytest.raises(ConfigError, match="give another directory"):
        begun(tmp_path, LOG)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used: Not a directory"):
        begun(tmp_path / "file", LOG)
    export = begun(tmp_path, LOG)
    (tmp_path / "leveret@n1" / "log").write_text("a file where a directory should be")
    with pytest.raises(ConfigError, match="cannot be used"):
        export.take(LogBegin(LOG, 0))


def test_a_node_cannot_have_files_written_elsewhere(tmp_path: Path) -> None:
    for node in ("..", ".", "a/b", "/tmp/x", ""):
        with pytest.raises(ConfigError, match="no name for a directory"):
            ExportDirectory(tmp_path, listing(LOG, node=node), without_bodies=False)
    export = begun(tmp_path, LOG)
    for file in ("../../evil", "log/../../evil", "/etc/passwd", "log/1.log", f"log/{1:020d}.log\n", "export.json"):
        assert wanted(export, file) == []
        with pytest.raises(ConfigError, match="no place in an export"):
            export.take(LogBegin(file, 0))


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    export = begun(tmp_path, LOG)
    take_whole(export, LOG, DATA)
    export.save()
    assert (tmp_path / "leveret@n1").stat().st_mode & 0o077 == 0
    assert (tmp_path / "leveret@n1" / LOG).stat().st_mode & 0o077 == 0


def test_two_exports_do_not_write_to_one_directory(tmp_path: Path) -> None:
    """The second one cut off what the first had written, and a file that was called complete was shorter than that."""
    refused = pytest.raises(ConfigError, match=r"another export to .*/n1 is under way")
    with held(tmp_path, "n1"), held(tmp_path, "n2"), refused, held(tmp_path, "n1"):
        pass
    with held(tmp_path, "n1"):
        assert (tmp_path / "n1").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("without_bodies", [False, True])
def test_what_the_node_could_not_read_has_failed_and_what_it_withholds_or_has_deleted_has_not(
    tmp_path: Path, *, without_bodies: bool
) -> None:
    snapshot = f"raft/{0:020d}-{1:020d}.snap"
    export = begun(tmp_path, LOG, NEXT, without_bodies=without_bodies)
    export.take(LogUnread(LOG, "the disk failed", gone=False))
    export.take(LogUnread(NEXT, "", gone=True))
    export.take(LogUnread(snapshot, "it holds hashes", gone=False))
    failed = {LOG: "the disk failed"}
    assert export.failed == (failed if without_bodies else failed | {snapshot: "it holds hashes"})
