"""Files made of records, and what is found in them of one message."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from analytics.fold.lives import NODE_KILLED
from analytics.inputs import log_files, snapshot_files
from analytics.life import pursuit
from analytics.life.pursuit import LIVES_MAX, REPLACED, Pursuit, pursue
from analytics.life.wanted import (
    AtPlace,
    BodyText,
    HeaderValue,
    InQueue,
    LookFor,
    Sought,
    TextProperty,
    at_place,
    body_digest,
)
from broker.queues.queue_type import Outcome
from classic.store.log_records import (
    BY_ACTORS,
    Checkpoint,
    DoneReason,
    encode_checkpoint,
    encode_part,
    encode_published,
    encode_reasoned,
)
from native import content
from native.sequence_set import SequenceSet
from quorum.fifo.commands import (
    Consume,
    ConsumerKey,
    Get,
    Origins,
    PurgeOnce,
    SessionKey,
    Settle,
    Upgrade,
    Who,
    encode,
    encode_enqueue,
    entry_head,
)
from quorum.fifo.machine import QueueMachine
from quorum.fifo.origins import DeathPlace, OriginPart
from quorum.fifo.versions import VERSION_NEWEST
from raft.core import packs
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry, EntryKind, Membership, SnapshotMeta
from raft.store.snapshots import write as write_snapshot
from storage.history.name_records import ActorRow, encode_actor
from storage.names import LOG_DIRECTORY, LOG_SUFFIX, RAFT_DIRECTORY, numbered
from storage.os_disk import OsDisk
from storage.record import Kind
from storage.record import encode as encode_record
from wire.amqp.tables import encode_properties

QUEUE, GROUP = 7, 1 << 32 | 8
START = 1_700_000_000_000
SESSION, CONSUMER = SessionKey(1, 1), ConsumerKey(1, 1, 1)


def message(id_: str, body: bytes = b"", **headers: object) -> bytes:
    return content.encode(encode_properties({"message_id": id_, "headers": headers or None}), body)


def publish(first: int, *messages: bytes, queues: tuple[int, ...] = (QUEUE,)) -> list[bytes]:
    size = sum(map(len, messages))
    head = encode_published([(queue, first) for queue in queues], 4, len(messages), size, None, "", "q")
    return record(Kind.CLASSIC_PUBLISH, head, *messages)


def acknowledged(first: int, end: int) -> list[bytes]:
    return record(Kind.CLASSIC_DONE, encode_reasoned(QUEUE, 5, DoneReason.ACKNOWLEDGED, one_range(first, end)))


def one_range(first: int, end: int) -> SequenceSet:
    found = SequenceSet()
    found.add(first, end)
    return found


def record(kind: Kind, *parts: bytes, group: int = 0, index: int = 1) -> list[bytes]:
    return [bytes(part) for part in encode_record(kind, group, index, list(parts))]


def entries(index: int, term: int, *datas: bytes) -> list[bytes]:
    made = encode_record(Kind.RAFT_ENTRIES, GROUP, index, [packs.encode(datas)], flags=EntryKind.COMMAND, term=term)
    return [bytes(part) for part in made]


def enqueued(ms: int, *messages: bytes) -> bytes:
    op = encode_enqueue(SESSION, ms + 1, len(messages), 10, "", "q", b"".join(messages))
    return entry_head(START + ms) + b"".join(op)


def command(ms: int, op: bytes) -> bytes:
    return entry_head(START + ms) + op


def log(directory: Path, number: int, *records: list[bytes]) -> None:
    path = directory / numbered(LOG_DIRECTORY, number, LOG_SUFFIX)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(part for one in records for part in one))


def pursued(data: Path, *asked: Sought | AtPlace) -> Pursuit:
    sought = tuple(one for one in asked if not isinstance(one, AtPlace))
    return pursued_by(data, LookFor(sought, tuple(one for one in asked if isinstance(one, AtPlace))))


def pursued_by(data: Path, asked: LookFor) -> Pursuit:
    paths = [str(data)]
    return pursue(log_files(paths), snapshot_files(paths), asked, tail=True)


def told(found: Pursuit) -> list[list[str]]:
    return [[known.step.what for known in one.steps] for one in found.messages]


def test_the_one_that_has_the_id_is_found_in_a_run_and_not_those_that_speak_of_it(tmp_path: Path) -> None:
    speaking = message("other", b"\x02m1")
    log(tmp_path / "n1", 1, publish(10, speaking, message("m1"), message("m10")), acknowledged(11, 12))
    found = pursued(tmp_path, TextProperty("message_id", "m1"))
    assert [one.found.place[1:] for one in found.messages] == [(10, 0, 1)]
    assert told(found) == [["acked"]]
    assert told(pursued(tmp_path, BodyText("\x02m1"))) == [[]]


def test_who_was_given_it_is_told_if_it_was_out_at_a_tick(tmp_path: Path) -> None:
    out = one_range(9, 12)
    given = record(Kind.CLASSIC_OUT, encode_reasoned(QUEUE, 5, 0, out))
    others = [record(Kind.CLASSIC_OUT, encode_reasoned(8, 6, 0, out)), record(Kind.CLASSIC_OUT, b"no payload of it")]
    log(tmp_path / "n1", 1, publish(10, message("m1"), message("m2")), given, *others, acknowledged(10, 11))
    assert told(pursued(tmp_path, TextProperty("message_id", "m1"))) == [["delivered", "acked"]]
    assert told(pursued(tmp_path, TextProperty("message_id", "m2"))) == [["delivered"]]


def found_at_a_start(ready: tuple[int, int], out: tuple[int, int], queue: int = QUEUE) -> list[bytes]:
    ranges = [[one] if one[0] < one[1] else [] for one in (ready, out)]
    made = Checkpoint(queue, ready[1] - ready[0], out[1] - out[0], [max(ready[1], out[1])], *ranges)
    return [bytes(part) for part in encode_record(Kind.CLASSIC_CHECKPOINT, 0, queue, [encode_checkpoint(made)])]


def test_what_was_out_when_its_node_was_killed_is_not_told_to_be_out_still(tmp_path: Path) -> None:
    out = one_range(10, 12)
    given = record(Kind.CLASSIC_OUT, encode_reasoned(QUEUE, 5, 0, out))
    log(tmp_path / "n1", 1, publish(10, message("m1"), message("m2")), given)
    other = found_at_a_start((10, 12), (0, 0), queue=8)
    log(tmp_path / "n1", 2, other, found_at_a_start((11, 12), (10, 11)))
    assert told(pursued(tmp_path, TextProperty("message_id", "m1"))) == [["delivered"]]
    (one,) = pursued(tmp_path, TextProperty("message_id", "m2")).messages
    assert [(known.step.what, known.step.reason) for known in one.steps] == [
        ("delivered", None),
        ("returned", NODE_KILLED),
    ]
    assert one.steps[1].step.at is None, "this log has no marks, and so no times"


def test_who_takes_a_message_first_behind_a_kill_has_it_after_it_came_back(tmp_path: Path) -> None:
    """What it holds by the time of its file's first word is out there, as if it had never come back."""
    given = record(Kind.CLASSIC_OUT, encode_reasoned(QUEUE, 5, 0, one_range(10, 11)))
    log(tmp_path / "n1", 1, publish(10, message("m1")), given)
    taken = record(Kind.CLASSIC_DONE, encode_reasoned(QUEUE, 6, DoneReason.ACKNOWLEDGED, one_range(10, 11)))
    log(tmp_path / "n1", 2, found_at_a_start((0, 0), (10, 11)), taken)
    (one,) = pursued(tmp_path, TextProperty("message_id", "m1")).messages
    assert [(known.step.what, known.step.reason) for known in one.steps] == [
        ("delivered", None),
        ("returned", NODE_KILLED),
        ("acked", None),
    ]


def test_a_message_of_several_queues_has_a_life_in_each(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, publish(0, message("m1"), queues=(QUEUE, 9)), acknowledged(0, 1))
    found = pursued(tmp_path, TextProperty("message_id", "m1"))
    assert {one.found.place.queue: len(one.steps) for one in found.messages} == {QUEUE: 1, 9: 0}


@pytest.mark.parametrize(("name", "value"), [("text", "to be"), ("small", "-3"), ("large", "5000000000")])
def test_headers_are_texts_and_whole_numbers(tmp_path: Path, name: str, value: str) -> None:
    log(
        tmp_path / "n1",
        1,
        publish(0, message("m1", text="to be", small=-3, large=5_000_000_000), message("m2", small=3)),
    )
    found = pursued(tmp_path, HeaderValue(name, value))
    assert [one.found.place.nth for one in found.messages] == [0]


def test_more_than_are_told_are_said_to_be_more(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, publish(0, *[message("m", b"all the same")] * (LIVES_MAX + 1)))
    found = pursued(tmp_path, BodyText("the same"))
    assert (len(found.messages), found.more) == (LIVES_MAX, True)


def test_what_no_message_can_have_is_looked_for_nowhere(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, publish(0, message("m")))
    for sought in (
        TextProperty("message_id", "x" * 300),
        TextProperty("message_id", ""),
        HeaderValue("", "1"),
        BodyText(""),
    ):
        assert pursued(tmp_path, sought).messages == []


def test_a_message_ends_in_another_file_and_a_missing_one_in_between_is_told(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, publish(0, message("m1")))
    log(tmp_path / "n1", 2, publish(1, message("m2")))
    log(tmp_path / "n1", 3, acknowledged(0, 2))
    (one,) = pursued(tmp_path, TextProperty("message_id", "m1")).messages
    assert ([known.step.what for known in one.steps], one.unknown) == (["acked"], None)
    (tmp_path / "n1" / numbered(LOG_DIRECTORY, 2, LOG_SUFFIX)).unlink()
    (one,) = pursued(tmp_path, TextProperty("message_id", "m1")).messages
    assert one.unknown == "file 2 of the log of n1 is missing"


CONSUMED = command(5, encode(Consume(CONSUMER, "tag")))
SETTLED = command(9, encode(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(1, 2)])))


@pytest.mark.parametrize("window", [1, 2, 3])
def test_a_message_of_a_quorum_queue_is_followed_through_the_entries_of_all_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    """However few of them are in memory at a time."""
    monkeypatch.setattr(pursuit, "WINDOW_ENTRIES", window)
    log(tmp_path / "n1", 1, entries(1, 1, enqueued(0, message("m0"), message("m1")), CONSUMED))
    log(tmp_path / "n2", 1, entries(2, 1, CONSUMED, SETTLED))
    (one,) = pursued(tmp_path, TextProperty("message_id", "m1")).messages
    assert one.found.place == (GROUP, 1, 9, 1)
    assert [(known.step.what, known.step.at, known.step.consumer) for known in one.steps] == [
        ("delivered", START + 5, CONSUMER),
        ("acked", START + 9, CONSUMER),
    ]
    assert one.committed is None, "no node said so"


def test_a_message_that_its_queue_had_already_is_told_as_refused(tmp_path: Path) -> None:
    again = enqueued(0, message("m1"))
    log(tmp_path / "n1", 1, entries(1, 1, again, again))
    first, second = pursued(tmp_path, TextProperty("message_id", "m1")).messages
    assert (first.steps, [known.step.what for known in second.steps], second.unknown) == ([], ["refused"], None)
    assert second.committed is None, "no node said so"
    log(tmp_path / "n2", 1, entries(1, 1, again, again), record(Kind.RAFT_COMMIT, group=GROUP, index=2))
    _, second = pursued(tmp_path, TextProperty("message_id", "m1")).messages
    assert second.committed is True


def test_a_message_that_a_later_leader_has_replaced_was_never_in_the_queue(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, entries(1, 1, enqueued(0, message("m0"))))
    log(tmp_path / "n2", 1, entries(1, 2, enqueued(0, message("m1")), CONSUMED))
    (one,) = pursued(tmp_path, TextProperty("message_id", "m0")).messages
    assert (one.steps, one.unknown) == ([], REPLACED)
    assert told(pursued(tmp_path, TextProperty("message_id", "m1"))) == [["delivered"]]


def test_a_message_of_a_lower_term_counts_where_its_log_goes_on(tmp_path: Path) -> None:
    """The leader of term 2 had no followers, that of term 3 has the entry of term 1."""
    older, replaced = enqueued(0, message("m0")), enqueued(0, message("m1"))
    log(tmp_path / "n1", 1, entries(1, 2, replaced), entries(1, 1, older), entries(2, 3, CONSUMED))
    (one,) = pursued(tmp_path, TextProperty("message_id", "m1")).messages
    assert (one.steps, one.unknown) == ([], REPLACED)
    (one,) = pursued(tmp_path, TextProperty("message_id", "m0")).messages
    assert ([known.step.what for known in one.steps], one.unknown) == (["delivered"], None)


def test_behind_missing_entries_a_life_is_unknown_without_a_snapshot_and_known_with_one(tmp_path: Path) -> None:
    first = [enqueued(0, message("m0")), CONSUMED]
    log(
        tmp_path / "n1",
        1,
        entries(3, 1, enqueued(1, message("m1")), command(9, encode(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(1, 2)])))),
    )
    (one,) = pursued(tmp_path, TextProperty("message_id", "m1")).messages
    assert (one.steps, one.unknown) == ([], "entries 1 to 2 are missing")
    machine = QueueMachine()
    machine.apply(tuple(Entry(index, 1, EntryKind.COMMAND, data) for index, data in enumerate(first, 1)))
    (tmp_path / "n1" / RAFT_DIRECTORY).mkdir()
    meta = SnapshotMeta(2, 1, Membership((1,)), machine.version)
    write_snapshot(OsDisk(str(tmp_path / "n1")), GROUP, 1, meta, LiveEntries(), machine.snapshot())
    (one,) = pursued(tmp_path, TextProperty("message_id", "m1")).messages
    assert ([known.step.what for known in one.steps], one.unknown) == (["delivered", "acked"], None)


def said_by(*parts: OriginPart) -> bytes:
    return encode(Origins(parts))


def test_who_published_to_a_quorum_queue_is_looked_up_in_the_log_of_the_node_that_it_was_connected_to(
    tmp_path: Path,
) -> None:
    """Another node, and an earlier process, give the number to others. Two channels had parts of the run."""
    ann, bob = (ActorRow(1, SESSION.incarnation, 0, user) for user in ("ann", "bob"))
    named = [encode_record(Kind.ACTOR, 0, 5, [encode_actor(ann)]), encode_record(Kind.ACTOR, 0, 6, [encode_actor(bob)])]
    other = encode_record(Kind.ACTOR, 0, 6, [encode_actor(ActorRow(1, 77, 0, "eve"))])
    parts = OriginPart(5, 10, 2, True), OriginPart(6, 3, 1)
    op = b"".join(encode_enqueue(SESSION, 1, 3, 10, "", "q", message("m1") + message("m2") + message("m3")))
    log(tmp_path / "n1", 1, other, entries(1, 1, entry_head(START) + said_by(*parts) + op))
    log(tmp_path / "n2", 1, *named)
    told = []
    for id_ in ("m2", "m3"):
        (one,) = pursued(tmp_path, TextProperty("message_id", id_)).messages
        told.append(([row.user for row in one.publisher], one.found.publish_no, one.found.confirm))
    assert told == [(["ann"], 11, True), (["bob"], 3, False)]


def test_who_had_to_do_with_a_message_of_a_classic_queue_is_told_as_of_the_process_that_wrote_it(
    tmp_path: Path,
) -> None:
    """A node that is started again goes on in the file, and gives others the same numbers."""

    def named(user: str, incarnation: int) -> list[bytes]:
        connection, channel = ActorRow(1, incarnation, 0, user), ActorRow(2, incarnation, 5)
        return [
            bytes(part)
            for number, row in ((5, connection), (6, channel))
            for part in encode_record(Kind.ACTOR, 0, number, [encode_actor(row)])
        ]

    def published(first: int, id_: str) -> list[bytes]:
        head = encode_published([(QUEUE, first)], 4, 1, 0, None, "", "q", BY_ACTORS, encode_part(6, 1, 1))
        return record(Kind.CLASSIC_PUBLISH, head, message(id_))

    settled = record(Kind.CLASSIC_DONE, encode_reasoned(QUEUE, 6, DoneReason.ACKNOWLEDGED, one_range(0, 2)))
    log(tmp_path / "n1", 1, named("ann", 1), published(0, "m1"), named("bob", 2), published(1, "m2"), settled)
    found = [pursued(tmp_path, TextProperty("message_id", id_)).messages[0] for id_ in ("m1", "m2")]
    assert [[row.user for row in one.publisher] for one in found] == [["", "ann"], ["", "bob"]]
    assert [[row.user for row in one.steps[0].who] for one in found] == [["", "bob"], ["", "bob"]]


def test_who_got_a_message_of_a_quorum_queue_or_purged_it_is_looked_up_once_the_fold_has_told(tmp_path: Path) -> None:
    """They are channels and connections, of which a log has many that have nothing to do with the queue."""
    ann, bob = (ActorRow(1, SESSION.incarnation, 0, user) for user in ("ann", "bob"))
    named = [encode_record(Kind.ACTOR, 0, 5, [encode_actor(ann)]), encode_record(Kind.ACTOR, 0, 6, [encode_actor(bob)])]
    getter, purger = ConsumerKey(*SESSION, 8), ConsumerKey(*SESSION, 9)
    newest = command(4, encode(Upgrade(VERSION_NEWEST)))
    got = command(5, encode(Who(getter, 5)) + encode(Get(getter)))
    acked = command(6, encode(Settle(getter, Outcome.ACKNOWLEDGED, [(1, 1)])))
    purged = command(7, encode(Who(purger, 6)) + encode(PurgeOnce(purger, 9)))
    log(tmp_path / "n1", 1, entries(1, 1, enqueued(0, message("m1"), message("m2")), newest, got, acked, purged))
    log(tmp_path / "n2", 1, *named)
    steps = [one.steps for id_ in ("m1", "m2") for one in pursued(tmp_path, TextProperty("message_id", id_)).messages]
    assert [[(known.step.what, [row.user for row in known.who]) for known in one] for one in steps] == [
        [("delivered", ["ann"]), ("acked", ["ann"])],
        [("purged", ["bob"])],
    ]


def test_a_dead_letter_into_a_quorum_queue_is_followed_by_its_place_in_both_directions(tmp_path: Path) -> None:
    died_in = DeathPlace(QUEUE, 1, 0, 0, 0)
    op = b"".join(encode_enqueue(SESSION, 1, 2, 10, "", "dead", message("", b"x") + message("", b"y")))
    said = said_by(OriginPart(0, 0, 1), OriginPart(0, 0, 1, died_in=died_in))
    log(tmp_path / "n1", 1, publish(0, message("m1"), message("m2")), entries(1, 1, entry_head(START) + said + op))
    for asked in (TextProperty("message_id", "m2"), AtPlace(None, GROUP, 1, 9 + len(said), 1)):
        first, letter = sorted(pursued(tmp_path, asked).messages, key=lambda one: one.found.place)
        assert (first.found.place.queue, letter.found.place.queue) == (QUEUE, GROUP)
        assert first.became == [letter.found.place]
        assert (letter.found.place.nth, letter.found.death_reason) == (1, 0)
    (alone,) = pursued(tmp_path, TextProperty("message_id", "m1")).messages
    assert alone.became == []


@pytest.mark.parametrize("text", ["", "x", "1/2", "-1", "1/2/x"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no place in a queue"):
        at_place("q", text)


def test_a_place_is_a_sequence_an_entry_or_all_three_numbers() -> None:
    assert at_place("q", "17") == AtPlace("q", None, 17)
    assert at_place("q", "17/9/0") == AtPlace("q", None, 17, 9, 0)


# What is looked for in one queue only.


def with_request(number: str, body: bytes = b"") -> bytes:
    return content.encode(encode_properties({"correlation_id": number}), body)


def test_the_answer_to_a_request_is_found_by_what_it_answers(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, publish(0, with_request("r1"), with_request("r2"), message("r2")))
    found = pursued(tmp_path, TextProperty("correlation_id", "r2"))
    assert [one.found.place.nth for one in found.messages] == [1]


def test_of_several_queues_with_the_same_message_only_the_one_that_is_meant_tells(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, publish(0, message("m1"), queues=(QUEUE, 9)), entries(1, 1, enqueued(0, message("m1"))))
    for queue, number in ((QUEUE, QUEUE), (9, 9), (8, GROUP)):
        found = pursued(tmp_path, InQueue(TextProperty("message_id", "m1"), queue))
        assert [one.found.place.queue for one in found.messages] == [number]


def test_a_message_is_found_by_the_digest_of_its_body_in_a_run_and_in_an_entry(tmp_path: Path) -> None:
    same = message("b", b"the same")
    log(tmp_path / "n1", 1, publish(4, message("a", b"other"), same), entries(1, 1, enqueued(0, message("c"), same)))
    digest = sha256(b"the same").hexdigest()
    for queue, place in ((QUEUE, (4, 0, 1)), (8, (1, 1))):
        (one,) = pursued_by(tmp_path, LookFor(digests=(body_digest(queue, digest.upper()),))).messages
        found = one.found.place
        assert place == (found[1:] if queue == QUEUE else (found.pos, found.nth))
    assert pursued_by(tmp_path, LookFor(digests=(body_digest(9, digest),))).messages == []


def test_what_is_no_digest_is_refused() -> None:
    for text in ("", "ab", "z" * 64):
        with pytest.raises(ValueError, match="is no SHA-256 of a body"):
            body_digest(QUEUE, text)


def test_files_that_cannot_hold_what_is_looked_for_are_skipped_and_still_tell_what_became_of_it(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, publish(0, message("m1")))
    log(tmp_path / "n1", 2, acknowledged(0, 1))
    files = log_files([str(tmp_path)])
    asked = LookFor(sought=(TextProperty("message_id", "m1"),))
    found = pursue(files, [], asked, tail=True, may_hold=lambda file: file.number == 1, processes_max=1)
    assert (told(found), found.coverage.skipped) == ([["acked"]], 1)
