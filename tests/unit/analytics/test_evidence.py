"""What files say beside the lives: whether records are missing, and which messages a start of the node would find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analytics.coverage import CutOff, MissingFiles
from analytics.file_window import missing_files
from analytics.inputs import EXPORT_FORMAT, EXPORT_MANIFEST, log_files
from analytics.jobs.evidence import FileEvidence, file_evidence, log_evidence, moved_out
from classic.recovery import clean_stop
from classic.recovery.clean_stop import CleanStop
from classic.store.index_entries import IN_BODY, IN_LOG, IN_STORE, NEVER, PERSISTENT, Block, encode_ranges
from classic.store.manifest import Manifest
from classic.store.queue_index import Segment
from storage.history.name_records import NameRow, encode_name
from storage.names import (
    CLASSIC_CLEAN_STOP,
    CLASSIC_DIRECTORY,
    CLASSIC_FILES,
    archived,
    body_file,
    index_segment,
    log_file,
    queue_directory,
)
from storage.os_disk import OsDisk
from storage.record import HEADER_BYTES, Kind, encode
from tests.unit.analytics.past_world import entries_record

QUEUE, OTHER = 7, 8
CONTENT = b"five!"
DIRECTORY = queue_directory("/", "q", QUEUE)


def disk_in(directory: Path) -> OsDisk:
    (directory / CLASSIC_DIRECTORY).mkdir(parents=True)
    return OsDisk(str(directory))


def record(kind: Kind, queue: int, index: int, *parts: bytes) -> bytes:
    return b"".join(bytes(part) for part in encode(kind, queue, index, list(parts)))


class MovedQueue:
    """A queue of one segment, as it is in a node's files."""

    def __init__(self, directory: Path) -> None:
        self.disk = disk_in(directory)
        self.bodies = b""
        self._block = Block()
        self._settled: list[tuple[int, int]] = []

    def run(
        self, first: int, kind: int, count: int = 1, *, left_out: int = 0, flags: int = PERSISTENT, place: int = 0
    ) -> None:
        name = self._block.name("", "q")
        second = 5 if kind == IN_STORE else 0
        self._block.add(
            first, count, left_out, name, kind, flags, 0, 0, len(CONTENT), place, second, len(CONTENT), NEVER
        )

    def body(self, first: int, *, said: int = 0) -> None:
        """With a run that says where its content is; `said` is so much beside it."""
        place = len(self.bodies) + HEADER_BYTES
        self.bodies += record(Kind.CLASSIC_BODY, QUEUE, first, CONTENT)
        self.run(first, IN_BODY, place=place + said)

    def settle(self, first: int, end: int) -> None:
        self._settled.append((first, end))

    def held(self, *contents: tuple[int, int]) -> list[tuple[int, int]]:
        """What a start would find, if the shared store has these contents."""
        index = record(Kind.CLASSIC_INDEX, QUEUE, 0, *(bytes(part) for part in self._block.parts()))
        if self._settled:
            index += record(Kind.CLASSIC_INDEX_SETTLED, QUEUE, 0, bytes(encode_ranges(self._settled)))
        path = Path(self.disk.root)
        (path / DIRECTORY).mkdir(exist_ok=True)
        (path / index_segment(DIRECTORY, 0)).write_bytes(index)
        if self.bodies:
            (path / body_file(DIRECTORY, 0)).write_bytes(self.bodies)
        segment = Segment(0, len(index), len(self.bodies), 0, 100, in_store=True)
        Manifest({QUEUE: (DIRECTORY, {0: segment})}).save(self.disk)
        ((queue, ranges),) = moved_out(self.disk, set(contents))
        assert queue == QUEUE
        return ranges


@pytest.fixture
def queue(tmp_path: Path) -> MovedQueue:
    return MovedQueue(tmp_path / "n1")


def test_a_content_in_the_queues_own_file_is_there_while_its_checksum_is_right(queue: MovedQueue) -> None:
    """One of a wrong checksum was called present: the proof held, and the queue could not give the message out."""
    for first in range(3):
        queue.body(first)
    assert queue.held() == [(0, 3)]
    queue.bodies = queue.bodies.replace(CONTENT, b"fife!", 2).replace(b"fife!", CONTENT, 1)
    assert queue.held() == [(0, 1), (2, 3)]
    queue.bodies = queue.bodies[:-1]
    assert queue.held() == [(0, 1)]
    queue.bodies = b""
    (Path(queue.disk.root) / body_file(DIRECTORY, 0)).unlink()
    assert queue.held() == []


def test_a_content_that_lies_beside_its_place_is_none(queue: MovedQueue) -> None:
    queue.body(0)
    queue.body(1, said=1)
    assert queue.held() == [(0, 1)]


def test_a_content_in_the_shared_store_is_there_if_the_store_has_its_id(queue: MovedQueue) -> None:
    queue.run(3, IN_STORE, 4, place=9)
    assert (queue.held((9, 5)), queue.held((5, 9)), queue.held()) == ([(3, 7)], [], [])


def test_what_is_in_the_log_still_or_done_with_or_not_persistent_is_not_in_the_queues_files(queue: MovedQueue) -> None:
    queue.run(0, IN_LOG)
    queue.run(1, IN_STORE, place=9, flags=0)
    queue.run(2, IN_STORE, 8, left_out=2, place=9)
    queue.settle(5, 7)
    assert queue.held((9, 5)) == [(4, 5), (7, 10)]


# All files of all nodes.


def read(node: str, number: int, first: int | None, last: int | None = None) -> FileEvidence:
    return FileEvidence(node, number, first, first if last is None else last)


def directories(tmp_path: Path, *nodes: str) -> list[tuple[str, str]]:
    for node in nodes:
        disk_in(tmp_path / node)
    return [(node, str(tmp_path / node)) for node in nodes]


@pytest.mark.parametrize(
    ("files", "from_the_first", "gaps"),
    [
        ([read("n1", 1, 1, 4), read("n1", 2, None), read("n1", 3, 5, 6)], True, []),
        ([read("n1", 3, 5, 6), read("n1", 1, 1, 4)], True, []),
        ([read("n1", 2, 2, 4), read("n1", 3, 5)], False, []),
        ([read("n1", 1, 1, 4), read("n2", 1, 2, 3)], False, []),
        ([read("n1", 1, 2, 4), read("n2", 1, 1, 3)], False, []),
        ([read("n1", 1, 1, 4), read("n1", 2, 6)], True, ["records 5 to 5 of the classic queues of n1 are missing"]),
        ([read("n1", 1, 1, 4), read("n1", 2, 4)], True, ["record 4 of the classic queues of n1 is in the log twice"]),
        ([read("n1", 1, None)], True, []),
    ],
)
def test_records_are_counted_node_by_node_from_the_first_on(
    tmp_path: Path, files: list[FileEvidence], from_the_first: bool, gaps: list[str]
) -> None:
    said = log_evidence(files, directories(tmp_path, "n1", "n2"), False)
    assert (said.from_the_first, said.gaps) == (from_the_first, gaps)


@pytest.mark.parametrize(
    ("next_index", "why"),
    [(5, []), (3, []), (6, ["records 5 to 5 of the classic queues of n1 are missing"])],
)
def test_a_clean_stop_says_how_many_records_there_were(tmp_path: Path, next_index: int, why: list[str]) -> None:
    ((node, directory),) = directories(tmp_path, "n1")
    clean_stop.save(OsDisk(directory), CleanStop(clean_stop.VERSION, next_index, {}, {}, []))
    assert log_evidence([read("n1", 1, 1, 4)], [(node, directory)], False).gaps == why


def test_a_clean_stop_of_a_log_without_records_of_classic_queues_misses_all(tmp_path: Path) -> None:
    ((node, directory),) = directories(tmp_path, "n1")
    clean_stop.save(OsDisk(directory), CleanStop(clean_stop.VERSION, 3, {}, {}, []))
    said = log_evidence([read("n1", 1, None)], [(node, directory)], False)
    assert said.gaps == ["records 1 to 2 of the classic queues of n1 are missing"]


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_a_clean_stop_that_is_damaged_says_as_little_as_a_crash(tmp_path: Path) -> None:
    """The proof ended with a traceback."""
    ((node, directory),) = directories(tmp_path, "n1")
    clean_stop.save(OsDisk(directory), CleanStop(clean_stop.VERSION, 9, {}, {}, []))
    damage(tmp_path / "n1" / CLASSIC_CLEAN_STOP)
    assert log_evidence([read("n1", 1, 1, 4)], [(node, directory)], False).gaps == []


def test_files_of_queues_that_nobody_lists_may_have_what_is_not_found(tmp_path: Path) -> None:
    """A start makes the list anew from the files. Where it was damaged the proof ended with a traceback, where it was gone all
    that is in the files was missing."""
    moved = MovedQueue(tmp_path / "n1")
    moved.body(0)
    assert moved.held() == [(0, 1)]
    place = [("n1", str(tmp_path / "n1"))]
    assert log_evidence([], place, False).unlisted == []
    damage(tmp_path / "n1" / CLASSIC_FILES)
    assert log_evidence([], place, False).unlisted == ["n1"]
    (tmp_path / "n1" / CLASSIC_FILES).unlink()
    assert log_evidence([], place, False).unlisted == ["n1"]
    assert log_evidence([], directories(tmp_path, "n2"), False).unlisted == [], "it never had any"


def test_a_queues_contents_are_looked_for_in_the_store_of_its_own_node(tmp_path: Path) -> None:
    moved = MovedQueue(tmp_path / "n1")
    moved.run(3, IN_STORE, 4, place=9)
    moved.held()
    stored = read("n1", 1, None), read("n2", 1, None)
    for has, found in ((0, [(3, 7)]), (1, [])):
        for one in stored:
            one.contents = [(9, 5)] if one is stored[has] else []
        said = log_evidence(stored, [("n1", str(tmp_path / "n1"))], False)
        assert said.stored[QUEUE].ranges() == found


def test_an_export_has_no_files_of_queues_and_what_files_store_is_of_all_of_them(tmp_path: Path) -> None:
    places = directories(tmp_path, "n1", "n2")
    (tmp_path / "n2" / EXPORT_MANIFEST).write_text(json.dumps({"format": EXPORT_FORMAT, "bodies": "included"}))
    one, two = read("n1", 1, None), read("n2", 1, None)
    one.stored, two.stored = {QUEUE: [(0, 2)]}, {QUEUE: [(4, 5)], OTHER: [(0, 1)]}
    one.entries, two.entries = {(9, 1): [(3, 5)]}, {(9, 1): [(5, 6)], (9, 2): [(6, 7)]}
    said = log_evidence([one, two], places, True)
    assert (said.exported, said.changed) == (["n2"], True)
    assert {queue: found.ranges() for queue, found in said.stored.items()} == {QUEUE: [(0, 2), (4, 5)], OTHER: [(0, 1)]}
    assert {key: found.ranges() for key, found in said.entries.items()} == {(9, 1): [(3, 6)], (9, 2): [(6, 7)]}


def quorum_name(group: int) -> bytes:
    return b"".join(
        bytes(part) for part in encode(Kind.NAME, 0, group, [encode_name(NameRow("quorum", "/", f"q{group}"))])
    )


def test_entries_that_stand_one_behind_the_other_are_each_of_its_own_queue(tmp_path: Path) -> None:
    """Of a stream, and of a queue that the file does not name as a quorum queue, nothing is looked for."""
    group, other, stranger = (1 << 32 | number for number in (1, 2, 3))
    written = [(group, 1), (other, 2), (group, 3), (group, 4), (other, 5), (stranger, 6), (group, 7)]
    records = [part for queue, index in written for part in entries_record(queue, index, b"data")]
    kept = {(group, 1): [(1, 2), (3, 5), (7, 8)], (other, 1): [(2, 3), (5, 6)]}
    for node, name, looked_for in (("n1", log_file(1), kept), ("n2", archived(log_file(1)), {})):
        path = tmp_path / node / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"".join([quorum_name(group), quorum_name(other), *records]))
        (file,) = log_files([str(tmp_path / node)])
        assert file_evidence(file, tail=True).entries == looked_for, "no start reads the archive"


def test_behind_a_missing_file_a_log_says_which_groups_go_on(tmp_path: Path) -> None:
    """By their entries or by what is committed of them; not that they are there, nor what another node says."""
    group = 1 << 32 | 9
    commit, there = (encode(kind, group + at, 5, []) for at, kind in enumerate((Kind.RAFT_COMMIT, Kind.RAFT_FACTS), 1))
    written = {
        ("n1", 1): [entries_record(group + 3, 1, b"before")],
        ("n1", 4): [entries_record(group, 5, b"behind"), commit, there],
        ("n2", 4): [entries_record(group + 3, 5, b"elsewhere")],
    }
    for (node, number), records in written.items():
        path = tmp_path / node / log_file(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(part for one in records for part in one))
    files = log_files([str(tmp_path)])
    found = [file_evidence(file, tail=True, with_groups=True) for file in files]
    said = log_evidence(found, directories(tmp_path, "n1", "n2"), False, missing_files(files))
    assert said.cut_off == [CutOff(MissingFiles("n1", 2, 3), frozenset({group, group + 1}))]
