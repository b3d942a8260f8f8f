"""How fast snapshots are sent: by the line of time that all members of a node share."""

from __future__ import annotations

import pytest

from raft.core.core import Core
from raft.core.messages import AppendReply, Membership, SnapshotChunk, SnapshotMeta, SnapshotReply, VoteReply, member_id
from raft.core.ready import Facts
from raft.core.settings import Settings
from raft.core.snapshot_transfer import SnapshotPace
from tests.unit.raft.memory_store import MemoryStore

ME, YOU, THEY = (member_id(node, 1) for node in (1, 2, 3))
THREE = Membership((ME, YOU, THEY))
STATE = bytes(range(100))
CHUNK_BYTES = 10
META = SnapshotMeta(5, 1, THREE, 1)


def test_all_senders_together_keep_to_the_rate() -> None:
    pace = SnapshotPace(1000)
    due = {"left": 0.0, "right": 0.0}
    sent = 0
    for milliseconds in range(2000):
        now = milliseconds / 1000
        for sender, at in due.items():
            if at <= now:
                due[sender] = pace.reserve(10, now)
                sent += 10
    assert 1980 <= sent <= 2030


def test_who_comes_late_makes_up_for_one_chunk() -> None:
    pace = SnapshotPace(1000)
    assert pace.reserve(100, 50.0) == pytest.approx(49.9), "nothing was sent for long"
    assert pace.reserve(100, 50.0) == pytest.approx(50.0)
    assert pace.reserve(100, 50.0) == pytest.approx(50.1)
    assert pace.reserve(100, 50.25) == pytest.approx(50.2), "as if it had been in time"
    assert pace.reserve(100, 60.0) == pytest.approx(59.9)


def test_what_a_short_chunk_has_reserved_in_vain_is_there_for_the_next_one() -> None:
    pace = SnapshotPace(1000)
    pace.reserve(100, 50.0)
    pace.reserve(100, 50.0)
    pace.release(70)
    assert pace.reserve(100, 50.0) == pytest.approx(50.03)


def test_without_a_rate_there_is_nothing_to_wait_for() -> None:
    pace = SnapshotPace(0)
    assert pace.reserve(1 << 30, 7.0) == 7.0
    assert pace.reserve(1 << 30, 7.0) == 7.0


class Sender:
    """A leader, one of whose followers, or both, is to get a snapshot of ten chunks."""

    def __init__(
        self,
        pace: SnapshotPace,
        state: bytes = STATE,
        chunk_bytes: int = CHUNK_BYTES,
        window_chunks: int = 8,
        *,
        both: bool = False,
    ) -> None:
        store = MemoryStore(THREE)
        store.write(Facts(1, 0), [])
        store.install(META, state)
        settings = Settings(snapshot_chunk_bytes=chunk_bytes, snapshot_window_chunks=window_chunks, resend_s=60.0)
        self.store = store
        self.core = core = Core(ME, store, settings, lambda: 0.5, 0.0, 5, pace=pace)
        self.sent: list[SnapshotChunk] = []
        core.trust(2, 0.0)
        core.trust(3, 0.0)
        core.tick(core.deadline or 0.0)
        core.step(VoteReply(ME, YOU, 2, granted=True, pre=True), 0.0)
        self.readies(0.0)
        core.step(VoteReply(ME, YOU, 2, granted=True), 0.0)
        self.readies(0.0)
        behind = (YOU, THEY) if both else (THEY,)
        if not both:
            core.step(AppendReply(ME, YOU, 2, True, 6, 6), 0.0)
        for one in behind:
            core.step(AppendReply(ME, one, 2, False, 0, 0, rejected=5), 0.0)
        self.readies(0.0)
        for one in behind:
            core.step(SnapshotReply(ME, one, 2, 5, 0), 0.0)

    def readies(self, now: float) -> list[int]:
        """How many chunks each Ready has sent, until nothing is left to be done."""
        sent = []
        while (ready := self.core.ready(now)) is not None:
            chunks = [one for one in ready.messages if isinstance(one, SnapshotChunk) and one.data]
            self.sent += chunks
            sent.append(len(chunks))
            assert len(sent) < 100, "there is something to be done for ever"
            self.store.write(ready.facts, ready.entries)
            self.core.persisted(ready.number, now)
            if ready.committed:
                self.core.applied(ready.committed[-1].index)
        return sent


def test_each_turn_sends_one_chunk_until_the_follower_has_no_room() -> None:
    sender = Sender(SnapshotPace(0), window_chunks=4)
    assert sender.readies(0.0) == [1, 1, 1, 1]
    assert not sender.core.has_ready()


def test_a_chunk_waits_for_the_pace_and_the_leader_wakes_for_it() -> None:
    sender = Sender(SnapshotPace(1000))
    assert sender.readies(1.0) == [1, 1], "the first one is owed"
    assert sender.core.deadline == pytest.approx(1.01)
    sender.core.propose([b"what else goes on"], 1.005)
    assert sum(sender.readies(1.005)) == 0
    sender.core.tick(1.01)
    assert sum(sender.readies(1.01)) == 1
    assert sender.core.deadline == pytest.approx(1.02)


def test_of_two_chunks_that_wait_the_leader_wakes_for_the_earlier_one() -> None:
    sender = Sender(SnapshotPace(1000), both=True)
    assert sum(sender.readies(1.0)) == 2
    for milliseconds in (10, 20, 30):
        assert sender.core.deadline == pytest.approx(1.0 + milliseconds / 1000)
        sender.core.tick(1.0 + milliseconds / 1000 + 1e-6)
        assert sum(sender.readies(1.0 + milliseconds / 1000 + 1e-6)) == 1


def test_a_follower_without_room_is_not_woken_for() -> None:
    sender = Sender(SnapshotPace(1000), window_chunks=2)
    assert sender.readies(1.0) == [1, 1]
    assert sender.core.deadline is not None
    assert sender.core.deadline > 50.0, "only to ask again"
    sender.core.step(SnapshotReply(ME, THEY, 2, 5, CHUNK_BYTES), 1.05)
    assert sender.readies(1.05) == [1]


def test_the_first_chunks_of_many_snapshots_wait_for_the_pace_too() -> None:
    pace = SnapshotPace(1000)
    senders = [Sender(pace, state=STATE[:CHUNK_BYTES]) for _ in range(100)]
    for milliseconds in range(1000, 3000):
        now = milliseconds / 1000
        for sender in senders:
            if milliseconds == 1000 or (sender.core.deadline or now) <= now:
                sender.core.tick(now)
                sender.readies(now)
        done = sum([len(sender.sent) for sender in senders])
        assert done <= 2 + (now - 1.0) * 100 + 1e-6
    assert done == 100, "they took a second"


def test_chunks_begin_small_and_double() -> None:
    sender = Sender(SnapshotPace(0), state=bytes(60_000), chunk_bytes=20_000, window_chunks=3)
    sender.readies(1.0)
    assert [len(chunk.data) for chunk in sender.sent] == [4_096, 8_192, 16_384, 20_000, 11_328]
    assert sender.sent[-1].last


def test_a_small_snapshot_waits_for_the_small_ones_before_it_and_not_for_as_many_large_chunks() -> None:
    pace = SnapshotPace(1_000_000)
    senders = [Sender(pace, state=STATE, chunk_bytes=1 << 18) for _ in range(50)]
    for sender in senders:
        sender.readies(1.0)
    assert max(sender.core.deadline or 0.0 for sender in senders if not sender.sent) < 1.0 + 50 * 0.0042


def test_small_snapshots_leave_together_as_far_as_their_bytes_are_owed_and_not_what_they_had_reserved() -> None:
    pace = SnapshotPace(1_000_000)
    senders = [Sender(pace, state=STATE, chunk_bytes=1 << 18) for _ in range(40)]
    assert [sum(sender.readies(1.0)) for sender in senders] == [1] * 40
