"""Bit rot in the files of running processes: the member is repaired by the others, without an operator, and the log says so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.raft_node.client import Client
from tests.raft_node.cluster import Cluster, Process, eventually, running_cluster

GROUP = 1
KEYS = 240
WITHIN_S = 30.0
OPTIONS = (
    "--log-file-bytes", "65536", "--snapshot-entries", "50",
    "--store", "entries_kept=10,log_files_kept=1,memory_bytes_max=20000,compaction_interval_ms=300",
)  # fmt: skip


def key(number: int) -> bytes:
    return b"key %d" % number


def value(number: int, turn: int) -> bytes:
    return b"value %d, %d " % (number, turn) * 60


def write(client: Client, turn: int, numbers: Iterable[int]) -> None:
    for number in numbers:
        client.put(GROUP, key(number), value(number, turn), WITHIN_S, in_log=True)


def segments(node: Process) -> list[Path]:
    return sorted((node.data_dir / "raft").glob("*.seg"))


def rot(path: Path) -> None:
    """Turn a bit around here and there in the middle of a file that the process uses."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        for at in range(size // 4, size // 2, 512):
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1]))


def member_of(node: Process) -> int:
    return int(node.call("status", group=GROUP)["member"])


def must_be_repaired(cluster: Cluster, victim: Process) -> None:
    eventually(lambda: "group 1 is repaired" in victim.log.read_text(), "the word that all is well again")
    told = victim.log.read_text()
    number = victim.number
    assert re.search(
        r"group 1 takes no part on this node for now: entry \d+ of group 1 cannot be read: raft/\S+\.seg", told
    )
    assert re.search(
        rf"Its member {number}\.0 is {number}\.\d+ from now on, and will be repaired from the others", told
    )
    assert re.search(r"Copies of what it gives up are quarantine/\S+", told)
    status = victim.call("status", group=GROUP)
    assert status["member"] in status["voters"]
    assert len(status["voters"]) == 3

    def agreed() -> bool:
        said = [node.call("status", group=GROUP) for node in cluster.nodes.values()]
        return len({(one["applied"], one["digest"]) for one in said}) == 1

    eventually(agreed, "agreement of all members")
    assert all(node.alive for node in cluster.nodes.values())


def test_a_rotten_segment_of_a_follower_is_found_by_compaction_and_repaired(tmp_path: Path) -> None:
    with running_cluster(tmp_path, *OPTIONS, "--keep-leaders") as cluster:
        client = Client(cluster)
        write(client, 1, range(KEYS))
        victim = cluster.others(cluster.leader(GROUP))[0]
        eventually(lambda: segments(victim), "a segment")
        rot(segments(victim)[0])
        overwritten = [number for number in range(KEYS) if number % 4]  # most, not all, of what a segment holds
        write(client, 2, overwritten)
        must_be_repaired(cluster, victim)
        must_read(client, dict.fromkeys(range(KEYS), 1) | dict.fromkeys(overwritten, 2))


def test_a_rotten_segment_of_the_leader_is_found_by_a_read_and_repaired(tmp_path: Path) -> None:
    with running_cluster(tmp_path, *OPTIONS, "--keep-leaders") as cluster:
        client = Client(cluster)
        write(client, 1, range(KEYS))
        victim = cluster.leader(GROUP)
        eventually(lambda: segments(victim), "a segment")
        for path in segments(victim):
            rot(path)
        expected = dict.fromkeys(range(KEYS), 1)
        must_read(client, expected)
        must_be_repaired(cluster, victim)
        assert cluster.leader(GROUP) is not victim
        must_read(client, expected)


def must_read(client: Client, expected: dict[int, int]) -> None:
    for number, turn in expected.items():
        assert client.get(GROUP, key(number), WITHIN_S) == value(number, turn)
