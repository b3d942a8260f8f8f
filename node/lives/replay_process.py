"""Messages that left a queue, from the log of this node: read by a process of its own, analytics/replay/log_reader.py.

The process says frames, and waits where nobody reads the next one: so it holds as much as one frame and the pipe. Who does not
want more ends it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from broker.errors import ResourceExhausted
from broker.records import QueueRecord
from broker.replay.logged import LoggedMessage
from broker.replay.replay_order import ReplayOrder
from front.node_ports import ReplayCause, ReplayCoverage
from node.background import Background
from node.lives.life_process import failure_of, reader_environment

if TYPE_CHECKING:
    from subprocess import Popen

READER = "analytics.replay.log_reader"
READ_S_MAX = 600  # of processor time: half a minute reads some GB, and folds some millions of entries
MEMORY_BYTES_MAX = 1 << 30
COMPLAINT_BYTES_MAX = 4_096
OPEN_MAX = 4  # with dry runs
ENDED = "reading the log was ended"

T = TypeVar("T")


class ReplayLog:
    """Fulfils front/node_ports.py, ReplayLogPort. Belongs to the event loop's thread."""

    def __init__(self, data_dir: str, thread: Background) -> None:
        self._data_dir = os.path.abspath(data_dir)
        self._thread = thread
        self._open: set[LogReading] = set()

    async def choose(self, record: QueueRecord, order: ReplayOrder, *, with_contents: bool) -> LogReading:
        if len(self._open) >= OPEN_MAX:
            raise ResourceExhausted(f"{OPEN_MAX} replays or dry runs read the log of this node: wait until one ends")
        question = {
            "data": self._data_dir,
            "queue": record.id,
            "is_group": record.kind == "quorum",
            "choice": _choice(order),
            "with_contents": with_contents,
            "cpu_s": READ_S_MAX,
            "memory_bytes": MEMORY_BYTES_MAX,
        }
        reading = LogReading(msgspec.json.encode(question), self._thread, self._open)
        try:
            await reading.begin()
        except BaseException:
            reading.close()
            raise
        return reading

    def stop(self) -> None:
        """The node stops, and waits for nothing more."""
        for reading in tuple(self._open):
            reading.close()


def _choice(order: ReplayOrder) -> dict[str, Any]:
    return {
        "ends": order.ends,
        "since": order.since,
        "until": order.until,
        "after": order.after,
        "routing_key": order.published_key,
        "consumer": order.consumer,
    }


class LogReading:
    """One process. Fulfils front/node_ports.py, LoggedMessages."""

    coverage: ReplayCoverage

    def __init__(self, question: bytes, thread: Background, open_: set[LogReading]) -> None:
        self._question = question
        self._thread = thread
        self._open = open_
        self._open.add(self)
        self._process: Popen[bytes] | None = None
        self._end_waiting: Callable[[], None] = lambda: None  # for who waits for a frame
        self._is_closed = False

    async def begin(self) -> None:
        said = msgspec.msgpack.decode(await self._done(self._first_frame))
        first, last = said.pop("first"), said.pop("last")
        causes = [ReplayCause(*one) for one in said.pop("causes")]
        texts: dict[str, Any] = {name: said.pop(name) or "" for name in ("unknown", "from_time", "to_time")}
        self.coverage = ReplayCoverage(first=_place(first), last=_place(last), causes=causes, **texts, **said)

    async def next(self) -> Sequence[LoggedMessage]:
        rows = msgspec.msgpack.decode(await self._done(self._frame))
        return [
            LoggedMessage(tuple(place), exchange, key, persistent, priority, end, content)
            for place, exchange, key, persistent, priority, end, _, _, content in rows
        ]

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._open.discard(self)
            self._end_waiting()
            if self._process is not None:
                self._process.kill()
                self._thread.run(self._process.wait, lambda code, error: None)

    async def _done(self, work: Callable[[], T]) -> T:
        """In the thread, for it waits for the process."""
        if self._is_closed:
            raise ResourceExhausted(ENDED)
        answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(value: T | None, error: Exception | None) -> None:
            if answered.done():
                return  # nobody waits any more
            if error is not None or value is None:
                answered.set_exception(error or ResourceExhausted("the process that reads the log has said nothing"))
            else:
                answered.set_result(value)

        self._end_waiting = partial(done, None, ResourceExhausted(ENDED))
        self._thread.run(work, done)
        return await answered

    # in the thread

    def _first_frame(self) -> bytes:
        command = [sys.executable, "-P", "-m", READER]
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=reader_environment())
        except OSError as error:
            raise ResourceExhausted(f"no process could be started that reads the log: {error}") from error
        self._process = process
        if self._is_closed:
            process.kill()
        assert process.stdin is not None, "a process without a pipe"
        process.stdin.write(self._question)
        process.stdin.close()
        return self._frame()

    def _frame(self) -> bytes:
        process = self._process
        assert process is not None and process.stdout is not None, "a reading that was not begun"
        head = process.stdout.read(4)
        size = int.from_bytes(head, "little")
        frame = process.stdout.read(size) if len(head) == 4 else b""
        if len(head) < 4 or len(frame) < size:
            raise ResourceExhausted(self._why(process))
        return frame

    def _why(self, process: Popen[bytes]) -> str:
        if self._is_closed:
            return ENDED
        assert process.stderr is not None, "a process without a pipe"
        complaint = process.stderr.read(COMPLAINT_BYTES_MAX)
        return failure_of(process.wait(), complaint, READ_S_MAX)


def _place(said: list[int] | None) -> tuple[int, ...] | None:
    return None if said is None else tuple(said)
