"""`leveret doctor` on what real nodes leave behind: by a clean stop, by kill -9, and with a byte changed in each file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.running_node import start_node

ROOT = Path(__file__).parents[2]
# A log that rolls often, so that messages leave it for the queues' own files.
CONFIG = "[log]\nfile_bytes_max = 500000\n"


def doctor(path: Path, *options: str) -> tuple[int, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "node.main", "doctor", "--json", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def fill(url: str) -> None:
    """Small and large messages, so that both kinds of files hold some; the first are acknowledged."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    for number in range(1_500):
        body = bytes([number % 256]) * (1_000 if number % 3 else 9_000)
        channel.basic_publish("", "q", body, pika.BasicProperties(delivery_mode=2))
    for _ in range(100):
        channel.basic_get("q", auto_ack=True)
    connection.close()


@pytest.fixture(scope="module", params=["stop", "kill"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doctor")
    (folder / "leveret.toml").write_text(CONFIG)
    node = start_node(folder / "data", "--config", str(folder / "leveret.toml"))
    fill(node.amqp_url)
    if request.param == "stop":
        assert node.stop() == 0
    else:
        node.kill()
    return folder / "data"


def test_no_damage_is_found_where_there_is_none(directory: Path) -> None:
    code, rows = doctor(directory)
    assert [row for row in rows if row["finding"] == "damage"] == []
    if (directory / "classic" / "clean-stop").exists():
        assert (code, rows) == (0, []), "an orderly stop leaves nothing unfinished"


def test_every_file_can_be_dumped(directory: Path) -> None:
    code, rows = doctor(directory, "--dump")
    assert code in (0, 65)
    dumped = {row["file"] for row in rows}
    files = {str(path) for path in directory.rglob("*") if path.is_file() and path.read_bytes().strip(b"\0")}
    not_ours = {str(directory / "lock"), str(directory / "catalog" / "lock.mdb")}
    begun = {file for file in files if file.endswith(".tmp")}  # when it was killed; the next start removes it
    assert files - not_ours - begun <= dumped
    assert any(row.get("kind") == "CLASSIC_PUBLISH" for row in rows)


def test_one_changed_byte_is_found_in_each_kind_of_file(directory: Path) -> None:
    kinds = {path.suffix for path in directory.rglob("0*") if path.is_file()}
    assert kinds >= {".log", ".idx"}, "nothing left the log: is it still large?"
    for suffix in sorted(kinds):
        path = min(path for path in directory.rglob(f"0*{suffix}") if len(path.read_bytes().strip(b"\0")) > 100)
        whole = path.read_bytes()
        path.write_bytes(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
        code, rows = doctor(directory)
        path.write_bytes(whole)
        assert code == 65
        assert str(path) in {row["file"] for row in rows if row["finding"] == "damage"}, (suffix, rows)


def test_the_log_of_a_running_node_is_shown_and_followed(tmp_path: Path) -> None:
    node = start_node(tmp_path / "data")
    try:
        fill(node.amqp_url)
        command = [sys.executable, "-m", "node.main", "wal", "dump", "--json", str(tmp_path / "data")]
        rows = [json.loads(line) for line in subprocess.check_output(command, timeout=120, cwd=ROOT).splitlines()]
        published = [row for row in rows if row["kind"] == "CLASSIC_PUBLISH"]
        assert sum(row["says"]["message_count"] for row in published) == 1_500
        assert all(row["time"] and row["commit"] for row in published)
        with subprocess.Popen([*command, "--follow"], stdout=subprocess.PIPE, cwd=ROOT) as following:
            assert following.stdout is not None
            try:
                for row in rows:
                    assert json.loads(following.stdout.readline())["offset"] == row["offset"]
                fill(node.amqp_url)
                seen = 0
                while seen < 1_500:
                    row = json.loads(following.stdout.readline())
                    seen += row["says"]["message_count"] if row["kind"] == "CLASSIC_PUBLISH" else 0
            finally:
                following.terminate()
    finally:
        assert node.stop() == 0
