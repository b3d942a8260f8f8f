"""A node that writes down every turn of its event loop that took more than a few milliseconds.

    STALL_TURNS=FILE python -m tests.bench.watched_node serve ...

One JSON object a line. Everything else is as node/main.py does it.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import asdict
from pathlib import Path

import msgspec

from node import main, run
from node.watching import loop_watch
from node.watching.loop_watch import LoopWatch, SlowTurn

BEAT_S = 0.002
SLOW_S = 0.005


class TurnFile:
    """In place of the log."""

    def __init__(self, _: logging.Logger) -> None:
        self._file = Path(os.environ["STALL_TURNS"]).open("ab", buffering=0)  # noqa: SIM115

    def __call__(self, turn: SlowTurn) -> None:
        self._file.write(msgspec.json.encode({"at": time.time(), **asdict(turn)}) + b"\n")


class FineWatch(LoopWatch):
    """Looks more often than a node of production does."""

    def __init__(self, loop: loop_watch.asyncio.AbstractEventLoop, told: TurnFile) -> None:
        super().__init__(loop, told, BEAT_S, SLOW_S)


if __name__ == "__main__":
    run.LoopWatch = FineWatch  # type: ignore[misc,assignment]
    run.SlowTurnLog = TurnFile  # type: ignore[misc,assignment]
    main.main()
