"""Who asked for a change of the catalog is answered when every node that can be reached follows it.

So a client that was told that its queue is declared finds it on any node, whichever it speaks to next. Each node says to the
one that a command came from up to which of its commands it follows: they are in its catalog, kept, and its broker was told.

    this node submits 7 -> decided -> every node applies and keeps it -> the others: "7 of yours" -> the answer

Nobody waits for a node that cannot be reached: it goes on with the catalog that it has, and learns of the change when it is
back. And nobody waits long for one that can be reached and does not get on, because its disk is full, say: the first who does
waits WAIT_S, and after that nobody until the node has caught up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

from raft.core.messages import NodeId

WAIT_S = 1.0  # as long as it takes to suspect a node that says nothing

Tell = Callable[[], None]


class _Waiter(NamedTuple):
    """Somebody who is answered when all follow the command with this number; 0: as soon as those before are answered."""

    number: int
    until: float
    tell: Tell


class Followers:
    """How far the other nodes follow what this process has submitted, and who waits for it."""

    def __init__(self, reachable: Callable[[], Collection[NodeId]], monotonic: Callable[[], float]) -> None:
        """`reachable`: the nodes of the cluster that can be reached now, without this one."""
        self._reachable = reachable
        self._monotonic = monotonic
        self._followed: dict[NodeId, int] = {}
        self._owed: dict[NodeId, int] = {}  # by nodes that nobody waits for: the last that was answered without them
        self._waiting: deque[_Waiter] = deque()

    def when_followed(self, number: int, tell: Tell) -> None:
        """Call it once all follow this command, and after those that were to be called before. Numbers ascend; 0 stands for
        something that nobody has to follow."""
        self._waiting.append(_Waiter(number, self._monotonic() + WAIT_S, tell))
        self.look()

    def follows(self, node: NodeId, number: int) -> None:
        """It said so."""
        self._followed[node] = number
        if self._owed.get(node, 0) <= number:
            self._owed.pop(node, None)
        self.look()

    def look(self) -> None:
        """Also to be called now and then: nodes get lost, and time passes."""
        if not self._waiting:
            return
        now = self._monotonic()
        awaited = [node for node in self._reachable() if node not in self._owed]
        while self._waiting:
            first = self._waiting[0]
            missing = [node for node in awaited if self._followed.get(node, 0) < first.number]
            if missing and now < first.until:
                return
            for node in missing:
                awaited.remove(node)
            for node in (*self._owed, *missing):
                self._owed[node] = max(first.number, self._owed.get(node, 0))
            self._waiting.popleft().tell()

    def close(self) -> None:
        """Nobody waits any longer: what they asked for is decided and kept here."""
        while self._waiting:
            self._waiting.popleft().tell()
