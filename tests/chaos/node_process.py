"""One node as a process, over its lives: started, stopped, killed, paused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.backend import Address, NodeFailed

ROOT = Path(__file__).parents[2]
START_WITHIN_S = 60.0
STOP_WITHIN_S = 60.0
LOG_SHOWN = 3_000  # characters of a log in an error
READY = re.compile(r"^ready\b")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node listens, and what command runs another one there."""

    amqp: Address  # for clients
    grpc: Address
    listen: tuple[str, ...]  # options that make it listen
    peer: str  # HOST:PORT where others reach it
    enter: tuple[str, ...] = ()  # a command that runs another one there, such as in a network of its own


@dataclass(slots=True)
class NodeProcess:
    name: str
    place: Place
    data_dir: Path
    log: Path
    options: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[str] | None = None
    _ready: threading.Event = field(default_factory=threading.Event)

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and before its first start."""
        return self._process.poll() if self._process is not None else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def begin(self, *more: str) -> None:
        """`more` options hold for this life alone, and win over the others."""
        assert not self.is_running, f"{self.name} runs already"
        command = [*self.place.enter, sys.executable, "-m", "node.main", "serve", "--name", self.name]
        command += ["--data-dir", str(self.data_dir), *self.place.listen, *self.options, *more]
        ours = {name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")}
        self._ready = threading.Event()
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, env=ours | self.environment
            )
        threading.Thread(target=_read, args=(self._process, self._ready), daemon=True).start()

    def wait_until_ready(self) -> None:
        self._ready.wait(START_WITHIN_S)
        if not self._ready.is_set() or not self.is_running:
            self.kill()
            raise NodeFailed(f"{self.name} did not start within {START_WITHIN_S:g} s: {self.log_end()}")

    def run(self, environment: dict[str, str], *command: str) -> bool:
        """A command of `leveret` on its directory, while it does not run. Whether it came to its end, or was killed."""
        assert not self.is_running, f"{self.name} runs"
        done = subprocess.run(
            [*self.place.enter, sys.executable, "-m", "node.main", *command, "--data-dir", str(self.data_dir)],
            capture_output=True, text=True, cwd=ROOT, env=os.environ | environment, check=False,
        )  # fmt: skip
        if done.returncode not in (0, -signal.SIGKILL):
            raise NodeFailed(f"leveret {' '.join(command)} of {self.name} failed: {done.stdout}{done.stderr}")
        return done.returncode == 0

    def stop(self) -> None:
        self.signal(signal.SIGTERM)
        assert self._process is not None
        try:
            code = self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeFailed(f"{self.name} did not stop within {STOP_WITHIN_S:g} s: {self.log_end()}") from None
        if code != 0:
            raise NodeFailed(f"{self.name} stopped with exit code {code}: {self.log_end()}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None, f"{self.name} was never started"
        self._process.send_signal(number)

    def log_end(self) -> str:
        return self.log.read_text(errors="replace")[-LOG_SHOWN:] if self.log.exists() else "(no log)"


def _read(process: subprocess.Popen[str], ready: threading.Event) -> None:
    """Until it ends; and whoever waits for it need not wait any longer then."""
    assert process.stdout is not None, "started with a pipe"
    for line in process.stdout:
        if READY.match(line):
            ready.set()
    process.wait()  # its pipe closes a moment before it has ended, and until then it seems to run
    ready.set()
