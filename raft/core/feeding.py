"""A leader feeds its followers: entries ahead of their acknowledgements, news of commits, read rounds, snapshots.

All of it happens once for each Ready, so whatever was proposed since the last one travels in one message per follower.
"""

from __future__ import annotations

from raft.core.leadership import Leadership
from raft.core.messages import Append, Entry, SnapshotChunk
from raft.core.progress import Progress, Sending
from raft.core.snapshot_transfer import SnapshotSend
from raft.core.state import State


def feed_all(s: State, lead: Leadership, now: float) -> None:
    """Whatever is there for any follower on a trusted node."""
    news_due = lead.news_at is not None and now >= lead.news_at
    behind = False
    lead.chunk_at = None
    for one in lead.progress.values():
        if one.trusted:
            _feed(s, lead, one, news_due or one.node in lead.prompted, now)
            behind = behind or one.commit_sent < s.commit
    if news_due or not behind:
        lead.news_at = None
    lead.prompted.clear()
    lead.must_send = lead.chunk_at is not None and lead.chunk_at <= now


def _feed(s: State, lead: Leadership, one: Progress, news_due: bool, now: float) -> None:
    settings, log = s.settings, s.log
    while one.next <= log.last and one.may_send(settings.window_bytes_max, settings.window_messages_max):
        bytes_max = settings.append_bytes_max
        if one.next <= log.durable:
            if one.next < log.first_index():
                one.send_snapshot(s.store.snapshot())
                break
            if len(one.in_flight) >= settings.catch_up_messages_max:
                break
            bytes_max = min(bytes_max, settings.catch_up_bytes_max)
        entries, size = log.entries(one.next, bytes_max)
        _append(s, lead, one, one.next - 1, entries, now)
        one.sent(entries[-1].index, size)
    if one.sending is Sending.SNAPSHOT:
        _send_chunk(s, lead, one, now)
    elif one.next > s.log.last and one.sending is Sending.STREAM:
        one.installed_bytes = None
    if _wants_empty(s, lead, one, news_due):
        _append(s, lead, one, max(one.next, log.first_index()) - 1, (), now)


def _wants_empty(s: State, lead: Leadership, one: Progress, news_due: bool) -> bool:
    if one.round_sent < lead.reads.wanted:
        return True
    if one.sending is Sending.PROBE:
        return not one.probed
    return one.sending is Sending.STREAM and news_due and one.commit_sent < s.commit


def _append(s: State, lead: Leadership, one: Progress, prev_index: int, entries: tuple[Entry, ...], now: float) -> None:
    commit, read_round = s.commit, lead.reads.wanted
    s.messages.append(Append(one.member, s.me, s.term, prev_index, s.log.term(prev_index), commit, entries, read_round))
    one.commit_sent = commit
    if read_round > one.round_sent:
        one.round_sent = read_round
    one.probed = one.sending is Sending.PROBE
    expect_answer(s, one, now)


def _send_chunk(s: State, lead: Leadership, one: Progress, now: float) -> None:
    """One in each Ready, and none before the pace has room for it: a turn that reads and sends all that the follower would take
    holds up everything else for 4 ms."""
    if one.snapshot is None or one.snapshot.meta.index != s.store.snapshot().index:
        one.send_snapshot(s.store.snapshot())
    send = one.snapshot
    assert send is not None, f"member {one.member} is to get a snapshot, but which?"
    if send.must_ask:
        send.question()
        s.messages.append(SnapshotChunk(one.member, s.me, s.term, send.meta, send.sent, b"", last=False))
        expect_answer(s, one, now)
    window = s.settings.snapshot_chunk_bytes * s.settings.snapshot_window_chunks
    if send.may_send(window):
        reserved = send.reserve(s.pace, s.settings.snapshot_chunk_bytes, now)
        if reserved.at <= now:
            _read_chunk(s, one, send, reserved.size, now)
    if send.may_send(window):
        at = send.reserve(s.pace, s.settings.snapshot_chunk_bytes, now).at
        lead.chunk_at = at if lead.chunk_at is None else min(lead.chunk_at, at)


def _read_chunk(s: State, one: Progress, send: SnapshotSend, size: int, now: float) -> None:
    part = s.store.read_snapshot(send.meta.index, send.sent, size)
    assert part is not None, f"snapshot {send.meta.index} is the newest, but cannot be read"
    data, last = part
    s.messages.append(SnapshotChunk(one.member, s.me, s.term, send.meta, send.sent, data, last))
    send.was_read(len(data), last)
    s.pace.release(size - len(data))
    expect_answer(s, one, now)


def expect_answer(s: State, one: Progress, now: float) -> None:
    """Ask again when nothing is heard for a while."""
    if one.resend_at is None:
        one.resend_at = now + s.settings.resend_s
