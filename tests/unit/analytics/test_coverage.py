"""What an answer says that it stands on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analytics.__main__ import main
from analytics.coverage import (
    DELETED,
    Coverage,
    DamagedBytes,
    MissingFiles,
    but_oldest,
    iso_time,
    missing_between,
)
from analytics.inputs import EXPORT_FORMAT, EXPORT_MANIFEST, LogFile, log_files
from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN
from analytics.lost_records import BEHIND_GAP
from storage.names import ARCHIVE_DIRECTORY, archived, log_file
from tests.unit.analytics.past_world import name_record
from tests.unit.analytics.test_pursuit import QUEUE, acknowledged, log, message, publish
from tests.unit.analytics.test_unroutable import counted

COVERED = Coverage(["n1"], 2, 100, None, None, [])


def test_files_between_others_of_their_node_are_missing_and_none_before_the_first() -> None:
    assert missing_between([("n1", 7), ("n2", 1), ("n1", 3), ("n1", 4), ("n2", 3)]) == (
        MissingFiles("n1", 5, 6),
        MissingFiles("n2", 2, 2),
    )
    assert missing_between([("n1", 5), ("n1", 6), ("n2", 9)]) == ()


def test_what_is_missing_is_said_and_is_a_gap_though_nothing_is_damaged() -> None:
    lacking = COVERED._replace(missing=(MissingFiles("n1", 5, 6), MissingFiles("n2", 2, 2)))
    said = "files 5 to 6 of the log of n1 are missing, file 2 of the log of n2 is missing"
    assert said in lacking.sentence() and "missing" not in COVERED.sentence()
    assert lacking.as_object()["missing"][0] == {"node": "n1", "first": 5, "last": 6}  # type: ignore[index]
    assert (COVERED.has_gaps, lacking.has_gaps, lacking.is_damaged) == (False, True, False)


def test_from_when_to_when_is_said_in_utc() -> None:
    first, last = iso_time(1_700_000_000_123_999), iso_time(1_700_000_060_000_000)
    assert (first, last, iso_time(None)) == ("2023-11-14T22:13:20.123+00:00", "2023-11-14T22:14:20.000+00:00", None)
    assert f"100 bytes, from {first} to {last}" in COVERED._replace(first=first, last=last).sentence()
    assert "100 bytes, of unknown times" in COVERED.sentence()


@pytest.mark.parametrize("torn", [False, True])
def test_a_torn_end_was_never_durable_and_is_no_gap(*, torn: bool) -> None:
    covered = COVERED._replace(damage=[DamagedBytes("n1", 1, 10, 5, torn, "why")])
    assert (covered.is_damaged, covered.has_gaps) == (not torn, not torn)
    assert ("5 bytes in 1 place are damaged" in covered.sentence()) == (not torn)


def logged(directory: Path, *files: int) -> Path:
    """What three files say of one queue, each of messages that came and went in it, of which only these are there."""
    for number in range(1, 4):
        first = 2 * number
        published = publish(first, message(f"m{first}"), message(f"m{first + 1}"))
        if number in files:
            log(directory / "n1", number, name_record(QUEUE), published, acknowledged(first, first + 2), counted())
    return directory


ASKED = (("life", "--message-id", "m6"), ("unroutable",), ("audit",), ("streams",))


@pytest.mark.parametrize("words", ASKED, ids=lambda words: words[0])
def test_no_command_holds_over_damaged_bytes(tmp_path: Path, words: tuple[str, ...]) -> None:
    asked = ["--data", str(logged(tmp_path, 1, 2, 3)), "--tail", *words]
    assert main(asked) == EXIT_HOLDS
    path = tmp_path / "n1" / log_file(1)
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    assert main(asked) == EXIT_UNKNOWN
    path.write_bytes(whole)
    last = tmp_path / "n1" / log_file(3)
    last.write_bytes(bytes(64) + last.read_bytes()[64:])
    assert main(asked) == EXIT_UNKNOWN


@pytest.mark.parametrize("words", ASKED[:3], ids=lambda words: words[0])
def test_no_command_that_cannot_count_what_it_reads_holds_over_a_missing_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """What was published and acknowledged in it left no trace, and the command said that nothing was unknown."""
    assert main(["--data", str(logged(tmp_path, 1, 3)), "--tail", *words]) == EXIT_UNKNOWN
    assert ", file 2 of the log of n1 is missing" in capsys.readouterr().out


@pytest.mark.parametrize("words", ASKED, ids=lambda words: words[0])
def test_no_command_holds_where_the_last_file_that_was_begun_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """The file that a node has made for later is still there. `life` said that a message waits which was acknowledged in it."""
    asked = ["--data", str(logged(tmp_path, 1, 2, 3)), "--tail", *words]
    prepared = tmp_path / "n1" / log_file(4)
    prepared.write_bytes(bytes(4096))
    assert main(asked) == EXIT_HOLDS, "it was made for later, and nothing is missing"
    capsys.readouterr()
    (tmp_path / "n1" / log_file(3)).unlink()
    assert main([*asked[:2], "--json", *asked[2:]]) == EXIT_UNKNOWN
    damage = json.loads(capsys.readouterr().out)["coverage"]["damage"]
    assert [(one["file"], one["reason"]) for one in damage] == [(4, BEHIND_GAP)]


@pytest.mark.parametrize(
    ("words", "withheld", "code"),
    [
        (("--message-id", "m6"), EXIT_UNKNOWN, EXIT_HOLDS),
        (("--at", "//c", "2"), EXIT_HOLDS, EXIT_HOLDS),
    ],
)
def test_what_is_looked_for_may_be_in_contents_that_an_export_withholds(
    tmp_path: Path, words: tuple[str, ...], withheld: int, code: int
) -> None:
    """A message that is named by its place has it, whatever it holds."""
    asked = ["--data", str(logged(tmp_path, 1, 2, 3)), "--tail", "life", *words]
    manifest = tmp_path / "n1" / EXPORT_MANIFEST
    for bodies, expected in (("withheld", withheld), ("included", code)):
        manifest.write_text(json.dumps({"format": EXPORT_FORMAT, "bodies": bodies}))
        assert main(asked) == expected


@pytest.mark.parametrize("words", ASKED, ids=lambda words: words[0])
def test_a_file_that_is_archived_between_listing_and_reading_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """It was passed over without a word: what it said was missing in the answer."""
    asked = ["--data", str(logged(tmp_path, 1, 2, 3)), "--tail", *words]
    assert main(asked) == EXIT_HOLDS
    whole = capsys.readouterr().out
    (tmp_path / "n1" / ARCHIVE_DIRECTORY).mkdir()

    def listed(paths: list[str]) -> list[LogFile]:
        found = log_files(paths)
        for number in (1, 2):
            (tmp_path / "n1" / log_file(number)).rename(tmp_path / "n1" / archived(log_file(number)))
        return found

    monkeypatch.setattr("analytics.__main__.log_files", listed)
    assert main(asked) == EXIT_HOLDS
    assert capsys.readouterr().out == whole


@pytest.mark.parametrize("words", ASKED, ids=lambda words: words[0])
@pytest.mark.parametrize(("number", "code"), [(1, EXIT_HOLDS), (2, EXIT_UNKNOWN), (3, EXIT_UNKNOWN)])
def test_a_file_that_is_deleted_between_listing_and_reading_is_damage_unless_it_is_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], number: int, code: int
) -> None:
    def listed(paths: list[str]) -> list[LogFile]:
        found = log_files(paths)
        (tmp_path / "n1" / log_file(number)).unlink()
        return found

    monkeypatch.setattr("analytics.__main__.log_files", listed)
    assert main(["--data", str(logged(tmp_path, 1, 2, 3)), "--tail", *words]) == code


def test_what_was_deleted_before_anything_of_its_node_was_read_is_no_damage() -> None:
    gone = [
        DamagedBytes(node, file, 0, 9, False, DELETED) for node, file in (("n1", 1), ("n1", 2), ("n2", 5), ("n3", 7))
    ]
    other = DamagedBytes("n1", 3, 3, 1, False, "why")
    there = [("n1", 1), ("n1", 2), ("n1", 3), ("n2", 4), ("n2", 5), ("n3", 7)]
    assert but_oldest([*gone, other], there) == [gone[2], gone[3], other]
