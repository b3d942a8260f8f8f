"""Members of this node that their queue's record no longer names: when they leave, and their logs with them.

A log that was acknowledged is deleted on the group's own word, never on the catalog's alone: the catalog here may be older than
the log, and it follows the group with a delay, so a member that is not named may have been added again. A member leaves when

- the catalog here has applied the first command of this process, so it is at least as new as this process, and does not name
  this node;
- the node that leads the group says that the membership it knows to be committed has no member on this node, in a term that
  is not below the highest one that the member here has on disk.

Any leader of a later term has that membership in its log. A leader of an earlier term, which may not know that this node was
added again, is not believed: whoever has acknowledged something to a later leader has that leader's term.

Until then the member takes part: its vote may be one that the group counts on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from broker.pending import Pending
from raft.core.membership import members_of
from raft.core.messages import Membership, NodeId, node_of
from raft.core.ready import Role
from replicated.ports import QueuePorts
from replicated.queue import ReplicatedQueue

Q = TypeVar("Q", bound=ReplicatedQueue)
Q_of = TypeVar("Q_of", bound=ReplicatedQueue, contravariant=True)


class Members(Protocol[Q_of]):
    """Of this node: replicated/local_members.py."""

    def has_log(self, queue: Q_of) -> bool: ...

    def term_on_disk(self, queue: Q_of) -> int: ...

    def drop(self, queue: Q_of) -> None: ...


class Departures(Generic[Q]):
    """Of all queues of one kind on a node. `tick` it about once a second."""

    def __init__(
        self,
        ports: QueuePorts,
        members: Members[Q],
        incarnation_of: Callable[[NodeId], int | None],
        figures: Callable[[Q, NodeId], Pending[dict[str, Any] | None]],
    ) -> None:
        """`figures`: of the group, as another node has them (replicated/administration.py)."""
        self._ports = ports
        self._members = members
        self._incarnation_of = incarnation_of
        self._figures = figures
        self._asked: dict[Q, int] = {}  # how often a node was asked whether the member may leave

    def begin(self, queue: Q) -> None:
        """Its record does not name this node, which has a member of it."""
        if queue not in self._asked:
            self._asked[queue] = 0
            self._ask(queue)

    def forget(self, queue: Q) -> None:
        self._asked.pop(queue, None)

    def tick(self) -> None:
        for queue in list(self._asked):
            self._ask(queue)

    def _ask(self, queue: Q) -> None:
        if not self._departs(queue):
            del self._asked[queue]
        elif self._catalog_is_current:
            node = self._to_be_asked(queue)
            if node:
                self._asked[queue] += 1
                answered = partial(self._answered, queue)
                self._figures(queue, node).then(answered, lambda error: None)

    def _departs(self, queue: Q) -> bool:
        here = self._ports.node
        return not queue.deleted and here not in queue.member_nodes() and self._members.has_log(queue)

    @property
    def _catalog_is_current(self) -> bool:
        """It knows this process, so it has all that was decided before this process said that it has started."""
        return self._incarnation_of(self._ports.node) == self._ports.incarnation

    def _to_be_asked(self, queue: Q) -> NodeId:
        """The leader's node as the member here knows it, then one after the other of those that may know: nobody tells a
        member that was removed who leads after that. 0: nobody can be asked."""
        here, driver, calls = self._ports.node, queue.route.driver, self._ports.calls
        nodes, believed = {*queue.member_nodes()}, 0
        if driver is not None:
            believed = driver.leader_node
            nodes.update([believed, *map(node_of, members_of(driver.core.status().membership))])
        others = [node for node in nodes if node not in (0, here) and calls.connected(node)]
        others.sort(key=lambda node: (node != believed, node))
        return others[self._asked[queue] % len(others)] if others else 0

    def _answered(self, queue: Q, figures: Mapping[str, Any] | None) -> None:
        if queue not in self._asked or not self._departs(queue):
            return
        if goes_on_without(figures, self._ports.node, self._members.term_on_disk(queue)):
            del self._asked[queue]
            self._members.drop(queue)


def goes_on_without(figures: Mapping[str, Any] | None, node: NodeId, term: int) -> bool:
    """Whether this is what a leader of this term, or of a later one, says of a group that has no member on `node`."""
    try:
        raft = (figures or {})["raft"]
        members = members_of(Membership(*map(tuple, raft["membership"])))
        leads = raft["role"] == Role.LEADER.value and raft["term"] >= term
        return bool(leads and raft["change_pending"] is False and node not in map(node_of, members))
    except (LookupError, TypeError):
        return False  # no member there, no answer, or one of a version that says it otherwise
