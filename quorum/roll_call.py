"""Which nodes are there now? One that has just gone is trusted for a while yet, until it has been silent for too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from broker.pending import Pending
from quorum.ports import Loop, Timer
from raft.messages import NodeId

WITHIN_S = 2.0


class RollCall:
    """Ends once: when more than half of the nodes have answered, when all have or cannot, or when time is up."""

    def __init__(self, nodes: Sequence[NodeId], on_end: Callable[[Sequence[NodeId]], None]) -> None:
        self._nodes = nodes
        self._silent = list(nodes)
        self._waited_for = set(nodes)
        self._on_end = on_end  # told of those that have not answered
        self._timer: Timer | None = None

    def begin(self, is_there: Callable[[NodeId], Pending[bool]], loop: Loop) -> None:
        self._timer = loop.call_later(WITHIN_S, self._end)
        for node in self._nodes:
            is_there(node).then(partial(self._heard, node), lambda error: None)

    def _heard(self, node: NodeId, is_there: bool) -> None:
        if self._timer is None:
            return
        self._waited_for.discard(node)
        if is_there:
            self._silent.remove(node)
        if 2 * len(self._silent) < len(self._nodes) or not self._waited_for:
            self._timer.cancel()
            self._end()

    def _end(self) -> None:
        self._timer = None
        self._on_end(self._silent)
