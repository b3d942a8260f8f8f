"""What a classic queue holds, read for another queue that is to take its place. Nothing moves by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker.messages.message import Run
from classic.queue import ClassicQueue
from classic.stored_run import StoredRun
from native.content import body_bytes, skip


@dataclass(slots=True, frozen=True)
class CopiedPart:
    """Messages `first` up to, not including, `end` of a stored run."""

    run: StoredRun
    first: int
    end: int


def ready_parts(queue: ClassicQueue, start: int) -> Iterator[CopiedPart]:
    """Those that are ready, from this sequence on; of queues without priorities. To be used up before anything else is done
    with the queue. Raises ContentOutOfReach."""
    for run, first, end in queue.levels[0].browse(start):
        if end > start:
            yield CopiedPart(run, max(first, start), end)


def as_published(queue: ClassicQueue, part: CopiedPart, now: int) -> Run:
    """The messages as if they were published now, with what is left of their time. Raises ContentLost and ContentOutOfReach."""
    run, count = part.run, part.end - part.first
    content, content_first = (run.content, run.content_first) if run.content else queue.backing.read(run)
    start = skip(content, 0, part.first - content_first)
    end = skip(content, start, count)
    return Run(
        run.exchange,
        run.routing_key,
        content if end - start == len(content) else content[start:end],
        count,
        body_bytes(
            content, start, count
        ),  # exact: of a part `StoredRun.bytes_of` may only guess, and a leader refuses that
        persistent=run.persistent,
        priority=run.priority,
        expiration_ms=None if run.expires_at is None else max(0, run.expires_at - now),
    )
