"""`leveret doctor --delete-leftovers` on a directory whose catalog no longer names a queue that has files there."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pika
import pytest

import leveret
from broker.catalog.catalog import Catalog
from broker.catalog.catalog_state import encode_head
from broker.catalog.commands.catalog_commands import DeleteQueue, encode_record
from node.catalog import catalog_store
from node.catalog.catalog_store import HEAD_KEY, key_of, replacement
from storage import names
from storage.lmdb_store import LmdbStore
from tests.running_node import RunningNode, start_node

ROOT = Path(__file__).parents[2]
CONFIG = (
    "[log]\nfile_bytes_max = 500000\n"  # a log that rolls often, so that messages leave it for the queues' own files
)
MESSAGES = 900
WITHIN_S = 60.0


def leftovers(directory: Path, *options: str, said: str = "") -> tuple[int, str]:
    command = [sys.executable, "-m", "node.main", "doctor", "--delete-leftovers", str(directory), *options]
    done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=120, cwd=ROOT)
    return done.returncode, done.stdout + done.stderr


def fill(node: RunningNode, *queues: str) -> None:
    bodies = [bytes([number % 256]) * (1_000 if number % 3 else 9_000) for number in range(MESSAGES)]
    with leveret.connect_sync(f"{node.grpc[0]}:{node.grpc[1]}") as client, client.publisher() as publisher:
        for queue in queues:
            client.topology.declare_queue(queue)
            for at in range(0, MESSAGES, 50):
                publisher.publish_many(bodies[at : at + 50], routing_key=queue)


def wait_for_files(data: Path, queues: int) -> None:
    """Until so many queues have files of their own: the log is moved out beside the clients."""
    until = time.monotonic() + WITHIN_S
    while len({path.parent for path in data.glob(f"{names.CLASSIC_DIRECTORY}/*/*{names.INDEX_SUFFIX}")}) < queues:
        assert time.monotonic() < until, "nothing leaves the log"
        time.sleep(0.05)


def counted(node: RunningNode, queue: str) -> int:
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    try:
        count: int = connection.channel().queue_declare(queue, passive=True).method.message_count
        return count
    finally:
        connection.close()


def forget(directory: Path, queue: str) -> str:
    """As if the catalog's last moment had been lost, or the deletion of the queue's files: the directory of its files."""
    store = LmdbStore(str(directory / names.CATALOG_DIRECTORY))
    try:
        catalog = Catalog()
        position = catalog_store.load(store, catalog)
        record = catalog.queue("/", queue)
        assert record is not None
        catalog.apply(DeleteQueue("/", queue, record.id))
        rows = {key_of(one): encode_record(one) for one in catalog.records()}
        store.commit(replacement(store, {HEAD_KEY: encode_head(position, catalog.head), **rows}))
    finally:
        store.close()
    return names.queue_directory("/", queue, record.id)


def test_files_of_a_queue_that_is_declared_nowhere_go_when_somebody_says_so(tmp_path: Path) -> None:
    (tmp_path / "leveret.toml").write_text(CONFIG)
    data = tmp_path / "data"

    def started() -> RunningNode:
        return start_node(data, "--config", str(tmp_path / "leveret.toml"))

    node = started()
    fill(node, "kept", "gone")
    wait_for_files(data, 2)
    code, said = leftovers(data)
    assert code == 69 and "stop the node first" in said
    assert node.stop() == 0
    assert leftovers(data) == (0, "every queue that has files here is declared\n")

    directory = forget(data, "gone")
    before = sorted((data / directory).iterdir())
    assert before, "the queue has no files of its own"
    code, said = leftovers(data, said="n\n")
    assert code == 0 and "nothing was deleted" in said
    assert f"{directory}: {len(before)} files, " in said and "Their messages are deleted for good" in said
    assert sorted((data / directory).iterdir()) == before

    node = started()  # which tells of them, and leaves them alone
    assert counted(node, "kept") == MESSAGES
    assert "which is not declared" in node.log.read_text()
    assert node.stop() == 0
    code, said = leftovers(data, "--yes")
    assert code == 0 and "1 queues' files are deleted" in said
    assert not (data / directory).exists()

    told = node.log.read_text().count("which is not declared")
    node = started()
    assert counted(node, "kept") == MESSAGES
    assert node.log.read_text().count("which is not declared") == told
    assert node.stop() == 0
    assert leftovers(data) == (0, "every queue that has files here is declared\n")


@pytest.mark.parametrize("what", ["nothing", "no catalog"])
def test_a_directory_that_cannot_say_what_is_declared_is_left_alone(tmp_path: Path, what: str) -> None:
    if what == "no catalog":
        (tmp_path / names.NODE_FACTS).write_text("{}")
    code, said = leftovers(tmp_path, "--yes")
    assert code == 66 and "is no data directory of a node, or has no catalog" in said
