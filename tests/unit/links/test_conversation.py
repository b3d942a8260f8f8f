"""links/amqp/conversation.py with a broker that says what it likes."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands, frame

from links.amqp.conversation import Conversation, Request, Steps
from links.amqp.uri import parse_uri
from links.world import Cancel, SocketUser, TlsTerms
from tests.unit.links.test_amqp_client import START, TUNE, terms
from tests.unit.links.test_shovel import HandClock

ASKED: Request = (1, "channel.open", {})


class ScriptedBroker:
    """The net, its one socket, and the user of the conversation."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
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

    def write(self, data: bytes) -> None: ...

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
