"""What a leader concludes from what a follower says, and from silence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from raft.core.messages import Membership, SnapshotMeta, member_id
from raft.core.progress import Progress, Sending
from raft.core.snapshot_transfer import SnapshotSend

META = SnapshotMeta(50, 3, Membership((member_id(1, 1),)), 1)


def follower(last: int = 10) -> Progress:
    return Progress(member_id(2, 1), last, trusted=True)


def streaming(match: int) -> Progress:
    one = follower(match)
    assert one.accepted(match)
    return one


def test_a_new_follower_is_probed_behind_the_last_entry() -> None:
    one = follower(10)
    assert (one.sending, one.match, one.next) == (Sending.PROBE, 0, 11)
    assert one.may_send(100, 4)
    one.probed = True
    assert not one.may_send(100, 4)


def test_the_first_acceptance_opens_the_stream() -> None:
    one = follower(10)
    assert one.accepted(10)
    assert (one.sending, one.match, one.next) == (Sending.STREAM, 10, 11)


def test_a_stream_is_limited_by_bytes_and_by_messages() -> None:
    one = streaming(10)
    one.sent(12, 60)
    assert one.may_send(100, 2)
    one.sent(13, 60)
    assert not one.may_send(100, 3)
    assert not one.may_send(1000, 2)
    assert one.accepted(12)
    assert (one.in_flight_bytes, one.may_send(100, 2), one.next) == (60, True, 14)


def test_an_acknowledgement_that_came_twice_or_late_changes_nothing() -> None:
    one = streaming(10)
    one.sent(15, 50)
    assert one.accepted(15)
    assert not one.accepted(15)
    assert not one.accepted(11)
    assert (one.match, one.next) == (15, 16)


def test_what_is_acknowledged_beyond_what_is_sent_next_is_not_sent_again() -> None:
    """An acknowledgement that was under way when a snapshot was begun with."""
    one = streaming(10)
    one.sent(60, 50)
    one.probe()
    one.send_snapshot(META)
    assert one.next == 11
    assert one.accepted(60)
    assert one.next == 61


def test_a_refusal_in_the_stream_begins_anew_behind_what_is_known() -> None:
    one = streaming(10)
    one.sent(15, 50)
    assert one.rejected(15, 12)
    assert (one.sending, one.next, one.in_flight_bytes) == (Sending.PROBE, 11, 0)
    assert not one.rejected(15, 12), "one refusal for each message that was ahead"


def test_refusals_while_probing_go_down_to_the_hint_and_never_below_what_is_known() -> None:
    one = follower(10)
    assert not one.rejected(7, 3), "not the message that was asked last"
    assert one.rejected(10, 4)
    assert one.next == 5
    one.match = 3
    assert one.rejected(4, 1)
    assert one.next == 4
    assert not one.rejected(3, 3), "nothing else is left to try; ask the same again, but not at once"


def test_silence_leads_back_to_probing() -> None:
    one = streaming(10)
    one.sent(15, 50)
    one.resend_at = 1.0
    one.ask_again()
    assert (one.sending, one.next, one.probed, one.resend_at) == (Sending.PROBE, 11, False, None)


def test_a_suspected_follower_owes_nothing_and_a_trusted_one_until_it_knows_everything() -> None:
    one = streaming(10)
    one.commit = 9
    assert one.owes(10, 10, 0)
    one.commit = 10
    assert not one.owes(10, 10, 0)
    assert one.owes(11, 10, 0)
    assert one.owes(10, 10, 1)
    one.suspect()
    assert not one.owes(11, 11, 1)
    one.trust()
    assert one.owes(10, 10, 0), "it may be another one than it was; ask"


def test_a_follower_with_a_snapshot_goes_on_behind_it() -> None:
    one = follower(60)
    one.send_snapshot(META)
    assert not one.may_send(100, 4)
    assert not one.rejected(60, 2)
    one.installed(50)
    assert (one.sending, one.match, one.next, one.snapshot) == (Sending.PROBE, 50, 51, None)


def test_what_a_follower_installed_counts_until_its_node_is_suspected() -> None:
    """So that the log behind it is kept: seed 18000031 of the simulated brokers sent one snapshot after another."""
    one = Progress(4, 90, trusted=True)
    assert one.received_bytes is None
    one.send_snapshot(META)
    assert one.snapshot is not None
    one.snapshot.was_read(70, last=True)
    one.snapshot.wanted(30)
    assert one.received_bytes == 30
    one.snapshot.sent = 70
    one.installed(50)
    assert one.received_bytes == 70
    one.suspect()
    assert one.received_bytes is None


@given(
    size=st.integers(1, 40),
    chunk=st.integers(1, 9),
    lost=st.lists(st.booleans(), max_size=200),
)
def test_a_snapshot_arrives_whatever_is_lost_and_without_sending_all_again(
    size: int, chunk: int, lost: list[bool]
) -> None:
    """A follower that answers as SnapshotIntake does; the leader asks when nothing is on its way."""
    send = SnapshotSend(META)
    has = 0
    sent_bytes = 0
    for step in range(1000):
        if has == size and send.acknowledged == size:
            break
        send.question()
        send.wanted(has)
        assert send.acknowledged <= send.sent <= size and send.end in (None, size)
        for _ in range(4):
            if send.sent == size:
                break
            offset, length = send.sent, min(chunk, size - send.sent)
            send.was_read(length, send.sent + length == size)
            sent_bytes += length
            if step < len(lost) and lost[step]:
                continue
            if offset == has:
                has += length
                send.wanted(has)
    assert has == send.acknowledged == size
    assert sent_bytes <= size + 4 * chunk * sum(lost)


def test_a_snapshot_is_sent_again_from_a_lost_chunk_once() -> None:
    send = SnapshotSend(META)
    send.question()
    send.wanted(0)
    send.sent = 40
    send.wanted(10)
    assert (send.acknowledged, send.sent) == (10, 40)
    send.wanted(10)
    assert send.sent == 10, "the chunk behind 10 was lost"
    send.sent = 50
    send.wanted(10)
    assert send.sent == 50, "every chunk behind the lost one says so"


def test_a_follower_that_lost_its_chunks_begins_anew_when_it_is_asked() -> None:
    send = SnapshotSend(META)
    send.question()
    send.wanted(80)
    assert (send.acknowledged, send.sent) == (80, 80)
    send.wanted(0)
    assert (send.acknowledged, send.sent) == (80, 80), "this may be an old answer"
    send.question()
    send.wanted(0)
    assert (send.acknowledged, send.sent) == (0, 0)


def test_old_answers_bring_no_chunks() -> None:
    """Seed 20000090 of the simulated brokers: each was believed, 5,000 chunks a second, and most of them had arrived."""
    send = SnapshotSend(META)
    send.question()
    send.wanted(40)
    send.was_read(10, last=False)
    for old in (0, 30, 60, 170):
        send.wanted(old)
        assert (send.acknowledged, send.sent) == (40, 50)
    send.wanted(50)
    assert (send.acknowledged, send.sent) == (50, 50)
