"""The channel as a session's sink: deliveries, returns, confirms, and errors that come later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pamqp import body, commands, frame, header

from broker.errors import NotAllowed, NotFound, ResourceExhausted
from broker.messages.message import Run
from broker.queues.queue_type import Slice
from front.amqp.states import ConnectionState
from native.content import encode
from tests.unit.front.amqp.client import NOW, Client, names, publish, shown
from tests.unit.front.amqp.fakes import FakeQueue
from wire.amqp.tables import encode_properties


def piece(count: int, position: int = 0, **more: Any) -> Slice:
    return Slice(None, None, 0, count, position, "ex", "key", **more)  # type: ignore[arg-type]


CONSUMER: Any = SimpleNamespace(tag="täg")


def test_a_slice_is_delivered_from_its_position_with_rising_tags() -> None:
    client = Client().connect()
    content = b"".join(encode(b"\x10\x00\x02", bytes([65 + number])) for number in range(4))
    client.core.channels[1].deliver(CONSUMER, 7, piece(2, len(content) // 4, redelivered=True), content)
    said = shown(client.take())
    expected = {"consumer_tag": "täg", "redelivered": True, "exchange": "ex", "routing_key": "key"}
    assert said == [
        (1, ("Basic.Deliver", {**expected, "delivery_tag": 7})), (1, ("header", 1)), (1, ("body", b"B")),
        (1, ("Basic.Deliver", {**expected, "delivery_tag": 8})), (1, ("header", 1)), (1, ("body", b"C")),
    ]  # fmt: skip


def test_headers_of_the_queue_are_delivered() -> None:
    client = Client().connect()
    content = encode(b"\x00\x00", b"x")
    client.core.channels[1].deliver(CONSUMER, 1, piece(1, headers={"x-stream-offset": 2**40}), content)
    said = client.take()
    assert said[1][1].properties.headers == {"x-stream-offset": 2**40}


def test_each_message_of_a_stream_is_delivered_with_its_offset() -> None:
    client = Client().connect()
    mine = encode_properties({"headers": {"mine": "x"}, "delivery_mode": 2})
    content = encode(b"\x00\x00", b"skipped") + encode(b"\x00\x00", b"A") + encode(mine, b"B") * 2
    start = len(encode(b"\x00\x00", b"skipped"))
    client.core.channels[1].deliver(
        CONSUMER, 7, piece(3, start, offset=2**40, headers={"x-delivery-count": 1}), content
    )
    said = client.take()
    added = {"x-delivery-count": 1}
    assert [one.properties.headers for _, one in said if isinstance(one, header.ContentHeader)] == [
        {**added, "x-stream-offset": 2**40},
        {"mine": "x", **added, "x-stream-offset": 2**40 + 1},
        {"mine": "x", **added, "x-stream-offset": 2**40 + 2},
    ]
    assert [one.value for _, one in said if isinstance(one, body.ContentBody)] == [b"A", b"B", b"B"]
    assert [one.delivery_tag for _, one in said if isinstance(one, commands.Basic.Deliver)] == [7, 8, 9]


def test_every_message_of_a_run_is_returned() -> None:
    client = Client().connect()
    run = Run("ex", "key", encode(b"\x00\x00", b"one") + encode(b"\x00\x00", b"two"), 2, 6)
    client.core.channels[1].returned(run, 312, "NO_ROUTE")
    said = shown(client.take())
    returned = ("Basic.Return", {"reply_code": 312, "reply_text": "NO_ROUTE", "exchange": "ex", "routing_key": "key"})
    assert said == [
        (1, returned), (1, ("header", 3)), (1, ("body", b"one")),
        (1, returned), (1, ("header", 3)), (1, ("body", b"two")),
    ]  # fmt: skip


def test_a_closing_channel_is_silent() -> None:
    client = Client().connect()
    channel = client.core.channels[1]
    client.broker.refuse["purge_queue"] = NotFound("gone")
    client.say(1, commands.Queue.Purge(queue="q"))
    channel.confirm(1, 5, True, True)
    channel.cancelled("t")
    channel.resume(0)
    channel.permissions_changed()
    assert client.take() == []


def test_a_late_error_answers_the_method_that_asked_and_what_was_held_is_ignored() -> None:
    client = Client().connect()
    client.broker.answers_later = True
    client.say(1, commands.Queue.Declare(queue="q"), commands.Basic.Qos(prefetch_count=1))
    (pending, _), *_ = client.broker.pending
    client.broker.pending.clear()
    pending.fail(NotFound("no majority"))
    said = client.take()
    assert names(said) == ["Channel.Close"]
    assert (said[0][1].class_id, said[0][1].method_id) == (50, 10)
    assert names(client.say(1, commands.Channel.CloseOk(), commands.Channel.Open())) == ["Channel.OpenOk"]


def test_a_late_error_on_a_channel_that_was_closed_meanwhile_leaves_its_connection_alone() -> None:
    client = Client().connect(capabilities={})
    client.broker.answers_later = True
    client.say(1, commands.Queue.Declare(queue="q"))
    client.core.channels[1].timed_out("t")
    client.broker.pending.pop()[0].fail(NotAllowed("an error of the whole connection, were the channel there"))
    assert names(client.take()) == ["Channel.Close"]


def test_consumers_that_end_with_a_queue_hear_that_behind_an_answer_that_comes_later() -> None:
    client = Client().connect()
    client.say(1, commands.Queue.Declare(queue="q"), commands.Basic.Consume(queue="q", consumer_tag="t"))
    client.broker.answers_later = True
    assert client.say(1, commands.Queue.Delete(queue="q")) == []
    client.broker.answer_all()
    assert names(client.take()) == ["Queue.DeleteOk", "Basic.Cancel"]


def test_a_number_opened_again_behind_a_held_close_ok_is_a_new_channel() -> None:
    client = Client().connect()
    client.broker.answers_later = True
    client.say(1, commands.Queue.Declare(queue="q"))
    client.broker.pending.pop()[0].fail(NotFound("no majority"))
    client.broker.answers_later = False
    # the channel still holds back what arrives, since its turn to go on has not come
    behind = [commands.Channel.CloseOk(), commands.Channel.Open(), commands.Basic.Qos(prefetch_count=1)]
    client.core.receive_data(b"".join(frame.marshal(value, 1) for value in behind), NOW)
    client.core.receive_data(publish("q", b"1") + frame.marshal(commands.Queue.Declare(queue="q"), 1), NOW)
    assert names(client.take()) == ["Channel.Close", "Channel.OpenOk", "Basic.QosOk", "Queue.DeclareOk"]
    assert client.core.pressure.waiting_bytes == 0
    assert [call[0] for call in client.broker.calls][-3:] == ["set_prefetch", "publish_raw", "declare_queue"]


def test_a_second_close_ok_behind_a_held_one_is_an_error_of_the_connection() -> None:
    client = Client().connect()
    client.broker.answers_later = True
    client.say(1, commands.Queue.Declare(queue="q"))
    client.broker.pending.pop()[0].fail(NotFound("no majority"))
    client.core.receive_data(frame.marshal(commands.Channel.CloseOk(), 1) * 2, NOW)
    assert names(client.take()) == ["Channel.Close", "Connection.Close"]
    assert client.core.kept_bytes == 0


def test_an_answer_that_comes_after_the_connection_failed_changes_nothing() -> None:
    client = Client().connect()
    client.broker.answers_later = True
    client.say(1, commands.Queue.Declare(queue="q"))
    client.core.receive_data(frame.marshal(commands.Channel.CloseOk(), 1) * 2, NOW)
    assert names(client.say(0, commands.Channel.Open())) == ["Connection.Close"]
    client.broker.answer_all()
    assert client.take() == []
    client.say(0, commands.Connection.CloseOk())
    assert client.core.state is ConnectionState.CLOSED


def test_runs_waiting_behind_an_answer_keep_their_order() -> None:
    client = Client().connect()
    client.broker.answers_later = True
    client.say(1, commands.Tx.Select(), commands.Tx.Commit())
    client.give(publish("q", b"1") + publish("r", b"2"))
    client.say(1, commands.Tx.Commit())
    client.give(publish("q", b"3"))
    calls = client.broker.calls
    assert [call[0] for call in calls] == ["select_transactions", "commit"]
    client.broker.answer_all()
    assert names(client.take()) == ["Tx.CommitOk"]
    assert [call[0] for call in calls][2:] == ["publish_raw", "publish_raw", "commit"]
    client.broker.answer_all()
    client.take()
    assert [call[2] for call in calls if call[0] == "publish_raw"] == ["q", "r", "q"]


@pytest.mark.parametrize("large", [False, True], ids=["as a run", "frame by frame"])
def test_what_follows_a_publish_that_is_still_under_way_waits_for_it(large: bool) -> None:
    client = Client().connect()
    client.broker.queues["q"] = FakeQueue("q")
    client.broker.fans_out = client.broker.answers_later = True
    client.give(publish("q", b"1" * (client.core.frame_max if large else 1)))
    client.broker.fans_out = client.broker.answers_later = False
    client.give(publish("q", b"2"))
    assert client.say(1, commands.Basic.Get(queue="q")) == []
    assert len(client.broker.queues["q"].ready) == 1
    client.broker.answer_all()
    assert names(client.take())[0] == "Basic.GetOk"
    assert len(client.broker.queues["q"].ready) == 1, "the second one"


def test_a_publish_that_fails_under_way_is_told_as_one_that_fails_at_once() -> None:
    client = Client().connect()
    client.broker.fans_out = client.broker.answers_later = True
    client.give(publish("q", b"1"))
    ((pending, _),) = client.broker.pending
    pending.fail(ResourceExhausted("the disk failed"))
    ((_, close),) = client.take()
    assert (close.name, close.reply_code, close.class_id, close.method_id) == ("Connection.Close", 506, 60, 40)


def test_a_client_whose_consumer_did_not_settle_in_time_hears_that_or_loses_its_channel() -> None:
    client = Client().connect()
    client.core.channels[1].timed_out("t")
    ((number, cancel),) = client.take()
    assert (number, cancel.name, cancel.consumer_tag) == (1, "Basic.Cancel", "t")
    old = Client().connect(capabilities={})
    channel = old.core.channels[1]
    channel.timed_out("t")
    channel.timed_out("other")
    ((number, close),) = old.take()
    assert (number, close.name, close.reply_code) == (1, "Channel.Close", 406)
    assert close.reply_text == "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out for consumer 't'"
