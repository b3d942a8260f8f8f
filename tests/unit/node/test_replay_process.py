"""node/lives/replay_process.py: messages of a log come piece by piece from a process beside the node, until it has to end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ResourceExhausted
from broker.records import QueueRecord
from broker.replay.replay_order import ReplayOrder
from native.content import one
from node.background import Threads
from node.lives.replay_process import OPEN_MAX, ReplayLog
from tests.unit.analytics.test_pursuit import QUEUE, message, publish
from tests.unit.analytics.test_replay_reader import durable_log, ended

RECORD = QueueRecord("/", "orders", "classic", True, False, False, {}, QUEUE)
ORDER = ReplayOrder("/", "orders", "")
MANY, LARGE = 12, bytes(1 << 20)  # more than a pipe and a frame hold


def with_log(data: Path, work: Callable[[ReplayLog], Awaitable[Any]]) -> None:
    async def story() -> None:
        thread = Threads(asyncio.get_running_loop(), OPEN_MAX, "test-replays")
        log = ReplayLog(str(data), thread)
        try:
            await work(log)
        finally:
            log.stop()
            await asyncio.to_thread(thread.close)

    asyncio.run(story())


def test_messages_come_in_their_order_until_there_are_no_more(tmp_path: Path) -> None:
    durable_log(tmp_path, 1, publish(0, message("m", b"a"), message("m", b"b"), message("m", b"c")), ended(0, 2))

    async def work(log: ReplayLog) -> None:
        chosen = await log.choose(RECORD, ORDER, with_contents=True)
        assert (chosen.coverage.messages, chosen.coverage.first, chosen.coverage.last) == (2, (0,), (1,))
        some = await chosen.next()
        assert [(row.place, row.end, one(row.content, 0)[1]) for row in some] == [
            ((0,), "acked", b"a"), ((1,), "acked", b"b"),
        ]  # fmt: skip
        assert list(await chosen.next()) == []

    with_log(tmp_path, work)


def test_who_waits_for_more_is_told_when_the_node_stops(tmp_path: Path) -> None:
    durable_log(tmp_path, 1, *[publish(n, message("m", LARGE)) for n in range(MANY)], ended(0, MANY))

    async def work(log: ReplayLog) -> None:
        chosen = await log.choose(RECORD, ORDER, with_contents=True)
        await chosen.next()
        log.stop()
        with pytest.raises(ResourceExhausted, match="reading the log was ended"):
            await chosen.next()

    with_log(tmp_path, work)


def test_a_log_that_cannot_be_read_says_why_and_the_process_is_not_open(tmp_path: Path) -> None:
    async def work(log: ReplayLog) -> None:
        for _ in range(OPEN_MAX + 1):
            with pytest.raises(ResourceExhausted, match="has no log"):
                await log.choose(RECORD, ORDER, with_contents=False)

    with_log(tmp_path, work)


def test_only_some_read_at_a_time(tmp_path: Path) -> None:
    durable_log(tmp_path, 1, *[publish(n, message("m", LARGE)) for n in range(MANY)], ended(0, MANY))

    async def work(log: ReplayLog) -> None:
        await asyncio.gather(*[log.choose(RECORD, ORDER, with_contents=True) for _ in range(OPEN_MAX)])
        with pytest.raises(ResourceExhausted, match=f"{OPEN_MAX} replays or dry runs read the log"):
            await log.choose(RECORD, ORDER, with_contents=True)

    with_log(tmp_path, work)
