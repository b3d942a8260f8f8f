"""links/amqp/conversation.py with a broker that says what it likes."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands, frame

from links.amqp.conversation import ChannelRefused, Conversation, Request, Steps
from links.amqp.uri import parse_uri
from links.world import Cancel, SocketUser, TlsTerms
from tests.unit.links.hand_clock import HandClock
from tests.unit.links.test_amqp_client import START, TUNE, terms

ASKED: Request = (1, "channel.open", {})


class ScriptedBroker:
    """The net, its one socket, and the user of the conversation."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.asked: list[tuple[int, str]] = []
        self.conversation = Conversation(parse_uri("amqp://h"), terms(), self._steps(), self, HandClock(), self)
        self.conversation.open()
        self.conversation.connected(self)
        self.say(0, START, TUNE, commands.Connection.OpenOk())

    def _steps(self) -> Steps:
        yield ASKED
        return "set up"

    def say(self, channel: int, *methods: Any) -> None:
        for method in methods:
            self.conversation.received(frame.marshal(method, channel))

    def connect(self, host: str, port: int, tls: TlsTerms | None, timeout_s: float, events: SocketUser) -> Cancel:
        return lambda: None

    def write(self, data: bytes) -> None:
        while len(data) > 7:
            size, channel, method = frame.unmarshal(data) if not data.startswith(b"AMQP") else (8, 0, None)
            data = data[size:]
            self.asked += [] if method is None else [(channel, method.name)]

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None: ...

    def ready(self, result: Any) -> None:
        self.heard.append(result)

    def delivered(self, run: Any) -> None: ...

    def confirmed(self, confirmed: Any) -> None: ...

    def returned(self, returned: Any) -> None: ...

    def blocked(self, reason: str | None) -> None: ...

    def writable(self, writable: bool) -> None: ...

    def ended(self, reason: str) -> None:
        self.heard.append(reason)


def test_who_uses_it_is_told_once_that_it_is_ready() -> None:
    """Each answer more opened a source more, until the node had no file descriptor left."""
    broker = ScriptedBroker()
    broker.say(1, *[commands.Channel.OpenOk()] * 3)
    assert broker.heard == [
        "set up", "the broker answered channel.open-ok on channel 1, which nobody had asked for",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("channel", "method", "said"),
    [
        (1, commands.Queue.DeclareOk("q", 1, 1), "queue.declare-ok on channel 1"),
        (2, commands.Channel.OpenOk(), "channel.open-ok on channel 2"),
    ],
)
def test_the_answer_to_something_else_ends_it(channel: int, method: Any, said: str) -> None:
    broker = ScriptedBroker()
    broker.say(channel, method)
    assert broker.heard == [f"the broker answered {said}, which nobody had asked for"]


def binding(no_wait: bool) -> Request:
    arguments: dict[str, Any] = {"source": "a", "destination": "b", "routing_key": "", "arguments": {}}
    return 2, "exchange.bind", {**arguments, "no_wait": no_wait}


def test_what_is_asked_later_is_told_as_what_was_asked_first() -> None:
    broker = ScriptedBroker()
    broker.say(1, commands.Channel.OpenOk())

    def more() -> Steps:
        answer = yield binding(no_wait=False)
        return f"answered {answer}"

    broker.conversation.ask(more())
    assert broker.heard == ["set up"]
    broker.say(2, commands.Exchange.BindOk())
    assert broker.heard == ["set up", "answered {}"]


def test_what_expects_to_be_refused_is_told_as_any_other_answer() -> None:
    broker = ScriptedBroker()
    broker.say(1, commands.Channel.OpenOk())

    def is_there() -> Steps:
        try:
            yield binding(no_wait=False)
        except ChannelRefused:
            return False
        return True

    broker.conversation.ask(is_there())
    broker.say(2, commands.Channel.Close(404, "NOT_FOUND - no exchange 'a'", 40, 30))
    assert broker.heard == ["set up", False]


def test_requests_that_are_not_answered_are_not_waited_for() -> None:
    broker = ScriptedBroker()
    broker.say(1, commands.Channel.OpenOk())
    broker.asked.clear()

    def more() -> Steps:
        yield binding(no_wait=True)
        yield binding(no_wait=True)
        yield binding(no_wait=False)
        yield binding(no_wait=True)

    broker.conversation.ask(more())
    assert broker.asked == [(2, "Exchange.Bind")] * 3
    broker.say(2, commands.Exchange.BindOk())
    assert broker.asked == [(2, "Exchange.Bind")] * 4
    assert broker.heard == ["set up", None]


def test_what_was_refused_without_an_answer_ends_it_with_its_reason() -> None:
    broker = ScriptedBroker()
    broker.say(1, commands.Channel.OpenOk())

    def more() -> Steps:
        yield binding(no_wait=True)

    broker.conversation.ask(more())
    broker.say(2, commands.Channel.Close(404, "NOT_FOUND - no exchange 'a'", 40, 30))
    assert broker.heard == ["set up", None, "404 NOT_FOUND - no exchange 'a'"]
