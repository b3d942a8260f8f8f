"""A leader that meets a follower in the middle of installing a snapshot of another leader."""

from __future__ import annotations

from raft.core.core import Core
from raft.core.messages import (
    Append,
    Entry,
    EntryKind,
    Membership,
    Message,
    SnapshotChunk,
    SnapshotMeta,
    VoteReply,
    VoteRequest,
    member_id,
)
from raft.core.ready import Facts, Role
from raft.core.settings import Settings
from tests.unit.raft.memory_store import MemoryStore

LEADER, FOLLOWER, EARLIER = (member_id(node, 1) for node in (1, 2, 3))
ALL = Membership((LEADER, FOLLOWER, EARLIER))
SETTINGS = Settings()
ENTRIES = 2_000


def core_with(last: int, me: int, trusted: tuple[int, ...]) -> tuple[Core, MemoryStore]:
    store = MemoryStore(ALL)
    entries = [Entry(index, 1, EntryKind.COMMAND, bytes(1_000)) for index in range(1, last + 1)]
    store.write(Facts(1, 0), entries)
    core = Core(me, store, SETTINGS, lambda: 0.5, 0.0, 0)
    for node in trusted:
        core.trust(node, 0.0)
    return core, store


def said(core: Core, store: MemoryStore, now: float) -> list[Message]:
    messages: list[Message] = []
    while (ready := core.ready(now)) is not None:
        messages += ready.messages
        store.write(ready.facts, ready.entries)
        if ready.must_persist:
            core.persisted(ready.number, now)
        messages += ready.messages_after
        if ready.committed:
            core.applied(ready.committed[-1].index)
    return messages


def test_a_follower_that_installs_a_snapshot_is_not_sent_the_whole_log_in_vain() -> None:
    """The leader went back entry by entry, with a full message for each: thousands of round trips and gigabytes."""
    now = 0.0
    leader, leader_store = core_with(ENTRIES, LEADER, trusted=(2, 3))
    follower, follower_store = core_with(ENTRIES // 2, FOLLOWER, trusted=(1, 3))
    follower.step(Append(FOLLOWER, EARLIER, 1, ENTRIES // 2, 1, ENTRIES // 2), now)
    meta = SnapshotMeta(ENTRIES - 10, 1, ALL, 0)
    follower.step(SnapshotChunk(FOLLOWER, EARLIER, 1, meta, 0, b"state", last=True), now)
    said(follower, follower_store, now)
    assert follower.status().commit == ENTRIES // 2
    follower.suspect(3, now)
    leader.suspect(3, now)
    leader.trust(3, now)
    now = 10.0
    leader.tick(now)
    for _ in range(2):
        for message in said(leader, leader_store, now):
            if isinstance(message, VoteRequest) and message.to == EARLIER:
                leader.step(VoteReply(LEADER, EARLIER, message.term, granted=True, pre=message.pre), now)
    assert leader.status().role is Role.LEADER
    letters = size = 0
    for half_seconds in range(30):
        if half_seconds == 20:
            assert letters <= 2 * 20 + 5, f"{letters} letters in ten seconds"
            assert size <= 22 * SETTINGS.catch_up_bytes_max, f"{size >> 20} MiB of entries, all refused"
            follower.install_failed()  # it takes entries again
        for _ in range(ENTRIES):
            to_follower = [one for one in said(leader, leader_store, now) if one.to == FOLLOWER]
            letters += len(to_follower)
            size += sum(len(entry.data) for one in to_follower if isinstance(one, Append) for entry in one.entries)
            for message in to_follower:
                follower.step(message, now)
            answers = [one for one in said(follower, follower_store, now) if one.to == LEADER]
            if not answers:
                break
            for message in answers:
                leader.step(message, now)
        now += SETTINGS.resend_s
        leader.tick(now)
    assert follower.status().last == leader.status().last == ENTRIES + 1
