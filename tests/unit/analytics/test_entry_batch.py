"""Entries that are taken in batches come to what they come to one by one: analytics/fold/entry_batch.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.fold.entry_batch import EntryBatch, Told, events_of
from analytics.fold.folded_history import QueueHistory
from analytics.fold.merged_log import MergedLog
from analytics.fold.queue_history import folded
from analytics.queue_events import SEGMENTS_BELOW, STANDING_PLACE, QueueEvent, fold_order
from quorum.fifo.commands import Consume, ConsumerKey, SessionKey, encode, encode_enqueue, entry_head
from raft.core.codec import encode_meta
from raft.core.membership import encode as encode_membership
from raft.core.messages import EntryKind, Membership, SnapshotMeta
from raft.store.group_records import GroupIdentity, encode_identity
from storage.record import Kind

QUEUE = 1 << 32
NODES = ("n1", "n2", "n3")
REFUSED = b"of a newer version"
# What nodes wrote one behind the other: by whom, of which index on, how many entries, their term, and what they are.
WRITTEN = st.lists(
    st.tuples(
        st.sampled_from(("n1", "n1", "n1", "n2", "n3")), st.sampled_from([0, 0, 0, 0, -2, -6, 1]), st.sampled_from([1, 2, 9]),
        st.sampled_from([0, 0, 0, 1]), st.sampled_from([b"", b"", b"", b"", b"", REFUSED, None]),
        st.sampled_from([True, True, True, False]), st.sampled_from([False, False, False, True]),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


def entry(index: int, term: int = 1, data: bytes = b"", written: int = 0, node: str = "n1") -> QueueEvent:
    return QueueEvent(QUEUE, index, term, Kind.RAFT_ENTRIES, None, EntryKind.COMMAND, data, written=written, node=node)


def written(steps: Sequence[tuple[str, int, int, int, bytes | None, bool, bool]]) -> list[QueueEvent]:
    """None among what entries are: a change of the members."""
    found, ends, term, at = [], dict.fromkeys(NODES, 1), 1, 0
    for node, skipped, count, newer, data, durable, in_segment in steps:
        term += newer
        start = max(1, ends[node] + skipped)
        for index in range(start, start + count):
            at += 1
            one = entry(index, term, b"", at - SEGMENTS_BELOW * in_segment, node)
            if data == REFUSED and index == start + 1:
                one = one._replace(data=REFUSED)
            elif data is None and index == start:
                one = one._replace(first=EntryKind.MEMBERSHIP, data=encode_membership(Membership((1, 2))))
            found.append(one._replace(durable=durable))
        ends[node] = start + count
    return found


def standing(members: Sequence[int]) -> list[QueueEvent]:
    """Who the nodes' members are, all in the first term."""
    said = []
    for number, node in enumerate(NODES, 1):
        identity = GroupIdentity(QUEUE, number, "//q", "quorum", Membership(tuple(members)))
        facts = QueueEvent(QUEUE, STANDING_PLACE, 1, Kind.RAFT_FACTS, None, 0, b"", node=node)
        group = QueueEvent(QUEUE, STANDING_PLACE, 0, Kind.RAFT_GROUP, None, 1, encode_identity(identity), node=node)
        said += [facts, group]
    return said


def snapshot(index: int, term: int) -> QueueEvent:
    head = encode_meta(SnapshotMeta(index, term, Membership((1, 2, 3)), 1))
    return QueueEvent(QUEUE, index, 0, Kind.RAFT_STATE, None, len(head), head)


def in_batches(events: Sequence[QueueEvent], longest: int) -> Iterator[Told]:
    """As many together as may be."""
    at = 0
    while at < len(events):
        end = at + 1
        while end < len(events) and end - at < longest and follows(events[end - 1], events[end]):
            end += 1
        those = events[at:end]
        if those[0].kind == Kind.RAFT_ENTRIES and those[0].first == EntryKind.COMMAND:
            yield EntryBatch(those[0], *([getattr(one, name) for one in those] for name in ("data", "size", "written")))
        else:
            yield those[0]
        at = end


def follows(before: QueueEvent, one: QueueEvent) -> bool:
    alike = ("queue", "kind", "term", "first", "durable", "node")
    return (
        one.kind == Kind.RAFT_ENTRIES
        and one.first == EntryKind.COMMAND
        and all(getattr(before, name) == getattr(one, name) for name in alike)
        and one.place == before.place + 1
        and one.written >= before.written
        and (one.written < 0) == (before.written < 0)
    )


@dataclass
class Noted:
    """What a log gives to its fold: fulfils EntriesFold."""

    said: list[tuple[str, object]] = field(default_factory=list)

    def apply(self, event: QueueEvent) -> None:
        self.said.append(("apply", (event.place, event.term, event.node)))
        if event.data == REFUSED:
            raise ValueError(REFUSED.decode())

    def apply_batch(self, batch: EntryBatch, start: int, end: int) -> tuple[int, str | None]:
        for at in range(start, end):
            try:
                self.apply(batch.event(at))
            except ValueError as error:
                return at + 1, str(error)
        return end, None

    def resume(self, place: int, state: bytes, version: int) -> Callable[[], None]:
        return lambda: self.said.append(("resume", place))

    def check(self, place: int, state: bytes) -> None:
        self.said.append(("check", place))

    def lose(self, why: str) -> None:
        self.said.append(("lose", why))

    def pass_over(self, event: QueueEvent) -> None:
        self.said.append(("pass over", (event.place, event.term, event.node)))

    def remove(self, at: int | None) -> None:
        self.said.append(("remove", at))


def noted(told: Iterator[Told]) -> tuple[object, ...]:
    fold = Noted()
    log = MergedLog(fold)
    for one in told:
        if isinstance(one, EntryBatch):
            log.take_batch(one, fold.apply_batch)
        else:
            log.take(one)
    log.end(is_whole=True)
    return fold.said, log.copies.committed, log.chains.overruled


@settings(max_examples=400, deadline=None)
@given(
    WRITTEN, st.sampled_from([(1,), (1, 2, 3)]), st.lists(st.tuples(st.integers(1, 20), st.integers(1, 2)), max_size=1),
    st.sampled_from([2, 3, 99, 99]), st.sampled_from([0, 0, 3, 20]),
)  # fmt: skip
def test_a_log_in_batches_gives_its_fold_the_same(
    steps: list[tuple[str, int, int, int, bytes | None, bool, bool]],
    members: tuple[int, ...],
    snapshots: list[tuple[int, int]],
    longest: int,
    committed: int,
) -> None:
    said = QueueEvent(QUEUE, STANDING_PLACE, 1, Kind.RAFT_COMMIT, None, committed, b"", node="n1")
    found = [*standing(members), said, *written(steps), *(snapshot(*one) for one in snapshots)]
    found.sort(key=fold_order)
    told = list(in_batches(found, longest))
    assert list(events_of(told)) == found
    assert noted(iter(told)) == noted(iter(found))


def test_of_one_node_all_but_the_last_entry_are_one_batch() -> None:
    """They are given as such, and not one by one."""
    given_at_once = []
    log = MergedLog(Noted())
    (batch,) = in_batches([entry(index) for index in range(1, 100)], 99)
    assert isinstance(batch, EntryBatch)

    def apply(batch: EntryBatch, start: int, end: int) -> tuple[int, str | None]:
        given_at_once.append((start, end))
        return end, None

    for one in standing([1]):
        log.take(one)
    log.take_batch(batch, apply)
    assert given_at_once == [(0, 98)]
    assert log.copies.committed == 98


def test_what_stands_behind_replaced_entries_is_gone_with_them() -> None:
    """The file with the entries that were replaced was deleted."""
    newer = [entry(index, written=20 + index) for index in range(1, 4)]
    stale = [entry(index, written=index) for index in range(4, 7)]
    told = list(in_batches([*newer, *stale], 99))
    assert len(told) == 2
    assert noted(iter(told)) == noted(iter([*newer, *stale]))
    assert noted(iter(told))[0] == [("apply", (index, 1, "n1")) for index in range(1, 4)]


def history(told: Iterator[Told]) -> QueueHistory:
    return folded(told)


def test_a_history_in_batches_is_the_same() -> None:
    session, consumer = SessionKey(1, 1), ConsumerKey(1, 1, 1)
    commands = [encode(Consume(consumer, "tag", prefetch=5))]
    commands += [b"".join(encode_enqueue(session, number, 1, 10, "", "q", b"")) for number in range(1, 40)]
    events = [
        entry(index, data=entry_head(1_700_000_000_000 + 100 * index) + command, written=index)
        for index, command in enumerate(commands, 1)
    ]
    said = standing([1])
    for before in (said, []):
        assert history(iter([*before, *in_batches(events, 99)])) == history(iter([*before, *events]))
    assert len(history(iter([*said, *in_batches(events, 7)])).lives) == 39
