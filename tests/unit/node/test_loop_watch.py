"""Turns of the event loop that take too long are counted, under the name of what ran."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric

from front.slices import step_by_step
from node.watching import loop_watch
from node.watching.loop_watch import GARBAGE, LoopWatch, SlowTurn, SlowTurnLog
from node.watching.metrics import slow_turns
from tests.running_node import ROOT

SLOW_S = 0.03
LONG_S = 0.09  # of what these tests do: a machine that is busy with something else makes shorter turns slow too


def watched(work: Callable[[], None]) -> tuple[LoopWatch, list[SlowTurn]]:
    """What a watch says of one turn that does this work, those that were as long as that."""
    told: list[SlowTurn] = []

    async def run() -> LoopWatch:
        slow = asyncio.Event()

        def tell(turn: SlowTurn) -> None:
            told.append(turn)
            slow.set()

        watch = LoopWatch(asyncio.get_running_loop(), tell, beat_s=0.002, slow_s=SLOW_S)
        watch.start()
        await asyncio.sleep(0.02)
        told.clear()  # of a machine that was busy with something else
        slow.clear()
        work()
        while not any(turn.seconds >= LONG_S for turn in told):
            await slow.wait()
            slow.clear()
        watch.stop()
        return watch

    watch = asyncio.run(run())
    return watch, [turn for turn in told if turn.seconds >= LONG_S]


def spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_long_turn_is_told_with_the_function_that_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "ROOT", str(Path(__file__).parent) + "/")
    monkeypatch.setattr(loop_watch, "OURS", (Path(__file__).name,))
    watch, (turn, *_) = watched(lambda: spin(0.1))
    assert turn.work == "test_loop_watch.py:spin"
    assert turn.callers.endswith("<lambda> > spin")
    assert turn.seconds >= LONG_S
    assert turn.processor_seconds >= 0.09
    assert watch.counts["test_loop_watch.py:spin"] >= 1
    assert watch.longest_s >= turn.seconds


def test_a_turn_that_waited_is_told_as_one_that_did_not_use_the_processor() -> None:
    _, (turn, *_) = watched(lambda: time.sleep(0.1))
    assert turn.seconds >= LONG_S
    assert turn.processor_seconds < 0.05


def test_the_work_of_any_package_has_a_name() -> None:
    seen = set()

    def look() -> Iterator[None]:
        seen.add(loop_watch.place_of(sys._getframe()))
        yield

    asyncio.run(step_by_step(look()))
    assert seen == {("front/slices.py:step_by_step", "step_by_step")}


def test_the_packages_that_are_named_are_those_of_a_node() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
    assert {*loop_watch.OURS, "analytics/", "leveret/"} == {f"{package}/" for package in packages}


def at_depth(depth: int, then: Callable[[], object]) -> None:
    if depth:
        at_depth(depth - 1, then)
    else:
        then()


def test_no_collection_begins_while_the_frames_of_another_thread_are_looked_at() -> None:
    """One let that thread go on: its frame ended, the watch looked at freed memory, and nodes died of it."""
    asked, ended = threading.Event(), threading.Event()
    looked_at = threading.Thread(target=at_depth, args=(100, lambda: (asked.set(), ended.wait())))
    looked_at.start()
    asked.wait()
    collections: list[str] = []

    def note(phase: str, _: dict[str, Any]) -> None:
        collections.append(phase)

    thresholds = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(1)
    try:
        before = len(collections)
        loop_watch.place_of_thread(looked_at.ident or 0)
        during = len(collections) - before
        _kept: list[list[int]] = [[] for _ in range(100)]
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(note)
        ended.set()
        looked_at.join()
    assert gc.isenabled()
    assert not during
    assert collections, "none would have begun in any case"


def test_the_collector_is_named_when_most_of_the_time_was_its_own() -> None:
    kept = [[] for _ in range(200_000)]  # type: ignore[var-annotated]

    def collect() -> None:
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            gc.collect()

    _, (turn, *_) = watched(collect)
    assert (turn.work, len(kept)) == (GARBAGE, 200_000)


def test_a_watch_that_never_began_can_be_stopped() -> None:
    async def run() -> None:
        LoopWatch(asyncio.get_running_loop(), lambda turn: None).stop()

    asyncio.run(run())


def test_names_beyond_the_limit_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "WORKS_MAX", 0)
    watch, _ = watched(lambda: spin(0.1))
    assert list(watch.counts) == [loop_watch.OTHER_WORK]


def test_one_work_is_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    log = SlowTurnLog(logging.getLogger("test"))
    for work in ("a.py:f", "a.py:f", "b.py:g"):
        log(SlowTurn(0.25, 0.2, work, "Server.read > f"))
    assert [record.getMessage() for record in caplog.records] == [
        "the event loop was held for 250 ms (200 ms of processor time) by a.py:f, called by Server.read > f",
        "the event loop was held for 250 ms (200 ms of processor time) by b.py:g, called by Server.read > f",
    ]


def test_metrics_show_how_often_and_how_long() -> None:
    async def run() -> list[Metric]:
        watch = LoopWatch(asyncio.get_running_loop(), lambda turn: None)
        watch.counts["a.py:f"] = 2
        watch.seconds["a.py:f"] = 0.5
        watch.longest_s = 0.3
        return list(slow_turns(watch))

    samples = {one.name: (one.labels, one.value) for metric in asyncio.run(run()) for one in metric.samples}
    assert samples == {
        "leveret_loop_slow_turns_total": ({"work": "a.py:f"}, 2),
        "leveret_loop_slow_turn_seconds_total": ({"work": "a.py:f"}, 0.5),
        "leveret_loop_longest_turn_seconds": ({}, 0.3),
    }
