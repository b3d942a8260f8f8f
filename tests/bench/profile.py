"""Where a node's time goes, workload by workload.

    python -m tests.bench.profile [--only TEXT] [--lines N] [--record FILE]

Each workload is repeated against a node of its own while py-spy samples its event loop: that thread bounds what a node can
do, the others write and wait. A sample counts for the innermost function of ours, with the kernel or system call that it
was in; `epoll` is waiting for clients. --record writes the tables as a Markdown file.
"""

from __future__ import annotations

import argparse
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from tests.bench.workloads import CLASSIC, STREAMS, Workload
from tests.running_node import RunningNode, running_node

SAMPLES_PER_SECOND = 500
SECONDS_MIN = 3.0  # a workload is repeated for so long
SECONDS_MAX = 60
LOOP_THREAD = "run_node (node/run.py"  # the thread whose stack holds this is the event loop's
FOLDERS = ("front", "classic", "quorum", "broker", "raft", "storage", "wire", "native", "node")
TELLING = (
    "fdatasync",
    "fsync",
    "write",
    "send",
    "recv",
    "read",
    "pread",
    "pwrite",
    "epoll",
    "memcpy",
    "memmove",
    "malloc",
)
ROOT = Path(__file__).resolve().parents[2]


class Sampling:
    """py-spy on one node, from here until `stop`."""

    def __init__(self, node: RunningNode, raw: Path) -> None:
        self._raw = raw
        spy = [
            str(Path(sys.executable).with_name("py-spy")), "record", "--pid", str(node.process.pid), "--format", "raw",
            "--rate", str(SAMPLES_PER_SECOND), "--native", "--duration", str(SECONDS_MAX), "--output", str(raw),
        ]  # fmt: skip
        self._recorder = subprocess.Popen(spy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._recorder.stdout is not None
        for line in self._recorder.stdout:
            if "Sampling process" in line:
                break
        self._drain = threading.Thread(target=self._recorder.stdout.read)
        self._drain.start()

    def stop(self) -> Counter[str]:
        """How often the event loop was in each function."""
        self._recorder.send_signal(signal.SIGINT)
        self._drain.join()
        if self._recorder.wait() != 0 or not self._raw.exists():
            raise RuntimeError(f"py-spy ended with {self._recorder.returncode}; it needs the right to trace processes")
        return functions_in(self._raw.read_text())


def samples_of(workload: Workload) -> Counter[str]:
    with running_node() as node, tempfile.TemporaryDirectory() as scratch:
        sampling = Sampling(node, Path(scratch) / "stacks")
        begin, turn = time.perf_counter(), 0
        while turn == 0 or time.perf_counter() - begin < SECONDS_MIN:
            workload.run(node.amqp, f"profile.{turn}")
            turn += 1
        return sampling.stop()


def functions_in(stacks: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        if LOOP_THREAD in stack:
            found[innermost(stack.split(";"))] += int(count)
    return found


def innermost(frames: list[str]) -> str:
    """The last function of ours, and what of the outside it was in."""
    at = max(at for at, frame in enumerate(frames) if any(f"({folder}/" in frame for folder in FOLDERS))
    name = re.sub(r":\d+\)$", ")", frames[at])
    outside = [frame for frame in frames[at + 1 :] if is_telling(frame)]
    return f"{name} > {outside[-1].partition(' (')[0]}" if outside else name


def is_telling(frame: str) -> bool:
    """A kernel of ours, or a call that a reader of the table knows."""
    return "native." in frame or "native_" in frame or any(word in frame for word in TELLING)


def table(name: str, samples: Counter[str], lines: int) -> list[str]:
    total = sum(samples.values())
    rows = [f"### {name}", "", "| share | function |", "|---|---|"]
    rows += [f"| {count / total:.1%} | `{function}` |" for function, count in samples.most_common(lines)]
    return [*rows, ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="workloads whose name holds this text")
    parser.add_argument("--lines", type=int, default=12)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    chosen = [workload for workload in (*CLASSIC, *STREAMS) if options.only in workload.name]
    if not chosen:
        parser.error(f"no workload's name holds '{options.only}'")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    page = [
        "# Where the time goes",
        "",
        f"`python -m tests.bench.profile`, commit {commit.stdout.strip()}, Python {platform.python_version()}: how many of the",
        "event loop's samples were in which innermost function of the broker, with the system call or kernel it was in.",
        "",
    ]
    for workload in chosen:
        page += table(workload.name, samples_of(workload), options.lines)
        print("\n".join(page[-options.lines - 5 :]), flush=True)
    if options.record:
        options.record.write_text("\n".join(page).rstrip("\n") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
