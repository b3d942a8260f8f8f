"""Looks into a classic queue without taking anything: runs stay where they are, on disk or in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import dropwhile
from typing import Protocol

from broker.messages.browsed import Browsed
from classic.run_backing import ContentLost
from classic.store.backing import QueueBacking
from classic.stored_run import StoredRun, is_too_old
from classic.variable_queue import VariableQueue
from native.content import singles, skip
from native.sequence_set import SequenceSet


class LookedIntoQueue(Protocol):
    """What is looked into."""

    @property
    def backing(self) -> QueueBacking: ...

    @property
    def levels(self) -> Sequence[VariableQueue]: ...

    @property
    def redelivered(self) -> SequenceSet: ...


def browse(queue: LookedIntoQueue, skipped: int, now: int) -> Iterator[Browsed]:
    """Ready messages behind the first `skipped`, as they would be delivered; without what would expire before that. Raises
    ContentOutOfReach."""
    for level in reversed(queue.levels):
        for run, first, end in dropwhile(lambda one: is_too_old(one[0], now), level.browse()):
            passed = min(skipped, end - first)
            skipped -= passed
            if first + passed < end:
                yield from _messages_of(queue, run, first + passed, end)


def _messages_of(queue: LookedIntoQueue, run: StoredRun, first: int, end: int) -> Iterator[Browsed]:
    try:
        content, content_first = (run.content, run.content_first) if run.content else queue.backing.read(run)
    except ContentLost:
        return  # it has been reported
    at = skip(content, 0, first - content_first)
    for sequence, single in enumerate(singles(content, at, end - first), first):
        yield Browsed(run.exchange, run.routing_key, single, run.persistent, sequence in queue.redelivered)
