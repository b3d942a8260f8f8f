"""The connection: handshake, framing, limits, heartbeats, blocking, and its end."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from pamqp import commands

from broker.errors import ConnectionForced, NotAllowed
from front.amqp.states import TRANSITIONS, ConnectionState
from front.amqp.terms import Limits
from tests.unit.front.amqp.client import (
    NOW,
    PLAIN,
    PROTOCOL_HEADER,
    Client,
    close_of,
    names,
    publish,
    raw_frame,
    shown,
    start_ok,
)
from wire.amqp import spec


class TestLimitsBeforeLogin:
    @pytest.mark.parametrize("size", [8193, 100_000, 2**32 - 1])
    def test_a_big_frame_is_refused_by_its_length(self, size: int) -> None:
        client = Client()
        client.give(PROTOCOL_HEADER)
        assert close_of(client.give(struct.pack(">BHI", 1, 0, size)))[0] == 501

    def test_at_most_64_kib_are_kept_behind_an_unanswered_login(self) -> None:
        client = Client()
        client.broker.answers_later = True
        client.give(PROTOCOL_HEADER)
        client.say(0, start_ok())
        assert client.give(raw_frame(1, 1, bytes(8000)) * 8) == []
        said = client.give(raw_frame(1, 1, bytes(8000)))
        assert close_of(said)[:2] == (501, "FRAME_ERROR - more than 65536 bytes before the login was answered")
        client.broker.answer_all()
        assert client.take() == [], "the answer comes too late"

    def test_a_publish_before_login_keeps_nothing(self) -> None:
        client = Client()
        client.give(PROTOCOL_HEADER)
        said = client.give(publish("q", b"x" * 100)[:60])
        assert close_of(said) == (504, "CHANNEL_ERROR - unexpected method in connection state starting", 60, 40)


class TestMessages:
    def test_publish_consume_and_acknowledge(self) -> None:
        client = Client().connect()
        said = client.say(1, commands.Queue.Declare(queue="orders", durable=True))
        assert shown(said) == [(1, ("Queue.DeclareOk", {"queue": "orders", "message_count": 0, "consumer_count": 0}))]
        client.say(1, commands.Confirm.Select())
        said = client.give(publish("orders", b"one", properties={"delivery_mode": 2}) + publish("orders", b"two"))
        assert shown(said) == [(1, ("Basic.Ack", {"delivery_tag": 2, "multiple": True}))]
        said = client.say(1, commands.Basic.Consume(queue="orders", consumer_tag="me"))
        assert names(said) == [
            "Basic.ConsumeOk",
            "Basic.Deliver", "ContentHeader", "ContentBody",
            "Basic.Deliver", "ContentHeader", "ContentBody",
        ]  # fmt: skip
        assert dict(said[1][1]) == {
            "consumer_tag": "me", "delivery_tag": 1, "redelivered": False, "exchange": "", "routing_key": "orders",
        }  # fmt: skip
        assert (said[2][1].properties.delivery_mode, said[3][1].value) == (2, b"one")
        assert client.say(1, commands.Basic.Ack(1), commands.Basic.Ack(2)) == []
        assert client.broker.calls[-1] == ("acknowledge", 1, 2, False), "consecutive acks arrive as one range"

    @pytest.mark.parametrize("size", [0, 1, 8184, 65_536, 131_064, 131_065, 1_000_000])
    def test_bodies_of_all_sizes_come_back_as_they_went(self, size: int) -> None:
        body = bytes(range(251)) * (size // 251 + 1)
        client = Client().connect()
        client.say(1, commands.Queue.Declare(queue="q"))
        client.give(publish("q", body[:size]))
        said = client.say(1, commands.Basic.Get(queue="q"))
        assert names(said)[:2] == ["Basic.GetOk", "ContentHeader"]
        assert b"".join(value.value for _, value in said[2:]) == body[:size]


class TestCuts:
    def conversation(self) -> bytes:
        """A handshake, publishes of many sizes, gets and settling, an error on one channel, and the end."""
        no_reply = {"reply_code": 200, "reply_text": "", "class_id": 0, "method_id": 0}
        declare: dict[str, Any] = dict.fromkeys(("passive", "exclusive", "auto_delete", "no_wait"), False)
        arguments = {"x-max-length": 1000, "nested": {"list": [1, "a", None]}}
        start = {"client_properties": {}, "mechanism": "PLAIN", "response": PLAIN, "locale": "en_US"}
        get = (1, spec.encode("basic.get", queue="q", no_ack=False))
        before = [
            (0, spec.encode("connection.start-ok", **start)),
            (0, spec.encode("connection.tune-ok", channel_max=10, frame_max=8192, heartbeat=0)),
            (0, spec.encode("connection.open", virtual_host="/")),
            (1, spec.encode("channel.open")),
            (2, spec.encode("channel.open")),
            (1, spec.encode("queue.declare", queue="q", durable=True, arguments=arguments, **declare)),
        ]
        after = [
            get, get, get,
            (1, spec.encode("basic.ack", delivery_tag=1, multiple=False)),
            (1, spec.encode("basic.ack", delivery_tag=2, multiple=False)),
            (1, spec.encode("basic.nack", delivery_tag=3, multiple=False, requeue=True)),
            get,
            (2, spec.encode("basic.get", queue="nope", no_ack=True)),
            (2, spec.encode("channel.close-ok")),
            (0, spec.encode("connection.close", **no_reply)),
        ]  # fmt: skip
        data = PROTOCOL_HEADER + b"".join(raw_frame(1, channel, payload) for channel, payload in before)
        for size in (0, 1, 100, 100, 3000):
            data += publish("q", bytes(size), properties={"delivery_mode": 2}) + raw_frame(8, 0, b"")
        return data + b"".join(raw_frame(1, channel, payload) for channel, payload in after)

    def answers(self, pieces: list[bytes]) -> bytes:
        client = Client()
        for piece in pieces:
            client.core.receive_data(piece, NOW)
            client.core.proceed(NOW)
        assert client.core.state is ConnectionState.CLOSING
        assert (client.broker.connections, client.broker.sessions) == ([], [])
        return b"".join(client.core.data_to_send())

    def test_bytes_mean_the_same_whole_one_by_one_and_cut_anywhere(self) -> None:
        data = self.conversation()
        whole = self.answers([data])
        assert whole.count(b"\x00\x3c\x00\x47") == 4, "four messages were asked for"
        assert self.answers([data[i : i + 1] for i in range(len(data))]) == whole
        for seed in range(100):
            rng = random.Random(seed)
            cuts = sorted(rng.sample(range(1, len(data)), rng.randrange(1, 40)))
            pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
            assert self.answers(pieces) == whole, f"seed {seed}"

    def test_big_reads_behind_a_beginning_are_worked_on_where_they_lie(self) -> None:
        body = bytes(range(256)) * 256
        data = b"".join(publish("q", body[number:]) for number in range(30))
        for size in (262_144, 100_000, 65_537, 65_536):
            client = Client().connect()
            client.say(1, commands.Queue.Declare(queue="q"))
            for start in range(0, len(data), size):
                client.core.receive_data(data[start : start + size], NOW)
            stored = [message[2][10:] for message in client.broker.queues["q"].ready]
            assert [len(one) for one in stored] == [len(body) - number for number in range(30)]
            assert all(one == body[number:] for number, one in enumerate(stored))
            assert client.core.kept_bytes == 0

    def test_a_frame_that_three_big_reads_bring_is_whole(self) -> None:
        client = Client().connect()
        client.say(1, commands.Queue.Declare(queue="q"))
        body = bytes(range(251)) * 522  # one frame, of which more than one read joins what was kept
        data = publish("q", body)
        for start, end in ((0, 10), (10, 70_010), (70_010, len(data))):
            client.core.receive_data(data[start:end], NOW)
        assert [message[2][10:] for message in client.broker.queues["q"].ready] == [body]
        assert client.core.kept_bytes == 0

    def test_a_frame_in_the_read_that_brings_tune_ok_may_have_the_size_that_was_agreed(self) -> None:
        client = Client()
        client.give(PROTOCOL_HEADER)
        client.say(0, start_ok())
        agreed = (
            (0, spec.encode("connection.tune-ok", channel_max=10, frame_max=131_072, heartbeat=0)),
            (0, spec.encode("connection.open", virtual_host="/")),
            (1, spec.encode("channel.open")),
        )
        client.give(
            b"".join(raw_frame(1, channel, payload) for channel, payload in agreed) + publish("q", bytes(20_000))
        )
        assert client.core.state is ConnectionState.RUNNING
        assert client.broker.calls == [("publish_raw", "", "q", 1, 20_000, False)]


class TestChannels:
    def test_one_that_its_client_closes_gives_back_what_it_holds(self) -> None:
        client = Client().connect()
        client.say(1, commands.Queue.Declare(queue="q"))
        client.give(publish("q", b"held"))
        client.say(1, commands.Basic.Get(queue="q"))
        assert not client.broker.queues["q"].ready
        assert names(client.say(1, commands.Channel.Close(200, "", 0, 0))) == ["Channel.CloseOk"]
        assert len(client.broker.queues["q"].ready) == 1
        assert client.broker.sessions == []

    def test_channel_max_is_how_many_may_be_open_and_not_the_highest_number(self) -> None:
        client = Client().connect()
        for number in range(65_535, 65_535 - 2046, -1):
            assert names(client.say(number, commands.Channel.Open())) == ["Channel.OpenOk"]
        assert close_of(client.say(2, commands.Channel.Open()))[:2] == (
            530,
            "NOT_ALLOWED - number of channels opened (2047) has reached the negotiated channel_max (2047)",
        )

    def test_channel_open_is_read_like_any_method(self) -> None:
        client = Client().connect()
        said = client.give(raw_frame(1, 2, spec.METHODS["channel.open"].head + b"\x05abc"))
        assert close_of(said)[0] == 501

    def test_a_user_at_the_channel_limit_is_sent_away(self) -> None:
        client = Client().connect()
        client.broker.refuse["open_session"] = NotAllowed(
            "number of channels opened for user 'guest' has reached the limit"
        )
        assert close_of(client.say(2, commands.Channel.Open()))[0] == 530

    def test_unfinished_messages_of_one_connection_are_limited_together(self) -> None:
        client = Client(limits=Limits(message_bytes_max=1_000_000)).connect()
        started = b""
        begin = spec.encode("basic.publish", exchange="", routing_key="q", mandatory=False, immediate=False)
        for channel in range(2, 20):
            started += raw_frame(1, channel, spec.encode("channel.open"))
            started += raw_frame(1, channel, begin)
            started += raw_frame(2, channel, struct.pack(">HHQH", 60, 0, 1_000_000, 0))
        client.give(started)
        said: list[Any] = []
        for _ in range(7):
            for channel in range(2, 20):
                said += client.give(raw_frame(3, channel, bytes(100_000)))
        assert close_of(said)[:2] == (
            506,
            "RESOURCE_ERROR - more than 8000000 bytes of unfinished messages on one connection",
        )
        assert client.core.kept_bytes == 0

    def test_reading_stops_while_much_is_held_back_and_goes_on_afterwards(self) -> None:
        client = Client().connect()
        client.broker.answers_later = True
        client.say(1, commands.Queue.Declare(queue="q"))
        while client.core.pressure.reads:
            client.give(publish("q", bytes(60_000)))
        assert 1_000_000 < client.core.kept_bytes < 1_200_000
        client.broker.answer_all()
        client.broker.answers_later = False
        assert names(client.take()) == ["Queue.DeclareOk"]
        assert client.core.pressure.reads
        assert client.core.kept_bytes == 0


class TestWriting:
    def test_deliveries_stop_at_the_high_mark_and_go_on_when_it_is_written(self) -> None:
        client = Client(limits=Limits(write_buffer_high_bytes=10_000)).connect()
        client.say(1, commands.Queue.Declare(queue="q"))
        client.say(1, commands.Basic.Consume(queue="q", consumer_tag="t", no_ack=True))
        client.core.pressure.set_transport_writable(False)
        assert client.give(publish("q", bytes(1000)) * 100) == []
        woken = client.outside.woken
        client.core.pressure.set_transport_writable(True)
        assert client.outside.woken > woken, "the driver must be told that there is work again"
        client.core.proceed(NOW)
        client.broker.pump(NOW)
        assert 10_000 <= client.core.pressure.unsent_bytes < 12_000
        assert client.broker.calls[-1] == ("resume",)

    def test_a_large_delivery_alone_is_written_soon(self) -> None:
        client = Client().connect()
        client.say(1, commands.Queue.Declare(queue="q"))
        client.say(1, commands.Basic.Consume(queue="q", consumer_tag="t", no_ack=True))
        client.core.receive_data(publish("q", bytes(200_000)), NOW)
        woken = client.outside.woken
        client.broker.pump(NOW)
        assert client.core.pressure.unsent_bytes > 200_000
        assert client.outside.woken > woken

    def test_every_channel_goes_on_when_it_is_written(self) -> None:
        client = Client(limits=Limits(write_buffer_high_bytes=10_000)).connect()
        client.say(2, commands.Channel.Open())
        for channel in (1, 2):
            client.say(channel, commands.Queue.Declare(queue=f"q{channel}"))
            client.say(channel, commands.Basic.Consume(queue=f"q{channel}", consumer_tag=f"t{channel}", no_ack=True))
        client.core.pressure.set_transport_writable(False)
        client.give(publish("q1", b"a") + publish("q2", b"b"))
        client.core.pressure.set_transport_writable(True)
        client.core.proceed(NOW)
        client.broker.pump(NOW)
        assert client.broker.calls.count(("resume",)) == 2
        assert names(client.take()).count("Basic.Deliver") == 2


class TestPatience:
    @pytest.mark.parametrize(("heartbeat_s", "patience_s"), [(0, 30), (5, 5), (300, 30)])
    def test_a_closing_client_is_waited_for_no_longer_than_it_may_be_silent(
        self, heartbeat_s: int, patience_s: int
    ) -> None:
        """Whoever closes: a client that was told by connection.close to go, and hangs, finds its socket closed as soon."""
        for ended_by_broker in (False, True):
            client = Client()
            client.give(PROTOCOL_HEADER)
            client.say(0, start_ok(), commands.Connection.TuneOk(2047, 131072, heartbeat_s))
            client.say(0, commands.Connection.Open("/"))
            if ended_by_broker:
                client.broker.connections[0].close(ConnectionForced("vhost '/' is deleted"))
            else:
                client.say(0, commands.Connection.Close(200, "", 0, 0))
            assert client.outside.armed == patience_s
            assert client.core.state is ConnectionState.CLOSING
            client.core.timer_elapsed(NOW)
            assert client.core.state is ConnectionState.CLOSED

    def test_a_client_that_closed_and_then_goes_went_as_it_should(self) -> None:
        client = Client().connect()
        client.say(0, commands.Connection.Close(200, "", 0, 0))
        client.core.connection_lost(NOW)
        assert client.core.close_reason is None

    def test_a_client_that_goes_without_a_word_went_unexpectedly(self) -> None:
        client = Client().connect()
        client.core.connection_lost(NOW)
        assert client.core.close_reason == "client unexpectedly closed TCP connection"


class TestTable:
    def test_every_transition_leads_somewhere_and_every_state_is_reached(self) -> None:
        by_an_error = ConnectionState.CLOSING  # from any state
        reached = {ConnectionState.EXPECTING_HEADER, by_an_error, *TRANSITIONS.values()}
        assert reached == set(ConnectionState)
        assert {state for state, _ in TRANSITIONS} == set(ConnectionState) - {
            ConnectionState.REFUSED,
            ConnectionState.CLOSED,
        }

    def test_broker_ends_a_connection(self) -> None:
        client = Client().connect()
        client.broker.connections[0].close(ConnectionForced("vhost '/' is deleted"))
        assert close_of(client.take()) == (320, "CONNECTION_FORCED - vhost '/' is deleted", 0, 0)
        assert client.broker.connections == []
        assert names(client.say(0, commands.Connection.CloseOk())) == []
        assert client.core.state is ConnectionState.CLOSED
