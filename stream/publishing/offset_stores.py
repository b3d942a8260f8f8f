"""Offsets that clients of this node store in one stream, on their way to its leader.

All that is stored in one turn goes as one entry, at once; of one reference the latest. A batch whose fate is unknown is said
again, to the next leader if need be. Its client may have gone on at another node meanwhile, so what was said before, or had to
wait, takes no reference back (stream/group/tail.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from raft.core.messages import NodeId
from replicated.leader_route import LeaderRoute
from replicated.ports import QueuePorts
from stream.chunks.store_ops import Storing, encode_storing

WAITING_MAX = 10_000  # references that wait for a leader; beyond it nothing is kept, and nobody is told
IN_FLIGHT_MAX = 16  # batches; what comes then waits


class _Batch(NamedTuple):
    """On its way."""

    said: dict[str, Storing]
    behind: int  # so many stores were before all of it
    node: NodeId


class OffsetStores:
    """Of one stream, on one node. `flush` it at the end of a turn, `go_on` now and then while it says so."""

    def __init__(self, route: LeaderRoute, ports: QueuePorts) -> None:
        self.stored = 0  # so many times
        self._route = route
        self._ports = ports
        self._waiting: dict[str, Storing] = {}
        self._waiting_behind = 0  # so many stores were before all that waits
        self._batches: dict[int, _Batch] = {}
        self._latest: dict[str, int] = {}  # the batch in which a reference was stored last, while some are on their way
        self._next_batch = 1

    @property
    def done(self) -> int:
        """The leader has so many of those that were stored, in their order."""
        behind = [batch.behind for batch in self._batches.values()]
        return min(behind, default=self.stored) if not self._waiting else min([self._waiting_behind, *behind])

    def store(self, reference: str, offset: int) -> None:
        if not self._waiting:
            self._waiting_behind = self.stored
        self.stored += 1
        if reference in self._waiting or len(self._waiting) < WAITING_MAX:
            self._waiting[reference] = Storing(reference, offset)

    def flush(self) -> None:
        if not self._waiting:
            return
        if len(self._batches) == IN_FLIGHT_MAX or not self._route.look_for():
            self._waiting = {reference: one._replace(again=True) for reference, one in self._waiting.items()}
            return
        number = self._next_batch
        self._next_batch += 1
        said, self._waiting = self._waiting, {}
        self._batches[number] = _Batch(said, self._waiting_behind, self._route.leader())
        self._latest.update(dict.fromkeys(said, number))
        self._route.propose([encode_storing(said.values())], partial(self._answered, number))

    def go_on(self) -> bool:
        """Whether something still waits."""
        for number, batch in list(self._batches.items()):
            if leads_no_more(batch.node, self._route, self._ports):
                self._answered(number, None)
        self.flush()
        return bool(self._batches or self._waiting)

    def close(self) -> None:
        self._batches, self._waiting, self._latest = {}, {}, {}

    def _answered(self, number: int, results: Sequence[Any] | None) -> None:
        batch = self._batches.pop(number, None)
        if batch is None:
            return  # it is late, and was said again
        if results is None:
            self._say_again(number, batch)
        if not self._batches:
            self._latest = {}

    def _say_again(self, number: int, batch: _Batch) -> None:
        """But for what was stored later."""
        again = {
            reference: one._replace(again=True)
            for reference, one in batch.said.items()
            if self._latest.get(reference) == number and reference not in self._waiting
        }
        if again:
            self._waiting_behind = min(self._waiting_behind, batch.behind) if self._waiting else batch.behind
            self._waiting = again | self._waiting


def leads_no_more(node: NodeId, route: LeaderRoute, ports: QueuePorts) -> bool:
    """Whether a node that was asked is none to wait for. One that hangs, or is cut off, never says so."""
    if not ports.groups.trusts(node) and node != ports.node:
        route.forget(node)
        return True
    return route.leader() not in (0, node)
