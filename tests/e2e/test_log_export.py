"""`leveretctl wal`: the log of a node at work is copied, also across its death, and proves what its own directory proves."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.ledger.plain_proof import proofs
from tests.running_node import RunningNode, running_node, start_node

ROOT = Path(__file__).parents[2]
STREAM = "stream.q"
QUEUES = {"classic.q": "classic", "quorum.q": "quorum", STREAM: "stream"}
TAKEN = ("classic.q", "quorum.q")
WAITING = "waiting.q"  # its messages leave the log for files of the queue
SECRET = b"SECRET of a client "
PATIENCE_S = 180.0  # a busy machine takes its time


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Files of the log are small, and stay."""
    path = tmp_path / "leveret.toml"
    path.write_text("[log]\nfile_bytes_max = 100_000\n[archive]\nhours = 1\n[metrics]\ncache_ms = 0\n")
    return path


def ctl(node: RunningNode, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "leveret.ctl", "--node", f"{node.grpc[0]}:{node.grpc[1]}", "--json", *arguments]


def ctl_json(node: RunningNode, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(ctl(node, *arguments), capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def until(condition: Callable[[], bool]) -> None:
    """What another process does has no event for us."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def counted(node: RunningNode, metric: str) -> float:
    with urllib.request.urlopen(f"http://{node.http[0]}:{node.http[1]}/metrics", timeout=PATIENCE_S) as answer:
        lines = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
    return float(lines[metric])


def begins_as(path: Path, data: Path) -> bool:
    """Whether the node's file, which may have two names while it is archived, begins with what was exported."""
    exported = path.read_bytes()
    return any(own.read_bytes().startswith(exported) for own in data.glob(f"*/{path.name}"))


def publish(node: RunningNode, count: int, stop: threading.Event | None = None) -> int:
    """To each queue; those of TAKEN are taken again. Returns how many each of them was given."""
    with pika.BlockingConnection(pika.URLParameters(node.amqp_url)) as connection:
        channel = connection.channel()
        for queue, kind in QUEUES.items():
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2, headers={"h": SECRET.decode()})
        for number in range(count):
            if stop is not None and stop.is_set():
                return number
            for queue in QUEUES:
                channel.basic_publish("", queue, SECRET * 50, properties)
            for queue in TAKEN:
                channel.basic_get(queue, auto_ack=True)
    return count


def leave_waiting(node: RunningNode, queue: str) -> None:
    """Three messages that nobody takes."""
    with pika.BlockingConnection(pika.URLParameters(node.amqp_url)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": QUEUES.get(queue, "classic")})
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("", queue, SECRET, pika.BasicProperties(delivery_mode=2))


@contextmanager
def published_all_the_time(node: RunningNode) -> Iterator[list[int]]:
    """The number of messages that each queue was given is there at the end."""
    stop, published = threading.Event(), list[int]()
    thread = threading.Thread(target=lambda: published.append(publish(node, 1_000_000, stop)))
    thread.start()
    try:
        yield published
    finally:
        stop.set()
        thread.join(PATIENCE_S)


def test_an_export_of_a_node_at_work_proves_what_its_directory_proves_when_it_has_stopped(
    tmp_path: Path, config: Path
) -> None:
    export, withheld = tmp_path / "export", tmp_path / "withheld"
    with running_node("--config", str(config), data_dir=tmp_path / "data") as node:
        leave_waiting(node, WAITING)
        with published_all_the_time(node) as published:
            until(lambda: any((tmp_path / "data" / "archive").glob("*.log")))
            first = ctl_json(node, "wal", "export", str(export))
            ctl_json(node, "wal", "export", str(withheld), "--no-bodies")
        (directory,), (without,) = export.iterdir(), withheld.iterdir()
        assert first["unread"] == {}
        assert counted(node, "leveret_log_export_files_total") >= first["files"]
        for queue in TAKEN:
            leave_waiting(node, queue)

        def is_told(root: Path, *options: str) -> bool:
            """Settlements are written a tick later, and vouched for by the mark after that."""
            ctl_json(node, "wal", "export", str(root.parent), *options)
            rows = proofs(root)
            return all((rows[one].promised, rows[one].acked) == (published[0] + 3, published[0]) for one in TAKEN)

        until(lambda: is_told(directory) and is_told(without, "--no-bodies"))
        assert node.stop() == 0
    told = proofs(tmp_path / "data")
    assert [(told[one].present, told[one].missing, told[one].why) for one in (*TAKEN, WAITING)] == [(3, 0, None)] * 3
    for exported in map(proofs, (directory, without)):
        waiting = exported.pop(WAITING)
        assert (waiting.present + waiting.unknown, waiting.missing) == (3, 0), "an export has no files of queues"
        stream = exported.pop(STREAM)
        assert (stream.present + stream.unknown, stream.missing) == (stream.promised, 0), "nor has it their segments"
        assert exported == {queue: told[queue] for queue in TAKEN}
    assert not any(SECRET in path.read_bytes() for path in without.rglob("*") if path.is_file())
    for path in directory.glob("*/*.log"):
        assert begins_as(path, tmp_path / "data")


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_an_export_goes_on_when_its_node_ends_and_starts_again(tmp_path: Path, config: Path, end: str) -> None:
    node = start_node(tmp_path / "data", "--config", str(config))
    try:
        publish(node, 60)
        command = ctl(node, "wal", "export", str(tmp_path / "export"), "--rate", "0.1")
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        ) as exporting:
            until(lambda: any(path.stat().st_size for path in (tmp_path / "export").glob("*/*/*.log")))
            getattr(node, end)()
            same = f"{node.grpc[0]}:{node.grpc[1]}"
            node = start_node(tmp_path / "data", "--config", str(config), "--grpc", same, ready_within_s=PATIENCE_S)
            out, err = exporting.communicate(timeout=PATIENCE_S)
        assert exporting.returncode == 0, err
        said = json.loads(out)
        assert said["unread"] == {}
        for path in (tmp_path / "export").glob("*/*/*.log"):
            assert begins_as(path, tmp_path / "data")
    finally:
        if node.process.poll() is None:
            node.stop()


def test_records_of_one_queue_are_shown_and_nothing_of_what_they_hold(tmp_path: Path, config: Path) -> None:
    with running_node("--config", str(config), data_dir=tmp_path / "data") as node:
        publish(node, 3)
        listed = ctl_json(node, "wal", "list")
        assert (listed["files"][-1]["open"], listed["gaps"]) == (True, [])
        done = subprocess.run(
            ctl(node, "wal", "dump", "--queue", "classic.q", "--from", "1h"),
            capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        kinds = [json.loads(line)["kind"] for line in done.stdout.splitlines()]
        assert kinds.count("CLASSIC_PUBLISH") == 3
        assert "RAFT_ENTRIES" not in kinds
        assert SECRET.decode() not in done.stdout
        assert "dump records of queue 'classic.q' of the log" in node.log.read_text()
        none = subprocess.run(
            ctl(node, "wal", "dump", "--queue", "nope"), capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT
        )
        assert (none.returncode, none.stdout) == (0, "")
        assert none.stderr == "no record here is about a queue 'nope'\n"


def test_a_dump_of_a_log_of_which_something_is_damaged_ends_with_65(tmp_path: Path, config: Path) -> None:
    """As `leveret wal dump` of its directory does. It was 0."""
    with running_node("--config", str(config), data_dir=tmp_path / "data") as node:
        publish(node, 60)
        listed = ctl_json(node, "wal", "list")["files"]
        name = next(file["name"] for file in listed if file["name"].endswith(".log") and not file["open"])
        path = tmp_path / "data" / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        done = subprocess.run(ctl(node, "wal", "dump"), capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT)
        found = [row for row in map(json.loads, done.stdout.splitlines()) if "finding" in row]
        assert [(Path(row["file"]).name, row["finding"]) for row in found] == [(path.name, "damage")]
        assert (done.returncode, done.stderr) == (65, "1 damaged ranges; docs/operations.md says what to do\n")
