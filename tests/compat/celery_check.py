"""A real Celery worker and client, through one broker.

    python -m tests.compat.celery_check --amqp amqp://guest:guest@127.0.0.1:5672//

Starts a worker process, sends tasks, awaits results over the rpc:// backend, and prints one JSON object that says per
scenario what was seen. Exit code 0 if all scenarios held, 1 if one did not, 2 if the worker could not be started.

A chord is not among the scenarios: Celery itself refuses chords on the rpc:// backend, so there is nothing about a
broker to learn from it. That refusal is recorded as `chord_refused_by_celery`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / "var" / "compat" / "celery"
REQUIREMENTS = ("celery==5.7.0", "amqp==5.4.2", "kombu==5.7.0")
CLIENT_SECONDS_MAX = 120
TASKS = 200


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.celery_check", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--amqp", default="amqp://guest:guest@127.0.0.1:5672//", metavar="URL")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR")
    parser.add_argument("--tasks", type=int, default=TASKS)
    options = parser.parse_args(arguments)
    check = Check(_interpreter(options.cache), options.amqp, options.cache / "worker.txt")
    codes = [check.run(str(options.tasks), concurrency=2)]
    for kind in ("classic", "quorum"):
        print(f"tasks with a countdown before one without, in a {kind} queue:")
        codes.append(check.run("countdowns", concurrency=1, COMPAT_PREFETCH="1", COMPAT_QUEUE_TYPE=kind))
    return max(codes)


class Check:
    """Runs the client beside a worker of its own."""

    def __init__(self, python: Path, amqp: str, log: Path) -> None:
        self._python = python
        self._amqp = amqp
        self._log = log
        self._runs = 0

    def run(self, what: str, concurrency: int, **environment: str) -> int:
        self._runs += 1
        queue = f"celery-check-{os.getpid()}-{self._runs}"
        own = {"PYTHONPATH": str(HERE), "COMPAT_AMQP_URL": self._amqp, "COMPAT_QUEUE": queue}
        environment = {**os.environ, **own, **environment}
        with self._log.open("w") as output:
            worker = subprocess.Popen(
                [str(self._python), "-m", "celery", "-A", "celery_tasks", "worker", f"--concurrency={concurrency}",
                 "--loglevel=INFO"],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
            try:
                if not _wait_ready(worker, self._log):
                    print(f"the worker did not become ready, see {self._log}", file=sys.stderr)
                    return 2
                client = subprocess.run(
                    [str(self._python), "-m", "celery_client", what],
                    env=environment,
                    timeout=CLIENT_SECONDS_MAX,
                    check=False,
                )
                return int(client.returncode != 0)
            except subprocess.TimeoutExpired:
                print(json.dumps({"ok": False, "error": f"no end after {CLIENT_SECONDS_MAX} s, see {self._log}"}))
                return 1
            finally:
                _stop(worker)


def _interpreter(cache: Path) -> Path:
    venv = cache / "venv"
    python = venv / "bin" / "python"
    stamp = venv / "installed.txt"
    wanted = "\n".join(REQUIREMENTS) + "\n"
    if not stamp.is_file() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
        subprocess.run(install, check=True)
        stamp.write_text(wanted)
    return python


def _wait_ready(worker: subprocess.Popen[bytes], log: Path, seconds_max: float = 30) -> bool:
    """The worker says "ready" in its log once it consumes; a worker that ended never will."""
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline and worker.poll() is None:
        if " ready." in log.read_text(errors="replace"):
            return True
        time.sleep(0.1)
    return False


def _stop(worker: subprocess.Popen[bytes]) -> None:
    # First a warm shut-down, which cancels the consumers; then the whole group, so that no pool child stays behind.
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        worker.send_signal(signal.SIGTERM)
        worker.wait(15)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


if __name__ == "__main__":
    sys.exit(main())
