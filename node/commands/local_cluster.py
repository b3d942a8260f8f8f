"""`leveret cluster`: several nodes on this machine, each a process, with their logs on one screen. planned_nodes.py says which.

A node that ends by itself is started again, after a pause, unless it says that it cannot run as it is. The first signal stops
all nodes, each in its order; a second one kills them. When this process is killed, the nodes are told to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import signal
import sys
from collections.abc import Sequence

from node.commands.planned_nodes import HostMachine, PlannedNode, plan, prepared, table

PR_SET_PDEATHSIG = 1  # of prctl(2)
SAME_SIGNAL_S = 1.0
PAUSE_S_MIN = 0.5
PAUSE_S_MAX = 10.0
BY_SIGNAL = 128  # a shell's exit code of a process that signal n ended is n more
FINAL_CODES = (0, 64, 65, 78)  # stopped as asked, or will say the same again: usage, damaged data, configuration

_COLOURS = (36, 33, 32, 35, 34, 31)


def run_cluster(machine: HostMachine) -> int:
    """The exit code: 0 when all nodes stopped as asked, else that of the first that did not. Raises CannotStart."""
    nodes = plan(machine, machine.secret_file or prepared(machine.directory))
    print(table(nodes, machine.directory), flush=True)
    return asyncio.run(RunningNodes(nodes).run())


def in_words(code: int) -> str:
    """How a process ended, from what asyncio calls its return code."""
    if code >= 0:
        return f"has stopped with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


class RunningNodes:
    """The processes while they run."""

    def __init__(self, nodes: Sequence[PlannedNode]) -> None:
        self._nodes = nodes
        self._width = max(len(node.name) for node in nodes)
        self._stopping = False
        self._told_at = 0.0
        self._told = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        codes = await asyncio.gather(*(self._keep(node, index) for index, node in enumerate(self._nodes)))
        return next((code if code > 0 else BY_SIGNAL - code for code in codes if code), 0)

    def _stop(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._stopping:
            self._stopping, self._told_at = True, now
            self._told.set()
        elif now < self._told_at + SAME_SIGNAL_S:
            return  # a terminal and whoever watches this process may both have sent it
        kill = now > self._told_at
        for node in self._nodes:
            if node.process is not None and node.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    node.process.kill() if kill else node.process.terminate()

    async def _keep(self, node: PlannedNode, index: int) -> int:
        """Run one node, again and again until it is to stop. Returns its last exit code."""
        pause = PAUSE_S_MIN
        while True:
            began = asyncio.get_running_loop().time()
            code = await self._run_once(node, index)
            if self._stopping or code in FINAL_CODES:
                self._say(node, index, in_words(code))
                return code
            if asyncio.get_running_loop().time() - began > PAUSE_S_MAX:
                pause = PAUSE_S_MIN
            self._say(node, index, f"{in_words(code)}; the others go on, and it is started again in {pause:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), pause)
            if self._stopping:
                return code
            pause = min(2 * pause, PAUSE_S_MAX)

    async def _run_once(self, node: PlannedNode, index: int) -> int:
        process = node.process = await asyncio.create_subprocess_exec(
            *node.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            process_group=0,  # Ctrl-C reaches this process alone, which then stops them in order
            preexec_fn=_end_with_parent,
        )
        if self._stopping:
            process.terminate()
        assert process.stdout is not None, "started with a pipe"
        while line := await _line(process.stdout):
            self._say(node, index, line.decode("utf-8", "replace").rstrip("\n"))
        return await process.wait()

    def _say(self, node: PlannedNode, index: int, text: str) -> None:
        name = node.name.ljust(self._width)
        if sys.stdout.isatty():
            name = f"\x1b[{_COLOURS[index % len(_COLOURS)]}m{name}\x1b[0m"
        print(f"{name} | {text}", flush=True)


def _end_with_parent() -> None:
    """In the new process: be told to stop when the one that began it is gone. Linux knows this; elsewhere they stay."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


async def _line(stream: asyncio.StreamReader) -> bytes:
    """The next line, or a part of one that is too long to wait for."""
    try:
        return await stream.readuntil()
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        return await stream.read(error.consumed)
