"""What the kernels cost, plain beside compiled: `python -m tests.bench.bench_kernels`.

Its table is the one in native/README.md. The work is that of a busy node: messages of 100 bytes, a thousand at a time.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

from broker.queues.queue_type import Outcome
from classic.store import log_records
from native import (
    alike,
    amqp10_items,
    compiled_twin,
    content,
    crc32,
    crc32c,
    deliver,
    entry_scan,
    frame_split,
    log_columns,
    log_tally,
    message_columns,
    offsets,
    record_scan,
    sequence_set,
    stream_publish,
)
from quorum.fifo.commands import ConsumerKey, Origins, SessionKey, Settle, encode, encode_enqueue, entry_head
from quorum.fifo.origins import OriginPart
from wire.amqp.tables import encode_properties
from wire.amqp10.stream_messages import from_sections, items_of, to_sections

Work = Callable[[Any], object]

MESSAGES = 1000
ROUNDS = 5
FRAME_MAX = 131072
SIZE_MAX = 1 << 27


def main() -> None:
    print(f"{'kernel':<14} {'work':<46} {'plain':>12} {'compiled':>12} {'factor':>7}")
    for kernel, work, unit, units, run in works():
        twin = compiled_twin(kernel)
        plain_ns = best_ns(lambda run=run, kernel=kernel: run(PLAIN[kernel])) / units
        if twin is None:
            print(f"{kernel:<14} {work:<46} {spell(plain_ns, unit):>12} {'not built':>12}")
            continue
        compiled_ns = best_ns(lambda run=run, twin=twin: run(twin)) / units
        print(
            f"{kernel:<14} {work:<46} {spell(plain_ns, unit):>12} {spell(compiled_ns, unit):>12} "
            f"{plain_ns / compiled_ns:>6.0f}x"
        )


class _Plain:
    """A kernel's plain functions under the names that its twin has."""

    def __init__(self, module: Any) -> None:
        for name in dir(module):
            if name.endswith("_plain"):
                setattr(self, name.removesuffix("_plain"), getattr(module, name))


PLAIN: dict[str, Any] = {
    module.__name__.removeprefix("native."): _Plain(module)
    for module in (
        frame_split,
        stream_publish,
        deliver,
        offsets,
        amqp10_items,
        content,
        crc32c,
        crc32,
        record_scan,
        sequence_set,
        entry_scan,
        log_columns,
        log_tally,
        message_columns,
    )
}
PLAIN["log_tally"].LogTally = log_tally.LogTallyPlain
PLAIN["sequence_set"].SequenceSet = sequence_set.SequenceSetPlain
PLAIN["frame_split"].alike_runs = alike.alike_runs_plain  # in the same twin


def works() -> list[tuple[str, str, str, int, Work]]:
    """Kernel, work, unit of its figure, units in one round, and the round."""
    body = b"x" * 100
    publishes = publish_frames(body) * MESSAGES
    single, hundreds = stream_frames(body, 1), stream_frames(body, 100)
    acks = b"".join(frame(1, struct.pack(">HHQB", 60, 80, tag, 0)) for tag in range(1, MESSAGES + 1))
    messages = content.encode(b"\x10\0\2", body) * MESSAGES
    unlike = b"".join(
        content.encode(b"\x30\0\0\0\0\7\1nI" + number.to_bytes(4, "big") + b"\2", body) for number in range(MESSAGES)
    )
    numbered = b"".join(content.encode(usual_properties(number), body) for number in range(MESSAGES))
    items, numbered_items = (items_of(one, 0, MESSAGES, "", "orders") for one in (messages, numbered))
    payload = bytes(range(256)) * 4
    log = (record_scan.seal([payload], 1, 0, 1, 1, 1, 1) + payload) * MESSAGES
    written = [record_scan.seal([payload], 16, 0, 1, 1, 1, 1), payload] * MESSAGES
    block = bytes(range(256)) * 256
    head = log_records.encode_published([(1, 1)], 0, 20, 2_000, None, "amq.direct", "orders")
    run = head + messages[: len(messages) // MESSAGES * 20]
    runs = (record_scan.seal([run], 16, 0, 0, 0, 1, 1) + run) * (MESSAGES // 20)
    at, place = struct.pack("<q", 0), log_columns.FilePlace(0)
    large = content.encode(b"\0\0", bytes(16_384)) * 20
    length, count = struct.pack("<q", len(messages)), struct.pack("<q", MESSAGES)
    lone = lone_entries()
    names = (1, b"ctag1", 1, False, b"amq.direct", b"orders")
    return [
        ("frame_split", "split publishes of 100 B", "message", MESSAGES,
         lambda k: k.split(publishes, 0, FRAME_MAX, SIZE_MAX)),
        ("frame_split", "split acks", "ack", MESSAGES, lambda k: k.split(acks, 0, FRAME_MAX, SIZE_MAX)),
        ("frame_split", "runs of a content, 100 B, no two headers alike", "message", MESSAGES,
         lambda k: k.alike_runs(unlike, 0, MESSAGES)),
        ("stream_publish", "100 B in a frame of the stream protocol", "message", MESSAGES,
         lambda k: k.published(single, 0, FRAME_MAX)),
        ("stream_publish", "the same, 100 in a frame", "message", MESSAGES,
         lambda k: k.published(hundreds, 0, FRAME_MAX)),
        ("stream_publish", "count items of 100 B", "item", MESSAGES, lambda k: k.count_items(items)),
        ("deliver", "deliveries of 100 B", "message", MESSAGES,
         lambda k: k.deliveries(messages, 0, MESSAGES, *names, FRAME_MAX)),
        ("deliver", "deliveries of 16 KiB, bodies where they lie", "message", 20,
         lambda k: k.large_deliveries(large, 0, 20, *names, FRAME_MAX)),
        ("offsets", "offsets of a stream, 100 B", "message", MESSAGES,
         lambda k: k.with_offsets(messages, 0, MESSAGES, 10**9)),
        ("offsets", "the same, 100 B, no two headers alike", "message", MESSAGES,
         lambda k: k.with_offsets(unlike, 0, MESSAGES, 10**9)),
        ("amqp10_items", "items of 100 B", "message", MESSAGES,
         lambda k: k.items(messages, 0, MESSAGES, b"", b"orders", to_sections)),
        ("amqp10_items", "the same, six properties, no two alike", "message", MESSAGES,
         lambda k: k.items(numbered, 0, MESSAGES, b"", b"orders", to_sections)),
        ("amqp10_items", "messages of 100 B", "message", MESSAGES,
         lambda k: k.messages(items, 0, MESSAGES, from_sections)),
        ("amqp10_items", "the same, six properties, no two alike", "message", MESSAGES,
         lambda k: k.messages(numbered_items, 0, MESSAGES, from_sections)),
        ("content", "skip", "message", MESSAGES, lambda k: k.skip(messages, 0, MESSAGES)),
        ("crc32c", "checksum of 64 KiB", "byte", len(block), lambda k: k.crc32c(block)),
        ("crc32", "checksum of 64 KiB", "byte", len(block), lambda k: k.crc32(block)),
        ("record_scan", "scan records of 1 KiB", "record", MESSAGES, lambda k: k.scan(log, 0, len(log), SIZE_MAX)),
        ("record_scan", "seal 1 KiB", "record", 100,
         lambda k: [k.seal((payload,), 1, 0, 1, 1, index, 1) for index in range(100)]),
        ("sequence_set", "add one behind, take one in front", "member", MESSAGES, pass_through),
        ("sequence_set", "add 1 000 apart, ask for each, remove each", "member", MESSAGES, scattered),
        ("entry_scan", "entries of a message, published or acknowledged", "entry", MESSAGES,
         lambda k: k.lone_entries(*lone)),
        ("log_columns", "records and publishes, 20 of 100 B in a run", "message", MESSAGES,
         lambda k: k.publishes(runs, 0, k.records(runs, 0, len(runs), SIZE_MAX, place)[:2], b"")),
        ("log_columns", "records and events, 20 of 100 B in a run", "message", MESSAGES,
         lambda k: k.events(runs, 0, k.records(runs, 0, len(runs), SIZE_MAX, place)[:2], 1, b"")),
        ("log_tally", "count records of 1 KiB, each in two buffers", "record", MESSAGES,
         lambda k: k.LogTally().take(written)),
        ("message_columns", "messages of 100 B", "message", MESSAGES,
         lambda k: k.messages(messages, 0, at, length, count)),
    ]  # fmt: skip


def usual_properties(number: int) -> bytes:
    return encode_properties(
        {
            "content_type": "application/json", "delivery_mode": 2, "message_id": f"m-{number}",
            "timestamp": 1_700_000_000 + number, "headers": {"tenant": "eu-1", "attempt": number},
        }
    )  # fmt: skip


def lone_entries() -> tuple[list[bytes], list[int]]:
    """Half of them publish a message, whose content was cut out, half acknowledge one; with the sizes that they had."""
    session, entries = SessionKey(1, 2), []
    for number in range(1, MESSAGES // 2 + 1):
        publish = encode_enqueue(session, number, 1, 100, "amq.direct", "orders", bytes(100))
        said = b"".join((entry_head(number), encode(Origins([OriginPart(1, number, 1, True)])), *publish))
        settle = encode(Settle(ConsumerKey(*session, 1), Outcome.ACKNOWLEDGED, [(number, 1)]))
        entries += [(said[:-100], len(said)), (entry_head(number) + settle, 0)]
    data, sizes = zip(*entries, strict=True)
    return list(data), list(sizes)


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, 1, len(payload)) + payload + b"\xce"


def publish_frames(body: bytes) -> bytes:
    method = struct.pack(">HHH", 60, 40, 0) + b"\x0aamq.direct\x06orders\0"
    return frame(1, method) + frame(2, struct.pack(">HHQ", 60, 0, len(body)) + b"\x10\0\2") + frame(3, body)


def stream_frames(body: bytes, count: int) -> bytes:
    """As many messages as in the other works, so many to a frame."""
    frames = []
    for first in range(0, MESSAGES, count):
        messages = [struct.pack(">QI", first + place, len(body)) + body for place in range(count)]
        fields = struct.pack(">HHBI", 2, 1, 0, count) + b"".join(messages)
        frames.append(struct.pack(">I", len(fields)) + fields)
    return b"".join(frames)


def pass_through(kernel: Any) -> None:
    """A queue: 100 wait, one comes, one goes."""
    waiting = kernel.SequenceSet()
    waiting.add(0, 100)
    for sequence in range(100, 100 + MESSAGES):
        waiting.add(sequence, sequence + 1)
        waiting.pop_first(1)


def scattered(kernel: Any) -> None:
    members = kernel.SequenceSet()
    for number in range(0, 2 * MESSAGES, 2):
        members.add(number, number + 1)
    for number in range(0, 2 * MESSAGES, 2):
        assert number in members
    for step in range(MESSAGES):
        number = 2 * (step * 7 % MESSAGES)
        members.remove(number, number + 1)


def best_ns(run: Callable[[], object]) -> float:
    """The best of some rounds: what it costs when nobody else is on the machine."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        run()
        best = min(best, time.perf_counter_ns() - start)
    return best


def spell(ns: float, unit: str) -> str:
    return f"{ns:.2f} ns/{unit[0]}" if ns < 10 else f"{ns:.0f} ns/{unit[0]}"


if __name__ == "__main__":
    main()
