"""Which messages of a log are told again, with what they held: a question about a directory, and its frames."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from analytics.replay.choice import Choice
from analytics.replay.log_reader import ReplayQuestion, frames
from broker.queues.queue_type import Outcome
from classic.store.log_records import DoneReason, encode_reasoned
from native.content import one
from native.sequence_set import SequenceSet
from quorum.fifo.commands import Consume, Settle, Upgrade, Who, encode
from quorum.fifo.versions import VERSION_NEWEST
from storage.history.name_records import ActorRow, encode_actor
from storage.names import archived, log_file
from storage.record import Kind, Mark, Roll, encode_mark, encode_roll
from storage.record import encode as encode_record
from tests.unit.analytics.test_pursuit import (
    CONSUMER,
    GROUP,
    QUEUE,
    START,
    command,
    enqueued,
    entries,
    message,
    publish,
)

LOG_ID = b"sixteen bytes id"


def durable_log(data: Path, number: int, *records: list[bytes], at: int = START) -> None:
    """A file of which a mark says that all is fsynced, with a time before each record."""
    written = bytearray(encode_roll(Roll(LOG_ID, number, 0, 0)))
    for place, record in enumerate([*records, []]):
        here = len(written)
        mark = Mark(LOG_ID, number, here, number, here, place + 1, begins_commit=True, time_us=(at + place) * 1_000)
        written += encode_mark(mark) + b"".join(record)
    path = data / log_file(number)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(written))


def ended(first: int, end: int, reason: DoneReason = DoneReason.ACKNOWLEDGED, actor: int = 5) -> list[bytes]:
    settled = SequenceSet()
    settled.add(first, end)
    made = encode_record(Kind.CLASSIC_DONE, 0, 1, [encode_reasoned(QUEUE, actor, reason, settled)])
    return [bytes(part) for part in made]


def actor(number: int, tag: str, user: str = "") -> list[bytes]:
    row = ActorRow(1, 1, user=user, tag=tag, queue="q")
    return [bytes(part) for part in encode_record(Kind.ACTOR, 0, number, [encode_actor(row)])]


def told(data: Path, *, group: bool = False, **chosen: Any) -> tuple[dict[str, Any], list[list[Any]]]:
    """The summary, and the rows."""
    choice = Choice(**{"ends": ["acked", "got", "no-ack"], **chosen})
    queue = GROUP & 0xFFFFFFFF if group else QUEUE
    asked = ReplayQuestion(str(data), queue, group, choice, True, 10, 1 << 30)
    summary, *lists = [msgspec.msgpack.decode(frame) for frame in frames(asked)]
    assert lists[-1] == [] and all(lists[:-1])
    return summary, [row for rows in lists for row in rows]


def bodies(rows: list[list[Any]]) -> list[bytes]:
    return [one(row[-1], 0)[1] for row in rows]


def places(rows: list[list[Any]]) -> list[list[int]]:
    return [row[0] for row in rows]


def test_what_was_acknowledged_is_told_in_order_with_its_content_and_what_waits_is_not(tmp_path: Path) -> None:
    made = [message(f"m{number}", b"body %d" % number) for number in range(5)]
    durable_log(tmp_path / "n", 1, publish(0, *made), ended(3, 4), ended(0, 2))
    summary, rows = told(tmp_path / "n")
    assert (places(rows), bodies(rows)) == ([[0], [1], [3]], [b"body 0", b"body 1", b"body 3"])
    assert (summary["messages"], summary["first"], summary["last"]) == (3, [0], [3])
    assert summary["causes"] == [["acked", "", "q", 3]]


def test_how_and_when_they_left_decides(tmp_path: Path) -> None:
    durable_log(
        tmp_path / "n", 1, publish(0, *[message("m", b"%d" % n) for n in range(4)]), ended(0, 1), ended(1, 2),
        ended(2, 3, DoneReason.REJECTED), ended(3, 4, DoneReason.PURGED),
    )  # fmt: skip
    assert bodies(told(tmp_path / "n", ends=["rejected"])[1]) == [b"2"]
    summary, rows = told(tmp_path / "n", since=START + 2, until=START + 3)
    assert (bodies(rows), summary["skipped"]) == ([b"1"], {"acked": 1, "rejected": 1, "purged": 1})


def test_it_goes_on_behind_a_place(tmp_path: Path) -> None:
    durable_log(tmp_path / "n", 1, publish(0, *[message("m", b"%d" % n) for n in range(4)]), ended(0, 4))
    assert bodies(told(tmp_path / "n", after=[1])[1]) == [b"2", b"3"]
    assert told(tmp_path / "n", after=[3])[1] == []


def test_a_number_that_two_lives_of_a_node_gave_to_two_consumers_means_each_in_its_own(tmp_path: Path) -> None:
    durable_log(
        tmp_path / "n", 1, publish(0, message("m", b"0"), message("m", b"1")), actor(5, "old"), ended(0, 1),
        actor(5, "new"), ended(1, 2),
    )  # fmt: skip
    assert bodies(told(tmp_path / "n", consumer="old")[1]) == [b"0"]
    assert bodies(told(tmp_path / "n", consumer="new")[1]) == [b"1"]


def test_whom_no_log_names_is_counted_and_not_guessed(tmp_path: Path) -> None:
    durable_log(tmp_path / "n", 1, publish(0, message("m")), ended(0, 1))
    summary, rows = told(tmp_path / "n", consumer="somebody")
    assert (rows, summary["unnamed"]) == ([], 1)


def test_a_file_that_went_away_leaves_places_without_contents(tmp_path: Path) -> None:
    durable_log(tmp_path / "n", 1, publish(0, message("m", b"kept")), ended(0, 1))
    asked = ReplayQuestion(str(tmp_path / "n"), QUEUE, False, Choice(["acked"]), True, 10, 1 << 30)
    reading = frames(asked)
    assert msgspec.msgpack.decode(next(reading))["messages"] == 1
    (tmp_path / "n" / log_file(1)).unlink()
    assert [row[-1] for row in msgspec.msgpack.decode(next(reading))] == [b""]


def test_a_file_that_is_archived_meanwhile_is_found_there(tmp_path: Path) -> None:
    durable_log(tmp_path / "n", 1, publish(0, message("m", b"kept")), ended(0, 1))
    durable_log(tmp_path / "n", 2)
    (tmp_path / "n" / "archive").mkdir()
    (tmp_path / "n" / log_file(1)).rename(tmp_path / "n" / archived(log_file(1)))
    assert bodies(told(tmp_path / "n")[1]) == [b"kept"]


def quorum_log(data: Path, *more: list[bytes], committed: int = 9) -> None:
    commit = [bytes(part) for part in encode_record(Kind.RAFT_COMMIT, GROUP, committed, [], term=1)]
    durable_log(
        data, 1, commit,
        entries(1, 1, command(0, encode(Upgrade(VERSION_NEWEST)))),
        entries(2, 1, command(1, encode(Consume(CONSUMER, "tag", prefetch=10)))),
        entries(3, 1, enqueued(0, message("m", b"a"), message("m", b"b"))),
        entries(4, 1, enqueued(2, message("m", b"c"))),
        entries(5, 1, command(4, encode(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(1, 2)])))),
        *more,
    )  # fmt: skip


def test_a_quorum_queue_tells_what_its_machine_says_has_left(tmp_path: Path) -> None:
    quorum_log(tmp_path / "n")
    summary, rows = told(tmp_path / "n", group=True)
    assert bodies(rows) == [b"a", b"b"]
    assert (summary["messages"], summary["uncommitted"], summary["unknown"]) == (2, 0, None)
    assert bodies(told(tmp_path / "n", group=True, after=places(rows)[0])[1]) == [b"b"]


def test_what_may_be_replaced_by_a_later_leader_is_counted_and_left_out(tmp_path: Path) -> None:
    quorum_log(tmp_path / "n", committed=4)
    summary, rows = told(tmp_path / "n", group=True)
    assert (rows, summary["uncommitted"]) == ([], 2)


def test_what_a_later_leader_wrote_to_the_same_place_is_what_is_told(tmp_path: Path) -> None:
    anew = [entries(4, 2, enqueued(2, message("m", b"anew"))),
            entries(5, 2, command(6, encode(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(3, 3)]))))]  # fmt: skip
    quorum_log(tmp_path / "n", *anew)
    assert bodies(told(tmp_path / "n", group=True)[1]) == [b"anew"]


def test_consumers_of_a_quorum_queue_are_found_by_name(tmp_path: Path) -> None:
    who = command(1, encode(Who(CONSUMER, 5)))
    commit = [bytes(part) for part in encode_record(Kind.RAFT_COMMIT, GROUP, 9, [], term=1)]
    durable_log(
        tmp_path / "n", 1, commit, actor(5, "billing"),
        entries(1, 1, command(0, encode(Upgrade(VERSION_NEWEST)))),
        entries(2, 1, who + encode(Consume(CONSUMER, "tag", prefetch=10))),
        entries(3, 1, enqueued(0, message("m", b"a"))),
        entries(4, 1, command(4, encode(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(1, 1)])))),
    )  # fmt: skip
    assert bodies(told(tmp_path / "n", group=True, consumer="billing")[1]) == [b"a"]
    assert told(tmp_path / "n", group=True, consumer="other")[1] == []


def test_an_unknown_directory_is_refused_with_one_line(tmp_path: Path) -> None:
    asked = msgspec.json.encode(ReplayQuestion(str(tmp_path / "none"), 1, False, Choice(["acked"]), True, 10, 1 << 30))
    done = subprocess.run([sys.executable, "-m", "analytics.replay.log_reader"], input=asked, capture_output=True)
    assert done.returncode == 64 and done.stderr.count(b"\n") == 1 and b"none" in done.stderr
