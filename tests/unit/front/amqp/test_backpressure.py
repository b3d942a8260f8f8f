"""Each row of the table in front/amqp/backpressure.py: what stops, and what starts it again."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands
from pamqp import frame as pamqp_frame

from front.amqp.backpressure import UNSENT_BYTES_MAX, WAITING_BYTES_MAX, Backpressure, item_bytes
from front.amqp.states import ConnectionState
from native.frame_split import FRAME, PUBLISH, Item
from tests.unit.front.amqp.client import NOW, PROTOCOL_HEADER, Client, names, publish, start_ok
from wire.amqp import frame

HIGH_BYTES = 10_000
FRAMES: list[Item] = [(FRAME, frame.METHOD, 1, b"first"), (FRAME, frame.METHOD, 1, b"second")]


class World:
    """A Backpressure, and how often it asked for `proceed`."""

    def __init__(self) -> None:
        self.woken = 0
        self.pressure = Backpressure(HIGH_BYTES, self._wake)

    def _wake(self) -> None:
        self.woken += 1


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def pressure(world: World) -> Backpressure:
    return world.pressure


class TestReading:
    def test_nothing_is_stopped_at_first(self, pressure: Backpressure) -> None:
        assert pressure.reads and pressure.writable and not pressure.congested and not pressure.can_proceed
        assert (pressure.take_postponed(), pressure.next_channel(), pressure.restart_deliveries()) == (
            None,
            None,
            False,
        )

    def test_it_stops_during_an_alarm(self, pressure: Backpressure) -> None:
        pressure.alarm = "disk"
        assert not pressure.reads
        pressure.alarm = None
        assert pressure.reads

    def test_it_stops_while_too_much_waits_in_channels(self, pressure: Backpressure) -> None:
        pressure.waiting_bytes = WAITING_BYTES_MAX
        assert pressure.reads
        pressure.waiting_bytes += 1
        assert not pressure.reads
        pressure.waiting_bytes -= 1
        assert pressure.reads

    def test_it_stops_while_the_output_is_congested(self, pressure: Backpressure) -> None:
        pressure.unsent_bytes = UNSENT_BYTES_MAX
        assert pressure.reads and not pressure.congested
        pressure.unsent_bytes += 1
        assert pressure.congested and not pressure.reads
        assert pressure.sent() == UNSENT_BYTES_MAX + 1
        assert pressure.reads and not pressure.congested

    def test_it_goes_on_when_the_channels_are_gone(self, pressure: Backpressure) -> None:
        """Or the close-ok behind what waited would not be read."""
        channel: Any = object()
        pressure.waiting_bytes = WAITING_BYTES_MAX + 1
        pressure.resume_channel(channel)
        pressure.forget_channels()
        assert (pressure.reads, pressure.waiting_bytes, pressure.next_channel()) == (True, 0, None)


class TestInputOfTheConnection:
    def test_it_stops_until_the_login_is_answered(self, world: World) -> None:
        pressure = world.pressure
        pressure.wait_for_login()
        pressure.postpone(FRAMES)
        assert not pressure.can_proceed
        assert pressure.take_postponed() is None
        assert pressure.reads, "a client may send more behind its login, up to the limit of the intake"
        pressure.login_answered()
        assert (world.woken, pressure.can_proceed) == (1, True)
        assert pressure.take_postponed() == FRAMES
        assert pressure.postponed is None and not pressure.can_proceed

    def test_it_stops_even_when_nothing_was_split_off_behind_the_login(self, pressure: Backpressure) -> None:
        pressure.wait_for_login()
        pressure.login_answered()
        assert pressure.can_proceed, "bytes may be kept in the intake"
        assert pressure.take_postponed() == []

    def test_it_stops_while_the_output_is_congested(self, pressure: Backpressure) -> None:
        pressure.unsent_bytes = UNSENT_BYTES_MAX + 1
        pressure.postpone(FRAMES)
        assert not pressure.can_proceed
        assert pressure.take_postponed() is None
        pressure.sent()
        assert pressure.can_proceed
        assert pressure.take_postponed() == FRAMES

    def test_a_connection_that_ends_forgets_it(self, pressure: Backpressure) -> None:
        pressure.wait_for_login()
        pressure.postpone(FRAMES)
        pressure.forget_postponed()
        assert not pressure.can_proceed
        assert pressure.take_postponed() is None
        pressure.postpone(FRAMES)
        assert pressure.take_postponed() == FRAMES, "no login is waited for any more"


class TestInputOfAChannel:
    def test_it_goes_on_when_the_answer_is_there(self, world: World) -> None:
        pressure, channel = world.pressure, object()
        pressure.resume_channel(channel)  # type: ignore[arg-type]
        assert (world.woken, pressure.can_proceed) == (1, True)
        assert pressure.next_channel() is channel
        assert pressure.next_channel() is None and not pressure.can_proceed

    def test_it_waits_while_the_output_is_congested(self, pressure: Backpressure) -> None:
        channel: Any = object()
        pressure.resume_channel(channel)
        pressure.unsent_bytes = UNSENT_BYTES_MAX + 1
        assert pressure.next_channel() is None and not pressure.can_proceed
        pressure.sent()
        assert pressure.can_proceed
        assert pressure.next_channel() is channel

    def test_what_waits_in_it_counts_and_is_handled_in_order(self) -> None:
        client = Client().connect()
        client.broker.answers_later = True
        client.say(1, commands.Queue.Declare(queue="q"))
        client.give(publish("q", b"1") + publish("r", b"2"))
        assert client.core.pressure.waiting_bytes > 0
        client.say(2, commands.Channel.Open(), commands.Basic.Qos(prefetch_count=1))
        assert client.broker.calls[-1][0] == "set_prefetch", "other channels go on"
        client.broker.answer_all()
        client.take()
        assert [call[2] for call in client.broker.calls if call[0] == "publish_raw"] == ["q", "r"]
        assert client.core.pressure.waiting_bytes == 0

    def test_what_waits_stays_while_the_output_is_congested(self) -> None:
        client = Client().connect()
        client.broker.answers_later = True
        client.say(1, commands.Queue.Declare(queue="q"))
        client.give(publish("q", b"1"))
        client.core.pressure.unsent_bytes = UNSENT_BYTES_MAX  # and the answer comes on top
        client.broker.answer_all()
        client.core.proceed(NOW)
        client.core.proceed(NOW)
        assert client.core.pressure.waiting_bytes > 0
        assert "publish_raw" not in [call[0] for call in client.broker.calls]
        client.core.data_to_send()
        client.core.proceed(NOW)
        assert client.broker.calls[-1][0] == "publish_raw"
        assert client.core.pressure.waiting_bytes == 0

    def test_working_off_what_waits_stops_when_its_answers_congest_the_output(self) -> None:
        client = Client().connect()
        client.broker.answers_later = True
        client.say(1, commands.Queue.Declare(queue="q"))
        client.give(_qos() + _qos())
        client.broker.answer_all()
        client.core.data_to_send()
        client.core.pressure.unsent_bytes = UNSENT_BYTES_MAX
        client.core.proceed(NOW)
        assert [call[0] for call in client.broker.calls].count("set_prefetch") == 1
        assert client.core.pressure.waiting_bytes > 0
        assert not client.core.pressure.can_proceed
        client.core.data_to_send()
        client.core.proceed(NOW)
        assert [call[0] for call in client.broker.calls].count("set_prefetch") == 2
        assert client.core.pressure.waiting_bytes == 0


class TestDeliveries:
    def test_they_stop_at_the_high_mark_and_restart_once(self, pressure: Backpressure) -> None:
        pressure.unsent_bytes = HIGH_BYTES - 1
        assert pressure.writable
        pressure.unsent_bytes = HIGH_BYTES
        assert not pressure.writable
        assert not pressure.can_proceed and not pressure.restart_deliveries()
        pressure.sent()
        assert pressure.can_proceed
        assert [pressure.restart_deliveries(), pressure.restart_deliveries()] == [True, False]
        assert not pressure.can_proceed

    def test_nothing_restarts_if_no_queue_was_refused(self, pressure: Backpressure) -> None:
        pressure.unsent_bytes = HIGH_BYTES
        pressure.sent()
        assert not pressure.can_proceed and not pressure.restart_deliveries()

    def test_they_stop_while_the_transport_is_paused(self, world: World) -> None:
        pressure = world.pressure
        pressure.set_transport_writable(False)
        assert not pressure.writable and not pressure.can_proceed
        assert world.woken == 0
        pressure.set_transport_writable(True)
        assert (world.woken, pressure.can_proceed, pressure.restart_deliveries()) == (1, True, True)

    def test_a_transport_with_room_wakes_only_if_there_is_something_to_do(self, world: World) -> None:
        world.pressure.set_transport_writable(False)
        world.pressure.set_transport_writable(True)
        assert world.woken == 0
        world.pressure.unsent_bytes = 1
        world.pressure.set_transport_writable(True)
        assert world.woken == 1

    def test_they_restart_although_the_input_is_stopped(self, pressure: Backpressure) -> None:
        pressure.wait_for_login()
        pressure.set_transport_writable(False)
        assert not pressure.writable
        pressure.set_transport_writable(True)
        assert pressure.can_proceed


def test_a_congested_connection_handles_the_rest_of_a_read_when_its_output_is_sent() -> None:
    client = Client().connect()
    client.core.pressure.unsent_bytes = UNSENT_BYTES_MAX
    client.core.receive_data(_qos() + _qos(), NOW)
    assert [call[0] for call in client.broker.calls] == ["set_prefetch"], "its answer is one too many"
    assert not client.core.pressure.reads
    assert not client.core.proceed(NOW)
    client.core.receive_data(_qos(), NOW)  # the socket had it already
    assert client.core.kept_bytes == len(_qos())
    client.core.data_to_send()
    assert client.core.proceed(NOW)
    assert [call[0] for call in client.broker.calls] == ["set_prefetch"] * 3
    assert client.core.kept_bytes == 0


def test_a_congested_connection_keeps_more_of_a_client_that_has_logged_in_than_of_a_stranger() -> None:
    client = Client().connect()
    client.say(1, commands.Queue.Declare(queue="q"))
    client.core.pressure.unsent_bytes = UNSENT_BYTES_MAX
    client.core.receive_data(_qos() + publish("q", bytes(50_000)) + publish("q", bytes(50_000), mandatory=True), NOW)
    assert len(client.core.pressure.postponed or ()) == 2
    client.core.data_to_send()
    client.core.proceed(NOW)
    assert len(client.broker.queues["q"].ready) == 2


def test_an_alarm_during_the_handshake_is_no_part_of_it() -> None:
    client = Client()
    client.give(PROTOCOL_HEADER)
    client.say(0, start_ok())
    client.core.set_blocked("memory")
    assert client.take() == []
    assert not client.core.pressure.reads


def test_what_a_client_sends_behind_its_login_waits_for_the_answer() -> None:
    client = Client()
    client.broker.answers_later = True
    client.give(PROTOCOL_HEADER)
    client.say(0, start_ok(), commands.Connection.TuneOk(2047, 131072, 0), commands.Connection.Open("/"))
    assert client.core.state is ConnectionState.AUTHENTICATING
    client.broker.answers_later = False
    client.broker.answer_all()
    assert names(client.take()) == ["Connection.Tune", "Connection.OpenOk"]


def test_an_item_counts_with_its_bytes() -> None:
    assert item_bytes((FRAME, frame.METHOD, 1, bytes(100))) == 164
    run: Any = (PUBLISH, 1, bytes(10), 1, bytes(200))
    assert item_bytes(run) == 210


def _qos() -> bytes:
    return bytes(pamqp_frame.marshal(commands.Basic.Qos(prefetch_count=1), 1))
