"""Parts of a run. Whoever divides a run that somebody waits for divides its receipt with it, here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from broker.messages.confirms import Receipt
from broker.messages.message import Run
from native.content import body_bytes, skip


def part(run: Run, start: int, end: int, count: int) -> Run:
    """The messages between two positions of a run's content, as a run."""
    if count == run.count:
        return run
    content = run.content[start:end]
    return replace(run, content=content, count=count, body_bytes=body_bytes(content, 0, count))


def one_by_one(run: Run, receipt: Receipt | None, queue_count: int) -> Iterator[tuple[Run, Receipt | None]]:
    """Each message of a run as a run of its own, with what `queue_count` of the receipt's queues owe for it: one that has no
    room must not keep those out that came with it, nor be taken for one of them."""
    if run.count == 1:
        yield run, receipt
        return
    owed = receipt.split(queue_count) if receipt is not None else [None] * run.count
    assert len(owed) == run.count, f"a receipt for {len(owed)} messages, and the run has {run.count}"
    position = 0
    for passed, one in enumerate(owed):
        end = skip(run.content, position, 1)
        single = part(run, position, end, 1)
        if run.number:
            single.number += passed
        if run.died_in is not None:
            single.died_in = run.died_in.of_message(passed)
        yield single, one
        position = end
