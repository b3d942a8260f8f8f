"""Clients of a cluster of register machines: they put and read all the time, and remember it for tests/crash/history.py."""

from __future__ import annotations

import itertools
import random
import threading
import time
from concurrent.futures import TimeoutError as FutureTimeout

from tests.crash.history import Operation
from tests.raft_node import register, wire
from tests.raft_node.client import Client, Reply
from tests.raft_node.cluster import Cluster, Process, eventually
from tests.raft_node.wire import Said

GROUP = 1
KEYS = [b"key %d" % number for number in range(3)]
TRY_S = 0.5
RETRY_S = 0.005
END_WITHIN_S = 30.0
COMMIT_WITHIN_S = 20.0
LAG_ENTRIES = 1_000  # members that lack no more than this have caught up: the others go on meanwhile
NEWEST = 200  # operations of a worker among which the next commit is looked for


class Worker(threading.Thread):
    """One client: puts and reads, one at a time, from whoever leads."""

    values = itertools.count(1)
    put_share = 0.6

    def __init__(self, cluster: Cluster, seed: int, value_bytes_max: int = 0) -> None:
        super().__init__(daemon=True)
        self.operations: list[Operation] = []
        self.last_commit_began = 0.0  # when the newest put that was done had begun
        self.avoid: Process | None = None
        self._client = Client(cluster)
        self._random = random.Random(seed)
        self._value_bytes_max = value_bytes_max
        self._told_to_stop = threading.Event()

    def stop(self) -> None:
        self._told_to_stop.set()
        self.join(END_WITHIN_S)
        assert not self.is_alive(), f"a client still waits for an answer after {END_WITHIN_S} s"
        self._client.close()

    def run(self) -> None:
        while not self._told_to_stop.is_set():
            key = self._random.choice(KEYS)
            said = self._put(key) if self._random.random() < self.put_share else self._read(key)
            if said is not Said.OK:
                time.sleep(RETRY_S)

    def _ask(self, kind: int, payload: bytes) -> Reply:
        return self._client.once(GROUP, kind, payload, TRY_S, self.avoid)

    def _put(self, key: bytes) -> Said:
        value = b"%d " % next(self.values)
        one = Operation(
            key, time.monotonic(), written=value.ljust(self._random.randint(0, self._value_bytes_max), b".")
        )
        assert one.written is not None
        self.operations.append(one)
        said, detail = self._ask(wire.COMMAND, register.put(key, one.written))
        if said is Said.OK:
            one.version, one.ended = detail[1], time.monotonic()
            self.last_commit_began = one.began
        one.refused = said not in (Said.OK, Said.UNKNOWN)
        return said

    def _read(self, key: bytes) -> Said:
        one = Operation(key, time.monotonic())
        said, detail = self._ask(wire.READ, key)
        if said is Said.OK:
            one.ended = time.monotonic()
            one.version, one.found = detail or (0, None)
            self.operations.append(one)
        return said


class Loyal(Worker):
    """Asks one node alone while it is told to, and waits long for each answer: it hears what a leader says that was cut off,
    or was paused with the question in its socket."""

    def __init__(self, cluster: Cluster, seed: int, put_share: float) -> None:
        """A leader that was cut off answers a put late, so one that is to ask it many questions should only read."""
        super().__init__(cluster, seed)
        self.put_share = put_share
        self.to: Process | None = None
        self.asked = 0

    def _ask(self, kind: int, payload: bytes) -> Reply:
        node = self.to
        if node is None:
            return Said.NOT_LEADER, None  # nothing is asked
        self.asked += 1
        try:
            return self._client.connection(node).ask(GROUP, kind, payload).result(END_WITHIN_S / 2)
        except FutureTimeout:
            return Said.UNKNOWN, None


def next_commit(workers: list[Worker], since: float) -> float:
    """When the first put was done that began after a fault was complete."""

    def committed() -> bool:
        assert all(worker.is_alive() for worker in workers), "a client has ended"
        return any(worker.last_commit_began > since for worker in workers)

    eventually(committed, "the next commit", COMMIT_WITHIN_S)
    ends = [
        one.ended
        for worker in workers
        for one in worker.operations[-NEWEST:]
        if one.version and one.is_put and one.began > since
    ]
    return min(ends)


def all_well(cluster: Cluster) -> bool:
    """All nodes reach each other, and all members stand at about the same entry."""
    if any(len(node.call("node")["trusted"]) < len(cluster.nodes) - 1 for node in cluster.nodes.values()):
        return False
    applied = [node.call("status", group=GROUP)["applied"] for node in cluster.nodes.values()]
    return bool(max(applied) - min(applied) < LAG_ENTRIES)


def agreed(cluster: Cluster) -> str | None:
    """The digest of all members' state, once they have applied the same."""
    said = {
        (status["applied"], status["digest"])
        for status in (node.call("status", group=GROUP) for node in cluster.alive())
    }
    return str(next(iter(said))[1]) if len(said) == 1 else None
