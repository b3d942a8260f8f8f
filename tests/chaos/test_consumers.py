"""What a consumer may take for committed: nothing that the queue has not shown to know."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from tests.chaos.amqp import Arrived
from tests.chaos.consumers import Taker
from tests.chaos.recorder import Recorder, payload
from tests.chaos.topology import Habits, Queue
from tests.histories.records import Acknowledged, Settled
from tests.histories.rules import QueueRules

PREFETCH = 3
ACKNOWLEDGES = Habits(consumers=1, prefetch=PREFETCH)


class FakeClient:
    """Connected for ever; remembers nothing."""

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()

    def say(self, method: Any) -> None: ...


def settled_after(count: int, arguments: dict[str, Any], directory: Path) -> tuple[list[int], list[int]]:
    """Deliveries in the order in which they were answered, and those known to be settled, after so many deliveries."""

    async def run() -> tuple[list[int], list[int]]:
        recorder, client = Recorder(directory), FakeClient()
        queue = Queue(QueueRules("q"), arguments, ACKNOWLEDGES)
        taker = Taker(client, queue, "c", recorder, random.Random(1))  # type: ignore[arg-type]
        for number in range(1, count + 1):
            taker.take(Arrived(number, "c", False, {}, payload("p", number)))
            if number % PREFETCH == 0:
                await asyncio.sleep(0.02)
        answered = [record.delivery for record in recorder.history if isinstance(record, Acknowledged)]
        return answered, [record.delivery for record in recorder.history if isinstance(record, Settled)]

    return asyncio.run(run())


def test_an_answer_counts_as_committed_two_prefetches_later(tmp_path: Path) -> None:
    answered, settled = settled_after(12, {"x-queue-type": "quorum"}, tmp_path)
    assert settled == answered[: 12 - 2 * PREFETCH]


def test_fewer_deliveries_than_that_say_nothing(tmp_path: Path) -> None:
    assert settled_after(2 * PREFETCH, {"x-queue-type": "quorum"}, tmp_path)[1] == []


def test_a_classic_queue_decides_before_its_disk_does_and_so_says_nothing(tmp_path: Path) -> None:
    assert settled_after(12, {}, tmp_path)[1] == []
