"""The doctor reads every format of ours, says what is wrong, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.actors import ActorKind, GoneReason
from storage import doctor
from storage.disk import Disk
from storage.history.name_records import ActorRow, NameRow, encode_actor, encode_gone, encode_name
from storage.names import LOG_FACTS, log_file
from storage.os_disk import OsDisk
from storage.record import Kind
from storage.segment import SegmentWriter
from storage.wal.facts import load_or_create
from storage.wal.log_core import LogCore, LogEnd
from storage.wal.writer import LogWriter
from tests.sim.clock import SimLoop
from tests.unit.storage.log_world import KIND, LOG_ID


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A data directory after a clean stop: a log of several files, its facts, a segment."""
    disk = OsDisk(str(tmp_path))
    facts = load_or_create(disk, LOG_ID)
    core = LogCore(LOG_ID, LogEnd(0, 0, 0), 1000)
    log = LogWriter(core, disk, SimLoop(), facts, on_failed=pytest.fail, commit_inline_bytes_max=None)
    for index in range(10):
        log.append(KIND, 3, index, [bytes([index + 1]) * 200])
        log.commit_now()
    log.close()
    disk.make_dir("segments")
    segment = SegmentWriter(disk, f"segments/{1:020d}.seg")
    segment.append(KIND, 3, 1, [b"hello"])
    segment.seal()
    return tmp_path


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def snapshot(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def test_nothing_is_wrong_with_a_healthy_directory_and_nothing_is_changed(directory: Path) -> None:
    before = snapshot(directory)
    assert doctor.verify(str(directory)) == []
    for path, content in before.items():
        assert doctor.verify(path) == []
        assert bool(list(doctor.dump(path))) == any(content), "only a prepared log file is empty"
    assert snapshot(directory) == before


def test_a_dump_shows_records_with_their_fields(directory: Path) -> None:
    rows = list(doctor.dump(str(directory / log_file(1))))
    assert rows[0]["kind"] == "ROLL" and rows[0]["file"] == 1 and rows[0]["log_id"] == LOG_ID.hex()
    assert rows[1]["kind"] == "MARK" and rows[1]["commit"] == 1
    shown = {"kind": "CLASSIC_PUBLISH", "size": 200, "writer": 3, "index": 0, "term": 0, "flags": 0}
    assert rows[2] | shown == rows[2]
    assert [row["kind"] for row in doctor.dump(str(directory / "segments" / f"{1:020d}.seg"))] == [
        "CLASSIC_PUBLISH",
        "INDEX",
        "FOOTER",
    ]
    assert list(doctor.dump(str(directory / LOG_FACTS))) == [{"log_id": LOG_ID.hex(), "first_file": 1}]


def test_a_dump_shows_what_records_say_of_actors_and_queues(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path))
    core = LogCore(LOG_ID, LogEnd(0, 0, 0), 1000)
    log = LogWriter(
        core, disk, SimLoop(), load_or_create(disk, LOG_ID), on_failed=pytest.fail, commit_inline_bytes_max=None
    )
    log.append(Kind.ACTOR, 0, 7, [encode_actor(ActorRow(ActorKind.CONSUMER, 5, 6, tag="t", queue="q", prefetch=9))])
    log.append(Kind.NAME, 0, 12, [encode_name(NameRow("quorum", "/", "q"))])
    log.append(Kind.ACTOR_GONE, 0, 7, [encode_gone(GoneReason.CLOSED)])
    log.append(Kind.ACTOR, 0, 8, [b"short"])
    log.commit_now()
    log.close()
    actor, name, gone, damaged = list(doctor.dump(str(tmp_path / log_file(1))))[2:6]
    assert (actor["kind"], actor["index"], actor["says"]["tag"], actor["says"]["parent"]) == ("ACTOR", 7, "t", 6)
    assert (name["kind"], name["index"], name["says"]["name"]) == ("NAME", 12, "q")
    assert (gone["kind"], gone["says"]) == ("ACTOR_GONE", {"reason": GoneReason.CLOSED})
    assert damaged["unreadable"] == "an actor of 5 bytes", "what is no actor is shown as such, and the dump goes on"


def test_damage_is_found_in_the_file_and_in_the_directory(directory: Path) -> None:
    path = directory / log_file(1)
    flip(path, 400)
    rows = list(doctor.dump(str(path)))
    assert rows[-1]["kind"] == "UNREADABLE" and rows[-1]["offset"] <= 400
    for found in (doctor.verify(str(path)), doctor.verify(str(directory))):
        assert len(found) == 1 and found[0].damage and found[0].path == str(path)
        assert found[0].offset <= 400 < found[0].offset + found[0].length


def test_a_missing_log_file_is_found_only_by_looking_at_all(directory: Path) -> None:
    (directory / log_file(2)).unlink()
    found = doctor.verify(str(directory))
    assert [(one.path, one.reason) for one in found] == [(str(directory / log_file(2)), "the file is missing")]


def test_a_torn_tail_is_told_from_damage(directory: Path) -> None:
    last = max(path for path in (directory / "log").iterdir() if any(path.read_bytes()))
    with last.open("r+b") as file:
        file.seek(len(last.read_bytes().rstrip(b"\0")) + 50)
        file.write(b"half a record")
    found = doctor.verify(str(directory))
    assert [one.damage for one in found] == [False]
    assert [one.damage for one in doctor.verify(str(last))] == [False]


def test_damaged_facts_and_segments_are_found(directory: Path) -> None:
    flip(directory / LOG_FACTS, 30)
    flip(directory / "segments" / f"{1:020d}.seg", 33)
    found = doctor.verify(str(directory))
    assert [Path(one.path).name for one in found if one.damage] == [LOG_FACTS, f"{1:020d}.seg"]


def test_lost_facts_are_found(directory: Path) -> None:
    (directory / LOG_FACTS).unlink()
    assert "missing" in doctor.verify(str(directory))[0].reason


def test_files_of_others_are_not_judged(directory: Path) -> None:
    (directory / "notes.txt").write_text("hello")
    assert doctor.verify(str(directory)) == []
    with pytest.raises(ValueError, match=r"notes\.txt is none of our files"):
        doctor.verify(str(directory / "notes.txt"))
    with pytest.raises(ValueError, match="none of our files"):
        list(doctor.dump(str(directory / "notes.txt")))


def test_other_folders_say_which_files_their_lists_name(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_lists", [])
    doctor.register_list(lambda disk: iter([doctor.Finding(disk.path("x/1.seg"), 0, 0, True, "the file is missing")]))
    found = doctor.verify(str(directory))
    assert found == [doctor.Finding(str(directory / "x" / "1.seg"), 0, 0, True, "the file is missing")]
    assert doctor.verify(str(directory / log_file(1))) == [], "a file alone has no list"


def test_other_folders_add_their_formats(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_formats", list(doctor._formats))

    def dump(disk: Disk, name: str) -> Iterator[doctor.Row]:
        yield {"text": disk.read_file(name).decode()}

    def verify(disk: Disk, name: str) -> Iterator[doctor.Finding]:
        yield doctor.Finding(name, 1, 2, True, "I do not like it")

    doctor.register(doctor.Format("notes", lambda name: name.endswith(".txt"), dump, verify))
    path = directory / "notes.txt"
    path.write_text("hello")
    assert list(doctor.dump(str(path))) == [{"text": "hello"}]
    assert doctor.verify(str(directory)) == [doctor.Finding(str(path), 1, 2, True, "I do not like it")]
    with pytest.raises(AssertionError, match="already"):
        doctor.register(doctor.Format("notes", lambda name: False, dump, verify))
