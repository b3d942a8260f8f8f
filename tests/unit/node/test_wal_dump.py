"""node/commands/wal_dump.py: the log of a directory as rows, whoever writes or moves its files meanwhile."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.catalog.commands.catalog_commands import DeclareQueue, PutUser, encode_command
from broker.catalog.commands.metadata_entry import METADATA_GROUP, Origin, WhenAndWho, encode_entry
from broker.records import UserRecord
from node.commands.wal_dump import dump_rows
from node.exporting.log_rows import CUT_OFF, Row
from raft.core import packs
from raft.core.messages import EntryKind
from storage.names import ARCHIVE_DIRECTORY, log_file
from storage.os_disk import OsDisk
from storage.record import Kind
from storage.wal.facts import load_or_create
from storage.wal.log_core import LogCore, LogEnd
from storage.wal.writer import LogWriter
from tests.sim.clock import SimLoop
from tests.unit.storage.log_world import KIND, LOG_ID

ENOUGH = 10  # records in the log, of three files


class World:
    """A log that is written while it is read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        disk = OsDisk(str(root))
        core = LogCore(LOG_ID, LogEnd(0, 0, 0), 1000)
        facts = load_or_create(disk, LOG_ID)
        self.log = LogWriter(core, disk, SimLoop(), facts, on_failed=pytest.fail, commit_inline_bytes_max=None)
        self.written = 0

    def write(self, count: int) -> None:
        for _ in range(count):
            self.log.append(KIND, 3, self.written, [b"\1" * 200])
            self.log.commit_now()
            self.written += 1

    def archive(self, number: int) -> None:
        (self.root / ARCHIVE_DIRECTORY).mkdir(exist_ok=True)
        (self.root / log_file(number)).rename(self.root / ARCHIVE_DIRECTORY / Path(log_file(number)).name)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.write(ENOUGH)
    yield made
    made.log.close()


def indexes(rows: list[Row]) -> list[int]:
    return [row["index"] for row in rows if row.get("kind") == Kind(KIND).name]


def test_all_records_come_in_the_order_of_the_log_while_a_node_has_it_open(world: World) -> None:
    rows = list(dump_rows(world.root))
    assert indexes(rows) == list(range(ENOUGH))
    assert not [row for row in rows if "finding" in row]
    assert rows[0]["kind"] == "ROLL" and rows[0]["file"] == log_file(1)
    assert all(row["commit"] is not None for row in rows if row["kind"] != "ROLL")


def test_one_file_may_be_given(world: World) -> None:
    rows = list(dump_rows(world.root / log_file(2)))
    assert rows[0]["kind"] == "ROLL" and 0 < len(indexes(rows)) < ENOUGH


def test_files_of_the_archive_come_first_and_once(world: World) -> None:
    whole = indexes(list(dump_rows(world.root)))
    world.archive(1)
    rows = list(dump_rows(world.root))
    assert indexes(rows) == whole
    assert {row["file"].partition("/")[0] for row in rows} == {"archive", "log"}


def test_damage_and_missing_files_have_rows_of_their_own(world: World) -> None:
    path = world.root / log_file(1)
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)
    (world.root / log_file(2)).unlink()
    findings = [row for row in dump_rows(world.root) if "finding" in row]
    assert [(row["file"], row["finding"]) for row in findings] == [(log_file(1), "damage"), (log_file(2), "damage")]
    assert findings[1]["reason"] == "the file is missing"


def test_commands_of_the_catalog_say_what_when_and_for_whom_but_no_secret(world: World) -> None:
    origin, said = Origin(2, 9, 5, 4), WhenAndWho(1_700_000_000_000, 7)
    put_user = encode_command(PutUser(UserRecord("ann", "secret hash")))
    datas = [
        encode_entry(origin, put_user),
        encode_entry(origin, encode_command(DeclareQueue("/", "q")), said),
        b"\x09 of a later build",
    ]
    world.log.append(Kind.RAFT_ENTRIES, METADATA_GROUP, 11, [packs.encode(datas)], EntryKind.COMMAND, 3)
    world.log.append(Kind.RAFT_ENTRIES, METADATA_GROUP, 14, [b"\xff\xff\xff\xff"], EntryKind.COMMAND, 3)
    world.log.append(Kind.RAFT_ENTRIES, METADATA_GROUP + 1, 1, [packs.encode(datas)], EntryKind.COMMAND, 3)
    world.log.commit_now()
    rows = [row for row in dump_rows(world.root) if row.get("kind") == "RAFT_ENTRIES"]
    assert ["commands" in row for row in rows] == [True, False, False]
    first, second, third = rows[0]["commands"]
    who = {"node": 2, "incarnation": 9}
    assert first == {"index": 11, "command": "put user 'ann' with a password, tags: none", **who}
    declared = {"index": 12, "command": "declare queue 'q' in vhost '/', durable", **who}
    assert second == declared | {"time_ms": said.time_ms, "actor": said.actor}
    assert third["index"] == 13 and "version 09" in third["command"]


def test_a_reader_that_follows_sees_each_record_once_across_files_that_roll_and_move(world: World) -> None:
    steps = iter([lambda: world.write(1), lambda: None, lambda: world.archive(1), lambda: world.write(12)])

    class Enough(Exception):
        pass

    def wait() -> None:
        step = next(steps, None)
        if step is None:
            raise Enough
        step()

    seen: list[Row] = []
    rows = dump_rows(world.root, wait)
    with pytest.raises(Enough):
        while True:
            seen.append(next(rows))
    assert indexes(seen) == list(range(world.written))


def test_what_is_being_written_is_left_out_by_who_follows_and_said_by_who_does_not(world: World) -> None:
    last = max(path for path in (world.root / "log").iterdir() if any(path.read_bytes()))
    with last.open("r+b") as file:
        file.seek(len(last.read_bytes().rstrip(b"\0")))
        file.write(b"half a record")
    assert [row["finding"] for row in dump_rows(world.root) if "finding" in row] == ["unfinished write"]

    def stop() -> None:
        raise KeyboardInterrupt

    seen = []
    with pytest.raises(KeyboardInterrupt):
        for row in dump_rows(world.root, stop):
            seen.append(row)
    assert not [row for row in seen if "finding" in row]


def test_a_directory_without_a_log_and_a_file_of_others_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no log"):
        list(dump_rows(tmp_path))
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match="no file of records"):
        list(dump_rows(tmp_path / "notes.txt"))
    with pytest.raises(FileNotFoundError):
        list(dump_rows(tmp_path / "nothing"))


@pytest.mark.parametrize("command", [["wal", "dump"], ["doctor", "--dump"]])
def test_a_reader_that_has_seen_enough_ends_it_without_a_word(tmp_path: Path, command: list[str]) -> None:
    world = World(tmp_path)
    for _ in range(3_000):  # more than a pipe holds
        world.log.append(KIND, 3, 0, [b""])
    world.log.commit_now()
    world.log.close()
    path = tmp_path / log_file(1)
    with subprocess.Popen(
        [sys.executable, "-m", "node.main", *command, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert b"ROLL" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


@pytest.mark.parametrize("zeros", [False, True])
def test_an_end_that_a_file_has_lost_is_damage(world: World, *, zeros: bool) -> None:
    """Cut off between two records, or zeros that a disk gave back: nothing said that there had been more."""
    path = world.root / log_file(1)
    data = path.read_bytes()
    last = [row for row in dump_rows(path) if row["kind"] == Kind(KIND).name][-1]["offset"]
    path.write_bytes(data[:last] + (bytes(len(data) - last) if zeros else b""))
    (found,) = [row for row in dump_rows(world.root) if "finding" in row]
    assert (found["file"], found["offset"], found["finding"]) == (log_file(1), last, "damage")
    assert found["reason"] == CUT_OFF
