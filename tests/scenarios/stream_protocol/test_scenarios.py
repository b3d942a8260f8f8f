"""Plays the scenarios of this folder against one connection of the stream protocol with a small broker behind it.

connect [HEARTBEAT] [v1]         the whole handshake, and the exchange of versions unless the client is an old one
COMMAND [NAME=VALUE...]          one command by the name of its class; values are JSON where they parse, else text. Correlation
                                 ids count up. Offsets: first, last, next, none, offset:N, timestamp:N
publish PUBLISHER ID:BODY...     a Publish frame of version 1; a body *N is a sub-batch of N messages
publish2 PUBLISHER ID:VALUE:BODY...   of version 2, with filter values; an empty one is none
together / now                   commands are kept / given to the server in one piece
raw HEX                          these bytes
later / answer                   the broker's answers wait / all are given
refuse METHOD ERROR [TEXT]       the broker refuses what it is asked; `refuse METHOD` no more
activate SUBSCRIPTION BOOL       the broker changes who of a group is active
unavailable STREAM               the stream has no leader any more
unconfirmed / confirm            confirms wait / come again
error PUBLISHER ERROR            the broker refuses what is not confirmed
alarm [REASON]                   the disk alarm is raised, or cleared
end TEXT                         an operator ends the connection
time                             the armed time is over
calls                            what the broker was asked since
state                            the connection's phase, and what is armed
audit                            what was written down of logins
"""

from __future__ import annotations

import json
import shlex
import struct
from pathlib import Path
from typing import Any

import pytest

from broker import errors
from front.sockets.wheel import LATENESS_S
from tests.scenarios.runner import check
from tests.unit.front.stream.client import NOW, StreamClient
from wire.stream import stream_commands
from wire.stream.command_fields import LocatedStream, OffsetSpec, VersionRange
from wire.stream.command_frames import encode_frame
from wire.stream.command_keys import CommandKey, OffsetKind, ResponseCode
from wire.stream.publish_frame import unpack_ids
from wire.stream.stream_commands import Command, PublishFrame, SaslAuthenticateRequest

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))
PLAIN_VALUES: dict[str, Any] = {"u8": 0, "u16": 0, "u32": 0, "u64": 0, "i16": 0, "string": "", "bytes": b"", "map": {}}
EMPTY = {**PLAIN_VALUES, "map?": {}, "strings": (), "versions": (), "offset": OffsetSpec(OffsetKind.NONE)}
EMPTY["offset+"] = EMPTY["offset"]
LAYOUTS = {one.command.__name__: one for one in reversed(stream_commands.ALL_LAYOUTS)}


class Player:
    def __init__(self) -> None:
        self.client = StreamClient()
        self.correlation = 0
        self.together: list[bytes] | None = None

    def run(self, line: str) -> list[str]:
        words = shlex.split(line)
        if words[0][0].isupper():
            said = self.give(encode_frame(self.command(words[0], words[1:])))
        else:
            said = [*(getattr(self, f"do_{words[0]}")(*words[1:]) or []), *self.client.take()]
        return [show(one) for one in said]

    def give(self, data: bytes) -> list[Any]:
        if self.together is not None:
            self.together.append(data)
            return []
        return [*self.client.give(data)]

    def command(self, name: str, words: list[str]) -> Command:
        options = dict(word.split("=", 1) for word in words)
        layout = LAYOUTS[name]
        values: dict[str, Any] = {}
        for field, kind in zip(layout.command._fields, layout.kinds, strict=True):
            if field in options:
                values[field] = value_of(kind, options.pop(field))
            elif field == "correlation":
                self.correlation += 1
                values[field] = self.correlation
            elif kind not in ("key", "version"):
                values[field] = EMPTY[kind]
        assert not options, f"{name} has no field {', '.join(options)}"
        command: Command = layout.command(**values)
        return command

    def do_connect(self, *options: str) -> None:
        numbers = [int(word) for word in options if word.isdigit()]
        self.client.connect(heartbeat_s=numbers[0] if numbers else 60, deliver=1 if "v1" in options else 2)
        self.client.broker.calls.clear()

    def do_login(self, mechanism: str, *fields: str) -> list[Any]:
        self.correlation += 1
        data = b"\0".join([field.encode() for field in fields])
        return self.give(encode_frame(SaslAuthenticateRequest(self.correlation, mechanism, data)))

    def do_publish(self, publisher: str, *messages: str) -> list[Any]:
        parts = []
        for message in messages:
            id_, body = message.split(":", 1)
            parts.append(struct.pack(">Q", int(id_)))
            if body.startswith("*"):
                count = int(body[1:])
                parts.append(struct.pack(">BHII", 0x90, count, 4 * count, 6) + b"packed")
            else:
                parts.append(struct.pack(">I", len(body)) + body.encode())
        return self.give(encode_frame(PublishFrame(1, int(publisher), len(messages), b"".join(parts))))

    def do_publish2(self, publisher: str, *messages: str) -> list[Any]:
        parts = []
        for message in messages:
            id_, value, body = message.split(":", 2)
            head = struct.pack(">QH", int(id_), len(value) if value else 0xFFFF)
            parts.append(head + value.encode() + struct.pack(">I", len(body)) + body.encode())
        return self.give(encode_frame(PublishFrame(2, int(publisher), len(messages), b"".join(parts))))

    def do_together(self) -> None:
        self.together = []

    def do_now(self) -> list[Any]:
        assert self.together is not None, "nothing is kept"
        data, self.together = b"".join(self.together), None
        return self.give(data)

    def do_raw(self, *digits: str) -> list[Any]:
        return self.give(bytes.fromhex("".join(digits)))

    def do_later(self) -> None:
        self.client.broker.answers_later = True

    def do_answer(self) -> None:
        self.client.broker.answers_later = False
        self.client.broker.answer_all()

    def do_refuse(self, method: str, error: str = "", text: str = "refused") -> None:
        if error:
            self.client.broker.refuse[method] = getattr(errors, error)(text)
        else:
            del self.client.broker.refuse[method]

    def do_activate(self, subscription: str, active: str) -> None:
        (session,) = self.client.broker.sessions
        session.readers[int(subscription)].active = False
        session.sink.activate(int(subscription), json.loads(active))

    def do_unavailable(self, stream: str) -> None:
        for session in self.client.broker.sessions:
            session.forget(stream)

    def do_unconfirmed(self) -> None:
        self.client.broker.confirms_later = True

    def do_confirm(self) -> None:
        self.client.broker.confirms_later = False

    def do_error(self, publisher: str, error: str) -> None:
        (session,) = self.client.broker.sessions
        session.refuse_unconfirmed(int(publisher), getattr(errors, error)("refused"))

    def do_alarm(self, reason: str | None = None) -> None:
        self.client.broker.disk_alarm = reason is not None
        self.client.core.set_blocked(reason)

    def do_end(self, text: str) -> None:
        for connection in list(self.client.broker.connections):
            connection.close(errors.ConnectionForced(text))

    def do_time(self) -> None:
        self.client.outside.seconds += self.client.outside.armed + LATENESS_S
        self.client.core.timer_elapsed(NOW)

    def do_calls(self) -> list[str]:
        calls, self.client.broker.calls = self.client.broker.calls, []
        return [f"{name} {', '.join(map(repr, arguments))}".rstrip() for name, *arguments in calls]

    def do_state(self) -> list[str]:
        core = self.client.core
        reads = "reads" if core.pressure.reads else "does not read"
        why = f", {core.close_reason}" if core.close_reason else ""
        return [f"{core.state.value}, {reads}, time armed {self.client.outside.armed:g} s{why}"]

    def do_audit(self) -> list[str]:
        return self.client.broker.audited


def value_of(kind: str, text: str) -> Any:
    if kind in ("string", "bytes"):
        return text if kind == "string" else text.encode()
    if kind.startswith("offset"):
        name, _, number = text.partition(":")
        return OffsetSpec(OffsetKind[name.upper()], int(number or 0))
    value = json.loads(text)
    if kind == "versions":
        return tuple(VersionRange(*one) for one in value)
    return tuple(value) if kind == "strings" else value


def show(one: Any) -> str:
    if isinstance(one, str):
        return one
    words = [type(one).__name__]
    for field, value in zip(one._fields, one, strict=True):
        match field, value:
            case "key", _:
                words.append(CommandKey(value).name)
            case "code", _:
                words.append(ResponseCode(value).name)
            case "correlation", _:
                words.append(f"#{value}")
            case "ids", _:
                words.append(f"ids={list(unpack_ids(value))}")
            case "refusals", _:
                words += [f"{id_}:{ResponseCode(code).name}" for id_, code in value]
            case _, bytes():
                words.append(repr(value.decode()))
            case "offset", OffsetSpec():
                words.append(f"{value.kind.name}:{value.value}")
            case "versions", _:
                words += [f"{CommandKey(key).name}:{low}-{high}" for key, low, high in value]
            case _ if isinstance(value, tuple) and value and isinstance(value[0], LocatedStream):
                words += [
                    f"{stream.stream}:{ResponseCode(stream.code).name}:{stream.leader}:{list(stream.replicas)}"
                    for stream in value
                ]
            case _ if isinstance(value, tuple):
                words.append(f"{field}={[tuple(part) if isinstance(part, tuple) else part for part in value]}")
            case _:
                words.append(f"{field}={json.dumps(value)}")
    return " ".join(words)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, rewrite: bool) -> None:
    check(path, Player().run, rewrite=rewrite)


def test_scenarios_are_found() -> None:
    assert len(SCENARIOS) >= 10, f"only {len(SCENARIOS)} scenarios beside {__file__}"
