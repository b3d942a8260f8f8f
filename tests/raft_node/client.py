"""A client of the register service: one stream to each node, requests by number, and the search for whoever leads."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from queue import SimpleQueue
from typing import Any

import grpc

from tests.raft_node import register, wire
from tests.raft_node.cluster import Cluster, Process
from tests.raft_node.wire import Said

TRY_S = 1.0  # before another node is asked
PAUSE_S = 0.01

Reply = tuple[Said, Any]


class Connection:
    """One stream to one process. Whatever is open when it breaks is answered with UNKNOWN."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        self._open: dict[int, Future[Reply]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.broken = False
        stream = self._channel.stream_stream(f"/{wire.SERVICE}/{wire.EXECUTE}")
        self._answers = stream(self._outgoing())
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, group: int, kind: int, payload: bytes) -> Future[Reply]:
        answer: Future[Reply] = Future()
        with self._lock:
            if self.broken:
                answer.set_result((Said.NOT_LEADER, 0))  # it was not sent
                return answer
            number = next(self._numbers)
            self._open[number] = answer
            self._requests.put(wire.encode([(number, group, kind, payload)]))
        return answer

    def close(self) -> None:
        self._requests.put(None)
        self._answers.cancel()
        self._channel.close()

    def _outgoing(self) -> Iterator[bytes]:
        while (request := self._requests.get()) is not None:
            yield request

    def _read(self) -> None:
        try:
            for message in self._answers:
                for number, said, detail in wire.decode_answers(message):
                    self._open.pop(number).set_result((Said(said), detail))
        except grpc.RpcError:
            pass
        with self._lock:
            self.broken = True
            unanswered, self._open = list(self._open.values()), {}
        for answer in unanswered:
            answer.set_result((Said.UNKNOWN, None))
        self._requests.put(None)


class Client:
    """Asks one node after the other until one of them can answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connections: dict[int, tuple[int, Connection]] = {}  # by node: its process, and the stream to it
        self._leaders: dict[int, int] = {}  # by group, as far as we were told

    def put(
        self,
        group: int,
        key: bytes,
        value: bytes,
        within_s: float,
        avoid: Process | None = None,
        *,
        in_log: bool = False,
    ) -> int:
        """The version. Tries again after UNKNOWN too: a put done twice does no harm here."""
        command = register.put(key, value, in_log=in_log)
        _, version = self._until_done(group, wire.COMMAND, command, within_s, avoid)
        return int(version)

    def get(self, group: int, key: bytes, within_s: float) -> bytes | None:
        found = self._until_done(group, wire.READ, key, within_s, None)
        return None if found is None else bytes(found[1])

    def begin_read(self, node: Process, group: int, key: bytes) -> Future[Reply]:
        return self.connection(node).ask(group, wire.READ, key)

    def once(self, group: int, kind: int, payload: bytes, timeout_s: float, avoid: Process | None = None) -> Reply:
        """Ask whoever is believed to lead; UNKNOWN when there is no answer in time."""
        alive = [node for node in self._cluster.alive() if node is not avoid]
        if not alive:
            return Said.NOT_LEADER, 0
        node = next((one for one in alive if one.number == self._leaders.get(group)), None) or alive[0]
        try:
            said, detail = self.connection(node).ask(group, kind, payload).result(timeout_s)
        except FutureTimeout:
            said, detail = Said.UNKNOWN, None
        if said is Said.NOT_LEADER and detail:
            self._leaders[group] = detail
        elif said is not Said.OK:
            at = alive.index(node)
            self._leaders[group] = alive[(at + 1) % len(alive)].number
        else:
            self._leaders[group] = node.number
        return said, detail

    def connection(self, node: Process) -> Connection:
        pid, connection = self._connections.get(node.number, (0, None))
        if connection is None or connection.broken or pid != node.process.pid:
            if connection is not None:
                connection.close()
            connection = Connection(node.service)
            self._connections[node.number] = (node.process.pid, connection)
        return connection

    def close(self) -> None:
        for _, connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _until_done(self, group: int, kind: int, payload: bytes, within_s: float, avoid: Process | None) -> Any:
        until = time.monotonic() + within_s
        while True:
            said, detail = self.once(group, kind, payload, TRY_S, avoid)
            if said is Said.OK:
                return detail
            if time.monotonic() > until:
                raise TimeoutError(f"group {group} did not answer within {within_s} s; the last word was {said.name}")
            time.sleep(PAUSE_S)
