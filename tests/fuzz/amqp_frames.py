"""Feeds mutated AMQP frames to the connection, without sockets.

    python -m tests.fuzz.amqp_frames --frames 5000000 --seed 1

A conversation is a handshake and then frames of a small grammar (every method a client can send, contents in one piece and in
many), most of them mutated: bits, bytes, lengths, table letters, channels, order. It is given in pieces of random sizes.

What must hold, for every conversation:

    only documented reply codes, or a closed connection          nothing raised, no assertion broken, no recursion
    no conversation takes longer than TURN_S_MAX for a piece     what is kept is bounded by frame_max and the held limit
    when the connection is gone, no session, consumer or connection is left at the broker

A failure prints the seed of its conversation: `--only SEED` repeats exactly that one.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
import tracemalloc
from typing import Any

from broker.reply_codes import NAMES
from front.amqp.backpressure import WAITING_BYTES_MAX
from front.amqp.connection import Connection
from front.amqp.states import ConnectionState
from front.amqp.terms import Identity, Limits
from front.sockets import peer
from front.sockets.peer import Peer
from tests.unit.front.amqp.fakes import SECRET, FakeBroker
from wire.amqp import spec

NOW = 1_700_000_000_000
TURN_S_MAX = 0.5  # processor time of one piece, which may hold hundreds of frames
FRAME_MAX = 131_072
TRACED_BYTES_MAX = 2 * FRAME_MAX + 65_536 + WAITING_BYTES_MAX
LIMITS = Limits(message_bytes_max=1_048_576)
IDENTITY = Identity("fuzz", "0", "test")
PEER = Peer("fuzz", "a -> b", "127.0.0.1", 1, True)


def framed(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


HANDSHAKE = [
    b"AMQP\x00\x00\x09\x01",
    framed(
        1,
        0,
        spec.encode(
            "connection.start-ok",
            client_properties={"capabilities": {"consumer_cancel_notify": True, "basic.nack": True}},
            mechanism="PLAIN",
            response=b"\x00fuzz\x00" + SECRET,
            locale="en_US",
        ),
    ),
    framed(1, 0, spec.encode("connection.tune-ok", channel_max=2047, frame_max=FRAME_MAX, heartbeat=60)),
    framed(1, 0, spec.encode("connection.open", virtual_host="/")),
]
CHANNELS = (1, 1, 1, 2, 3)
OPEN_CHANNELS = b"".join(framed(1, channel, spec.encode("channel.open")) for channel in set(CHANNELS))

TABLES: list[dict[str, Any]] = [
    {},
    {"x-max-length": 10, "x-overflow": "drop-head"},
    {"nested": {"a": [1, "two", 3.0, None, True, {"b": b"raw"}]}, "t": 2**40},
]
PROPS = [
    b"\x00\x00",
    b"\x10\x00\x02",
    b"\x90\x00\x05plain\x02",
    b"\x20\x00" + spec.TYPES["table"][1]({"CC": ["a", "b"], "n": 1}),
    b"\xff\xfc\x01a\x01b\x00\x00\x00\x00\x02\x09\x01c\x01d\x03100\x01e" + bytes(8) + b"\x01t\x04fuzz\x01x\x01y",
]  # fmt: skip
NAMES_USED = ("q", "r", "", "amq.direct", "é" * 100)


def sample(rng: random.Random, kind: str, name: str) -> Any:
    if kind == "bit":
        return rng.random() < 0.3
    if kind == "table":
        return rng.choice(TABLES)
    if kind == "shortstr":
        return rng.choice(("t1", "t2")) if name == "consumer_tag" else rng.choice(NAMES_USED)
    if kind == "longstr":
        return SECRET
    return rng.choice((0, 1, 2, 3, 10)) if kind != "octet" else 9


FIELDS: dict[str, list[tuple[str, str]]] = {
    name: [(field, step.kind) for step in method.steps for field in step.names if not field.startswith("reserved_")]
    for name, method in spec.METHODS.items()
}
# What ends a conversation comes rarely; what clients do most, often.
WEIGHTS = {
    name: 0.02 if name.startswith("connection.") or name in ("channel.close", "channel.open") else 1.0
    for name in spec.METHODS
}
WEIGHTS.update({"queue.declare": 3.0, "basic.consume": 3.0, "basic.publish": 0.3, "basic.ack": 3.0, "basic.get": 3.0})
METHOD_NAMES = list(WEIGHTS)
METHOD_WEIGHTS = list(WEIGHTS.values())
REPLIES = {
    name
    for name in spec.METHODS
    if name.endswith("-ok") or name in ("basic.deliver", "basic.return", "basic.get-empty")
}
for _name in REPLIES:  # a client that sends these is soon sent away
    METHOD_WEIGHTS[METHOD_NAMES.index(_name)] = 0.01


def method(rng: random.Random) -> list[bytes]:
    name = rng.choices(METHOD_NAMES, METHOD_WEIGHTS)[0]
    values = {field: sample(rng, kind, field) for field, kind in FIELDS[name]}
    channel = 0 if name.startswith("connection.") else rng.choice(CHANNELS)
    return [framed(1, channel, spec.encode(name, **values))]


def message(rng: random.Random) -> list[bytes]:
    """A publish with its content, perhaps with another channel's frames in between."""
    channel = rng.choice(CHANNELS)
    values = {field: sample(rng, kind, field) for field, kind in FIELDS["basic.publish"]}
    values["exchange"] = "" if rng.random() < 0.95 else "nope"
    values["immediate"] = rng.random() < 0.01
    body = rng.choice((b"", b"x", b"\xce" * 10, b"AMQP\x00\x00\x09\x01", bytes(200)))
    if rng.random() < 0.01:
        body = bytes(rng.randrange(70_000))
    frames = [
        framed(1, channel, spec.encode("basic.publish", **values)),
        framed(2, channel, struct.pack(">HHQ", 60, 0, len(body)) + rng.choice(PROPS)),
    ]
    while body:
        size = rng.randrange(1, len(body) + 1)
        frames.append(framed(3, channel, body[:size]))
        body = body[size:] if size > 100 or len(frames) < 8 else b""
    if rng.random() < 0.1:
        frames.insert(rng.randrange(1, len(frames) + 1), b"\x08\x00\x00\x00\x00\x00\x00\xce")
    return frames


INTERESTING = (0, 1, 0x7F, 0x80, 0xCE, 0xFF)
LENGTHS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 8192, FRAME_MAX)


def mutated_payload(rng: random.Random, payload: bytes) -> bytes:
    data = bytearray(payload)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        place = rng.randrange(len(data)) if data else 0
        match rng.randrange(8):
            case 0 if data:
                data[place] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[place] = rng.choice(INTERESTING)
            case 2:
                del data[place:]
            case 3:
                data[place:place] = data[place : place + rng.randrange(16)]
            case 4 if len(data) >= place + 4:
                struct.pack_into(">I", data, place, rng.choice(LENGTHS))
            case 5:
                data[place:place] = rng.randbytes(rng.randrange(8))
            case 6 if data:
                data[place] = rng.choice(b"SIiDTFAbBsulLdftxVZ")
            case _:
                depth = rng.choice((2, 31, 33, 200))
                data[place:place] = nested(rng, depth)
    return bytes(data[:FRAME_MAX])


def nested(rng: random.Random, depth: int) -> bytes:
    """Tables or arrays within each other, correctly sized."""
    data = b""
    for _ in range(depth):
        data = b"A" + struct.pack(">I", len(data)) + data if rng.random() < 0.5 else (
            b"F" + struct.pack(">I", len(data) + 2) + b"\x01k" + data if data else b"F\x00\x00\x00\x00"
        )  # fmt: skip
    return data


def mutated(rng: random.Random, one: bytes) -> bytes:
    """Mostly inside the framing, so that a conversation lives on."""
    kind, channel, _ = struct.unpack_from(">BHI", one)
    payload = one[7:-1]
    chance = rng.random()
    if chance < 0.62:
        return one
    if chance < 0.94:
        return framed(kind, channel, mutated_payload(rng, payload))
    if chance < 0.96:
        return framed(kind, rng.choice((0, 1, 2, 9, 2047, 2048, 65535)), payload)
    if chance < 0.97:
        return framed(rng.choice((1, 2, 3, 8)), channel, payload)
    if chance < 0.98:
        return one + one
    if chance < 0.99:
        return b""
    return mutated_payload(rng, one)  # the framing itself


class Outside:
    def wake(self) -> None:
        pass

    def arm(self, seconds: float) -> None:
        pass

    def monotonic(self) -> float:
        return 0.0  # time does not pass within a conversation


class Broken(Exception):
    """A property that did not hold."""


def conversation(seed: int) -> int:
    """One connection from its first byte to its end; returns how many frames it was given."""
    rng = random.Random(seed)
    broker = FakeBroker()
    outside: peer.Outside = Outside()
    core = Connection(broker, outside, PEER, LIMITS, IDENTITY, NOW)  # type: ignore[arg-type]  # the broker is a fake
    opening = [mutated_payload(rng, one) for one in HANDSHAKE] if rng.random() < 0.02 else HANDSHAKE
    frames = 4
    give(core, broker, b"".join(opening) + OPEN_CHANNELS)
    broker.answers_later = rng.random() < 0.3
    for _ in range(rng.choice((4, 16, 16, 64))):
        grammar = [one for _ in range(8) for one in (message(rng) if rng.random() < 0.4 else method(rng))]
        if rng.random() < 0.05:
            rng.shuffle(grammar)
        frames += len(grammar)
        data = b"".join(mutated(rng, one) for one in grammar)
        start = 0
        while start < len(data):
            size = len(data) if rng.random() < 0.7 else rng.randrange(1, 400)
            give(core, broker, data[start : start + size])
            start += size
            if broker.pending and rng.random() < 0.3:
                broker.answer_all()
        if core.state in (ConnectionState.CLOSING, ConnectionState.CLOSED, ConnectionState.REFUSED):
            break
    core.connection_lost(NOW)
    broker.answer_all()  # too late for everybody
    core.proceed(NOW)
    if broker.connections or broker.sessions:
        raise Broken(f"left behind: {broker.connections} {broker.sessions}")
    if any(queue.consumers for queue in broker.queues.values()):
        raise Broken("a consumer was left behind")
    return frames


def give(core: Connection, broker: FakeBroker, data: bytes) -> None:
    began = time.process_time()  # of a turn that computes only: whatever else the machine does
    core.receive_data(data, NOW)
    broker.pump(NOW)
    core.proceed(NOW)
    took = time.process_time() - began
    if took > TURN_S_MAX:
        raise Broken(f"{len(data)} bytes took {took:.3f} s of processor time")
    check_output(b"".join(core.data_to_send()))
    if core.kept_bytes > TRACED_BYTES_MAX:
        raise Broken(f"{core.kept_bytes} bytes are kept")


def check_output(data: bytes) -> None:
    """Whole frames, and only reply codes that are documented."""
    if data.startswith(b"AMQP"):
        return
    position = 0
    while position < len(data):
        kind, _, size = struct.unpack_from(">BHI", data, position)
        end = position + 7 + size
        if kind not in (1, 2, 3, 8) or data[end] != 0xCE:
            raise Broken(f"not a frame at {position}: {data[position : position + 40]!r}")
        head = data[position + 7 : position + 11]
        if kind == 1 and head in (b"\x00\x0a\x00\x32", b"\x00\x14\x00\x28"):
            (code,) = struct.unpack_from(">H", data, position + 11)
            if code not in NAMES or code == 541:
                raise Broken(f"reply code {code}: {data[position : end + 1]!r}")
        position = end + 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz.amqp_frames")
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the seed of one conversation, as a failure printed it")
    options = parser.parse_args(arguments)
    if options.only is not None:
        print(f"{conversation(options.only)} frames, nothing broken")
        return 0
    began, frames, conversations = time.monotonic(), 0, 0
    while frames < options.frames:
        seed = options.seed * 1_000_000_000 + conversations
        traced = conversations % 1000 == 999
        if traced:
            tracemalloc.start()
        try:
            frames += conversation(seed)
            if traced and (peak := tracemalloc.get_traced_memory()[1]) > 16 * TRACED_BYTES_MAX:
                raise Broken(f"{peak} bytes of memory at the peak")
        except Exception:
            print(f"conversation {seed} broke: python -m tests.fuzz.amqp_frames --only {seed}", file=sys.stderr)
            raise
        finally:
            if traced:
                tracemalloc.stop()
        conversations += 1
    took = time.monotonic() - began
    print(
        f"{frames} frames in {conversations} conversations, {took:.0f} s, {frames / took:.0f} frames/s, nothing broken"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
