"""README.md as a newcomer follows it: its commands and programs, one after the other, as printed.

The node is that of `make run`, with the variables that README names for other places and ports; programs are given its port. A
line that is not run here says by whom it is.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running_node import ADDRESS, STOP_TIMEOUT_S, read_line

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
NODE_COMMAND = "make run"
RUN_ELSEWHERE = {
    "make cluster": "tests/e2e/test_make_cluster.py",
    "make test": "whoever runs this",
}
PASSWORD = "a password of the newcomer's choice"
READY_WITHIN_S = 120.0  # `make` looks first whether everything is set up


def shell_lines() -> list[str]:
    """The indented lines, without their comments."""
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    return [line.partition(" # ")[0].strip() for line in prose.splitlines() if line.startswith("    ")]


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README, re.DOTALL)


class Newcomer:
    """Types what README says."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "var"
        free = " ".join(f"--{front} 127.0.0.1:0" for front in ("amqp", "stream", "grpc", "http"))
        self.node = subprocess.Popen(
            [*NODE_COMMAND.split(), "--silent", f"DATA={self.data}", f"OPTIONS={free}"],
            stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
        )  # fmt: skip
        ready = read_line(self.node, READY_WITHIN_S)
        self.ports = {name: int(port) for name, _, port in ADDRESS.findall(ready)}
        assert {"amqp", "grpc", "http"} <= self.ports.keys(), f"`{NODE_COMMAND}` said {ready!r}"

    def types(self, line: str) -> str:
        environment = os.environ | {"LEVERET_NODE": f"127.0.0.1:{self.ports['grpc']}"}
        done = subprocess.run(
            line,
            shell=True,
            cwd=ROOT,
            env=environment,
            input=f"{PASSWORD}\n",
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def runs(self, program: str) -> str:
        adapted = program.replace(
            'ConnectionParameters("127.0.0.1")', f'ConnectionParameters("127.0.0.1", {self.ports["amqp"]})'
        )
        adapted = adapted.replace("127.0.0.1:5680", f"127.0.0.1:{self.ports['grpc']}")
        assert adapted != program, f"this program names no node that is known here:\n{program}"
        done = subprocess.run(
            [sys.executable, "-c", adapted], cwd=self.data, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{program}\n{done.stdout}{done.stderr}"
        return done.stdout

    def presses_ctrl_c(self) -> None:
        if self.node.poll() is None:
            os.killpg(self.node.pid, signal.SIGINT)
            self.node.wait(STOP_TIMEOUT_S)


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    typing = Newcomer(tmp_path_factory.mktemp("readme"))
    yield typing
    typing.presses_ctrl_c()


def test_what_readme_says_works_in_its_order(newcomer: Newcomer) -> None:
    lines = shell_lines()
    assert lines[0] == NODE_COMMAND
    *books, events = programs()
    assert len(books) == 3, "pika, and both doors of our client"
    for program in books:
        assert "one book" in newcomer.runs(program)
    assert "0 b'something happened'" in newcomer.runs(events)
    for line in lines[1:]:
        if line in RUN_ELSEWHERE:
            continue
        if line.startswith(".venv/bin/leveret doctor "):
            newcomer.presses_ctrl_c()
            line = line.replace(" var", f" {newcomer.data}")
        elif line.endswith("/leveretctl status"):
            metrics = f"http://127.0.0.1:{newcomer.ports['http']}/metrics"
            assert metrics.replace(str(newcomer.ports["http"]), "15672") in README
            with urllib.request.urlopen(metrics, timeout=30) as answer:
                assert b"rabbitmq_queues" in answer.read()
        said = newcomer.types(line)
        if "queue browse" in line:
            assert "hello" in said
    assert newcomer.node.poll() is not None, "the last command was for a node that is stopped"


def test_lines_that_are_run_elsewhere_are_in_readme() -> None:
    assert RUN_ELSEWHERE.keys() <= set(shell_lines())
    assert (ROOT / RUN_ELSEWHERE["make cluster"]).is_file()
