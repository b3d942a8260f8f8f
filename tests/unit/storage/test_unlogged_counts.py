"""What the log does not have is counted, and told once a second and in each of its files."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker.actors import ActorKind, LogActor
from broker.unlogged import Unlogged
from storage.disk import Buffer
from storage.history.count_records import CountRow, decode_counts
from storage.history.file_names import FileNames
from storage.history.unlogged_counts import EVERY_MS, ROWS_MAX, UnloggedCounts
from storage.record import Kind
from storage.wal.log_core import Location

START = 1_700_000_000_000


class Log:
    """What was appended, in a file that a test changes."""

    def __init__(self) -> None:
        self.failed: str | None = None
        self.gathering_file = 1
        self.kinds: list[Kind] = []
        self.payloads: list[bytes] = []
        self.told: list[tuple[int, list[CountRow]]] = []

    def append_lazy(self, kind: int, writer: int, index: int, parts: Sequence[Buffer]) -> Location:
        self.kinds.append(Kind(kind))
        self.payloads.append(b"".join(bytes(part) for part in parts))
        if kind == Kind.COUNTS:
            self.told.append(decode_counts(self.payloads[-1]))
        return Location(self.gathering_file, 0, 0)


class CountingWorld:
    def __init__(self) -> None:
        self.log = Log()
        self.now = START
        self.counts = UnloggedCounts(self.log, FileNames(self.log, 1), lambda: self.now)
        self.channel = LogActor(ActorKind.CHANNEL, LogActor(ActorKind.CONNECTION, user="ann"))

    def count(
        self, what: Unlogged = Unlogged.UNROUTABLE, exchange: str = "x", key: str = "k", messages: int = 1
    ) -> None:
        self.counts.count(what, self.channel, exchange, key, messages, 10 * messages)

    def tick_after(self, ms: int) -> None:
        self.now += ms
        self.counts.tick()

    def told(self) -> list[tuple[int, list[CountRow]]]:
        told, self.log.told = self.log.told, []
        return told


@pytest.fixture
def world() -> CountingWorld:
    """It has told that it counts."""
    world = CountingWorld()
    world.counts.tick()
    assert world.told() == [(0, [])]
    return world


def test_each_file_is_told_once_that_somebody_counts(world: CountingWorld) -> None:
    world.tick_after(5 * EVERY_MS)
    assert world.told() == []
    world.log.gathering_file = 2
    world.tick_after(1)
    world.tick_after(EVERY_MS)
    assert world.told() == [(0, [])]


def test_what_is_counted_within_a_second_is_one_record_behind_the_names_of_who_published(world: CountingWorld) -> None:
    world.count(messages=2)
    world.tick_after(EVERY_MS - 1)
    assert world.told() == []
    world.count(key="last")
    world.count(Unlogged.RETURNED)
    world.count(exchange="y", key="")
    world.counts.count(Unlogged.DEAD_UNROUTABLE, None, "x", "k", 1, 5)
    world.tick_after(1)
    ((span_ms, rows),) = world.told()
    assert span_ms == EVERY_MS
    assert rows == [
        CountRow(2, Unlogged.UNROUTABLE, 3, 30, "x", "last"),
        CountRow(2, Unlogged.RETURNED, 1, 10, "x", "k"),
        CountRow(2, Unlogged.UNROUTABLE, 1, 10, "y", ""),
        CountRow(0, Unlogged.DEAD_UNROUTABLE, 1, 5, "x", "k"),
    ]
    assert world.log.kinds == [Kind.COUNTS, Kind.ACTOR, Kind.ACTOR, Kind.COUNTS]
    world.tick_after(EVERY_MS)
    assert world.told() == [], "there is nothing to tell"


def test_what_is_told_is_counted_since_the_first_of_it_and_not_since_it_was_told_last(world: CountingWorld) -> None:
    """Else who looks for a peak finds a low one behind an idle hour."""
    world.now += 3_600_000
    world.count()
    world.now += EVERY_MS - 1
    world.count()
    world.counts.tick()
    assert world.told() == [], "the second has begun with the first of them"
    world.tick_after(1)
    assert [span_ms for span_ms, _ in world.told()] == [EVERY_MS]


def test_a_clock_that_is_put_forward_by_months_is_told_as_far_as_a_record_can(world: CountingWorld) -> None:
    world.count()
    world.tick_after(1 << 33)
    assert [span_ms for span_ms, _ in world.told()] == [(1 << 32) - 1]


def test_a_clock_that_is_put_back_holds_nothing_up(world: CountingWorld) -> None:
    world.count()
    world.tick_after(-3_600_000)
    assert [span_ms for span_ms, _ in world.told()] == [0]


def test_what_is_gathered_has_a_bound_and_nothing_of_it_is_lost(world: CountingWorld) -> None:
    for number in range(ROWS_MAX + 1):
        world.count(exchange=f"x{number}")
    world.tick_after(EVERY_MS)
    assert [len(rows) for _, rows in world.told()] == [ROWS_MAX, 1]


def test_a_log_that_failed_is_told_nothing_and_what_is_left_at_the_end_is_told(world: CountingWorld) -> None:
    world.count()
    world.counts.tell()
    assert [len(rows) for _, rows in world.told()] == [1]
    world.count()
    world.log.failed = "the disk"
    world.counts.tell()
    world.log.gathering_file = 2
    world.counts.tick()
    assert world.told() == []
