"""What the files of a real node say of a stream, most of which has left the log and some of which retention has cut."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from analytics.jobs.answer import EXIT_HOLDS, EXIT_MISSING
from analytics.jobs.proof import code_of
from replicated.local_members import QUEUE_GROUPS
from storage.names import KEPT_SUFFIX, RAFT_DIRECTORY, SEGMENT_SUFFIX, SNAPSHOT_SUFFIX, group_file_of
from tests.e2e.test_cluster import on
from tests.ledger.plain_proof import proofs
from tests.running_node import running_node

CONFIG = "[log]\nfile_bytes_max = 65536\n"
BODY = b"x" * 4_000
MESSAGES = 300
CUT_WITHIN_S = 60.0  # retention looks once a second, and what frees the room each ten seconds
LOOK_AGAIN_S = 0.1
ARGUMENTS = {
    "x-queue-type": "stream",
    "x-stream-max-segment-size-bytes": 100_000,
}
RETENTION = {"max-length-bytes": 400_000}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data of a node that has cut the stream, taken a snapshot for the room that is free then, and was stopped in order."""
    directory = tmp_path_factory.mktemp("stream")
    (directory / "leveret.toml").write_text(CONFIG)
    with running_node("--config", str(directory / "leveret.toml"), data_dir=directory / "n1") as node:
        connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("events", durable=True, arguments=ARGUMENTS)
        for _ in range(MESSAGES):
            channel.basic_publish("", "events", BODY)
        # Only now: a snapshot that is taken while messages still come does not tell of the later ones.
        on("{}:{}".format(*node.grpc), lambda one: one.admin.set_policy("cut", "^events$", RETENTION))
        until = time.monotonic() + CUT_WITHIN_S
        while not snapshots(directory / "n1"):
            assert time.monotonic() < until, f"within {CUT_WITHIN_S:g} s no snapshot was taken"
            connection.sleep(LOOK_AGAIN_S)
        connection.close()
        assert node.stop() == 0
    yield directory / "n1"


def snapshots(data: Path) -> list[Path]:
    return of_stream(data, SNAPSHOT_SUFFIX)


def of_stream(data: Path, suffix: str) -> list[Path]:
    """Ascending. The groups of the node itself have lower numbers."""
    found = sorted((data / RAFT_DIRECTORY).glob(f"*{suffix}"))
    return [one for one in found if (group_file_of(one.name, suffix) or (0,))[0] > QUEUE_GROUPS]


def test_what_retention_has_left_is_present(whole: Path) -> None:
    row = proofs(whole)["events"]
    assert (row.promised, row.why, code_of(row)) == (MESSAGES, None, EXIT_HOLDS)
    assert row.cut + row.present == MESSAGES and row.cut > 0
    assert of_stream(whole, SEGMENT_SUFFIX), "all of it is in the log, and the test is about what is not"


@pytest.mark.parametrize("suffix", [SEGMENT_SUFFIX, KEPT_SUFFIX])
def test_what_was_in_files_that_are_gone_is_missing(whole: Path, tmp_path: Path, suffix: str) -> None:
    """The snapshot tells of it, and the only member has it no more."""
    data = Path(shutil.copytree(whole, tmp_path / "n1"))
    for path in of_stream(data, suffix):
        path.unlink()
    row = proofs(data)["events"]
    assert (row.why, code_of(row)) == (None, EXIT_MISSING)
    assert row.cut + row.present + row.missing == MESSAGES and row.first_missing[0] >= row.cut
