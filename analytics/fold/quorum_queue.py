"""A quorum queue's log folded into lives: given to the machine that its members run, which says what it does with each message.

It begins at the first entry of the log, or at a snapshot; what was published before is told as partial.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

from analytics.fold.entry_batch import EntryBatch
from analytics.fold.lives import Lives
from analytics.fold.lone_entries import LoneEntries, LonePublishes
from analytics.fold.lone_flow import LoneFlow
from analytics.fold.telling_machine import Refusal, TellingMachine
from native.entry_rows import whole_entry
from native.entry_scan import LoneEntry, lone_entries, lone_entry
from quorum.fifo.commands import ENTRY_HEAD
from quorum.fifo.inspection import MemberCounters


class Second(NamedTuple):
    """One queue, at the end of a second in which something happened."""

    second: int  # since 1970
    ready: int
    ready_bytes: int
    unacknowledged: int
    consumers: int
    published: int  # within this second, as are those below
    delivered: int
    redelivered: int
    acknowledged: int
    got: int
    dead: int
    rejected: int  # publishes


class QueueFold:
    """See the module. `take` entries in the order of their indexes, without gaps."""

    def __init__(self, snapshot: tuple[bytes, int] | None = None, *, with_steps: bool = False) -> None:
        """`snapshot`: the state to begin with, and the machine's version."""
        self.lives = Lives(with_steps=with_steps)
        self.machine = TellingMachine(self.lives)
        if snapshot is not None:
            self.machine.restore(*snapshot)
        runs = LonePublishes()
        self._lone = LoneEntries(self.machine, self.lives, runs)
        self._flow = LoneFlow(self.machine, self.lives, runs)
        self._seconds: list[Second] = []
        self._second = 0  # that goes on
        self._second_ends = 1000  # ms
        self._before = MemberCounters()  # when it began

    def take(self, index: int, data: bytes, size: int = 0) -> None:
        """A command of the log, or its skeleton and the `size` that it had (native/log_columns.py). Raises ValueError when the
        machine cannot go on: the log is of a newer version."""
        self._take(index, data, size, lone_entry(data, size))

    def take_batch(self, batch: EntryBatch, start: int, end: int) -> tuple[int, str | None]:
        """From the `start`th of it on, up to the `end`th: which one comes next, and why the machine cannot go on behind the one
        before that."""
        entries = lone_entries(batch.data[:end], batch.sizes[:end])
        at = start
        try:
            while at < end:
                at = self._flow.take(batch.place, entries, at, self._second_ends)
                if at < end:
                    at += 1  # whatever comes of it
                    self._take(batch.place + at - 1, batch.data[at - 1], batch.sizes[at - 1], entries[at - 1])
        except ValueError as error:
            return at, str(error)
        return at, None

    def _take(self, index: int, data: bytes, size: int, lone: LoneEntry | None) -> None:
        self.lives.place = index
        time_ms = ENTRY_HEAD.unpack_from(data)[1] if len(data) >= ENTRY_HEAD.size else 0
        if time_ms >= self._second_ends:
            self._begin_second(time_ms // 1000)
        if lone is None or not self._lone.take(index, lone):
            self.machine.take(index, whole_entry(data, size))

    def take_seconds(self) -> list[Second]:
        """Those that are over, and had something happen in them."""
        seconds, self._seconds = self._seconds, []
        return seconds

    def take_refusals(self) -> list[Refusal]:
        refusals, self.machine.refusals = self.machine.refusals, []
        return refusals

    def end(self) -> None:
        """There are no more entries."""
        self._begin_second(self._second + 1)

    def _begin_second(self, second: int) -> None:
        if self._second:
            self._seconds.append(self._over())
        self._second, self._second_ends = second, (second + 1) * 1000
        self._before = copy(self.machine.counters)

    def _over(self) -> Second:
        figures, before = self.machine.figures(), self._before
        now = figures.counters
        return Second(
            self._second,
            figures.ready + figures.delayed,
            figures.ready_bytes,
            figures.unacknowledged,
            figures.consumers,
            now.published - before.published,
            now.delivered - before.delivered,
            now.redelivered - before.redelivered,
            now.acknowledged - before.acknowledged,
            now.got - before.got,
            now.dead - before.dead,
            now.rejected - before.rejected,
        )
