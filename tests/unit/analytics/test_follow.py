"""What comes to queues and leaves them while their nodes write, look by look."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from analytics.__main__ import main
from analytics.follow.log_tail import LogTail, Moves
from analytics.follow.queue_rates import QueueRate, QueueRates
from analytics.inputs import log_files
from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN
from broker.queues.queue_type import BackReason
from classic.store.log_records import DoneReason, encode_reasoned
from native.sequence_set import SequenceSet
from storage.history.name_records import NameRow, encode_name
from storage.names import LOG_DIRECTORY, LOG_SUFFIX, numbered
from storage.record import Kind, Roll, encode_roll
from storage.record import encode as encode_record
from tests.unit.analytics.test_pursuit import (
    CONSUMED,
    GROUP,
    QUEUE,
    acknowledged,
    command,
    enqueued,
    entries,
    log,
    message,
    publish,
    record,
)

ONE = message("m", b"12345")
SIZE = len(ONE)  # as the records of these tests have it


def name(queue: int, kind: str, called: str) -> list[bytes]:
    return [bytes(part) for part in encode_record(Kind.NAME, 0, queue, [encode_name(NameRow(kind, "/", called))])]


CLASSIC, QUORUM = name(QUEUE, "classic", "c"), name(GROUP, "quorum", "q")


def done(reason: DoneReason | BackReason, first: int, end: int) -> list[bytes]:
    which = SequenceSet()
    which.add(first, end)
    kind = Kind.CLASSIC_DONE if isinstance(reason, DoneReason) else Kind.CLASSIC_BACK
    return record(kind, encode_reasoned(QUEUE, 5, reason, which))


def more(directory: Path, number: int, *records: list[bytes], cut: int = 0) -> None:
    """A node goes on writing a file."""
    data = b"".join(part for one in records for part in one)
    with (directory / numbered(LOG_DIRECTORY, number, LOG_SUFFIX)).open("ab") as file:
        file.write(data[: len(data) - cut])


def looked(tail: LogTail, data: Path) -> dict[int, Moves]:
    tail.look(log_files([str(data)]))
    return tail.total


@pytest.fixture
def node(tmp_path: Path) -> Path:
    log(tmp_path / "n1", 1, CLASSIC, publish(0, ONE, ONE))
    return tmp_path / "n1"


@pytest.fixture
def tail(node: Path) -> LogTail:
    tail = LogTail()
    assert looked(tail, node.parent) == {}, "what was there before"
    return tail


def test_what_comes_and_leaves_is_counted_by_what_became_of_it(node: Path, tail: LogTail) -> None:
    more(node, 1, publish(2, ONE, ONE, ONE), acknowledged(0, 2), done(BackReason.NACKED, 2, 4))
    more(node, 1, done(DoneReason.REJECTED, 2, 3), done(DoneReason.EXPIRED, 3, 4), done(DoneReason.SENT, 4, 5))
    assert looked(tail, node.parent) == {QUEUE: Moves(published=3, bytes=3 * SIZE, acked=3, returned=2, gone=2)}
    assert looked(tail, node.parent) == {QUEUE: Moves(3, 3 * SIZE, 3, 2, 2)}, "once"


def test_a_record_counts_when_all_of_it_is_there(node: Path, tail: LogTail) -> None:
    whole = publish(2, ONE)
    more(node, 1, whole, cut=3)
    assert looked(tail, node.parent) == {}
    (node / numbered(LOG_DIRECTORY, 1, LOG_SUFFIX)).write_bytes(
        b"".join(part for one in (CLASSIC, publish(0, ONE, ONE), whole) for part in one)
    )
    assert looked(tail, node.parent) == {QUEUE: Moves(1, SIZE)}


def test_it_goes_on_in_the_next_file(node: Path, tail: LogTail) -> None:
    more(node, 1, publish(2, ONE))
    log(node, 2, CLASSIC, publish(3, ONE))
    assert looked(tail, node.parent) == {QUEUE: Moves(2, 2 * SIZE)}
    log(node, 3, publish(4, ONE))
    assert looked(tail, node.parent) == {QUEUE: Moves(3, 3 * SIZE)}
    assert tail.missed == 0


@pytest.mark.parametrize(("deleted", "missed"), [((1,), 1), ((1, 2), 2)])
def test_files_that_went_unread_are_told(node: Path, tail: LogTail, deleted: tuple[int, ...], missed: int) -> None:
    for number in (2, 3):
        log(node, number, publish(number, ONE))
    for number in deleted:
        (node / numbered(LOG_DIRECTORY, number, LOG_SUFFIX)).unlink()
    looked(tail, node.parent)
    assert (tail.missed, tail.total) == (missed, {QUEUE: Moves(3 - missed, SIZE * (3 - missed))})


def test_a_file_that_was_read_to_its_end_may_go(node: Path, tail: LogTail) -> None:
    log(node, 2, publish(2, ONE))
    looked(tail, node.parent)
    (node / numbered(LOG_DIRECTORY, 1, LOG_SUFFIX)).unlink()
    more(node, 2, publish(3, ONE))
    assert looked(tail, node.parent) == {QUEUE: Moves(2, 2 * SIZE)}
    assert tail.missed == 0


def test_members_of_a_quorum_queue_have_the_same_and_count_once(tmp_path: Path) -> None:
    """Also while one is behind the others. What classic queues have on several nodes are their own messages."""
    now = [0.0]
    rates = QueueRates(lambda: now[0])
    for node in ("n1", "n2"):
        log(tmp_path / node, 1, QUORUM)
    assert rates.look(log_files([str(tmp_path)])) == []
    came = entries(1, 1, enqueued(0, ONE, ONE), CONSUMED, command(1, b""))
    more(tmp_path / "n1", 1, came)
    now[0] += 2
    assert rates.look(log_files([str(tmp_path)])) == [QueueRate("//q", 1.0, 5.0, 0, 0, 0)]
    more(tmp_path / "n2", 1, came)
    now[0] += 1
    assert rates.look(log_files([str(tmp_path)])) == []
    for node in ("n1", "n2"):
        more(tmp_path / node, 1, CLASSIC, publish(0, ONE))
    now[0] += 1
    assert rates.look(log_files([str(tmp_path)])) == [QueueRate("//c", 2.0, 2.0 * SIZE, 0, 0, 0)]


def test_the_command_says_a_line_for_each_look(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    follow = ["--data", str(node.parent), "--json", "follow", "--every", "0.1", "--times", "2"]
    assert main(follow) == EXIT_HOLDS
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["rows"], line["missed_files"]) for line in said] == [([], 0), ([], 0)]
    with pytest.raises(SystemExit):
        main([*follow[:4], "--every", "0"])
    assert "'0' is no number of seconds" in capsys.readouterr().err


def test_the_command_ends_with_75_when_files_went_unread(
    node: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(_: float) -> None:
        log(node, 3, publish(2, ONE))
        (node / numbered(LOG_DIRECTORY, 1, LOG_SUFFIX)).unlink()

    monkeypatch.setattr("analytics.follow.follow_command.time.sleep", meanwhile)
    assert main(["--data", str(node.parent), "follow", "--times", "1"]) == EXIT_UNKNOWN
    assert "2 files of the log were deleted before they were read" in capsys.readouterr().out


def test_the_command_says_what_of_the_log_could_not_be_read_and_ends_with_75(
    node: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came and went in damaged bytes was left out of the rates without a word."""

    def meanwhile(_: float) -> None:
        more(node, 1, [b"no record"], publish(2, ONE))
        log(node, 2, CLASSIC, publish(3, ONE))

    monkeypatch.setattr("analytics.follow.follow_command.time.sleep", meanwhile)
    assert main(["--data", str(node.parent), "follow", "--times", "1"]) == EXIT_UNKNOWN
    assert ", 1 place of the log could not be read" in capsys.readouterr().out


def test_a_log_that_a_node_begins_anew_is_followed_from_its_beginning(tmp_path: Path) -> None:
    """Its files have lower numbers, or the same: it was not looked at any more, as if nothing happened."""
    now = [0.0]
    rates = QueueRates(lambda: now[0])

    def looked(*files: int, log_id: bytes) -> list[QueueRate]:
        shutil.rmtree(tmp_path / "n1", ignore_errors=True)
        for number in files:
            head = [encode_roll(Roll(log_id, number, 0, 1))]
            log(tmp_path / "n1", number, head, CLASSIC, publish(10 * number, ONE))
        now[0] += 1
        return rates.look(log_files([str(tmp_path)]))

    assert looked(5, log_id=b"sixteen bytes id") == []
    assert looked(1, 2, log_id=b"of sixteen bytes") == [QueueRate("//c", 2.0, 2.0 * SIZE, 0, 0, 0)]
    assert looked(1, 2, log_id=b"another 16 bytes") == [QueueRate("//c", 2.0, 2.0 * SIZE, 0, 0, 0)]
    assert rates.missed == 2, "what the logs before had beyond"
