"""One member of a rival library's cluster, as a process.

    python -m tests.bench.raft_rivals LIBRARY NUMBER PORT,PORT,PORT DIRECTORY

Reads lines `IN_FLIGHT SECONDS` from standard input. The leader answers with its figures as JSON, the others with `null`.
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
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.raft_node.load import figures

COMMAND_BYTES = 100
KEY = "key"
VALUE = "x" * (COMMAND_BYTES - len(KEY))
ANSWER_TIMEOUT_S = 20.0
POLL_S = 0.05
COMMAND_TIMEOUT_S = 1.0  # some of raftos are never answered
PYSYNCOBJ = {"pysyncobj": {}, "pysyncobj-10ms": {"appendEntriesPeriod": 0.01, "autoTickPeriod": 0.01}}


def run_pysyncobj(number: int, addresses: list[str], settings: dict[str, Any]) -> None:
    from pysyncobj import SyncObj, SyncObjConf, replicated

    class Register(SyncObj):  # type: ignore[misc]
        def __init__(self) -> None:
            others = [address for address in addresses if address != addresses[number]]
            super().__init__(addresses[number], others, SyncObjConf(appendEntriesUseBatch=True, **settings))
            self.values: dict[str, str] = {}

        @replicated  # type: ignore[untyped-decorator]
        def put(self, key: str, value: str) -> None:
            self.values[key] = value

    register = Register()
    register.waitReady()
    while register._getLeader() is None:
        time.sleep(POLL_S)
    say("ready")
    for in_flight, seconds in asked():
        if not register._isLeader():
            say(None)
            continue
        say(_load_pysyncobj(register, in_flight, seconds))


def _load_pysyncobj(register: Any, in_flight: int, seconds: float) -> dict[str, Any]:
    latencies: list[float] = []
    refused = 0
    waiting = 0
    ended = threading.Event()
    began = time.perf_counter()
    until = began + seconds

    def begin() -> None:
        nonlocal waiting
        waiting += 1
        put_at = time.perf_counter()

        def told(_: Any, error: int) -> None:
            nonlocal waiting, refused
            now = time.perf_counter()
            waiting -= 1
            if error:
                refused += 1
            else:
                latencies.append(now - put_at)
            if now < until and not error:
                begin()
            elif not waiting:
                ended.set()

        register.put(KEY, VALUE, callback=told)

    for _ in range(in_flight):
        begin()
    ended.wait(seconds + ANSWER_TIMEOUT_S)
    return figures(latencies, time.perf_counter() - began, refused)


async def run_raftos(number: int, addresses: list[str], directory: Path) -> None:
    sys.modules["msgpack"] = ModuleType("msgpack")  # imported, and not used
    import raftos.server
    from raftos.cryptors import DummyCryptor
    from raftos.exceptions import NotALeaderException
    from raftos.serializers import JSONSerializer
    from raftos.state import State

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
        say(figures(latencies, time.perf_counter() - began, refused))


def asked() -> Any:
    for line in sys.stdin:
        in_flight, seconds = line.split()
        yield int(in_flight), float(seconds)


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    library, number, ports, directory = sys.argv[1:]
    addresses = [f"127.0.0.1:{port}" for port in ports.split(",")]
    if library in PYSYNCOBJ:
        run_pysyncobj(int(number), addresses, PYSYNCOBJ[library])
    else:
        asyncio.run(run_raftos(int(number), addresses, Path(directory)))


if __name__ == "__main__":
    main()
