"""Heartbeats by counting, checks apart by half an interval."""

from __future__ import annotations

from front.amqp.frame import HEARTBEAT_FRAME
from front.amqp.heartbeat import Heartbeat


def test_a_quiet_line_gets_a_heartbeat_at_every_check_and_a_busy_one_none() -> None:
    heartbeat = Heartbeat()
    sent = 100
    assert not heartbeat.sending_is_due(sent), "the handshake was sent just now"
    for _ in range(5):
        assert heartbeat.sending_is_due(sent)
        sent += len(HEARTBEAT_FRAME)
    sent += 1
    assert not heartbeat.sending_is_due(sent)


def test_two_silent_looks_end_a_connection() -> None:
    heartbeat = Heartbeat()
    assert [heartbeat.peer_is_silent(500, reading=True) for _ in range(6)] == [False] * 5 + [True]


def test_any_byte_is_a_sign_of_life() -> None:
    heartbeat = Heartbeat()
    assert not any(heartbeat.peer_is_silent(received // 4, reading=True) for received in range(100))


def test_while_we_do_not_read_nobody_is_silent() -> None:
    heartbeat = Heartbeat()
    assert not any(heartbeat.peer_is_silent(500, reading=False) for _ in range(100))
    heartbeat.interval_s = 60
    assert heartbeat.check_every_s == 30
