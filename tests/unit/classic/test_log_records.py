"""What classic queues write to the log: old records stay readable, and a start takes old and new ones alike."""

from __future__ import annotations

import pytest

from broker.messages import route_names
from broker.queues.queue_type import BackReason, DeathReason
from classic.recovery.logged_queues import LoggedQueues
from classic.store import log_records
from classic.store.log_records import (
    BY_ACTORS,
    DIED_BEFORE,
    DIED_EACH,
    WAITED_FOR,
    Checkpoint,
    Death,
    DoneReason,
    Part,
    PublishOrigin,
    decode_checkpoint,
    decode_published,
    decode_reasoned,
    encode_checkpoint,
    encode_death,
    encode_part,
    encode_published,
    encode_reasoned,
    read_published,
)
from native.record_scan import Record
from native.sequence_set import Range, SequenceSet
from storage.record import Kind
from storage.wal.file_reader import Chunk

# As nodes wrote them before publishes had an origin: one message of 3 bytes to "job", in queue 9 from sequence 5 on.
OLD_PUBLISH = bytes.fromhex(
    "2f00" "0100" "00" "00" "01000000" "0300000000000000" "ffffffffffffffff" "09000000000000000500000000000000"
    "00" "036a6f62" "0000000003000000616263"
)  # fmt: skip
OLD_SETTLE = bytes.fromhex("090000000000000005000000000000000600000000000000")
FIRST_DONE = bytes.fromhex("09000000000000000700000001050000000000000001000000")
DEATH = Death(4, (1 << 40, 17, 3), DeathReason.EXPIRED)


def sequences(*ranges: tuple[int, int]) -> SequenceSet:
    found = SequenceSet()
    for first, end in ranges:
        found.add(first, end)
    return found


def chunk(*payloads: tuple[Kind, bytes]) -> Chunk:
    records: list[Record] = []
    buffer = b""
    for index, (kind, payload) in enumerate(payloads, 1):
        records.append((int(kind), 0, 0, 1, index, len(buffer), len(buffer) + len(payload)))
        buffer += payload
    return Chunk(1, 0, records, buffer)


def test_a_publish_of_the_first_version_says_nothing_of_its_origin() -> None:
    assert encode_published([(9, 5)], 0, 1, 3, None, "", "job") == OLD_PUBLISH[:0x2F]
    published = decode_published(memoryview(OLD_PUBLISH))
    assert published.queues == [(9, 5)] and published.routing_key == "job"
    assert published.origin == PublishOrigin()


@pytest.mark.parametrize(
    ("flags", "tail", "origin"),
    [
        (BY_ACTORS, encode_part(7, 1 << 40, 3), PublishOrigin((Part(7, 1 << 40, 3),))),
        (
            BY_ACTORS | WAITED_FOR,
            encode_part(7, 1, 2) + encode_part(8, 5, 1),
            PublishOrigin((Part(7, 1, 2), Part(8, 5, 1)), True),
        ),
        (DIED_BEFORE, encode_death(*DEATH), PublishOrigin(death=DEATH)),
        (
            DIED_BEFORE | BY_ACTORS,
            encode_death(*DEATH) + encode_part(1, 2, 3),
            PublishOrigin((Part(1, 2, 3),), False, DEATH),
        ),
        (
            DIED_EACH | BY_ACTORS,
            b"".join([encode_death(9, (at, 0, 0), 1) for at in (4, 5, 6)]) + encode_part(1, 2, 3),
            PublishOrigin((Part(1, 2, 3),), deaths=tuple(Death(9, (at, 0, 0), 1) for at in (4, 5, 6))),
        ),
    ],
)
def test_an_origin_stands_between_the_key_and_the_content(flags: int, tail: bytes, origin: PublishOrigin) -> None:
    head = encode_published([(9, 5), (10, 0)], 2, 3, 30, 77, "x", "job", flags, tail)
    published = decode_published(memoryview(head + b"content"))
    assert published.origin == origin
    assert published.head_len == len(head) and published.queues == [(9, 5), (10, 0)]
    name = read_published(memoryview(head + b"content"))[-1]
    assert name == route_names.encode("x", "job"), "what a start keeps once for all runs has no origin in it"


def test_done_and_back_say_who_and_why() -> None:
    done = encode_reasoned(9, 7, DoneReason.ACKNOWLEDGED, sequences((5, 6)))
    assert done == FIRST_DONE
    assert decode_reasoned(memoryview(done)) == (9, 7, DoneReason.ACKNOWLEDGED, [(5, 6)])
    back = encode_reasoned(9, 8, BackReason.NACKED, sequences((5, 7), (1 << 48, (1 << 48) + 2)))
    assert decode_reasoned(memoryview(back))[3] == [(5, 7), (1 << 48, (1 << 48) + 2)]


def test_a_range_longer_than_a_record_can_say_is_said_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_records, "RANGE_COUNT_MAX", 10)
    said = decode_reasoned(memoryview(encode_reasoned(9, 0, DoneReason.PURGED, sequences((5, 27)))))[3]
    assert said == [(5, 15), (15, 25), (25, 27)]


def test_a_start_takes_old_and_new_records_of_what_is_done_with() -> None:
    logged = LoggedQueues({9})
    logged.read(
        [
            chunk(
                (Kind.CLASSIC_PUBLISH, OLD_PUBLISH),
                (Kind.CLASSIC_SETTLE, OLD_SETTLE),
                (Kind.CLASSIC_DONE, encode_reasoned(9, 7, DoneReason.EXPIRED, sequences((7, 9), (20, 21)))),
                (Kind.CLASSIC_BACK, encode_reasoned(9, 7, BackReason.REJECTED, sequences((9, 12)))),
                (Kind.CLASSIC_DONE, encode_reasoned(8, 7, DoneReason.EXPIRED, sequences((7, 9)))),
            )
        ]
    )
    assert logged.next_index == 6, "all of them count the records of classic queues"
    queue = logged.take(9)
    assert queue is not None
    assert queue.published.ranges() == [(5, 6)]
    assert queue.settled.ranges() == [(5, 6), (7, 9), (20, 21)]
    assert logged.take(8) is None, "it is not declared"


@pytest.mark.parametrize(
    ("ready", "out"),
    [([(1, 4), (6, 7)], [(8, 9)]), ([(1, 4)], [(4, 6), (8, 9)]), ([(1, 4)], []), ([], [(1, 4)]), ([], [])],
)
def test_a_checkpoint_has_what_is_ready_and_what_is_out_apart(ready: list[Range], out: list[Range]) -> None:
    made = Checkpoint(9, 20, 10, [12, 1 << 40], ready, out)
    assert decode_checkpoint(memoryview(encode_checkpoint(made))) == made


@pytest.mark.parametrize(
    ("ready", "out", "says"), [(1_000, 24, True), (24, 1_000, True), (1_000, 25, False), (25, 1_000, False)]
)
def test_of_more_ranges_than_a_checkpoint_may_have_it_says_how_many_messages(ready: int, out: int, says: bool) -> None:
    ranges = [(4 * at, 4 * at + 2) for at in range(ready + out)]
    made = Checkpoint(9, 2 * ready, 2 * out, [1 << 20], ranges[:ready], ranges[ready:])
    counted = made._replace(ready_ranges=[], out_ranges=[])
    assert decode_checkpoint(memoryview(encode_checkpoint(made))) == (made if says else counted)


@pytest.mark.parametrize(
    ("ready", "out", "ready_ranges", "out_ranges", "says"),
    [
        (0, 0, [], [], True),
        (5, 0, [], [], False),
        (0, 5, [], [], False),
        (2, 0, [(0, 2)], [], True),
        (0, 2, [], [(0, 2)], True),
    ],
)
def test_a_checkpoint_says_which_messages_there_are_or_that_there_are_none(
    ready: int, out: int, ready_ranges: list[Range], out_ranges: list[Range], says: bool
) -> None:
    assert Checkpoint(9, ready, out, [7], ready_ranges, out_ranges).has_ranges is says
