"""How a node carries a long stream: readers that begin anywhere in it, its memory, its return after a kill.

A measurement of `python -m tests.bench.scale`; see there. "cold": the page cache had nothing of the files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.bench.stream_load import LoadPublisher, LoadReader
from tests.bench.weighing import settled_resident_bytes
from tests.bench.workloads import declare
from tests.running_node import RunningNode, start_node
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_keys import OffsetKind

STREAM = "long"
WARM = "warm"
WARM_MESSAGES = 200_000
BATCH_MESSAGES = 500_000  # whose frames are made at once
WINDOW = 10_000
FRAME_MESSAGES = 100
PLACES = 20  # where readers begin
ATTACH_SECONDS_MAX = 0.1
RESTART_SECONDS_MAX = 5.0
GROWTH_BYTES_MAX = 100_000_000

Figures = dict[str, Any]


def stream_backlog(scratch: Path, count: int) -> Figures:
    """Fill a stream, begin at places spread over it, read all of it, kill the node, and do it again."""
    data = scratch / "data"
    node = start_node(data)
    fill(node, WARM, WARM_MESSAGES)
    empty = settled_resident_bytes(node)
    began_ms = time.time() * 1000
    fill(node, STREAM, count)
    places = list(places_in(count, began_ms, time.time() * 1000))
    grown = [settled_resident_bytes(node)]
    attached, cold = slowest_attach(node, places), slowest_attach(node, places, data)
    read_seconds = timed(read_all, node, count)
    grown.append(settled_resident_bytes(node))
    node.kill()
    began = time.perf_counter()
    node = start_node(data)
    last = OffsetSpec(OffsetKind.OFFSET, count - 1)
    attach(node, last)
    restarted = time.perf_counter() - began
    again = slowest_attach(node, places, data)
    read_all(node, count)
    grown.append(settled_resident_bytes(node))
    node.stop()
    growth = max(grown) - empty
    slowest = max(attached, cold, again)
    return {
        "attach_seconds_max": round(attached, 4),
        "attach_seconds_max_cold": round(cold, 4),
        "attach_seconds_max_cold_after_restart": round(again, 4),
        "read_per_second": round(count / read_seconds),
        "growth_bytes": growth,
        "restart_seconds": round(restarted, 2),
        "met": slowest <= ATTACH_SECONDS_MAX and restarted <= RESTART_SECONDS_MAX and growth <= GROWTH_BYTES_MAX,
    }


def timed(what: Callable[..., object], *arguments: object) -> float:
    began = time.perf_counter()
    what(*arguments)
    return time.perf_counter() - began


def fill(node: RunningNode, stream: str, count: int) -> None:
    declare(node.amqp, [stream], kind="stream")
    load = LoadPublisher(node.addresses["stream"], stream)
    for first in range(0, count, BATCH_MESSAGES):
        load.publish(min(BATCH_MESSAGES, count - first), WINDOW, FRAME_MESSAGES)
    load.close()


def places_in(count: int, began_ms: float, ended_ms: float) -> Iterator[OffsetSpec]:
    """Offsets and times, in turn, not in their order."""
    for number in range(PLACES):
        part = number * 7 % PLACES / PLACES
        yield OffsetSpec(OffsetKind.OFFSET, int(count * part))
        yield OffsetSpec(OffsetKind.TIMESTAMP, int(began_ms + (ended_ms - began_ms) * part))


def slowest_attach(node: RunningNode, places: list[OffsetSpec], cold: Path | None = None) -> float:
    """Seconds until a reader that begins there has its first messages. `cold`: the node's files."""
    slowest = 0.0
    for place in places:
        if cold is not None:
            drop_pages(cold)
        slowest = max(slowest, attach(node, place))
    return slowest


def attach(node: RunningNode, place: OffsetSpec) -> float:
    began = time.perf_counter()
    reader = LoadReader(node.addresses["stream"], STREAM, place, credit=1)
    while not reader.got:
        reader.receive()
    seconds = time.perf_counter() - began
    if place.kind is OffsetKind.OFFSET:
        assert reader.next_offset > place.value, f"asked for {place.value}, given what lies before {reader.next_offset}"
    reader.close()
    return seconds


def read_all(node: RunningNode, count: int) -> None:
    reader = LoadReader(node.addresses["stream"], STREAM, OffsetSpec(OffsetKind.FIRST))
    while reader.next_offset < count:
        reader.receive()
    reader.close()


def drop_pages(directory: Path) -> None:
    """What is on the disk of its files is no longer in memory."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
