"""Messages that left a queue, for the node that has the log: a process beside it, which says them piece by piece.

    python -m analytics.replay.log_reader < question > frames

A node imports nothing of what reads logs; it starts this. The process puts bounds on itself before it reads anything, and runs
when nothing else wants the processor. It goes on only as fast as what it says is read.

A frame is a length, u32 little endian, and so many bytes of MessagePack: the first says what was chosen, each further
one is a list of ReplayRows, and the last one empty.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from analytics.coverage import iso_time
from analytics.file_window import coverage_of
from analytics.inputs import LogFile, log_files, snapshot_files
from analytics.life.node_reader import EXIT_NO_ROOM, EXIT_REFUSED, bound, holds
from analytics.replay.choice import Choice
from analytics.replay.chosen_runs import ChosenMessages, ChosenRun, chosen_of_classic, chosen_of_group
from analytics.replay.logged_contents import ContentReader, locate
from replicated.local_members import QUEUE_GROUPS

CAUSES_MAX = 200
FRAME_BYTES, FRAME_MESSAGES = 1 << 18, 256


class ReplayQuestion(msgspec.Struct):
    """Of the node: node/lives/replay_process.py."""

    data: str  # directory
    queue: int  # its number in the catalog
    is_group: bool
    choice: Choice
    with_contents: bool
    cpu_s: int
    memory_bytes: int


class ReplayRow(NamedTuple):
    """A message, as a node reads it."""

    place: list[int]
    exchange: str
    routing_key: str
    persistent: bool
    priority: int
    end: str
    ended_at: int | None  # ms
    published_at: int | None
    content: bytes  # empty: no file has it any more


def main() -> int:
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=ReplayQuestion)
    bound(asked.cpu_s, asked.memory_bytes)
    try:
        for frame in frames(asked):
            sys.stdout.buffer.write(len(frame).to_bytes(4, "little") + frame)
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        return 0  # nobody waits for more
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    except MemoryError:
        print(f"it needs more than {asked.memory_bytes >> 20} MiB of memory: choose fewer messages", file=sys.stderr)
        return EXIT_NO_ROOM
    return 0


def frames(asked: ReplayQuestion) -> Iterator[bytes]:
    """Raises ValueError."""
    files = log_files([asked.data])
    may_hold = holds(asked.queue)
    held = [file for file in files if may_hold(file)]
    number = asked.queue | QUEUE_GROUPS if asked.is_group else asked.queue
    if asked.is_group:
        chosen = chosen_of_group(held, snapshot_files([asked.data]), number, asked.choice)
    else:
        chosen = chosen_of_classic(held, number, asked.choice)
    yield msgspec.msgpack.encode(_summary(asked, chosen, held, len(files) - len(held)))
    if asked.with_contents:
        yield from _content_frames(held, number, chosen.runs, is_group=asked.is_group)
        yield msgspec.msgpack.encode([])


def _summary(asked: ReplayQuestion, chosen: ChosenMessages, files: list[LogFile], skipped: int) -> dict[str, Any]:
    covered = coverage_of(files, chosen.windows)
    causes: Counter[tuple[str, str, str]] = Counter()
    for run in chosen.runs:
        cause = (run.end, run.exchange, run.routing_key)
        causes[cause if cause in causes or len(causes) < CAUSES_MAX else (run.end, "", "")] += run.messages
    return {
        "messages": sum(run.messages for run in chosen.runs),
        "first": _place(chosen.runs[0], 0, is_group=asked.is_group) if chosen.runs else None,
        "last": _place(chosen.runs[-1], chosen.runs[-1].messages - 1, is_group=asked.is_group) if chosen.runs else None,
        "causes": [[*cause, count] for cause, count in causes.items()],
        "skipped": dict(chosen.skipped),
        "uncommitted": chosen.uncommitted,
        "unnamed": chosen.unnamed,
        "more": chosen.more,
        "unknown": chosen.unknown,
        "files": covered.files,
        "files_skipped": skipped,
        "from_time": iso_time(min((one.first for one in chosen.windows if one.first is not None), default=None)),
        "to_time": iso_time(max((one.last for one in chosen.windows if one.last is not None), default=None)),
        "damaged_bytes": sum(one.length for one in covered.damage if not one.torn),
    }


def _content_frames(files: list[LogFile], queue: int, runs: list[ChosenRun], *, is_group: bool) -> Iterator[bytes]:
    rows: list[ReplayRow] = []
    size = 0
    for row in _rows(files, queue, runs, is_group=is_group):
        rows.append(row)
        size += len(row.content)
        if size >= FRAME_BYTES or len(rows) >= FRAME_MESSAGES:
            yield msgspec.msgpack.encode(rows)
            rows, size = [], 0
    if rows:
        yield msgspec.msgpack.encode(rows)


def _rows(files: list[LogFile], queue: int, runs: Iterable[ChosenRun], *, is_group: bool) -> Iterator[ReplayRow]:
    stored = locate(files, queue, {run.run for run in runs})
    reader = ContentReader()
    for run in runs:
        found = list(reader.messages(run, stored.get(run.run))) or [b""] * run.messages
        for at, content in enumerate(found):
            place = _place(run, at, is_group=is_group)
            yield ReplayRow(
                place, run.exchange, run.routing_key, run.persistent, run.priority, run.end, run.ended_at,
                run.published_at, content,
            )  # fmt: skip


def _place(run: ChosenRun, at: int, *, is_group: bool) -> list[int]:
    return [run.entry, run.offset, run.first + at] if is_group else [run.entry + run.first + at]


if __name__ == "__main__":
    sys.exit(main())
