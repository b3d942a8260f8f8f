"""links/amqp/client.py against a broker whose every byte pamqp has written, and that reads with pamqp."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body, commands, frame, header, heartbeat

from links.amqp import events
from links.amqp.client import AmqpClient, ClientState
from links.amqp.contents import ArrivingContent, ContentError
from links.amqp.opening import FRAME_MAX, ClientTerms
from native import content as contents

START = commands.Connection.Start(0, 9, {"product": "Scripted"}, "PLAIN EXTERNAL", "en_US")
TUNE = commands.Connection.Tune(2047, 131072, 60)


def terms(**changes: Any) -> ClientTerms:
    given_terms: dict[str, Any] = {
        "vhost": "/", "mechanism": "PLAIN", "user": "ada", "password": "secret", "heartbeat_s": 10,
    }  # fmt: skip
    return ClientTerms(**{**given_terms, **changes})


def said(client: AmqpClient, now: float = 0.0) -> list[Any]:
    """What the client wants to send, as pamqp reads it."""
    wire, read = client.data_to_send(now), []
    while wire:
        if wire.startswith(b"AMQP"):
            wire = wire[8:]
            continue
        size, _, value = frame.unmarshal(wire)
        read.append(value)
        wire = wire[size:]
    return read


def running(**changes: Any) -> AmqpClient:
    client = AmqpClient(terms(**changes), 0.0)
    client.begin()
    for method in (START, TUNE, commands.Connection.OpenOk()):
        client.receive_data(frame.marshal(method, 0), 0.0)
    assert client.state is ClientState.RUNNING
    said(client)
    return client


def message(method: Any, text: bytes, channel: int = 1, **properties: Any) -> bytes:
    head = header.ContentHeader(body_size=len(text), properties=commands.Basic.Properties(**properties))
    wire = frame.marshal(method, channel) + frame.marshal(head, channel)
    return wire + (frame.marshal(body.ContentBody(text), channel) if text else b"")


class TestHandshake:
    def test_a_login_with_a_password_is_said_as_the_protocol_has_it(self) -> None:
        client = AmqpClient(terms(vhost="v"), 0.0)
        client.begin()
        assert client.data_to_send(0.0) == b"AMQP\x00\x00\x09\x01"
        assert client.receive_data(frame.marshal(START, 0), 0.0) == []
        (start_ok,) = said(client)
        assert (start_ok.mechanism, start_ok.response) == ("PLAIN", "\0ada\0secret")
        assert start_ok.client_properties["capabilities"]["basic.nack"] is True
        client.receive_data(frame.marshal(TUNE, 0), 0.0)
        tune_ok, opened = said(client)
        assert (tune_ok.frame_max, tune_ok.heartbeat, opened.virtual_host) == (131072, 10, "v")
        assert client.receive_data(frame.marshal(commands.Connection.OpenOk(), 0), 0.0) == [
            events.Opened({"product": "Scripted"})
        ]

    def test_a_certificate_needs_no_password(self) -> None:
        client = AmqpClient(terms(mechanism="EXTERNAL"), 0.0)
        client.receive_data(frame.marshal(START, 0), 0.0)
        (start_ok,) = said(client)
        assert (start_ok.mechanism, start_ok.response) == ("EXTERNAL", "")

    def test_a_login_that_the_broker_does_not_offer_ends_it(self) -> None:
        client = AmqpClient(terms(mechanism="EXTERNAL"), 0.0)
        (ended,) = client.receive_data(frame.marshal(commands.Connection.Start(mechanisms="PLAIN"), 0), 0.0)
        assert ended == events.ConnectionClosed(0, "the broker has no EXTERNAL login, it has PLAIN")

    def test_a_refused_login_is_told_with_its_code(self) -> None:
        client = AmqpClient(terms(), 0.0)
        client.receive_data(frame.marshal(START, 0), 0.0)
        close = commands.Connection.Close(403, "ACCESS_REFUSED", 0, 0)
        assert client.receive_data(frame.marshal(close, 0), 0.0) == [events.ConnectionClosed(403, "ACCESS_REFUSED")]
        assert [type(one) for one in said(client)][-1] is commands.Connection.CloseOk

    def test_frames_below_the_least_size_end_it(self) -> None:
        client = AmqpClient(terms(), 0.0)
        client.receive_data(frame.marshal(START, 0), 0.0)
        (ended,) = client.receive_data(frame.marshal(commands.Connection.Tune(0, 100, 0), 0), 0.0)
        assert "frames of 100 bytes" in ended.text  # type: ignore[union-attr]

    def test_another_protocol_version_is_named_as_such(self) -> None:
        client = AmqpClient(terms(), 0.0)
        (ended,) = client.receive_data(b"AMQP\0\1\0\0", 0.0)
        assert "another version of the protocol" in ended.text  # type: ignore[union-attr]

    def test_no_password_is_in_its_description(self) -> None:
        assert "secret" not in repr(terms())


class TestMessages:
    def test_runs_of_deliveries_are_one_event(self) -> None:
        wire = b"".join(message(commands.Basic.Deliver("c", n, False, "e", "k"), b"%d" % n) for n in (1, 2, 3))
        (run,) = running().receive_data(wire, 0.0)
        assert isinstance(run, events.Delivered)
        assert (run.first_tag, run.count, run.exchange, run.routing_key) == (1, 3, b"e", b"k")
        assert [text for _, text in contents.messages(run.content, 0, 3)] == [b"1", b"2", b"3"]

    def test_a_delivery_that_is_interrupted_arrives_whole(self) -> None:
        wire = message(commands.Basic.Deliver("c", 5, True, "e", "k"), b"text", delivery_mode=2)
        method_bytes = len(frame.marshal(commands.Basic.Deliver("c", 5, True, "e", "k"), 1))
        beat = frame.marshal(heartbeat.Heartbeat(), 0)
        (run,) = running().receive_data(wire[:method_bytes] + beat + wire[method_bytes:], 0.0)
        assert isinstance(run, events.Delivered)
        assert (run.first_tag, run.redelivered, run.persistent) == (5, True, True)
        assert [text for _, text in contents.messages(run.content, 0, 1)] == [b"text"]

    def test_a_return_comes_with_its_body(self) -> None:
        wire = message(commands.Basic.Return(312, "NO_ROUTE", "e", "k"), b"back")
        assert running().receive_data(wire, 0.0) == [
            events.PublishReturned(1, 312, "NO_ROUTE", "e", "k", b"\0\0", b"back")
        ]

    def test_a_run_is_published_with_one_call(self) -> None:
        client = running()
        run = b"".join(contents.encode(b"\0\0", text) for text in (b"a", b"b"))
        client.publish(1, b"e", b"k", run, 0, 2, mandatory=True)
        names = [one.name for one in said(client)]
        assert names == ["Basic.Publish", "ContentHeader", "ContentBody"] * 2

    def test_messages_are_acknowledged_in_ranges_and_given_back_one_by_one(self) -> None:
        client = running()
        client.acknowledge(1, 1, 4, multiple=True)
        assert [(one.delivery_tag, one.multiple) for one in said(client)] == [(4, True)]
        client.acknowledge(1, 6, 7, multiple=False)
        assert [(one.name, one.delivery_tag, one.multiple) for one in said(client)] == [
            ("Basic.Ack", 6, False),
            ("Basic.Ack", 7, False),
        ]
        client.nack(1, 8, 9)
        assert [(one.name, one.delivery_tag, one.multiple, one.requeue) for one in said(client)] == [
            ("Basic.Nack", 8, False, True),
            ("Basic.Nack", 9, False, True),
        ]

    def test_a_run_that_is_divided_is_two_with_what_each_has(self) -> None:
        wire = b"".join(message(commands.Basic.Deliver("c", n, False, "e", "k"), b"x" * n) for n in range(1, 6))
        (run,) = running().receive_data(wire, 0.0)
        assert isinstance(run, events.Delivered)
        parts = run.divided(2)
        assert [(one.first_tag, one.count, one.body_bytes) for one in parts] == [(1, 2, 3), (3, 3, 12)]
        for one in parts:
            sizes = [len(text) for _, text in contents.messages(one.content, 0, one.count)]
            assert sizes == list(range(one.first_tag, one.first_tag + one.count))

    def test_confirms_are_ranges(self) -> None:
        wire = b"".join(frame.marshal(commands.Basic.Ack(n, False), 1) for n in (1, 2, 3))
        wire += frame.marshal(commands.Basic.Nack(7, True), 1)
        assert running().receive_data(wire, 0.0) == [
            events.Confirmed(1, 1, 3, False, True),
            events.Confirmed(1, 7, 7, True, False),
        ]

    def test_what_the_broker_says_of_its_state_is_told(self) -> None:
        client = running()
        wire = frame.marshal(commands.Connection.Blocked("low on memory"), 0)
        wire += frame.marshal(commands.Connection.Unblocked(), 0) + frame.marshal(commands.Channel.Flow(False), 1)
        wire += frame.marshal(commands.Basic.Cancel("c"), 1)
        wire += frame.marshal(commands.Channel.Close(404, "NOT_FOUND", 50, 10), 1)
        assert client.receive_data(wire, 0.0) == [
            events.Blocked("low on memory"),
            events.Blocked(None),
            events.Flow(1, False),
            events.Cancelled(1, "c"),
            events.ChannelClosed(1, 404, "NOT_FOUND"),
        ]
        assert [one.name for one in said(client)] == ["Channel.FlowOk", "Channel.CloseOk"]


class TestTime:
    def test_it_beats_while_it_has_nothing_to_say(self) -> None:
        client = running()
        assert client.tick(4.0) == [] and said(client, 4.0) == []
        client.tick(5.0)
        assert [type(one) for one in said(client, 5.0)] == [heartbeat.Heartbeat]

    def test_a_silent_broker_is_given_up_after_two_intervals(self) -> None:
        client = running()
        assert client.tick(20.0) == []
        assert client.tick(20.1) == [events.ConnectionClosed(0, "the broker sent nothing for 20 s")]

    def test_one_that_speaks_is_not_given_up_and_one_that_is_spoken_to_needs_no_beat(self) -> None:
        client = running()
        for now in range(5, 105, 5):
            client.receive_data(frame.marshal(commands.Basic.Ack(now, False), 1), now)
            client.send(1, "basic.ack", delivery_tag=now, multiple=False)
            assert [one.name for one in said(client, now)] == ["Basic.Ack"]
            assert client.tick(now + 4.9) == [] and said(client, now + 4.9) == []

    def test_a_broker_that_is_not_read_is_not_silent(self) -> None:
        client = running()
        client.not_read(15.0)
        assert client.tick(34.9) == []
        assert len(client.tick(35.1)) == 1

    def test_without_heartbeats_nobody_is_given_up(self) -> None:
        assert running(heartbeat_s=0).tick(1e9) == []


class TestEnds:
    def test_a_goodbye_is_answered(self) -> None:
        client = running()
        client.close()
        assert [one.name for one in said(client)] == ["Connection.Close"]
        ok = frame.marshal(commands.Connection.CloseOk(), 0)
        assert client.receive_data(ok, 0.0) == [events.ConnectionClosed(200, "Goodbye")]
        assert client.receive_data(ok, 0.0) == []

    @pytest.mark.parametrize(
        "wire",
        [
            b"\1\0\0\0\0\0\4\0\0\0\0\xce",  # no such method
            b"\1\0\0\0\0\0\4\0\x0a\0\x1e\xce",  # a tune without arguments
            b"\2\0\1\0\0\0\0\xce",  # a header without a method
            b"\x07\0\0\0\0\0\0\xce",
            frame.marshal(commands.Connection.OpenOk(), 0),
        ],
        ids=["unknown method", "arguments are missing", "a stray header", "unknown frame", "in the wrong state"],
    )
    def test_what_breaks_the_protocol_ends_the_connection(self, wire: bytes) -> None:
        client = running()
        (ended,) = client.receive_data(wire + frame.marshal(commands.Basic.Cancel("c"), 1), 0.0)
        assert isinstance(ended, events.ConnectionClosed)
        assert ended.text.startswith("the broker broke the protocol: ")
        assert [one.name for one in said(client)] == ["Connection.Close"]


def everything() -> bytes:
    methods = (
        START, TUNE, commands.Connection.OpenOk(), commands.Channel.OpenOk(), commands.Basic.ConsumeOk("c"),
        commands.Connection.Blocked("x"),
    )  # fmt: skip
    wire = b"".join(frame.marshal(method, 0 if method.name.startswith("Connection") else 1) for method in methods)
    wire += b"".join(message(commands.Basic.Deliver("c", n, False, "e", "k"), b"x" * n * 7) for n in range(1, 5))
    wire += message(commands.Basic.Return(312, "NO_ROUTE", "e", "k"), b"back")
    wire += b"".join(frame.marshal(commands.Basic.Ack(n, False), 1) for n in (1, 2))
    return wire + frame.marshal(commands.Connection.Close(320, "CONNECTION_FORCED", 0, 0), 0)


def heard(pieces: list[bytes]) -> list[Any]:
    """Events of a whole conversation; deliveries and confirms one by one, for their runs depend on how bytes arrive."""
    client = AmqpClient(terms(), 0.0)
    client.begin()
    flat: list[Any] = []
    for piece in pieces:
        for event in client.receive_data(piece, 0.0):
            if isinstance(event, events.Delivered):
                messages = contents.messages(event.content, 0, event.count)
                flat += [(event.first_tag + place, *one) for place, one in enumerate(messages)]
            elif isinstance(event, events.Confirmed):
                flat += [("confirmed", tag) for tag in range(event.first, event.last + 1)]
            else:
                flat.append(event)
    assert client.closed
    return flat


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_bytes_in_small_pieces_say_the_same(size: int) -> None:
    wire = everything()
    assert heard([wire[at : at + size] for at in range(0, len(wire), size)]) == heard([wire])


def test_cut_in_two_at_every_byte_the_same_is_heard() -> None:
    wire = everything()
    whole = heard([wire])
    assert all(heard([wire[:at], wire[at:]]) == whole for at in range(1, len(wire)))


@given(st.binary(max_size=200))
def test_whatever_comes_it_raises_nothing(noise: bytes) -> None:
    client = running()
    client.receive_data(noise, 0.0)
    client.tick(5.0)
    said(client)


DELIVER = commands.Basic.Deliver("c", 1, False, "e", "k")


def begun(channel: int, size: int) -> bytes:
    """A message that is announced, and of which no body has come."""
    return frame.marshal(DELIVER, channel) + frame.marshal(header.ContentHeader(body_size=size), channel)


def test_messages_begun_on_very_many_channels_do_not_fill_the_memory() -> None:
    client = running(message_bytes_max=1_000)
    # A heartbeat between its frames, so that the message is put together frame by frame.
    beat = frame.marshal(heartbeat.Heartbeat(), 0)
    heard_of = [
        client.receive_data(
            begun(channel, 500) + beat + frame.marshal(body.ContentBody(b"x" * 400), channel) + beat, 0.0
        )
        for channel in (1, 2, 3)
    ]
    assert heard_of[:2] == [[], []]
    (end,) = heard_of[2]
    assert "messages of 1200 bytes arrive at once" in end.text


def test_messages_that_have_arrived_or_were_broken_off_count_no_more() -> None:
    """Of 600 bytes each: two at once are too many."""
    client = running(message_bytes_max=1_000)
    beat = frame.marshal(heartbeat.Heartbeat(), 0)
    for channel in (1, 2, 3):
        half = beat + frame.marshal(body.ContentBody(b"x" * 300), channel) + beat
        assert client.receive_data(begun(channel, 600) + half, 0.0) == []
        (arrived,) = client.receive_data(half, 0.0)
        assert isinstance(arrived, events.Delivered)
    half = beat + frame.marshal(body.ContentBody(b"x" * 300), 1) + beat
    for _ in range(5):
        client.receive_data(begun(1, 600) + half, 0.0)
        (closed,) = client.receive_data(frame.marshal(commands.Channel.Close(404, "NOT_FOUND", 50, 10), 1), 0.0)
        assert isinstance(closed, events.ChannelClosed)
    for _ in range(5):
        assert client.receive_data(begun(1, 600) + half, 0.0) == [], "a method begins the next one"


def test_a_body_behind_the_end_of_its_channel_belongs_to_nothing() -> None:
    client = running()
    client.receive_data(begun(1, 2) + frame.marshal(heartbeat.Heartbeat(), 0), 0.0)
    client.receive_data(frame.marshal(commands.Channel.Close(404, "NOT_FOUND", 50, 10), 1), 0.0)
    (end,) = client.receive_data(frame.marshal(body.ContentBody(b"xx"), 1), 0.0)
    assert isinstance(end, events.ConnectionClosed)


class TestContents:
    """links/amqp/contents.py."""

    @pytest.mark.parametrize(
        ("wire", "why"),
        [
            (b"\0\x3c\0\0\0", "too short"),
            (b"\0\x3d\0\0" + bytes(8) + b"\0\0", "a content of class 61"),
            (b"\0\x3c\0\0" + (101).to_bytes(8, "big") + b"\0\0", "with 101 bytes, at most 100"),
        ],
    )
    def test_headers_that_are_none_are_refused(self, wire: bytes, why: str) -> None:
        with pytest.raises(ContentError, match=why):
            ArrivingContent(b"", 100).take_header(wire)

    def test_a_second_header_is_refused(self) -> None:
        content, head = ArrivingContent(b"", 100), b"\0\x3c\0\0" + (100).to_bytes(8, "big") + b"\0\0"
        assert content.take_header(head) is False
        with pytest.raises(ContentError, match="not expected"):
            content.take_header(head)

    def test_bodies_come_behind_a_header_and_are_no_larger_than_announced(self) -> None:
        content = ArrivingContent(b"", 100)
        with pytest.raises(ContentError, match="not expected"):
            content.take_body(b"")
        content.take_header(b"\0\x3c\0\0" + (3).to_bytes(8, "big") + b"\0\0")
        assert content.take_body(b"ab") is False
        with pytest.raises(ContentError, match="larger than announced"):
            content.take_body(b"cd")
        assert content.take_body(b"c") is True
        assert bytes(content.body) == b"abc"


@pytest.mark.parametrize(
    ("asked", "offered", "agreed"),
    [(0, 0, FRAME_MAX), (0, 65_536, 65_536), (8_192, 0, 8_192), (8_192, 65_536, 8_192), (65_536, 8_192, 8_192)],
)
def test_the_smaller_frame_counts_and_0_is_no_wish(asked: int, offered: int, agreed: int) -> None:
    client = AmqpClient(terms(frame_max=asked), 0.0)
    client.receive_data(frame.marshal(START, 0), 0.0)
    client.receive_data(frame.marshal(commands.Connection.Tune(0, offered, 0), 0), 0.0)
    assert client.agreed.frame_max == agreed


@pytest.mark.parametrize(("asked", "offered", "agreed"), [(0, 60, 0), (10, 0, 10), (10, 60, 10), (60, 10, 10)])
def test_the_shorter_heartbeat_counts_and_whoever_wants_none_has_none(asked: int, offered: int, agreed: int) -> None:
    client = AmqpClient(terms(heartbeat_s=asked), 0.0)
    client.receive_data(frame.marshal(START, 0), 0.0)
    client.receive_data(frame.marshal(commands.Connection.Tune(0, 0, offered), 0), 0.0)
    assert client.agreed.heartbeat_s == agreed


def test_a_broker_that_asks_for_more_than_a_password_ends_it() -> None:
    client = AmqpClient(terms(), 0.0)
    client.receive_data(frame.marshal(START, 0), 0.0)
    (ended,) = client.receive_data(frame.marshal(commands.Connection.Secure("more"), 0), 0.0)
    assert ended == events.ConnectionClosed(0, "the broker asks for more than PLAIN has to say")


def test_who_is_not_logged_in_says_no_goodbye() -> None:
    client = AmqpClient(terms(), 0.0)
    client.close()
    assert (said(client), client.state) == ([], ClientState.START)


def test_body_frames_without_a_byte_are_not_kept() -> None:
    client = running()
    beat = frame.marshal(heartbeat.Heartbeat(), 0)
    empty = frame.marshal(body.ContentBody(b""), 1) + beat
    client.receive_data(begun(1, 1) + beat, 0.0)
    tracemalloc.start()
    for _ in range(20_000):
        client.receive_data(empty, 0.0)
    assert tracemalloc.get_traced_memory()[0] < 50_000
    tracemalloc.stop()
    (message_there,) = client.receive_data(frame.marshal(body.ContentBody(b"x"), 1), 0.0)
    assert message_there.body_bytes == 1
