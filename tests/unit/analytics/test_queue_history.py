"""One queue's events, as they stand in files of logs: what is known of them, and what is not."""

from __future__ import annotations

from collections import Counter

from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import NODE_KILLED, LifeState
from analytics.fold.queue_history import PUBLISHED_BEFORE, HistoryFold, folded
from analytics.fold.quorum_queue import QueueFold
from analytics.queue_events import (
    STANDING_PLACE,
    ActorName,
    FileEvents,
    QueueEvent,
    QueueName,
    Said,
    snapshot_events,
)
from broker.queues.queue_type import Outcome
from classic.store.log_records import (
    Checkpoint,
    DoneReason,
    encode_checkpoint,
    encode_deleted,
    encode_published,
    encode_reasoned,
    encode_settled,
)
from classic.stored_run import LEVEL_SHIFT
from native.columns import Table
from native.log_columns import FilePlace, records
from native.log_tables import FILE_BITS
from native.sequence_set import SequenceSet
from quorum.fifo.commands import (
    Consume,
    ConsumerKey,
    SessionKey,
    Settle,
    Upgrade,
    Who,
    encode,
    encode_enqueue,
    entry_head,
)
from quorum.fifo.versions import VERSION_NEWEST
from raft.core import packs
from raft.core.membership import encode as encode_membership
from raft.core.messages import EntryKind, Membership, SnapshotMeta
from raft.store.group_records import GroupIdentity, encode_identity, encode_member
from storage.history.column_reader import ColumnPiece
from storage.history.name_records import ActorRow, encode_actor
from storage.record import PAYLOAD_BYTES_MAX, Kind
from storage.record import encode as encode_record
from tests.log_events import said_in

GROUP = 1 << 32
QUEUE = 7
START = 1_700_000_000_000


def piece(*parts: list[bytes]) -> ColumnPiece:
    """Records one behind the other, as a file has them."""
    buffer = b"".join(bytes(part) for record in parts for part in record)
    rows, columns, _, _, _, _ = records(buffer, 0, len(buffer), PAYLOAD_BYTES_MAX, FilePlace(0))
    assert rows == len(parts)
    table: Table = (rows, columns)
    return ColumnPiece(0, buffer, table)


def classic(kind: Kind, payload: bytes, content: bytes = b"") -> list[bytes]:
    return encode_record(kind, 0, 1, [payload, content])  # type: ignore[return-value]


def ranges(*pairs: tuple[int, int]) -> SequenceSet:
    made = SequenceSet()
    for first, end in pairs:
        made.add(first, end)
    return made


def counted(history: QueueHistory) -> Counter[LifeState]:
    counts: Counter[LifeState] = Counter()
    for life in history.lives:
        counts[life.state] += life.count
    return counts


def found_in(found: ColumnPiece, file_number: int, durable: int | None = None) -> list[Said]:
    return list(said_in(found, FileEvents(file_number, durable)))


def events(*parts: list[bytes], queue: int) -> list[QueueEvent]:
    return [one for one in found_in(piece(*parts), 3) if isinstance(one, QueueEvent) and one.queue == queue]


def test_records_of_a_classic_queue_come_to_its_history() -> None:
    publish = encode_published([(QUEUE, 100), (8, 0)], 4, 10, 100, None, "x", "k")
    found = events(
        classic(Kind.CLASSIC_PUBLISH, publish, b"content"),
        classic(Kind.CLASSIC_DONE, encode_reasoned(QUEUE, 5, DoneReason.ACKNOWLEDGED, ranges((100, 104)))),
        classic(Kind.CLASSIC_SETTLE, encode_settled(QUEUE, ranges((104, 106)))),
        classic(Kind.CLASSIC_BACK, encode_reasoned(QUEUE, 5, 2, ranges((106, 107)))),
        queue=QUEUE,
    )
    assert [one.place for one in found] == sorted(one.place for one in found)
    assert b"content" not in found[0].data
    history = folded(found)
    assert counted(history) == {LifeState.ACKED: 4, LifeState.UNKNOWN: 2, LifeState.READY: 4}
    assert history.unknown is None
    (returned,) = [life for life in history.lives if life.returned]
    assert history.actor_of(returned.last_consumer) == 5
    assert (returned.first, returned.returned) == (6, {"nacked": 1})


def test_what_was_out_at_a_tick_was_handed_out_then_and_ends_out_no_more_where_the_node_was_killed() -> None:
    publish = encode_published([(QUEUE, 100)], 4, 10, 100, None, "x", "k")
    out = [
        classic(Kind.CLASSIC_PUBLISH, publish, b"content"),
        classic(Kind.CLASSIC_OUT, encode_reasoned(QUEUE, 5, 0, ranges((100, 106)))),
        classic(Kind.CLASSIC_DONE, encode_reasoned(QUEUE, 5, DoneReason.ACKNOWLEDGED, ranges((100, 102)))),
        classic(Kind.CLASSIC_BACK, encode_reasoned(QUEUE, 5, 2, ranges((102, 103)))),
    ]
    history = folded(events(*out, queue=QUEUE))
    assert counted(history) == {LifeState.ACKED: 2, LifeState.OUT: 3, LifeState.READY: 5}
    handed_out = [life for life in history.lives if life.times_out]
    assert {(life.times_out, history.actor_of(life.first_consumer)) for life in handed_out} == {(1, 5)}
    assert all(life.first_out_at == life.publish.at for life in handed_out), "both have the time of their mark"
    started = Checkpoint(QUEUE, 8, 1, [110], [(103, 105), (106, 110), (120, 130)], [(105, 106)])
    history = folded(events(*out, classic(Kind.CLASSIC_CHECKPOINT, encode_checkpoint(started)), queue=QUEUE))
    assert counted(history) == {LifeState.ACKED: 2, LifeState.OUT: 1, LifeState.READY: 7}
    assert sum(life.times_out * life.count for life in history.lives) == 6
    assert sum(life.returned.get(NODE_KILLED, 0) * life.count for life in history.lives) == 2
    assert not any(life.partial for life in history.lives), "it begins nothing that was not seen"


def test_a_queue_with_priorities_counts_each_of_them() -> None:
    """Its history was unknown as soon as a message of a lower priority came later."""
    firsts = (2 << LEVEL_SHIFT, 0, (2 << LEVEL_SHIFT) + 3, 3)
    publishes = [
        classic(Kind.CLASSIC_PUBLISH, encode_published([(QUEUE, first)], 0, 3, 30, None, "", "q")) for first in firsts
    ]
    history = folded(events(*publishes, queue=QUEUE))
    assert (counted(history), history.unknown) == ({LifeState.READY: 12}, None)
    history = folded(events(*publishes, publishes[1], queue=QUEUE))
    assert history.unknown == "sequence 0 was published twice"


def test_a_queue_that_is_deleted_takes_its_messages_along() -> None:
    publish = encode_published([(QUEUE, 0)], 4, 3, 30, None, "", "q")
    history = folded(
        events(
            classic(Kind.CLASSIC_PUBLISH, publish),
            classic(Kind.CLASSIC_QUEUE_DELETED, encode_deleted(QUEUE)),
            queue=QUEUE,
        )
    )
    assert counted(history) == {LifeState.DELETED: 3}


def test_messages_that_were_published_before_make_a_classic_history_unknown() -> None:
    history = folded(
        events(classic(Kind.CLASSIC_DONE, encode_reasoned(QUEUE, 5, DoneReason.EXPIRED, ranges((3, 5)))), queue=QUEUE)
    )
    assert counted(history) == {LifeState.EXPIRED: 2}
    assert history.unknown == "some messages were published before the log that was read"


def publish(first: int, count: int) -> list[bytes]:
    return classic(Kind.CLASSIC_PUBLISH, encode_published([(QUEUE, first)], 4, count, 10 * count, None, "", "q"))


def done(first: int, end: int) -> list[bytes]:
    return classic(Kind.CLASSIC_DONE, encode_reasoned(QUEUE, 5, DoneReason.ACKNOWLEDGED, ranges((first, end))))


def test_one_message_of_before_among_others_leaves_the_history_unknown() -> None:
    history = folded(events(publish(5, 3), done(2, 3), done(5, 6), queue=QUEUE))
    assert counted(history) == {LifeState.ACKED: 2, LifeState.READY: 2}
    assert history.unknown == PUBLISHED_BEFORE


def test_a_sequence_that_is_published_again_when_all_of_its_run_is_done_with_is_noticed() -> None:
    history = folded(events(publish(0, 3), done(0, 3), publish(2, 2), queue=QUEUE))
    assert history.unknown == "sequence 2 was published twice"
    assert counted(history) == {LifeState.ACKED: 3}
    fold = HistoryFold()
    fold.begin_at(Checkpoint(QUEUE, 0, 0, [9], [], []))
    for event in events(publish(8, 2), queue=QUEUE):
        fold.take(event)
    assert fold.history.unknown == "sequence 8 was published twice"


def test_a_payload_that_fits_nothing_says_nothing() -> None:
    broken = [
        classic(kind, b"\xff\xff") for kind in (Kind.CLASSIC_PUBLISH, Kind.CLASSIC_DONE, Kind.RAFT_GROUP, Kind.NAME)
    ]
    broken.append(entries(1, 1, b"x"))
    broken[-1][-1] = b"\x09\x00\x00\x00"  # a pack of nine entries, and not one of them is there
    records_of = [encode_record(Kind.RAFT_ENTRIES, GROUP, 1, [broken[-1][-1]]), *broken[:-1]]
    assert list(found_in(piece(*records_of), 1)) == []  # type: ignore[arg-type]


def test_a_payload_that_does_not_fit_changes_nothing_of_a_history() -> None:
    publish = classic(Kind.CLASSIC_PUBLISH, encode_published([(QUEUE, 0)], 4, 3, 30, None, "", "q"))
    broken = [
        classic(kind, QUEUE.to_bytes(8, "little") + bytes(6)) for kind in (Kind.CLASSIC_SETTLE, Kind.CLASSIC_DONE)
    ]
    assert counted(folded(events(publish, *broken, queue=QUEUE))) == {LifeState.READY: 3}


def test_contents_are_not_part_of_events_and_count_all_the_same() -> None:
    content = b"a large content" * 100
    publish = b"".join(encode_enqueue(SESSION, 1, 1, 50, "", "q", content))
    found = events(entries(1, 1, command(0, publish, CONSUME, publish)), queue=GROUP)
    assert len(found[0].data) < 300
    lives = folded(found).lives
    assert [(life.entry, life.offset) for life in lives] == [(1, 9)]
    assert lives[0].state is LifeState.OUT


def test_entries_of_a_stream_are_left_out_once_it_is_known_to_be_one() -> None:
    identity = GroupIdentity(GROUP, 1, "//s", "stream", Membership((1,)))
    named = standing(Kind.RAFT_GROUP, payload=encode_identity(identity))
    assert {one.kind for one in events(*LOG, named, queue=GROUP)} == {Kind.RAFT_GROUP}


# quorum queues


def entries(index: int, term: int, *datas: bytes, kind: EntryKind = EntryKind.COMMAND) -> list[bytes]:
    return encode_record(Kind.RAFT_ENTRIES, GROUP, index, [packs.encode(datas)], flags=kind, term=term)  # type: ignore[return-value]


def command(ms: int, *ops: bytes) -> bytes:
    return entry_head(START + ms) + b"".join(ops)


SESSION, CONSUMER = SessionKey(1, 1), ConsumerKey(1, 1, 1)
PUBLISH = b"".join(encode_enqueue(SESSION, 1, 5, 50, "", "q", b""))
CONSUME = encode(Consume(CONSUMER, "tag"))
SETTLED = encode(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(1, 3)]))
LOG = [
    entries(1, 1, b"", kind=EntryKind.NOOP),
    entries(2, 1, command(0, PUBLISH), command(5, CONSUME)),
    entries(4, 1, command(9, SETTLED)),
]


def test_entries_of_a_quorum_queue_come_to_its_history() -> None:
    history = folded(events(*LOG, queue=GROUP))
    assert counted(history) == {LifeState.ACKED: 3, LifeState.OUT: 2}
    assert history.unknown is None
    assert [(one.published, one.delivered, one.acknowledged) for one in history.seconds] == [(5, 5, 3)]


def test_consumers_of_a_quorum_queue_are_the_actors_that_its_log_names() -> None:
    consume = encode(Consume(CONSUMER, "tag", prefetch=3)) + encode(Who(CONSUMER, 9))
    other = ConsumerKey(2, 1, 1)  # of a node that says nothing of actors
    first, second = command(5, consume), command(6, encode(Consume(other, "tag")))
    history = folded(events(LOG[0], entries(2, 1, command(0, PUBLISH), first, second), queue=GROUP))
    assert {life.first_consumer: history.actor_of(life.first_consumer) for life in history.lives} == {
        CONSUMER: 9,
        other: None,
    }


def test_copies_of_several_nodes_are_one_log() -> None:
    found = sorted(events(*LOG, *LOG[1:], queue=GROUP), key=lambda event: (event.place, -event.term))
    assert counted(folded(found)) == {LifeState.ACKED: 3, LifeState.OUT: 2}


def test_entries_that_a_later_leader_replaced_do_not_count() -> None:
    stale = entries(4, 1, command(9, encode(Settle(CONSUMER, Outcome.REJECTED, [(1, 5)]))), command(9, SETTLED))
    later = entries(4, 2, command(9, SETTLED))
    found = sorted(events(*LOG[:2], stale, later, queue=GROUP), key=lambda event: (event.place, -event.term))
    assert [(event.place, event.term) for event in found][-3:] == [(4, 2), (4, 1), (5, 1)]
    assert counted(folded(found)) == {LifeState.ACKED: 3, LifeState.OUT: 2}


def test_an_entry_of_a_lower_term_counts_where_its_log_goes_on() -> None:
    """A leader of term 3 without followers rejected all, a leader of term 4 has the older entry of term 2."""
    rejected = entries(4, 3, command(9, encode(Settle(CONSUMER, Outcome.REJECTED, [(1, 5)]))), command(9, SETTLED))
    older, newer = entries(4, 2, command(9, SETTLED)), entries(5, 4, command(9, SETTLED))
    for parts in ((rejected, older, newer), (older, newer)):
        ours = [one._replace(node="n1") for one in events(*LOG[:2], *parts, queue=GROUP)]
        theirs = [one._replace(node="n2") for one in events(*LOG[:2], rejected, queue=GROUP)]
        history = folded(in_order(*ours, *theirs))
        assert counted(history) == {LifeState.ACKED: 3, LifeState.OUT: 2}
        assert history.overruled == {4: 2}


def test_behind_a_gap_nothing_is_known() -> None:
    history = folded(events(LOG[0], LOG[1], entries(6, 1, command(9, SETTLED)), queue=GROUP))
    assert history.unknown == "entries 4 to 5 are missing"
    assert counted(history) == {LifeState.UNKNOWN: 5}
    history = folded(events(*LOG[1:], queue=GROUP))
    assert history.unknown == "entries 1 to 1 are missing"
    assert history.lives == []


def test_an_end_that_a_node_says_was_committed_is_missing_though_nothing_comes_behind_it() -> None:
    """All was called present that had not been taken by then. Who stops reading on his way misses nothing."""
    committed = QueueEvent(GROUP, STANDING_PLACE, 1, Kind.RAFT_COMMIT, None, 4, b"")
    assert folded([committed, *events(*LOG, queue=GROUP)]).unknown is None
    history = folded([committed, *events(*LOG[:2], queue=GROUP)])
    assert (history.unknown, counted(history)) == ("entries 4 to 4 are missing", {LifeState.UNKNOWN: 5})
    fold = HistoryFold()
    for event in (committed, *events(*LOG[:2], queue=GROUP)):
        fold.take(event)
    fold.end()
    assert fold.history.unknown is None


def standing(kind: Kind, index: int = 0, payload: bytes = b"", term: int = 0) -> list[bytes]:
    return encode_record(kind, GROUP, index, [payload], term=term)  # type: ignore[return-value]


def member_of(member: int, *founders: int) -> list[bytes]:
    identity = GroupIdentity(GROUP, member, "//q", "quorum", Membership(founders))
    return standing(Kind.RAFT_GROUP, payload=encode_identity(identity))


def test_who_a_group_is_and_how_far_it_was_committed_is_found() -> None:
    found = list(found_in(piece(member_of(1, 1), standing(Kind.RAFT_COMMIT, 9)), 1))
    assert found[0] == QueueName(GROUP, "quorum", "//q")
    said = [(one.kind, one.place, one.first) for one in found[1:] if isinstance(one, QueueEvent)]
    assert said == [(Kind.RAFT_GROUP, 0, 1 << FILE_BITS), (Kind.RAFT_COMMIT, 0, 9)]


# snapshots to begin with


def snapshot_after(*parts: list[bytes], index: int, term: int = 1) -> list[QueueEvent]:
    """Of a member that has applied these entries, the last of which is `index`."""
    fold = QueueFold()
    for event in events(*parts, queue=GROUP):
        if event.first == EntryKind.COMMAND:
            fold.take(event.place, event.data)
    meta = SnapshotMeta(index, term, Membership((1, 2, 3)), fold.machine.version)
    return list(snapshot_events(GROUP, meta, b"".join(fold.machine.snapshot())))


def in_order(*found: QueueEvent) -> list[QueueEvent]:
    return sorted(found, key=lambda event: (event.place, -event.term))


def test_a_snapshot_stands_for_the_entries_that_are_gone() -> None:
    history = folded(in_order(*snapshot_after(*LOG[:2], index=3), *events(LOG[2], queue=GROUP)))
    assert counted(history) == {LifeState.ACKED: 3, LifeState.OUT: 2}
    assert all(life.partial for life in history.lives)
    assert history.unknown == "some messages were published before the log that was read"
    assert uncommitted(history) == {LifeState.ACKED: 3}


def test_a_snapshot_of_a_queue_without_messages_leaves_nothing_unknown() -> None:
    second = b"".join(encode_enqueue(SESSION, 6, 2, 20, "", "q", b""))
    settled = encode(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(4, 2)]))
    log = [*LOG, entries(5, 1, command(12, settled))]
    history = folded(in_order(*snapshot_after(*log, index=5), *events(entries(6, 1, command(20, second)), queue=GROUP)))
    assert counted(history) == {LifeState.OUT: 2}
    assert history.unknown is None


def test_where_all_entries_are_there_a_snapshot_changes_nothing() -> None:
    whole = folded(events(*LOG, queue=GROUP))
    for index, parts in ((1, LOG[:1]), (3, LOG[:2]), (4, LOG)):
        history = folded(in_order(*snapshot_after(*parts, index=index), *events(*LOG, queue=GROUP)))
        assert history.lives == whole.lives
        assert history.unknown is None


def test_behind_a_gap_the_fold_goes_on_at_the_next_snapshot() -> None:
    third = b"".join(encode_enqueue(SESSION, 6, 2, 20, "", "q", b""))
    later = entries(5, 1, command(20, third))
    history = folded(in_order(*snapshot_after(*LOG, index=4), *events(*LOG[:2], later, queue=GROUP)))
    assert history.unknown == "entries 4 to 4 are missing"
    assert counted(history) == {LifeState.UNKNOWN: 5, LifeState.OUT: 4}
    assert [life.partial for life in history.lives if life.state is LifeState.OUT] == [True, False]


def test_a_snapshot_that_cannot_be_read_is_none() -> None:
    committed, state = snapshot_after(*LOG[:2], index=3)
    broken = state._replace(data=state.data[:-9])
    history = folded(in_order(committed, broken, *events(LOG[2], queue=GROUP)))
    assert (history.lives, history.unknown) == ([], "entries 1 to 3 are missing")


def test_what_a_snapshot_stands_for_counts_though_another_node_has_an_entry_of_a_higher_term() -> None:
    """Proofs said that messages had been rejected by an entry that was replaced before anybody else had it."""
    rejected = entries(4, 3, command(9, encode(Settle(CONSUMER, Outcome.REJECTED, [(1, 5)]))))
    committed = entries(4, 2, command(9, SETTLED))
    ours = [one._replace(node="n1") for one in events(*LOG[:2], committed, queue=GROUP)]
    theirs = [one._replace(node="n2") for one in events(*LOG[:2], rejected, queue=GROUP)]
    history = folded(in_order(*ours, *theirs, *snapshot_after(*LOG[:2], committed, index=4, term=2)))
    assert counted(history) == {LifeState.ACKED: 3, LifeState.OUT: 2}
    assert (history.unknown, history.overruled) == (None, {4: 2})


def test_where_the_log_is_of_a_newer_version_the_fold_goes_on_with_the_snapshot_of_that_very_entry() -> None:
    newer = entries(5, 1, command(12, encode(Upgrade(VERSION_NEWEST + 1))))
    settled = entries(6, 1, command(20, encode(Settle(CONSUMER, Outcome.ACKNOWLEDGED, [(4, 2)]))))
    history = folded(in_order(*snapshot_after(*LOG, index=5), *events(*LOG, newer, settled, queue=GROUP)))
    assert counted(history) == {LifeState.ACKED: 5, LifeState.UNKNOWN: 2}


def test_behind_a_snapshot_entries_of_an_earlier_term_are_those_of_a_node_that_was_left_behind() -> None:
    for stale in (LOG[2], entries(5, 1, command(9, SETTLED))):
        history = folded(in_order(*snapshot_after(*LOG[:2], index=3, term=2), *events(stale, queue=GROUP)))
        assert counted(history) == {LifeState.OUT: 5}, stale


# what several nodes' copies prove

FACTS = standing(Kind.RAFT_FACTS, term=1)
REMOVED = standing(Kind.RAFT_GROUP_REMOVED)


def read(**nodes: list[list[bytes]]) -> QueueHistory:
    """The history of the group, from what each node's log says."""
    found = [event._replace(node=node) for node, parts in nodes.items() for event in events(*parts, queue=GROUP)]
    return folded(sorted(found, key=lambda event: (event.place, -event.term)))


def uncommitted(history: QueueHistory) -> Counter[LifeState]:
    counts: Counter[LifeState] = Counter()
    for life in history.lives:
        if history.is_committed(life) is None:
            counts[life.state] += life.count
    return counts


def test_entries_count_up_to_where_a_node_says_they_are_committed() -> None:
    history = read(n1=[member_of(1, 1, 2, 3), FACTS, *LOG, standing(Kind.RAFT_COMMIT, 3)])
    assert counted(history) == {LifeState.ACKED: 3, LifeState.OUT: 2}
    assert uncommitted(history) == {LifeState.ACKED: 3}  # by entry 4
    history = read(n1=[member_of(1, 1, 2, 3), FACTS, *LOG], n2=[standing(Kind.RAFT_SNAPSHOT, 4)])
    assert uncommitted(history) == {}


def test_entries_that_only_a_minority_has_may_be_uncommitted() -> None:
    one = [member_of(1, 1, 2, 3), FACTS, *LOG]
    assert uncommitted(read(n1=one)) == {LifeState.ACKED: 3, LifeState.OUT: 2}
    assert uncommitted(read(n1=one, n2=[member_of(2, 1, 2, 3), FACTS, *LOG[:2]])) == {LifeState.ACKED: 3}
    assert uncommitted(read(n1=one, n2=[member_of(2, 1, 2, 3), FACTS, *LOG])) == {}


def test_a_copy_that_was_accepted_in_a_later_term_commits_nothing() -> None:
    one, two = [member_of(1, 1, 2, 3), FACTS, *LOG], [member_of(2, 1, 2, 3), FACTS, *LOG[:2]]
    later = [*two, standing(Kind.RAFT_FACTS, term=2), LOG[2]]
    assert uncommitted(read(n1=one, n2=later)) == {LifeState.ACKED: 3, LifeState.OUT: 2}


def test_a_member_that_lost_something_and_one_that_is_no_voter_commit_nothing() -> None:
    one = [member_of(1, 1, 2, 3), FACTS, *LOG]
    lost = [member_of(2, 1, 2, 3), FACTS, *LOG, standing(Kind.RAFT_RENUMBERED, 4, encode_member(2))]
    assert uncommitted(read(n1=one, n2=lost)) == {LifeState.ACKED: 3, LifeState.OUT: 2}
    assert uncommitted(read(n1=one, n2=[member_of(9), FACTS, *LOG])) == {LifeState.ACKED: 3, LifeState.OUT: 2}


def test_who_belongs_to_the_group_is_what_its_log_says_last() -> None:
    alone = entries(5, 1, encode_membership(Membership((1,))), kind=EntryKind.MEMBERSHIP)
    assert uncommitted(read(n1=[member_of(1, 1, 2), FACTS, *LOG, alone])) == {}


def test_what_no_mark_vouches_for_is_told_apart() -> None:
    files = piece(member_of(1, 1), FACTS, *LOG)
    durable = sum(len(bytes(part)) for record in (member_of(1, 1), FACTS, *LOG[:2]) for part in record)
    found = [one._replace(node="n1") for one in found_in(files, 1, durable) if isinstance(one, QueueEvent)]
    history = folded(sorted(found, key=lambda event: (event.place, -event.term)))
    assert uncommitted(history) == {LifeState.ACKED: 3}
    publish = classic(Kind.CLASSIC_PUBLISH, encode_published([(QUEUE, 0)], 4, 3, 30, None, "", "q"))
    gone = classic(Kind.CLASSIC_SETTLE, encode_settled(QUEUE, ranges((0, 1))))
    durable = sum(len(bytes(part)) for part in publish)
    history = folded([one for one in found_in(piece(publish, gone), 1, durable) if isinstance(one, QueueEvent)])
    assert counted(history) == {LifeState.UNKNOWN: 1, LifeState.READY: 2}
    assert uncommitted(history) == {LifeState.UNKNOWN: 1}


def test_a_member_that_was_removed_from_one_node_deletes_no_messages() -> None:
    left = entries(5, 1, encode_membership(Membership((1, 2))), kind=EntryKind.MEMBERSHIP)
    founders = [[member_of(number, 1, 2, 3), FACTS, *LOG] for number in (1, 2, 3)]
    history = read(n1=[*founders[0], left], n2=[*founders[1], left], n3=[*founders[2], REMOVED])
    assert counted(history) == {LifeState.ACKED: 3, LifeState.OUT: 2}
    assert history.unknown is None


def test_a_queue_is_deleted_when_all_its_members_are_removed() -> None:
    founders = {f"n{number}": [member_of(number, 1, 2, 3), FACTS, *LOG, REMOVED] for number in (1, 2, 3)}
    history = read(**founders)
    assert counted(history) == {LifeState.ACKED: 3, LifeState.DELETED: 2}
    assert uncommitted(history) == {}


def test_a_queue_was_there_until_its_last_member_was_removed() -> None:
    found = []
    for number, removed_s in ((1, 2), (2, 9), (3, 4)):
        parts = [member_of(number, 1, 2, 3), FACTS, *LOG, REMOVED]
        found += [one._replace(node=f"n{number}", at=removed_s * 10**6) for one in events(*parts, queue=GROUP)]
    history = folded(in_order(*found))
    assert {life.ended_at for life in history.lives if life.state is LifeState.DELETED} == {9_000}


def test_whether_a_queue_was_deleted_is_unknown_where_only_some_members_were_removed() -> None:
    history = read(n1=[member_of(1, 1, 2, 3), FACTS, *LOG, REMOVED])
    assert counted(history) == {LifeState.ACKED: 3, LifeState.UNKNOWN: 2}
    assert history.unknown is not None
    assert "the member on n1 was removed" in history.unknown


def test_a_member_that_is_there_again_is_not_removed() -> None:
    founder = [member_of(1, 1, 2, 3), FACTS, *LOG, REMOVED, member_of(1, 1, 2, 3)]
    assert counted(read(n1=founder)) == {LifeState.ACKED: 3, LifeState.OUT: 2}


def test_who_an_actor_is_is_found() -> None:
    row = ActorRow(3, 9, 2, tag="taker", queue="q", prefetch=5)
    named = encode_record(Kind.ACTOR, 0, 7, [encode_actor(row)])
    torn = encode_record(Kind.ACTOR, 0, 8, [b"half"])
    assert found_in(piece(named, torn), 3) == [ActorName(7, row, 3 << FILE_BITS)]  # type: ignore[arg-type]
