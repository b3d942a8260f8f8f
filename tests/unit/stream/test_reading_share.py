"""What readers of streams are given in one round of the event loop: stream/reading/reading_share.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from broker.messages.message import Run
from broker.queues.stream_contract import Begin
from native.content import encode
from stream.group.chunk_reading import StreamPlace
from stream.reading.reader_figures import TURN_BYTES_MAX, ReaderFigures
from stream.reading.readers import StreamReaders, WaitsFor
from stream.reading.reading_share import (
    BYTES_BESIDE_PUBLISHERS,
    BYTES_BESIDE_SLOW_COMMITS,
    LOOKED_AT_BYTES,
    OLD_BYTES_BESIDE_PUBLISHERS,
    PAUSE_S,
    PUBLISHED_S,
    ROUND_BYTES_MAX,
    SERVED_BYTES,
    SLOW_COMMITS_S,
    ReadingShare,
)
from tests.unit.stream.chunk_clients import ChunkClient
from tests.unit.stream.named_publisher import NamedClient
from tests.unit.stream.test_chunk_readers import publish_large
from tests.unit.stream.test_stream_queue import consume, published, world


class Rounds:
    """Of an event loop. Fulfils QueueLoop, with one timer at most."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.timer: Callable[[], None] | None = None
        self.now = 0.0
        self.share = ReadingShare(cast(Any, self), lambda: self.now)

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    def call_later(self, delay: float, call: Callable[[], None]) -> Rounds:
        assert self.timer is None and delay == PAUSE_S
        self.timer = call
        return self

    def cancel(self) -> None:
        assert self.timer is not None
        self.timer = None

    def next(self) -> None:
        calls, self.soon[:] = list(self.soon), []
        for call in calls:
            call()

    def pause_ends(self) -> None:
        call, self.timer = self.timer, None
        assert call is not None, "there is no pause"
        call()

    def publish(self) -> None:
        self.share.published(member_here=True)

    def publish_and_commit(self) -> None:
        self.publish()
        self.share.committed()


def test_a_round_has_so_many_bytes_and_the_next_one_again() -> None:
    rounds = Rounds()
    for _ in range(2):
        served = 0
        while not rounds.share.is_used_up:
            rounds.share.served(100_000, old=True)
            served += 1
        assert served == -(-ROUND_BYTES_MAX // (100_000 + SERVED_BYTES))
        rounds.next()
    assert not rounds.soon, "nothing is called where nothing is read"


def test_beside_publishers_a_round_has_less_for_what_is_old_and_large_chunks_are_paid_for_by_several() -> None:
    rounds = Rounds()
    rounds.publish_and_commit()
    rounds.share.served(10, old=True)
    rounds.next()
    assert rounds.share.left(old=True) == OLD_BYTES_BESIDE_PUBLISHERS
    rounds.share.served(5 * OLD_BYTES_BESIDE_PUBLISHERS, old=True)
    for _ in range(3):
        rounds.share.wait(lambda: None, first=True)
        rounds.next()
    for _ in range(2):
        assert rounds.share.left(old=True) == 0 < rounds.share.left(old=False) and not rounds.share.is_used_up
        rounds.share.wait(lambda: None, first=True)
        rounds.next()
    assert rounds.share.left(old=True) == OLD_BYTES_BESIDE_PUBLISHERS


def test_beside_publishers_few_readers_are_served_in_a_round() -> None:
    rounds, served = Rounds(), []
    rounds.publish_and_commit()
    for _ in range(30):
        rounds.share.wait(lambda: None, first=True)
        rounds.next()
        served.append(0)
        while not rounds.share.is_used_up:
            rounds.share.served(10_000, old=False)
            served[-1] += 1
    assert set(served) == {1, 2}


def test_some_time_after_something_was_published_a_round_has_all_again() -> None:
    rounds = Rounds()
    rounds.publish_and_commit()
    rounds.share.served(5 * ROUND_BYTES_MAX, old=True)
    rounds.now += PUBLISHED_S
    rounds.next()
    assert rounds.share.left(old=True) == ROUND_BYTES_MAX


def use_up(rounds: Rounds) -> None:
    """Readers have all of their share, and wait for another."""
    while not rounds.share.is_used_up:
        rounds.share.served(0, old=False)
    rounds.share.wait(lambda: None, first=True)


def used_up() -> Rounds:
    """A round in which something was published and not committed, and readers had their share."""
    rounds = Rounds()
    rounds.publish()
    rounds.share.wait(lambda: None, first=True)
    rounds.next()
    use_up(rounds)
    return rounds


def test_while_a_commit_takes_rounds_those_in_which_nothing_is_published_or_committed_serve_no_reader() -> None:
    rounds = used_up()
    for _ in range(5):
        rounds.next()
        assert rounds.share.is_used_up
    assert not rounds.soon, "the loop sleeps"


@pytest.mark.parametrize("progress", [Rounds.publish, lambda rounds: rounds.share.committed()])
def test_progress_ends_the_pause_of_readers(progress: Callable[[Rounds], None]) -> None:
    rounds = used_up()
    rounds.next()
    progress(rounds)
    assert rounds.timer is None and rounds.share.is_used_up
    rounds.next()
    assert rounds.share.left(old=False) == BYTES_BESIDE_SLOW_COMMITS


def test_without_progress_readers_have_a_share_after_a_pause_and_twice_as_much_after_each_further_one() -> None:
    rounds, shares = used_up(), list[int]()
    for _ in range(6):
        rounds.next()
        rounds.pause_ends()
        assert rounds.share.left(old=False) == rounds.share.left(old=True)
        shares.append(rounds.share.left(old=True))
        use_up(rounds)
    first = BYTES_BESIDE_SLOW_COMMITS
    assert shares == [first, 2 * first, 4 * first, 8 * first, ROUND_BYTES_MAX, ROUND_BYTES_MAX]
    rounds.publish()
    rounds.next()
    use_up(rounds)
    rounds.next()
    rounds.pause_ends()
    assert rounds.share.left(old=False) == first, "after progress pauses begin anew"


def test_a_reader_that_waits_is_called_at_the_end_of_a_pause() -> None:
    rounds, called = used_up(), list[int]()
    rounds.share.wait(lambda: called.append(1), first=True)
    rounds.next()
    assert not called
    rounds.pause_ends()
    assert called


def test_when_commits_take_no_rounds_any_more_a_round_has_as_much_as_before() -> None:
    rounds = used_up()
    rounds.next()
    rounds.now += SLOW_COMMITS_S
    rounds.publish_and_commit()
    rounds.next()
    assert rounds.share.left(old=False) == BYTES_BESIDE_PUBLISHERS


def test_who_reads_what_is_old_has_a_share_in_each_round_of_a_commit() -> None:
    """With pauses a replay beside commits of 2 ms was three times as slow as without."""
    rounds = used_up()
    rounds.next()
    rounds.publish()
    rounds.next()
    given = 0
    for _ in range(12):
        if size := rounds.share.left(old=True):
            given += size
            rounds.share.served(size, old=True)
        rounds.share.wait(lambda: None, first=True)
        rounds.next()
        assert rounds.timer is None
    assert given >= 11 * OLD_BYTES_BESIDE_PUBLISHERS
    while rounds.share.left(old=True):
        rounds.share.served(0, old=True)  # it has read all
    rounds.share.wait(lambda: None, first=True)
    rounds.next()
    rounds.next()
    assert rounds.timer is not None, "others pause again"


def test_a_large_chunk_of_what_is_old_is_paid_for_in_rounds_without_pauses() -> None:
    rounds = used_up()
    rounds.next()
    rounds.publish()
    rounds.next()
    rounds.share.served(5 * OLD_BYTES_BESIDE_PUBLISHERS, old=True)
    paid_for = 0
    while not rounds.share.left(old=True):
        rounds.share.wait(lambda: None, first=True)
        rounds.next()
        paid_for += 1
        assert rounds.timer is None
    assert paid_for == 5


@pytest.mark.parametrize("member_here", [False, True])
def test_rounds_are_not_waited_for_where_nothing_waits_for_a_commit_of_this_node(member_here: bool) -> None:
    rounds = Rounds()
    rounds.share.published(member_here=member_here)
    if member_here:
        rounds.share.committed()
    for _ in range(5):
        rounds.share.served(BYTES_BESIDE_PUBLISHERS - SERVED_BYTES, old=False)
        rounds.next()
        assert not rounds.share.is_used_up and rounds.timer is None


def test_readers_cost_something_when_there_is_nothing_for_them() -> None:
    rounds = Rounds()
    for _ in range(ROUND_BYTES_MAX // LOOKED_AT_BYTES):
        assert not rounds.share.is_used_up
        rounds.share.served(0, old=True)
    assert rounds.share.is_used_up


def test_who_had_nothing_of_a_round_comes_first_in_the_next() -> None:
    rounds, woken = Rounds(), []
    goes_on = {name: lambda name=name: woken.append(name) for name in "abc"}
    rounds.share.served(ROUND_BYTES_MAX, old=True)
    rounds.share.wait(goes_on["a"], first=False)
    for name in "bcb":
        rounds.share.wait(goes_on[name], first=True)
    rounds.next()
    assert woken == ["b", "c", "a"]
    rounds.next()
    assert woken == ["b", "c", "a"], "once"


def test_a_client_that_gives_credit_has_no_other_looked_at(monkeypatch: Any) -> None:
    clients, record = published(1, (1,))
    readers = [ChunkClient(clients, 1, record, credit=0).attach(Begin.FIRST) for _ in range(50)]
    clients.cluster.run(0.2)
    looked_at: list[ChunkClient] = []
    monkeypatch.setattr(
        ChunkClient, "credit", property(lambda self: looked_at.append(self) or self.given), raising=False
    )
    for reader in readers:
        reader.given = 0
    queue = clients.of(1, record)[1]
    for reader in readers[:3]:
        queue.reader_ready(reader)
        queue.pump(clients.now)
    assert looked_at == readers[:3]


def test_each_of_many_turns_of_a_round_shares_what_the_round_has() -> None:
    clients, record = world(1, (1,))
    publish_large(clients, record, 1)
    queue = clients.of(1, record)[1]
    readers = [ChunkClient(clients, 1, record).attach(Begin.FIRST) for _ in range(20)]
    for reader in readers:
        queue.reader_ready(reader)
        queue.pump(clients.now)
    assert sum(bool(reader.chunks) for reader in readers) == ROUND_BYTES_MAX // TURN_BYTES_MAX
    clients.cluster.run(0.5)
    assert [reader.offsets for reader in readers] == [[0]] * 20


def test_a_stream_that_is_read_much_leaves_another_its_share() -> None:
    clients, record = world(1, (1,))
    publish_large(clients, record, 1)
    other = clients.cluster.declare("other", (1,))
    clients.cluster.leader(other)
    publish_large(clients, other, 1, size=100)
    busy, quiet = clients.of(1, record)[1], clients.of(1, other)[1]
    for _ in range(200):
        ChunkClient(clients, 1, record).attach(Begin.FIRST)
    busy.pump(clients.now)
    few = ChunkClient(clients, 1, other).attach(Begin.FIRST)
    consumer = consume(clients, 1, other)
    quiet.pump(clients.now)
    assert not few.chunks
    clients.cluster.run(0.01)
    assert few.offsets == [0] and consumer.offsets == [0]


@pytest.mark.parametrize("how", ["nothing", "a message", "an item of a stream client"])
def test_what_clients_publish_to_streams_leaves_less_of_a_round_for_what_is_old(how: str) -> None:
    clients, record = world(1, (1,))
    publish_large(clients, record, 8, size=60_000)
    kind, queue = clients.of(1, record)
    reader = ChunkClient(clients, 1, record, credit=0).attach(Begin.FIRST)
    clients.cluster.run(0.5)
    if how == "a message":
        kind.publish((queue,), Run("", "q", encode(b"\0\0", b"small"), 1, 5), None, clients.now)
    elif how == "an item of a stream client":
        NamedClient(clients, record, "p", 1).publish(1)
    reader.give(8)
    clients.cluster.run(0.01)
    assert len(reader.chunks) >= 8
    assert queue._share.left(old=False) > OLD_BYTES_BESIDE_PUBLISHERS
    assert queue._share.left(old=True) == (ROUND_BYTES_MAX if how == "nothing" else OLD_BYTES_BESIDE_PUBLISHERS)


def test_what_is_old_has_nothing_where_what_is_in_memory_took_all() -> None:
    rounds = Rounds()
    rounds.share.served(ROUND_BYTES_MAX, old=False)
    assert rounds.share.is_used_up
    assert rounds.share.left(old=True) == rounds.share.left(old=False) == 0


def test_nothing_is_renewed_in_the_middle_of_a_pause() -> None:
    rounds = used_up()
    rounds.next()
    assert rounds.timer is not None
    rounds.share.served(10, old=False)
    rounds.share.wait(lambda: None, first=False)
    assert not rounds.soon


@pytest.mark.parametrize("first", [False, True])
def test_a_reader_that_waits_again_while_it_is_called_is_called_in_the_next_round(first: bool) -> None:
    rounds, called = Rounds(), list[int]()

    def goes_on() -> None:
        called.append(len(called))
        if len(called) < 3:
            rounds.share.wait(goes_on, first=first)

    rounds.share.wait(goes_on, first=first)
    for expected in ([0], [0, 1], [0, 1, 2], [0, 1, 2]):
        rounds.next()
        assert called == expected


@dataclass
class Placed:
    """A reader that takes all that it may. Fulfils PlacedReader."""

    name: str
    place: StreamPlace
    took: list[str]
    figures: ReaderFigures = field(default_factory=ReaderFigures)

    def read(self, reading: Any, bytes_max: int) -> WaitsFor:
        self.took.append(self.name)
        self.figures.bytes_read += bytes_max
        return WaitsFor.TURN


class Reading:
    """Has the entries behind the ninth in memory."""

    def __init__(self) -> None:
        self.looked_at = 0

    def in_memory(self, index: int) -> bool:
        self.looked_at += 1
        return index >= 9


def readers_at(places: dict[str, int], took: list[str]) -> StreamReaders:
    readers = StreamReaders(lambda skipped: None, lambda client, offset: None)
    for name, entry_index in places.items():
        placed: Any = Placed(name, StreamPlace(entry_index, 0), took)
        readers.add(cast(Any, name), placed)
    return readers


def with_nothing_for_what_is_old() -> Rounds:
    """In this round and the next; the third has all that a round has beside publishers."""
    rounds = Rounds()
    rounds.publish_and_commit()
    rounds.share.wait(lambda: None, first=True)
    rounds.next()
    rounds.share.served(5 * OLD_BYTES_BESIDE_PUBLISHERS, old=True)
    for _ in range(3):
        rounds.share.wait(lambda: None, first=True)
        rounds.next()
    assert not rounds.share.left(old=True) and rounds.share.left(old=False) == BYTES_BESIDE_PUBLISHERS
    return rounds


def test_who_reads_what_is_in_memory_does_not_wait_for_what_is_old() -> None:
    rounds, took, reading = with_nothing_for_what_is_old(), list[str](), cast(Any, Reading())
    readers = readers_at({"old": 1, "new": 9}, took)
    assert readers.read(lambda place: reading, rounds.share)
    assert took == ["new"]
    for _ in range(4):
        rounds.share.wait(lambda: None, first=True)
        rounds.next()
    readers.read(lambda place: reading, rounds.share)
    assert took == ["new", "old"], "and it has its turn"


def test_those_that_wait_for_what_is_old_are_looked_at_once_until_it_is_their_turn() -> None:
    rounds, took, reading = with_nothing_for_what_is_old(), list[str](), Reading()
    readers = readers_at(dict.fromkeys("abcdefgh", 1), took)
    for _ in range(100):
        assert readers.read(lambda place: cast(Any, reading), rounds.share)
        readers.news()
        readers.ready(cast(Any, "h"))
    assert not took and reading.looked_at == len("abcdefgh")
    readers.leave(cast(Any, "b"))
    for expected in (["a"], ["a", "c"]):
        while took != expected:
            rounds.share.wait(lambda: None, first=True)
            rounds.next()
            readers.read(lambda place: cast(Any, reading), rounds.share)
    assert reading.looked_at == len("abcdefgh") + 2
