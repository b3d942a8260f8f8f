"""One member of a rival library's cluster, as a process.

    python -m tests.bench.raft_rivals LIBRARY NUMBER PORT,PORT,PORT[/PORT,PORT,PORT...] DIRECTORY

Reads lines `IN_FLIGHT SECONDS` from standard input. Answers with the latencies of what it led as JSON, `null` if it led
nothing. More ports are more groups, each an object of the library; what is in flight is spread over them, and each member
loads those that it leads.
The work is the same as in tests/raft_node/load.py: commands of 100 bytes that set one key, so many in flight, each noted by
its callback.

Neither library syncs its log to the disk. pysyncobj runs with batches as it comes, and once with a tick of 10 ms instead of
50 (`pysyncobj-10ms`).

raftos is of 2017 and does not start on today's Python. What is changed for it, at import: asyncio.Queue has no `loop` any
more, InvalidStateError is elsewhere, and the msgpack of today no `encoding`, so JSON is used instead. Encryption of its
datagrams is off, in its favour. It can only have one command under way: a second one overwrites what the first waits for.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

COMMAND_BYTES = 100
KEY = "key"
VALUE = "x" * (COMMAND_BYTES - len(KEY))
ANSWER_TIMEOUT_S = 20.0
POLL_S = 0.05
COMMAND_TIMEOUT_S = 1.0  # some of raftos are never answered
Answer = dict[str, Any]

PYSYNCOBJ = {"pysyncobj": {}, "pysyncobj-10ms": {"appendEntriesPeriod": 0.01, "autoTickPeriod": 0.01}}


def run_pysyncobj(number: int, groups: list[list[str]], settings: dict[str, Any]) -> None:
    from pysyncobj import SyncObj, SyncObjConf, replicated

    class Register(SyncObj):  # type: ignore[misc]
        def __init__(self, addresses: list[str]) -> None:
            others = [address for address in addresses if address != addresses[number]]
            super().__init__(addresses[number], others, SyncObjConf(appendEntriesUseBatch=True, **settings))
            self.values: dict[str, str] = {}

        @replicated  # type: ignore[untyped-decorator]
        def put(self, key: str, value: str) -> None:
            self.values[key] = value

    registers = [Register(addresses) for addresses in groups]
    for register in registers:
        register.waitReady()
        while register._getLeader() is None:
            time.sleep(POLL_S)
    say("ready")
    for in_flight, seconds in asked():
        loaded = registers[:in_flight]
        led = [register for register in loaded if register._isLeader()]
        say(PysyncobjLoad(led, in_flight // len(loaded), seconds).run() if led else None)


class PysyncobjLoad:
    """Keeps so many commands in flight in each of these registers."""

    def __init__(self, registers: list[Any], in_flight_each: int, seconds: float) -> None:
        self._registers = registers
        self._in_flight_each = in_flight_each
        self._seconds = seconds
        self._latencies: list[float] = []
        self._refused = 0
        self._waiting: Counter[int] = Counter()  # by register, each in a thread of its own
        self._ended = threading.Semaphore(0)

    def run(self) -> Answer:
        began = time.perf_counter()
        self._until = began + self._seconds
        for at in range(len(self._registers)):
            for _ in range(self._in_flight_each):
                self._begin(at)
        for _ in self._registers:
            self._ended.acquire(timeout=self._seconds + ANSWER_TIMEOUT_S)
        return answer(self._latencies, time.perf_counter() - began, self._refused)

    def _begin(self, at: int) -> None:
        self._waiting[at] += 1
        put_at = time.perf_counter()

        def told(_: Any, error: int) -> None:
            now = time.perf_counter()
            self._waiting[at] -= 1
            if error:
                self._refused += 1
            else:
                self._latencies.append(now - put_at)
            if now < self._until and not error:
                self._begin(at)
            elif not self._waiting[at]:
                self._ended.release()

        self._registers[at].put(KEY, VALUE, callback=told)


def start_raftos(directory: Path) -> None:
    """Change what does not run on today's Python, and say where its files are."""
    sys.modules["msgpack"] = ModuleType("msgpack")  # imported, and not used
    import raftos.server
    from raftos.cryptors import DummyCryptor
    from raftos.serializers import JSONSerializer

    class Asyncio:
        """asyncio, with the Queue that raftos knew."""

        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

        @staticmethod
        def Queue(loop: Any = None) -> asyncio.Queue[Any]:  # noqa: N802
            return asyncio.Queue()

    raftos.server.asyncio = Asyncio()
    asyncio.futures.InvalidStateError = asyncio.InvalidStateError  # type: ignore[attr-defined]
    raftos.configure(
        {
            "log_path": f"{directory}/",
            "serializer": JSONSerializer,
            "cryptor": DummyCryptor,
            "heartbeat_interval": 0.05,
        }
    )


async def run_raftos(number: int, addresses: list[str], directory: Path) -> None:
    start_raftos(directory)
    import raftos.server
    from raftos.exceptions import NotALeaderException
    from raftos.state import State

    await raftos.register(addresses[number], cluster=addresses)
    while State.get_leader() is None:  # noqa: ASYNC110 - it has no event to wait for
        await asyncio.sleep(POLL_S)
    say("ready")
    loop = asyncio.get_running_loop()
    lines = iter(asked())
    while (line := await loop.run_in_executor(None, next, lines, None)) is not None:
        if State.get_leader() != addresses[number]:
            say(None)
            continue
        _, seconds = line
        latencies: list[float] = []
        refused = 0
        began = time.perf_counter()
        while (put_at := time.perf_counter()) < began + seconds:
            try:
                await asyncio.wait_for(State.set_value(KEY, VALUE), COMMAND_TIMEOUT_S)
            except (TimeoutError, NotALeaderException):
                refused += 1
            else:
                latencies.append(time.perf_counter() - put_at)
        say(answer(latencies, time.perf_counter() - began, refused))


def asked() -> Any:
    for line in sys.stdin:
        in_flight, seconds = line.split()
        yield int(in_flight), float(seconds)


def answer(latencies: list[float], took: float, refused: int) -> Answer:
    return {"latencies": latencies, "seconds": took, "refused": refused}


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    library, number, ports, directory = sys.argv[1:]
    groups = [[f"127.0.0.1:{port}" for port in group.split(",")] for group in ports.split("/")]
    if library in PYSYNCOBJ:
        run_pysyncobj(int(number), groups, PYSYNCOBJ[library])
    else:
        asyncio.run(run_raftos(int(number), groups[0], Path(directory)))


if __name__ == "__main__":
    main()
