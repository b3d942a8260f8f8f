"""The life of a message for the node that has the log: a process beside it, which reads one question and says one answer.

    python -m analytics.life.node_reader < question > answer

A node imports nothing of what reads logs; it starts this. The process puts bounds on itself before it reads anything: it runs
when nothing else wants the processor, in one process, and ends where it would need more time or memory than it is given.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable

import msgspec

from analytics.inputs import LogFile, log_files, snapshot_files
from analytics.life.life_objects import life_objects
from analytics.life.pursuit import pursue
from analytics.life.wanted import (
    AtPlace,
    InQueue,
    LookFor,
    MessagePlace,
    SuccessorOf,
    TextProperty,
    body_digest,
    numbers_of,
    place_numbers,
)
from analytics.past.file_contents import summary_beside
from broker.json_values import to_json
from replicated.local_members import QUEUE_GROUPS

NICENESS = 19
EXIT_REFUSED = 64  # the question, or what it is asked of
EXIT_NO_ROOM = 70
TEXT_PROPERTIES = ("message_id", "correlation_id")


class ReaderQuestion(msgspec.Struct):
    """Of the node: node/lives/life_process.py."""

    data: str  # directory
    queue: int = 0  # its number in the catalog
    by: str = ""  # message_id, correlation_id, place or body_sha256
    value: str = ""
    died: list[list[int]] = []  # or: what these became, by queue and place as a life says it
    places: list[list[int]] = []  # and: these, by queue and place as a dead letter says where it died
    cpu_s: int = 30
    memory_bytes: int = 1 << 30


def main() -> int:
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=ReaderQuestion)
    bound(asked.cpu_s, asked.memory_bytes)
    try:
        sys.stdout.buffer.write(answer(asked))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    except MemoryError:
        print(f"it needs more than {asked.memory_bytes >> 20} MiB of memory", file=sys.stderr)
        return EXIT_NO_ROOM
    return 0


def bound(cpu_s: int, memory_bytes: int) -> None:
    """Of this process, from now on."""
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would have contents of messages in it


def answer(asked: ReaderQuestion) -> bytes:
    """Also of what was written last and is not yet known to be durable: it is told of a node that runs. Raises ValueError."""
    paths = [asked.data]
    found = pursue(
        log_files(paths),
        snapshot_files(paths),
        look_for(asked),
        tail=True,
        may_hold=_any if asked.died or asked.places else holds(asked.queue),
        processes_max=1,
    )
    said = {"coverage": found.coverage.as_object(), "lives": life_objects(found), "more": found.more}
    return msgspec.json.encode(to_json(said))


def look_for(asked: ReaderQuestion) -> LookFor:
    """Raises ValueError."""
    if asked.died or asked.places:
        return LookFor(
            sought=tuple(_successor(queue, place) for queue, *place in asked.died),
            places=tuple(AtPlace(None, *position) for position in asked.places),
        )
    if asked.by in TEXT_PROPERTIES:
        return LookFor(sought=(InQueue(TextProperty(asked.by, asked.value), asked.queue),))
    if asked.by == "body_sha256":
        return LookFor(digests=(body_digest(asked.queue, asked.value),))
    if asked.by == "place":
        return LookFor(places=(AtPlace(None, asked.queue, *place_numbers(asked.value)),))
    raise ValueError(f"messages are not looked for by {asked.by!r}")


def _successor(queue: int, place: list[int]) -> SuccessorOf:
    """A place has one number in a classic queue, and three in a quorum queue."""
    if len(place) == 1:
        return SuccessorOf(MessagePlace(queue, place[0], 0, 0), is_classic=True)
    pos, off, nth = place
    return SuccessorOf(MessagePlace(queue | QUEUE_GROUPS, pos, off, nth), is_classic=False)


def _any(_: LogFile) -> bool:
    return True


def holds(queue: int) -> Callable[[LogFile], bool]:
    """Whether a file may have messages of this queue: an archived one says so in short."""

    def may_hold(file: LogFile) -> bool:
        summary = summary_beside(file)
        if summary is None or summary.queues is None:
            return True
        named = {number for number, _ in summary.queues} | {row.writer for row in summary.writers}
        return not named.isdisjoint(numbers_of(queue))

    return may_hold


if __name__ == "__main__":
    sys.exit(main())
