"""A log that was tampered with: the proof holds for no queue that it concerns, and says what is wrong."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import pika
import pytest

from analytics.fold.queue_history import PUBLISHED_BEFORE
from analytics.inputs import log_files
from analytics.jobs.answer import EXIT_HOLDS, EXIT_MISSING, EXIT_UNKNOWN
from analytics.jobs.proof import ProofRow, code_of
from classic.store.log_records import DoneReason
from storage.names import ARCHIVE_DIRECTORY, LOG_DIRECTORY, RAFT_DIRECTORY, SEGMENT_SUFFIX, STORE_PERSISTENT
from storage.record import HEADER_BYTES, PAYLOAD_BYTES_MAX, Kind, encode, scan
from tests.ledger.plain_proof import proofs
from tests.running_node import running_node

MESSAGES = 12
ACKED = 8
NO_KIND = 200  # readers pass over records of kinds that they do not know
CONFIG = "[archive]\nhours = 1\n[log]\nfile_bytes_max = 65536\n"
STORED = 60
MOVED_WITHIN_S = 60.0
BODY = b"x" * 9_000  # a few of them fill a file of the log


class Found(NamedTuple):
    """One record of a file."""

    path: Path
    kind: int
    flags: int
    term: int
    writer: int
    index: int
    start: int  # of its payload
    end: int

    @property
    def payload(self) -> bytes:
        return self.path.read_bytes()[self.start : self.end]

    def replace(self, payload: bytes, kind: int | None = None, index: int | None = None) -> None:
        """With one of the same size and a right checksum."""
        assert len(payload) == self.end - self.start, "what lies behind it would move"
        new = encode(
            self.kind if kind is None else kind, self.writer, self.index if index is None else index, [payload], self.flags,
            self.term,
        )  # fmt: skip
        data = bytearray(self.path.read_bytes())
        data[self.start - HEADER_BYTES : self.end] = b"".join(new)
        self.path.write_bytes(data)

    def drop(self) -> None:
        self.replace(self.payload, kind=NO_KIND)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data of a node with a classic and a quorum queue, in some files of its log."""
    directory = tmp_path_factory.mktemp("whole")
    (directory / "leveret.toml").write_text(CONFIG)
    with running_node("--config", str(directory / "leveret.toml"), data_dir=directory / "n1") as node:
        connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
        channel = connection.channel()
        channel.confirm_delivery()
        for kind in ("classic", "quorum"):
            channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
            for number in range(MESSAGES):
                channel.basic_publish("", kind, BODY, pika.BasicProperties(delivery_mode=2))
                if number < ACKED:
                    method, _, _ = channel.basic_get(kind)
                    channel.basic_ack(method.delivery_tag)
        connection.close()
        assert node.stop() == 0
    yield directory / "n1"


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "n1"))


def records(data: Path, *kinds: Kind) -> list[Found]:
    found = []
    for file in log_files([str(data)]):
        path = data / file.name
        content = path.read_bytes()
        found += [Found(path, *one) for one in scan(content, 0, len(content), PAYLOAD_BYTES_MAX)[0]]
    return [one for one in found if one.kind in kinds]


def test_the_log_as_it_is_proves_both_queues(data: Path) -> None:
    rows = proofs(data)
    assert {name: code_of(row) for name, row in rows.items()} == {"classic": EXIT_HOLDS, "quorum": EXIT_HOLDS}
    for row in rows.values():
        assert (row.promised, row.acked, row.present, row.missing) == (MESSAGES, ACKED, MESSAGES - ACKED, 0)


def drop_a_publish(data: Path) -> None:
    records(data, Kind.CLASSIC_PUBLISH)[3].drop()


def drop_the_last_publish(data: Path) -> None:
    records(data, Kind.CLASSIC_PUBLISH)[-1].drop()


def drop_a_done(data: Path) -> None:
    records(data, Kind.CLASSIC_DONE)[0].drop()


def double_a_publish(data: Path) -> None:
    first, second = records(data, Kind.CLASSIC_PUBLISH)[ACKED : ACKED + 2]
    second.replace(first.payload, index=first.index)


def lose_a_file(data: Path) -> None:
    records(data, Kind.CLASSIC_PUBLISH)[ACKED].path.unlink()


def lose_the_first_file(data: Path) -> None:
    records(data, Kind.CLASSIC_PUBLISH)[0].path.unlink()


def cut_the_tail(data: Path) -> None:
    place = records(data, Kind.CLASSIC_PUBLISH)[-1]
    place.path.write_bytes(place.path.read_bytes()[: place.start - HEADER_BYTES])
    for file in log_files([str(data)]):
        if file.number > int(place.path.stem):
            (data / file.name).unlink()


def flip_a_byte(data: Path) -> None:
    place = records(data, Kind.CLASSIC_PUBLISH)[5]
    content = bytearray(place.path.read_bytes())
    content[place.start + 100] ^= 1
    place.path.write_bytes(content)


@pytest.mark.parametrize(
    ("mutate", "why"),
    [
        (drop_a_publish, "are missing"),
        (drop_the_last_publish, "are missing"),
        (drop_a_done, "are missing"),
        (double_a_publish, "twice"),
        (lose_a_file, "are missing"),
        (lose_the_first_file, "before the log"),
        (cut_the_tail, "are missing"),
        (flip_a_byte, "are missing"),
    ],
)
def test_a_classic_queue_is_unknown(data: Path, mutate: Callable[[Path], None], why: str) -> None:
    mutate(data)
    row = proofs(data)["classic"]
    assert code_of(row) == EXIT_UNKNOWN
    assert why in (row.why or "")


def quorum_records(data: Path) -> list[Found]:
    """With the entries of the quorum queue: records that are long enough to hold a body."""
    return [one for one in records(data, Kind.RAFT_ENTRIES) if one.end - one.start > len(BODY)]


def drop_an_entry(data: Path) -> None:
    quorum_records(data)[4].drop()


def double_an_entry(data: Path) -> None:
    found = quorum_records(data)
    first, second = next(
        (one, two) for one, two in pairwise(found) if len(one.payload) == len(two.payload) and one.index > 4
    )
    second.replace(first.payload, index=first.index)


def lose_a_file_of_entries(data: Path) -> None:
    quorum_records(data)[4].path.unlink()


def flip_a_byte_of_an_entry(data: Path) -> None:
    place = quorum_records(data)[4]
    content = bytearray(place.path.read_bytes())
    content[place.start + 100] ^= 1
    place.path.write_bytes(content)


@pytest.mark.parametrize("mutate", [drop_an_entry, double_an_entry, lose_a_file_of_entries, flip_a_byte_of_an_entry])
def test_a_quorum_queue_is_unknown(data: Path, mutate: Callable[[Path], None]) -> None:
    mutate(data)
    row = proofs(data)["quorum"]
    assert code_of(row) == EXIT_UNKNOWN
    assert "are missing" in (row.why or "")


def test_another_reason_is_told_as_the_log_says_it(data: Path) -> None:
    """Nothing beside the log knows why messages went: only who wrote it down notices (tests/ledger)."""
    place = records(data, Kind.CLASSIC_DONE)[0]
    changed = bytearray(place.payload)
    assert changed[12] == DoneReason.ACKNOWLEDGED
    changed[12] = DoneReason.EXPIRED
    place.replace(bytes(changed))
    row = proofs(data)["classic"]
    assert (row.acked < ACKED, row.acked + row.expired) == (True, ACKED)


def test_messages_that_no_start_would_find_are_missing(data: Path) -> None:
    """The archive tells of them; the node's own log has them no more, nor have the files of the queue."""
    last = records(data, Kind.CLASSIC_PUBLISH)[-1]
    for path in sorted((data / LOG_DIRECTORY).iterdir()):
        (data / ARCHIVE_DIRECTORY).mkdir(exist_ok=True)
        path.rename(data / ARCHIVE_DIRECTORY / path.name)
    (data / "classic" / "files").unlink(missing_ok=True)
    for path in (data / RAFT_DIRECTORY).glob(f"*{SEGMENT_SUFFIX}"):
        path.unlink()
    rows = proofs(data)
    for kind in ("classic", "quorum"):
        row: ProofRow = rows[kind]
        assert (code_of(row), row.missing) == (EXIT_MISSING, MESSAGES - ACKED)
        assert last.index > 0 and len(row.first_missing) == row.missing


def test_a_content_that_the_shared_store_has_lost_is_missing(stored: Path, tmp_path: Path) -> None:
    """A byte at the begin of it, behind which a start would find no more. All was called present."""
    data = Path(shutil.copytree(stored, tmp_path / "n1"))
    whole = proofs(data)["classic"]
    assert (code_of(whole), whole.present) == (EXIT_HOLDS, STORED)
    flip(min((data / STORE_PERSISTENT).iterdir()), len(BODY) // 2)
    rows = proofs(data)
    assert_some_are_missing(rows["classic"])
    assert (code_of(rows["quorum"]), rows["quorum"].present) == (EXIT_HOLDS, STORED)


def test_an_entry_that_a_segment_has_lost_is_missing_when_it_has_left_the_log(stored: Path, tmp_path: Path) -> None:
    """The archive still tells of it. All was called present."""
    data = Path(shutil.copytree(stored, tmp_path / "n1"))
    (data / ARCHIVE_DIRECTORY).mkdir(exist_ok=True)
    first = quorum_records(data)[0].path
    first.rename(data / ARCHIVE_DIRECTORY / first.name)
    assert proofs(data)["quorum"].present == STORED
    flip(min(segments_with_bodies(data)), len(BODY) // 2)
    assert_some_are_missing(proofs(data)["quorum"])


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def assert_some_are_missing(row: ProofRow) -> None:
    assert (code_of(row), row.missing + row.present) == (EXIT_MISSING, STORED), row
    assert row.missing and row.first_missing


def segments_with_bodies(data: Path) -> list[Path]:
    return [path for path in (data / RAFT_DIRECTORY).glob(f"*{SEGMENT_SUFFIX}") if path.stat().st_size > len(BODY)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data of a node whose messages nobody takes: the first of them are not in its log any more, but in the archive."""
    directory = tmp_path_factory.mktemp("stored")
    (directory / "leveret.toml").write_text(CONFIG)
    with running_node("--config", str(directory / "leveret.toml"), data_dir=directory / "n1") as node:
        connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
        channel = connection.channel()
        channel.confirm_delivery()
        for kind in ("classic", "quorum"):
            channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
            for _ in range(STORED):
                channel.basic_publish("", kind, BODY, pika.BasicProperties(delivery_mode=2))
        wait_for(lambda: bool(segments_with_bodies(directory / "n1")))
        wait_for(lambda: any((directory / "n1" / STORE_PERSISTENT).glob("*")))
        wait_for(lambda: any((directory / "n1" / ARCHIVE_DIRECTORY).glob("*.log")))
        connection.close()
        assert node.stop() == 0
    yield directory / "n1"


def wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + MOVED_WITHIN_S
    while not holds():
        assert time.monotonic() < until, "nothing was moved out of the log"
        time.sleep(0.05)


def spoil_by_dropping(place: Found, before: Found) -> None:
    place.drop()


def spoil_by_doubling(place: Found, before: Found) -> None:
    """The one before it in its place; of another size it would move what lies behind, so then it is taken away."""
    if len(place.payload) == len(before.payload):
        place.replace(before.payload, index=before.index)
    else:
        place.drop()


def spoil_by_flipping(place: Found, before: Found) -> None:
    content = bytearray(place.path.read_bytes())
    content[place.start + (place.end - place.start) // 2] ^= 0x10
    place.path.write_bytes(content)


def spoil_by_flipping_the_head(place: Found, before: Found) -> None:
    content = bytearray(place.path.read_bytes())
    content[place.start - HEADER_BYTES // 2] ^= 0x40
    place.path.write_bytes(content)


def spoil_by_zeros(place: Found, before: Found) -> None:
    """A block that the disk gave back empty."""
    content = bytearray(place.path.read_bytes())
    content[place.start - HEADER_BYTES : place.end] = bytes(place.end - place.start + HEADER_BYTES)
    place.path.write_bytes(content)


def spoil_by_losing_the_file(place: Found, before: Found) -> None:
    place.path.unlink()


SPOILERS = (
    spoil_by_dropping,
    spoil_by_doubling,
    spoil_by_flipping,
    spoil_by_flipping_the_head,
    spoil_by_zeros,
    spoil_by_losing_the_file,
)
CLASSIC_RECORDS = (Kind.CLASSIC_PUBLISH, Kind.CLASSIC_DONE)
MUTANTS = 30


@pytest.mark.parametrize("seed", range(MUTANTS))
def test_no_mutant_of_a_log_is_proved(data: Path, seed: int) -> None:
    """Each kind of spoiling, of both kinds of queue, at places drawn at random: never the last record of the quorum queue, for
    its end nothing knows but another node's copy."""
    random = Random(f"mutant.{seed}")
    spoil, is_quorum = SPOILERS[seed % len(SPOILERS)], seed // len(SPOILERS) % 2 == 1
    found = quorum_records(data) if is_quorum else records(data, *CLASSIC_RECORDS)
    at = random.randrange(1, len(found) - 1)
    spoil(found[at], found[at - 1])
    row = proofs(data)["quorum" if is_quorum else "classic"]
    first_file = min(one.path for one in found)
    is_first_gone = spoil is spoil_by_losing_the_file and found[at].path == first_file and not is_quorum
    late = (BEGINS_LATE, PUBLISHED_BEFORE)  # the second where something is told of a message that came in that file
    is_late = any(one in (row.why or "") for one in late)
    is_named = is_late if is_first_gone else names(row.why, found[at], found[at - 1])
    assert (code_of(row), is_named) == (EXIT_UNKNOWN, True), f"{spoil.__name__} at {at}, {found[at].index}: {row}"


BEGINS_LATE = "there may have been messages before the log"
RANGE = re.compile(r"(?:records|entries) (\d+) to (\d+) ")


def names(why: str | None, place: Found, before: Found) -> bool:
    """Whether it says that this record is missing, or that another one stands in its place."""
    said = RANGE.match(why or "")
    if said is None:
        return f"record {before.index} of the classic queues of n1 is in the log twice" == why
    return int(said[1]) <= place.index <= int(said[2])
