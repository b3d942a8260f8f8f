"""Plays the scenarios of this folder against one connection with a small broker behind it.

connect [CAPABILITY...]        the whole handshake
CHANNEL METHOD [NAME=VALUE...] one method; values are JSON where they parse, else text
CHANNEL publish KEY BODY [exchange=X] [mandatory]           a message in its three frames
CHANNEL header SIZE [CLASS]    a content header              CHANNEL body TEXT    a body frame
raw HEX                        these bytes
later / answer                 the broker's answers wait / all are given
alarm [REASON]                 the broker blocks publishers, or (without a reason) does so no more
end TEXT                       an operator ends the connection
time                           the armed time is over
state                          the connection's state and what is armed
"""

from __future__ import annotations

import json
import shlex
import struct
from pathlib import Path
from typing import Any

import pytest
from pamqp import base, body, commands, header, heartbeat

from broker.errors import ConnectionForced
from front.sockets.wheel import LATENESS_S
from tests.scenarios.runner import check
from tests.unit.front.amqp.client import NOW, PROTOCOL_HEADER, Client, publish, raw_frame
from wire.amqp import spec

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


class Player:
    def __init__(self) -> None:
        self.client = Client()

    def run(self, line: str) -> list[str]:
        words = shlex.split(line)
        if words[0].isdigit():
            return self.on_channel(int(words[0]), words[1], words[2:])
        said: list[Any] = getattr(self, f"do_{words[0]}")(*words[1:]) or []
        return [show(one) for one in said + self.client.take()]

    def on_channel(self, channel: int, what: str, words: list[str]) -> list[str]:
        options = dict(word.split("=", 1) if "=" in word else (word, "true") for word in words)
        if what == "publish":
            exchange = options.get("exchange", "")
            data = publish(words[0], words[1].encode(), channel, exchange, mandatory="mandatory" in options)
        elif what == "header":
            class_id = int(words[1]) if len(words) > 1 else 60
            data = raw_frame(2, channel, struct.pack(">HHQH", class_id, 0, int(words[0]), 0))
        elif what == "body":
            data = raw_frame(3, channel, words[0].encode())
        elif what == "heartbeat":
            data = raw_frame(8, channel, b"")
        else:
            data = raw_frame(1, channel, spec.encode(what, **arguments_of(what, options)))
        return [show(one) for one in self.client.give(data)]

    def do_connect(self, *capabilities: str) -> None:
        self.client.connect(capabilities=dict.fromkeys(capabilities, True))

    def do_greet(self) -> list[Any]:
        return self.client.give(PROTOCOL_HEADER)

    def do_raw(self, *digits: str) -> list[Any]:
        return self.client.give(bytes.fromhex("".join(digits)))

    def do_later(self) -> None:
        self.client.broker.answers_later = True

    def do_answer_these(self) -> None:
        """What waits now; what is asked from then on waits too."""
        self.client.broker.answer_all()

    def do_answer(self) -> None:
        self.client.broker.answers_later = False
        self.client.broker.answer_all()

    def do_alarm(self, reason: str | None = None) -> None:
        self.client.core.set_blocked(reason)

    def do_end(self, text: str) -> None:
        for connection in list(self.client.broker.connections):
            connection.close(ConnectionForced(text))

    def do_time(self) -> None:
        self.client.outside.seconds += self.client.outside.armed + LATENESS_S
        self.client.core.timer_elapsed(NOW)

    def do_state(self) -> list[Any]:
        core = self.client.core
        reads = "reads" if core.pressure.reads else "does not read"
        return [f"{core.state.value}, {reads}, time armed {self.client.outside.armed:g} s"]


def arguments_of(name: str, options: dict[str, str]) -> dict[str, Any]:
    """What the line says, and a plain value for the rest."""
    plain: dict[str, Any] = {"bit": False, "table": {}, "shortstr": "", "longstr": b""}
    arguments: dict[str, Any] = {}
    for step in spec.METHODS[name].steps:
        for field in step.names:
            if field.startswith("reserved_"):
                continue
            value = plain.get(step.kind, 0)
            if field in options:
                value = options.pop(field)
                if step.kind != "shortstr":
                    value = value.encode() if step.kind == "longstr" else json.loads(value)
            arguments[field] = value
    assert not options, f"{name} has no argument {', '.join(options)}"
    return arguments


def show(one: Any) -> str:
    if isinstance(one, str):
        return one
    channel, value = one
    if isinstance(value, header.ContentHeader):
        return f"{channel} header {value.body_size}"
    if isinstance(value, body.ContentBody):
        return f"{channel} body {value.value.decode()}"
    if isinstance(value, heartbeat.Heartbeat):
        return f"{channel} heartbeat"
    if isinstance(value, commands.Connection.Start):
        return f"{channel} {value.name} mechanisms={value.mechanisms}"
    if isinstance(value, base.Frame):
        pairs = " ".join(f"{name}={json.dumps(given)}" for name, given in value if given not in ("", 0, False, None))
        return f"{channel} {value.name} {pairs}".rstrip()
    return f"{channel} {value!r}"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, rewrite: bool) -> None:
    check(path, Player().run, rewrite=rewrite)


def test_scenarios_are_found() -> None:
    assert len(SCENARIOS) >= 10, f"only {len(SCENARIOS)} scenarios beside {__file__}"
