"""Work beside the loop: it does not hold the loop up, and its end is told on the loop."""

import asyncio
import os
import threading
from typing import Any

from node.background import Inline, Threads


def test_work_runs_beside_the_loop_and_ends_on_it() -> None:
    async def scenario() -> list[Any]:
        loop = asyncio.get_running_loop()
        background = Threads(loop, 1, "test")
        here = threading.get_ident()
        answers: asyncio.Queue[tuple[Any, Any, bool]] = asyncio.Queue()
        gate = threading.Event()

        def work() -> int:
            assert gate.wait(10) and threading.get_ident() != here
            return 7

        def done(result: int | None, error: Exception | None) -> None:
            answers.put_nowait((result, type(error), threading.get_ident() == here))

        background.run(work, done)
        background.run(lambda: 1 // 0, done)
        gate.set()  # reached while the work waits: the loop was not held up
        found = [await asyncio.wait_for(answers.get(), 10) for _ in range(2)]
        background.close()
        return found

    assert asyncio.run(scenario()) == [(7, type(None), True), (None, ZeroDivisionError, True)]


def test_work_that_ends_after_the_close_is_not_told() -> None:
    async def scenario() -> list[Any]:
        background = Threads(asyncio.get_running_loop(), 1, "test")
        told: list[Any] = []
        gate = threading.Event()
        background.run(lambda: gate.wait(10), lambda result, error: told.append(result))
        threading.Timer(0.01, gate.set).start()
        background.close()
        await asyncio.sleep(0)
        return told

    assert asyncio.run(scenario()) == []


def test_inline() -> None:
    told: list[Any] = []
    Inline().run(lambda: 7, lambda result, error: told.append((result, error)))
    Inline().run(lambda: 1 // 0, lambda result, error: told.append((result, type(error))))
    assert told == [(7, None), (None, ZeroDivisionError)]


def test_nice_threads_leave_the_priority_of_the_loop_alone() -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async def scenario() -> int:
        background = Threads(asyncio.get_running_loop(), 1, "test", 15)
        measured: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        background.run(niceness, lambda result, error: measured.set_result(result or 0))
        try:
            return await asyncio.wait_for(measured, 10)
        finally:
            background.close()

    here = niceness()
    assert asyncio.run(scenario()) == 15
    assert niceness() == here
