"""Feeds mutated frames of the stream protocol to the connection, without sockets.

    python -m tests.fuzz.stream_frames --frames 1000000 --seed 1

A conversation is a handshake and then commands that clients send, built from the table of layouts, some of them mutated:
fields, bytes, lengths, keys, versions, order. It is given in pieces of random sizes, while a small broker answers at once or
later, confirms, delivers, changes who is active, takes streams away and ends connections.

What must hold, for every conversation:

    only whole frames with documented codes come out             nothing raised, no assertion broken
    no piece takes longer than TURN_S_MAX                        what is kept is bounded
    when the connection is gone, nothing is left at the broker

A failure prints the seed of its conversation: `--only SEED` repeats exactly that one.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
from typing import Any

from broker.errors import AccessRefused, ConnectionForced, ResourceExhausted
from front.stream.phases import ConnectionPhase
from front.stream.stream_flow import KEPT_BYTES_MAX
from front.stream.stream_terms import StreamLimits
from tests.unit.front.stream.client import HANDSHAKE, NOW, StreamClient
from tests.unit.front.stream.fakes import FakeStream, FakeStreams
from wire.stream.command_fields import OffsetSpec, VersionRange
from wire.stream.command_frames import decode_frame, encode_frame, frame_end
from wire.stream.command_keys import RESPONSE_BIT, CommandKey, OffsetKind, ResponseCode
from wire.stream.stream_commands import ALL_LAYOUTS, CommandLayout, ConsumerUpdateRequest, ConsumerUpdateResponse

TURN_S_MAX = 0.5  # processor time of one piece, which may hold hundreds of frames
FRAME_MAX = 131_072
LIMITS = StreamLimits(frame_max=FRAME_MAX, outstanding_messages_max=200)

STREAMS = ("s", "s", "s", "t", "t", "amq.no", "", "é" * 100)
ARGUMENTS = ({}, {"max-age": "1D"}, {"max-length-bytes": "x"}, {"initial-cluster-size": "3", "unknown": "y"})
PROPERTIES = (
    {},
    {"name": "app", "single-active-consumer": "true"},
    {"single-active-consumer": "true"},
    {"filter.0": "red", "match-unfiltered": "true"},
    {"name": "n" * 300},
)
OFFSETS = (
    OffsetSpec(OffsetKind.FIRST),
    OffsetSpec(OffsetKind.LAST),
    OffsetSpec(OffsetKind.NEXT),
    OffsetSpec(OffsetKind.OFFSET, 3),
    OffsetSpec(OffsetKind.TIMESTAMP, -1),
    OffsetSpec(OffsetKind.NONE),
)
LENGTHS = (0, 1, 3, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 8192, FRAME_MAX, FRAME_MAX + 1)

# What clients send, and how often; what ends a conversation comes rarely.
WEIGHTS: dict[CommandKey, float] = {
    CommandKey.PUBLISH: 10.0,
    CommandKey.DECLARE_PUBLISHER: 4.0,
    CommandKey.SUBSCRIBE: 4.0,
    CommandKey.CREDIT: 4.0,
    CommandKey.CREATE: 3.0,
    CommandKey.DELETE: 0.1,
    CommandKey.CONSUMER_UPDATE: 2.0,
    CommandKey.CLOSE: 0.02,
    CommandKey.OPEN: 0.02,
    CommandKey.TUNE: 0.02,
    CommandKey.PEER_PROPERTIES: 0.02,
    CommandKey.SASL_AUTHENTICATE: 0.05,
    CommandKey.PUBLISH_CONFIRM: 0.01,
    CommandKey.PUBLISH_ERROR: 0.01,
    CommandKey.DELIVER: 0.01,
    CommandKey.METADATA_UPDATE: 0.01,
}


def is_sent_by_clients(layout: CommandLayout) -> bool:
    answers = layout.command is ConsumerUpdateResponse or layout.key == CommandKey.CLOSE | RESPONSE_BIT
    return answers or not layout.key & RESPONSE_BIT


LAYOUTS = [one for one in ALL_LAYOUTS if is_sent_by_clients(one)]
LAYOUT_WEIGHTS = [
    WEIGHTS.get(CommandKey(one.key & ~RESPONSE_BIT), 1.0)
    if one.command is not ConsumerUpdateRequest and one.key != CommandKey.CLOSE | RESPONSE_BIT
    else 0.01
    for one in LAYOUTS
]


def sample(rng: random.Random, layout: CommandLayout, kind: str, name: str) -> Any:
    match kind:
        case "string" if name == "mechanism":
            return "PLAIN"
        case "string" | "strings":
            return rng.choice(STREAMS) if kind == "string" else tuple(rng.choices(STREAMS, k=rng.randrange(4)))
        case "map" | "map?":
            return rng.choice(PROPERTIES if layout.key == CommandKey.SUBSCRIBE else ARGUMENTS)
        case "offset" | "offset+":
            return rng.choice(OFFSETS)
        case "bytes":
            return b"\0guest\0" + rng.choice((b"open sesame", b"wrong"))
        case "versions":
            return tuple(
                VersionRange(rng.choice((2, 8, 99)), 1, rng.choice((1, 2, 3))) for _ in range(rng.randrange(3))
            )
        case "version":
            return layout.version
        case "key":
            return layout.key & ~RESPONSE_BIT
        case "ids" | "refusals" | "rest":
            return b"" if kind != "refusals" else ()
        case "none":
            return None
    return rng.choice((0, 1, 1, 2, 3, 10)) if name != "correlation" else rng.randrange(5)


def command(rng: random.Random) -> bytes:
    layout = rng.choices(LAYOUTS, LAYOUT_WEIGHTS)[0]
    if layout.key == CommandKey.PUBLISH:
        return publish(rng, layout.version)
    names = layout.command._fields
    values = [sample(rng, layout, kind, name) for kind, name in zip(layout.kinds, names, strict=True)]
    return encode_frame(layout.command(*values))


def publish(rng: random.Random, version: int) -> bytes:
    parts, id_, count = [], rng.randrange(1000), rng.choice((0, 1, 1, 2, 5, 40))
    for _ in range(count):
        id_ += 1 if rng.random() < 0.95 else -3
        parts.append(struct.pack(">Q", max(id_, 0)))
        if version == 2:
            value = rng.choice((None, b"", b"red"))
            parts.append(b"\xff\xff" if value is None else struct.pack(">H", len(value)) + value)
        body = rng.choice((b"", b"x", bytes(100)))
        if version == 1 and rng.random() < 0.1:
            head = struct.pack(">BHII", 0x80 | rng.randrange(6) << 4, rng.randrange(4), rng.choice((8, 400)), len(body))
            parts.append(head + body)
        else:
            parts.append(struct.pack(">I", len(body)) + body)
    fields = struct.pack(">BI", rng.choice((0, 1, 1, 9)), count) + b"".join(parts)
    return struct.pack(">IHH", 4 + len(fields), CommandKey.PUBLISH, version) + fields


def mutated(rng: random.Random, frame: bytes) -> bytes:
    """Mostly inside the framing, so that a conversation lives on."""
    chance = rng.random()
    if chance < 0.98:
        return frame
    if chance < 0.997:  # in a field: what is found wrong there ends the connection
        data = bytearray(frame[8:] or b"\0")
        place = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[place] ^= 1 << rng.randrange(8)
            case 1:
                del data[place:]
            case 2 if len(data) >= place + 4:
                struct.pack_into(">I", data, place, rng.choice(LENGTHS))
            case _:
                data[place:place] = rng.randbytes(rng.randrange(8))
        return struct.pack(">I", 4 + len(data)) + frame[4:8] + bytes(data)
    if chance < 0.998:
        return frame[:4] + rng.randbytes(4) + frame[8:]
    if chance < 0.999:
        return frame + frame
    return struct.pack(">I", rng.choice(LENGTHS)) + frame[4:]


class Broken(Exception):
    """A property that did not hold."""


def conversation(seed: int) -> int:
    """One connection from its first byte to its end; returns how many frames it was given."""
    rng = random.Random(seed)
    broker = FakeStreams()
    broker.streams["s"] = FakeStream()
    client = StreamClient(broker, limits=LIMITS)
    opening = b"".join(
        mutated(rng, encode_frame(one)) if rng.random() < 0.05 else encode_frame(one) for one in HANDSHAKE
    )
    give(client, opening)
    count = len(HANDSHAKE)
    for _ in range(rng.choice((4, 16, 16, 64))):
        frames = [mutated(rng, command(rng)) for _ in range(8)]
        count += len(frames)
        data, start = b"".join(frames), 0
        while start < len(data):
            size = len(data) if rng.random() < 0.7 else rng.randrange(1, 200)
            give(client, data[start : start + size])
            start += size
            happen(rng, client)
        if client.core.state is not ConnectionPhase.RUNNING:
            break
    client.core.connection_lost(NOW)
    broker.answer_all()  # too late for everybody
    give(client, b"")
    if broker.connections or broker.sessions:
        raise Broken(f"left behind: {broker.connections} {broker.sessions}")
    return count


def happen(rng: random.Random, client: StreamClient) -> None:
    """What comes from the broker, or from the clock."""
    broker, core = client.broker, client.core
    match rng.randrange(40):
        case 0:
            broker.answers_later = not broker.answers_later
        case 1:
            broker.confirms_later = not broker.confirms_later
        case 2 if broker.sessions:
            session = broker.sessions[0]
            if session.publishers and (number := rng.choice(list(session.publishers))) in session.unconfirmed:
                session.refuse_unconfirmed(number, ResourceExhausted("no leader"))
        case 3 if broker.sessions:
            for number, reader in broker.sessions[0].readers.items():
                if reader.started and reader.options.single_active:
                    reader.active = False
                    core.activate(number, rng.random() < 0.7)
        case 4 if broker.streams:
            broker.remove(rng.choice(list(broker.streams)))
        case 5:
            core.pressure.set_transport_writable(not core.pressure.transport_writable)
        case 6:
            core.set_blocked(rng.choice((None, "disk")))
        case 7:
            broker.refuse = rng.choice(({}, {"publish": AccessRefused("no")}, {"subscribe": ResourceExhausted("no")}))
        case 8 if client.outside.armed and rng.random() < 0.2:
            client.outside.seconds += client.outside.armed
            core.timer_elapsed(NOW)
        case 9 if broker.connections and rng.random() < 0.05:
            broker.connections[0].close(ConnectionForced("an operator wants it"))
    if broker.pending and rng.random() < 0.4:
        broker.answer_all()


def give(client: StreamClient, data: bytes) -> None:
    """One turn."""
    core, broker = client.core, client.broker
    began = time.process_time()  # of a turn that computes only: whatever else the machine does
    core.receive_data(data, NOW)
    broker.pump(NOW)
    while core.proceed(NOW):
        broker.pump(NOW)
    took = time.process_time() - began
    if took > TURN_S_MAX:
        raise Broken(f"{len(data)} bytes took {took:.3f} s of processor time")
    check_output(b"".join(core.data_to_send()))
    if core.pressure.kept_bytes > KEPT_BYTES_MAX + FRAME_MAX:
        raise Broken(f"{core.pressure.kept_bytes} bytes are kept")


def check_output(data: bytes) -> None:
    """Whole frames that servers send, and only codes that are documented."""
    position = 0
    while position < len(data):
        end = frame_end(data, position, 0)
        if end is None:
            raise Broken(f"not a frame at {position}: {data[position : position + 40]!r}")
        said = decode_frame(data[position + 4 : end])
        if hasattr(said, "code"):
            ResponseCode(said.code)
        position = end


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz.stream_frames")
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
        try:
            frames += conversation(seed)
        except Exception:
            print(f"conversation {seed} broke: python -m tests.fuzz.stream_frames --only {seed}", file=sys.stderr)
            raise
        conversations += 1
    took = time.monotonic() - began
    print(
        f"{frames} frames in {conversations} conversations, {took:.0f} s, {frames / took:.0f} frames/s, nothing broken"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
