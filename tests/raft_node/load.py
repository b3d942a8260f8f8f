"""Load from within the leading process, as programs make it that use a consensus library: to be compared with such."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.raft_node.gatherer import Gatherer
from tests.raft_node.register import put
from tests.raft_node.wire import Said


@dataclass
class Load:
    """Keeps `in_flight` commands of `command_bytes` waiting, spread over `groups`, for `seconds`."""

    gatherer: Gatherer
    groups: Sequence[int]
    in_flight: int
    command_bytes: int
    seconds: float
    latencies: list[float] = field(default_factory=list)
    refused: int = 0

    async def run(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._command = put(b"key", b"")
        self._command = put(b"key", bytes(self.command_bytes - len(self._command)))
        self._open = 0
        began = time.perf_counter()
        self._until = began + self.seconds
        for number in range(self.in_flight):
            self._next(self.groups[number % len(self.groups)])
        await self._ended
        took = time.perf_counter() - began
        return figures(self.latencies, took, self.refused)

    def _next(self, group: int) -> None:
        began = time.perf_counter()
        self._open += 1

        def told(said: Said, _: Any) -> None:
            now = time.perf_counter()
            self._open -= 1
            if said is Said.OK:
                self.latencies.append(now - began)
            else:
                self.refused += 1
            if now < self._until and said is Said.OK:
                self._next(group)
            elif not self._open:
                self._ended.set_result(None)

        self.gatherer.command(group, self._command, told)


def figures(latencies: list[float], took: float, refused: int) -> dict[str, Any]:
    ordered = sorted(latencies) or [0.0]
    return {
        "commits": len(latencies),
        "per_second": round(len(latencies) / took),
        "p50_ms": round(ordered[len(ordered) // 2] * 1000, 3),
        "p99_ms": round(ordered[len(ordered) * 99 // 100] * 1000, 3),
        "refused": refused,
    }
