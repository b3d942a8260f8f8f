"""The log of this node, searched for messages by a process of its own, analytics/life/node_reader.py.

One process at a time, for a log may be large and the node comes first; a few questions wait for their turn. Who does not wait
any more for an answer ends what is done for it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Any

import msgspec

from node.background import Background

READER = "analytics.life.node_reader"
WAITING_MAX = 4  # questions, with the one that is answered
READ_S_MAX = 25  # of processor time, and by the clock
MEMORY_BYTES_MAX = 1 << 30
ERROR_CHARACTERS_MAX = 300
ASK_ELSEWHERE = "ask leveret-analytics with the node's directory or an export of it, which takes the time it needs"

LifeJson = dict[str, Any]


class LifeUnread(Exception):
    """The log could not be searched; the text says why, and what to do."""


class LifeProcess:
    """See the module. Belongs to the event loop's thread, but for what `_Reading` does."""

    def __init__(self, data_dir: str, thread: Background) -> None:
        self._data_dir = os.path.abspath(data_dir)
        self._thread = thread  # one: whose work waits in order
        self._readings: set[_Reading] = set()

    async def read(self, question: LifeJson) -> LifeJson:
        """What the log has of it: lives and coverage. Raises LifeUnread."""
        if len(self._readings) >= WAITING_MAX:
            raise LifeUnread(f"{WAITING_MAX} questions about lives of messages are waiting: try again later")
        bounds = {"cpu_s": READ_S_MAX, "memory_bytes": MEMORY_BYTES_MAX}
        reading = _Reading(msgspec.json.encode({**question, "data": self._data_dir, **bounds}))
        self._readings.add(reading)
        try:
            return await self._answer(reading)
        finally:
            reading.end()
            self._readings.discard(reading)

    async def _answer(self, reading: _Reading) -> LifeJson:
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def done(value: bytes | None, error: Exception | None) -> None:
            if answered.done():
                return  # nobody waits any more
            if value is None:
                answered.set_exception(error or LifeUnread("the reader has said nothing"))
            else:
                answered.set_result(value)

        self._thread.run(reading.run, done)
        found: LifeJson = msgspec.json.decode(await answered)
        return found

    def stop(self) -> None:
        """The node stops, and waits for no answer."""
        for reading in self._readings:
            reading.end()


class _Reading:
    """One process, run in a thread and ended from the event loop's."""

    def __init__(self, question: bytes) -> None:
        self._question = question
        self._process: Popen[bytes] | None = None
        self._has_ended = False

    def end(self) -> None:
        self._has_ended = True
        if self._process is not None:
            self._process.kill()

    def run(self) -> bytes:
        """Raises LifeUnread."""
        if self._has_ended:
            raise LifeUnread("nobody waits for it any more")
        command = [sys.executable, "-P", "-m", READER]
        try:
            self._process = Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=reader_environment())
        except OSError as error:
            raise LifeUnread(f"no process could be started that reads the log: {error}") from error
        with self._process as process:
            if self._has_ended:
                process.kill()
            try:
                said, complaint = process.communicate(self._question, READ_S_MAX)
            except TimeoutExpired:
                process.kill()
                raise LifeUnread(f"the log was not read within {READ_S_MAX} s: {ASK_ELSEWHERE}") from None
        if process.returncode:
            raise LifeUnread(failure_of(process.returncode, complaint, READ_S_MAX))
        return said


def reader_environment() -> dict[str, str]:
    """The modules that this process has, wherever it was started: not those of its working directory."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def failure_of(code: int, complaint: bytes, seconds: int) -> str:
    """Why a process that reads the log has ended, which was given so many seconds."""
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and not complaint):
        return f"the log was not read within {seconds} s of processor time: {ASK_ELSEWHERE}"
    last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
    return last[:ERROR_CHARACTERS_MAX] or f"the process that reads the log ended with {code}"
