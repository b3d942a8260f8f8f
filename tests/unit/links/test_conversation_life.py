"""links/amqp/conversation.py from its first try to its end: sockets that come late or never, silence, and goodbyes."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands, frame, heartbeat

from links.amqp.conversation import CANCELLED, GOODBYE_TIMEOUT_S, Conversation, Steps, tls_terms
from links.amqp.events import Confirmed, Delivered, PublishReturned
from links.amqp.uri import parse_uri
from links.world import Cancel, SocketUser, TlsTerms
from tests.unit.links.hand_clock import HandClock
from tests.unit.links.test_amqp_client import START, TUNE, message, terms

HEARTBEAT_S = 10


class Wire:
    """The net, its one socket, and the user of the conversation, each with what was asked of it."""

    def __init__(self, uri: str = "amqp://h", **changes: Any) -> None:
        self.clock = HandClock()
        self.told: list[Any] = []  # to the user
        self.wire: list[str] = []  # methods that were written
        self.socket: list[str] = []  # what was asked of the socket
        self.connects: list[tuple[str, int, TlsTerms | None, float]] = []
        self.given_up = 0
        self.conversation = Conversation(parse_uri(uri), terms(**changes), self._steps(), self, self.clock, self)
        self.conversation.open()

    def _steps(self) -> Steps:
        yield 1, "channel.open", {}
        return "set up"

    def connected(self) -> Wire:
        self.conversation.connected(self)
        return self

    def running(self) -> Wire:
        self.connected().say(0, START, TUNE, commands.Connection.OpenOk())
        self.say(1, commands.Channel.OpenOk())
        assert self.told == ["set up"]
        self.told.clear()
        self.wire.clear()
        return self

    def say(self, channel: int, *methods: Any) -> None:
        for method in methods:
            self.conversation.received(frame.marshal(method, channel))

    # the net and the socket

    def connect(self, host: str, port: int, tls: TlsTerms | None, timeout_s: float, events: SocketUser) -> Cancel:
        assert events is self.conversation
        self.connects.append((host, port, tls, timeout_s))
        return self._give_up

    def _give_up(self) -> None:
        self.given_up += 1

    def write(self, data: bytes) -> None:
        while data:
            size, _, one = frame.unmarshal(data) if not data.startswith(b"AMQP") else (8, 0, None)
            data = data[size:]
            self.wire.append("AMQP" if one is None else one.name)

    def pause_reading(self) -> None:
        self.socket.append("pause")

    def resume_reading(self) -> None:
        self.socket.append("resume")

    def abort(self) -> None:
        self.socket.append("abort")

    # the user

    def ready(self, result: Any) -> None:
        self.told.append(result)

    def delivered(self, run: Delivered) -> None:
        self.told.append(("delivered", run.first_tag, run.count))

    def confirmed(self, confirmed: Confirmed) -> None:
        self.told.append(confirmed)

    def returned(self, returned: PublishReturned) -> None:
        self.told.append(("returned", returned.body))

    def blocked(self, reason: str | None) -> None:
        self.told.append(("blocked", reason))

    def writable(self, writable: bool) -> None:
        self.told.append(("writable", writable))

    def ended(self, reason: str) -> None:
        self.told.append(("ended", reason))


class TestBegin:
    def test_it_says_hello_logs_in_and_asks_once_it_is_connected(self) -> None:
        wire = Wire()
        assert (wire.connects, wire.wire) == ([("h", 5672, None, 60.0)], [])
        wire.connected()
        assert wire.wire == ["AMQP"]
        wire.say(0, START, TUNE)
        assert wire.wire[1:] == ["Connection.StartOk", "Connection.TuneOk", "Connection.Open"]
        wire.say(0, commands.Connection.OpenOk())
        assert wire.wire[4:] == ["Channel.Open"]

    def test_tls_is_spoken_where_the_uri_says_so(self) -> None:
        ((_, port, tls, _),) = Wire("amqps://h").connects
        assert (port, tls) == (5671, TlsTerms("h", True))

    @pytest.mark.parametrize(
        ("query", "name"), [("", "h"), ("?server_name_indication=other", "other")], ids=["of the host", "of its own"]
    )
    def test_the_name_that_a_certificate_must_have(self, query: str, name: str) -> None:
        terms = tls_terms(parse_uri(f"amqps://h{query}"))
        assert (terms.server_name, terms.checks_name) == (name, True)

    def test_no_name_is_said_or_asked_for_where_that_is_disabled(self) -> None:
        terms = tls_terms(parse_uri("amqps://h?server_name_indication=disable"))
        assert terms == TlsTerms("", verify=True, checks_name=False)

    def test_the_password_of_a_key_is_in_no_text(self) -> None:
        terms = tls_terms(parse_uri("amqps://h?password=secret"))
        assert terms.key_password == "secret"
        assert "secret" not in repr(terms)

    def test_one_that_is_not_connected_in_time_is_given_up(self) -> None:
        wire = Wire("amqp://h?connection_timeout=2000")
        wire.clock.advance(1.9)
        assert (wire.told, wire.given_up) == ([], 0)
        wire.clock.advance(0.2)
        assert (wire.told, wire.given_up) == ([("ended", "no connection within 2000 ms")], 1)

    def test_a_broker_that_connects_and_says_nothing_is_given_up_too(self) -> None:
        wire = Wire("amqp://h?connection_timeout=2000").connected()
        wire.clock.advance(2.1)
        assert (wire.told, wire.given_up) == ([("ended", "no connection within 2000 ms")], 0)
        wire.clock.advance(GOODBYE_TIMEOUT_S)
        assert wire.socket == ["abort"]

    def test_one_that_has_opened_is_not_given_up_for_its_age(self) -> None:
        wire = Wire("amqp://h?connection_timeout=2000&heartbeat=0", heartbeat_s=0).running()
        wire.clock.advance(100)
        assert (wire.told, wire.socket) == ([], [])

    def test_one_that_was_closed_before_it_was_connected_is_given_up_and_the_late_socket_closed(self) -> None:
        wire = Wire()
        wire.conversation.close()
        assert wire.given_up == 1
        wire.connected()
        assert (wire.socket, wire.wire, wire.told) == (["abort"], [], [])

    def test_one_that_cannot_be_opened_says_why(self) -> None:
        wire = Wire()
        wire.conversation.lost("refused")
        wire.clock.advance(1000)
        assert (wire.told, wire.given_up) == ([("ended", "refused")], 0)


class TestTold:
    def test_what_the_broker_says_reaches_its_user(self) -> None:
        wire = Wire().running()
        wire.conversation.received(message(commands.Basic.Deliver("c", 1, False, "e", "k"), b"a"))
        wire.conversation.received(message(commands.Basic.Return(312, "NO_ROUTE", "e", "k"), b"back"))
        wire.say(1, commands.Basic.Ack(1, False))
        wire.say(0, commands.Connection.Blocked("low on memory"), commands.Connection.Unblocked())
        wire.conversation.writable(False)
        assert wire.told == [
            ("delivered", 1, 1),
            ("returned", b"back"),
            Confirmed(1, 1, 1, False, True),
            ("blocked", "low on memory"),
            ("blocked", None),
            ("writable", False),
        ]

    def test_a_channel_without_flow_is_blocked_and_its_answer_is_written(self) -> None:
        wire = Wire().running()
        wire.say(1, commands.Channel.Flow(False))
        assert (wire.told, wire.wire) == ([("blocked", "the broker stopped the channel's flow")], ["Channel.FlowOk"])
        wire.say(1, commands.Channel.Flow(True))
        assert wire.told[1:] == [("blocked", None)]

    def test_it_reads_no_more_while_it_is_paused(self) -> None:
        wire = Wire().running()
        wire.conversation.pause()
        wire.conversation.resume()
        assert wire.socket == ["pause", "resume"]

    def test_pausing_one_that_is_not_connected_waits_for_nothing(self) -> None:
        wire = Wire()
        wire.conversation.pause()
        wire.conversation.resume()
        assert wire.socket == []


class TestSilence:
    def test_a_broker_that_says_nothing_is_given_up_after_two_intervals(self) -> None:
        wire = Wire().running()
        wire.clock.advance(2 * HEARTBEAT_S + 2)
        assert wire.told == [("ended", f"the broker sent nothing for {2 * HEARTBEAT_S} s")]
        assert wire.socket == ["abort"]

    def test_one_that_beats_is_not_and_is_beaten_to(self) -> None:
        wire = Wire().running()
        for _ in range(20):
            wire.clock.advance(HEARTBEAT_S)
            wire.conversation.received(frame.marshal(heartbeat.Heartbeat(), 0))
        assert wire.told == []
        assert 20 <= wire.wire.count("Heartbeat") <= 50

    def test_one_that_is_not_read_is_not_silent(self) -> None:
        """It was given up in the middle of a large queue, as often as it took longer than the heartbeat."""
        wire = Wire().running()
        wire.conversation.pause()
        wire.clock.advance(10 * HEARTBEAT_S)
        assert wire.told == []
        wire.conversation.resume()
        wire.clock.advance(HEARTBEAT_S)
        assert wire.told == [], "it has two intervals from then on"
        wire.clock.advance(HEARTBEAT_S + 2)
        assert wire.told != []


class TestEnd:
    def test_a_goodbye_is_said_and_nothing_is_told_any_more(self) -> None:
        wire = Wire().running()
        wire.conversation.close()
        assert wire.wire == ["Connection.Close"]
        wire.conversation.received(message(commands.Basic.Deliver("c", 1, False, "e", "k"), b"a"))
        wire.conversation.writable(True)
        wire.say(0, commands.Connection.CloseOk())
        assert (wire.told, wire.socket) == ([], ["abort"])

    def test_who_does_not_answer_a_goodbye_is_waited_for_so_long(self) -> None:
        wire = Wire().running()
        wire.conversation.close()
        wire.clock.advance(GOODBYE_TIMEOUT_S - 0.1)
        assert wire.socket == []
        wire.clock.advance(0.2)
        assert (wire.socket, wire.told) == (["abort"], [])
        wire.conversation.lost("closed")
        assert wire.told == []

    def test_closed_twice_it_says_goodbye_once(self) -> None:
        wire = Wire().running()
        wire.conversation.close()
        wire.clock.advance(GOODBYE_TIMEOUT_S - 0.1)
        wire.conversation.close()
        wire.clock.advance(0.2)
        assert (wire.wire, wire.socket) == (["Connection.Close"], ["abort"])

    def test_a_broker_that_closes_says_why_and_is_answered(self) -> None:
        wire = Wire().running()
        wire.say(0, commands.Connection.Close(320, "CONNECTION_FORCED - shutdown", 0, 0))
        assert wire.told == [("ended", "320 CONNECTION_FORCED - shutdown")]
        assert (wire.wire, wire.socket) == (["Connection.CloseOk"], ["abort"])

    def test_a_connection_that_is_lost_ends_it_once(self) -> None:
        wire = Wire().running()
        wire.conversation.lost("reset")
        wire.clock.advance(1000)
        wire.conversation.flush()
        assert (wire.told, wire.socket) == ([("ended", "reset")], [])

    def test_a_consumer_that_is_cancelled_ends_it_with_a_goodbye(self) -> None:
        wire = Wire().running()
        wire.say(1, commands.Basic.Cancel("c"))
        assert (wire.told, wire.wire, wire.given_up) == ([("ended", CANCELLED)], ["Connection.Close"], 0)
        wire.clock.advance(GOODBYE_TIMEOUT_S)
        assert wire.socket == ["abort"]

    def test_what_comes_behind_the_end_is_not_told(self) -> None:
        wire = Wire().running()
        wire.conversation.received(
            frame.marshal(commands.Basic.Cancel("c"), 1)
            + message(commands.Basic.Deliver("c", 1, False, "e", "k"), b"a")
        )
        assert wire.told == [("ended", CANCELLED)]
