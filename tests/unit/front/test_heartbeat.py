"""Heartbeats against a clock that a test moves, with checks that come as late as the wheel lets them."""

from __future__ import annotations

import pytest
from pamqp import commands
from pamqp.heartbeat import Heartbeat as HeartbeatFrame

from front.amqp.states import ConnectionState
from front.sockets.heartbeat import Heartbeat
from front.sockets.wheel import LATENESS_S, SLOT_S, TimerWheel
from tests.unit.front.amqp.client import NOW, PROTOCOL_HEADER, Client, start_ok


def agreed(interval_s: int) -> Heartbeat:
    heartbeat = Heartbeat()
    heartbeat.agree(interval_s, 0.0)
    return heartbeat


def looks(heartbeat: Heartbeat, times: int, received: int | None, reading: bool = True) -> list[bool]:
    """Checks as they come; `received` is None for a client that goes on sending."""
    return [
        heartbeat.peer_is_silent(number if received is None else received, reading, number * heartbeat.interval_s / 2)
        for number in range(1, times + 1)
    ]


@pytest.mark.parametrize("interval_s", [1, 2, 10, 60])
@pytest.mark.parametrize("open_after_s", [0.0, 0.3])
def test_heartbeats_come_from_half_an_interval_on_and_never_further_apart(interval_s: int, open_after_s: float) -> None:
    """Each timer is as late as it can be, and the client is busy all the time: nothing else that is sent counts."""
    client = Client()
    wheel: TimerWheel[str] = TimerWheel(client.outside.seconds)
    client.give(PROTOCOL_HEADER)
    client.say(0, start_ok(), commands.Connection.TuneOk(2047, 131072, interval_s))
    tuned_at = client.outside.seconds
    client.outside.seconds += open_after_s
    client.say(0, commands.Connection.Open("/"))
    client.say(1, commands.Channel.Open())
    wheel.arm("client", client.outside.seconds + client.outside.armed)
    beats = []
    while len(beats) < 8:
        client.outside.seconds += SLOT_S
        client.say(1, commands.Basic.Qos(0, 10, False))  # and is answered
        if wheel.due(client.outside.seconds):
            client.core.timer_elapsed(NOW)
            if any(isinstance(said, HeartbeatFrame) for _, said in client.take()):
                beats.append(client.outside.seconds)
            wheel.arm("client", client.outside.seconds + client.outside.armed)
    gaps = [after - before for before, after in zip([tuned_at, *beats], beats, strict=False)]
    assert max(gaps) <= interval_s / 2 + 1e-6, gaps
    assert min(gaps[1:]) >= interval_s / 2 - LATENESS_S - 1e-6, gaps
    assert client.core.state is ConnectionState.RUNNING


def test_a_client_that_has_said_nothing_for_two_looks_is_considered_dead() -> None:
    assert looks(agreed(10), 6, received=500) == [False] * 5 + [True]


def test_no_look_comes_before_an_interval_is_over() -> None:
    """At an interval of a second there are three checks in it: a client that sends once a second stays."""
    heartbeat = agreed(1)
    checks = [number * 0.31 for number in range(1, 100)]
    assert not any(heartbeat.peer_is_silent(int(now), True, now) for now in checks)


def test_any_byte_is_a_sign_of_life() -> None:
    assert not any(looks(agreed(10), 100, received=None))


def test_while_we_do_not_read_nobody_is_silent() -> None:
    assert not any(looks(agreed(10), 100, received=500, reading=False))


def test_without_an_interval_nothing_is_armed() -> None:
    heartbeat = agreed(0)
    assert heartbeat.first_check_in_s(7.0) == heartbeat.check_every_s == 0
