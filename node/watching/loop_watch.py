"""Which work held the event loop for too long: a counter and a log line with its name.

Everything of a node but disk and passwords runs on one loop, so whatever takes long there delays every client. A timer of the
loop is expected every `beat_s`; what it is late by is how long a turn took. While it is late a thread looks at what the loop's
thread is doing, and the function that it saw most often is the culprit.

Costs 50 timers and 50 wakes of the thread a second, each some microseconds: 0.05 % of a core, whatever the load is.

A turn that took long without using the processor waited: for a disk, or for a machine that had other things to do.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from broker.login.log_throttle import LogThrottle

# Of the packages, with those of others beside them where they are installed.
ROOT = str(Path(__file__).resolve().parents[2]) + "/"
OURS = (
    *("broker/", "classic/", "front/", "links/", "native/", "node/"),
    *("quorum/", "raft/", "replicated/", "storage/", "stream/", "wire/"),
)
BEAT_S = 0.02
SLOW_S = 0.05
WORKS_MAX = 100  # names that are counted apart; functions are few, but not known beforehand
OTHER_WORK = "other"
UNSEEN = "unseen"  # it ended before the thread looked
GARBAGE = "garbage collection"
CALLERS_SHOWN = 6
TOLD_EVERY_S = 10.0
_OUTSIDE = ("node/run.py", "node/main.py", "node/watching/loop_watch.py")


@dataclass(frozen=True, slots=True)
class SlowTurn:
    """One turn of the loop that took too long."""

    seconds: float
    processor_seconds: float
    work: str  # the function that was seen most often, with its file
    callers: str  # how it was reached, outermost first


class LoopWatch:
    """See the module. `told` hears of each slow turn, on the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        told: Callable[[SlowTurn], None],
        beat_s: float = BEAT_S,
        slow_s: float = SLOW_S,
    ) -> None:
        self.longest_s = 0.0
        self.counts: Counter[str] = Counter()  # slow turns, by work
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._loop = loop
        self._told = told
        self._beat_s = beat_s
        self._slow_s = slow_s
        self._thread_id = threading.get_ident()
        self._due = 0.0  # when the timer should run next
        self._processor_s = 0.0  # of the loop's thread, at the last beat
        self._seen: list[tuple[str, str]] = []  # in the turn that is late
        self._collecting_since = 0.0
        self._collected_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="leveret-loop-watch", daemon=True)

    def start(self) -> None:
        """On the loop's thread."""
        gc.callbacks.append(self._collector)
        self._processor_s = time.thread_time()
        self._expect()
        self._thread.start()

    def stop(self) -> None:
        """Also when it was never started."""
        if self._timer is None:
            return
        gc.callbacks.remove(self._collector)
        self._timer.cancel()
        self._ended.set()
        self._thread.join()

    # on the loop's thread

    def _expect(self) -> None:
        self._due = time.monotonic() + self._beat_s
        self._timer = self._loop.call_later(self._beat_s, self._beat)

    def _beat(self) -> None:
        late_s, processor_s = time.monotonic() - self._due, time.thread_time()
        if late_s >= self._slow_s:
            self._note(late_s, processor_s - self._processor_s)
        self._processor_s = processor_s
        self._seen, self._collected_s = [], 0.0
        self._expect()

    def _note(self, seconds: float, processor_seconds: float) -> None:
        work, callers = Counter(self._seen).most_common(1)[0][0] if self._seen else (UNSEEN, "")
        if self._collected_s > seconds / 2:
            work = GARBAGE
        counted = work if work in self.counts or len(self.counts) < WORKS_MAX else OTHER_WORK
        self.counts[counted] += 1
        self.seconds[counted] += seconds
        self.longest_s = max(self.longest_s, seconds)
        self._told(SlowTurn(seconds, processor_seconds, work, callers))

    def _collector(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._collecting_since = time.monotonic()
        else:
            self._collected_s += time.monotonic() - self._collecting_since

    # on the watching thread

    def _look(self) -> None:
        while not self._ended.wait(self._beat_s):
            if time.monotonic() - self._due >= self._slow_s / 2:
                seen = place_of_thread(self._thread_id)
                if seen is not None:
                    self._seen.append(seen)


class SlowTurnLog:
    """One line a work in TOLD_EVERY_S, and how many there were since the last one."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._throttle = LogThrottle(TOLD_EVERY_S)

    def __call__(self, turn: SlowTurn) -> None:
        suppressed = self._throttle.may_log(turn.work, time.monotonic())
        if suppressed is None:
            return
        self._logger.warning(
            "the event loop was held for %.0f ms (%.0f ms of processor time) by %s%s%s",
            turn.seconds * 1000,
            turn.processor_seconds * 1000,
            turn.work,
            f", called by {turn.callers}" if turn.callers else "",
            f"; {suppressed} slow turns by it were not logged" if suppressed else "",
        )


def place_of_thread(thread_id: int) -> tuple[str, str] | None:
    """What it is doing now, looked at from another thread.

    CPython 3.11 makes a frame's object when somebody looks at it. A garbage collection that this sets off may let the thread go
    on, its frame ends, and what the object shows is freed memory: the process dies. So none may begin meanwhile.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return place_of(sys._current_frames().get(thread_id))
    finally:
        if collects:
            gc.enable()


def place_of(frame: FrameType | None) -> tuple[str, str] | None:
    """The innermost function of ours, and those that lead to it; None: none of ours runs."""
    ours: list[str] = []
    while frame is not None:
        code = frame.f_code
        name = code.co_filename.removeprefix(ROOT)
        if name.startswith(OURS) and name not in _OUTSIDE:
            ours.append(f"{name}:{code.co_qualname}")
        frame = frame.f_back
    if not ours:
        return None
    return ours[0], " > ".join(one.rpartition(":")[2] for one in reversed(ours[:CALLERS_SHOWN]))
