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

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from raft.membership import members_of
from raft.messages import Membership, NodeId, node_of
from raft.ready import Role

if TYPE_CHECKING:
    from quorum.driver import QuorumQueues
    from quorum.queue import QuorumQueue


class Departures:
    """Of all quorum queues of a node. `tick` it about once a second."""

    def __init__(self, kind: QuorumQueues) -> None:
        self._kind = kind
        self._asked: dict[QuorumQueue, int] = {}  # how often somebody was asked whether the member may leave

    def begin(self, queue: QuorumQueue) -> None:
        """Its record does not name this node, which has a member of it."""
        if queue not in self._asked:
            self._asked[queue] = 0
            self._ask(queue)

    def forget(self, queue: QuorumQueue) -> None:
        self._asked.pop(queue, None)

    def tick(self) -> None:
        for queue in list(self._asked):
            self._ask(queue)

    def _ask(self, queue: QuorumQueue) -> None:
        if not self._departs(queue):
            del self._asked[queue]
        elif self._catalog_is_current:
            node = self._to_be_asked(queue)
            if node:
                self._asked[queue] += 1
                answered = partial(self._answered, queue)
                self._kind.administration.figures(queue, node).then(answered, lambda error: None)

    def _departs(self, queue: QuorumQueue) -> bool:
        here = self._kind.key.node
        return not queue.deleted and here not in queue.member_nodes() and self._kind.has_log(queue)

    @property
    def _catalog_is_current(self) -> bool:
        """It knows this process, so it has all that was decided before this process said that it has started."""
        key = self._kind.key
        return self._kind.incarnation_of(key.node) == key.incarnation

    def _to_be_asked(self, queue: QuorumQueue) -> NodeId:
        """The leader's node; where that is not known, one after the other of those that may know. 0: nobody can be asked."""
        here, driver, calls = self._kind.key.node, queue.route.driver, self._kind.calls
        nodes = {*queue.member_nodes()}
        if driver is not None:
            nodes.update(map(node_of, members_of(driver.core.status().membership)))
            if driver.leader_node not in (0, here) and calls.connected(driver.leader_node):
                return driver.leader_node
        others = sorted(node for node in nodes if node != here and calls.connected(node))
        return others[self._asked[queue] % len(others)] if others else 0

    def _answered(self, queue: QuorumQueue, figures: Mapping[str, Any] | None) -> None:
        if queue not in self._asked or not self._departs(queue):
            return
        if goes_on_without(figures, self._kind.key.node, self._kind.term_on_disk(queue)):
            del self._asked[queue]
            self._kind.drop_member(queue)


def goes_on_without(figures: Mapping[str, Any] | None, node: NodeId, term: int) -> bool:
    """Whether this is what a leader of this term, or of a later one, says of a group that has no member on `node`."""
    try:
        raft = (figures or {})["raft"]
        members = members_of(Membership(*map(tuple, raft["membership"])))
        leads = raft["role"] == Role.LEADER.value and raft["term"] >= term
        return bool(leads and raft["change_pending"] is False and node not in map(node_of, members))
    except (LookupError, TypeError):
        return False  # no member there, no answer, or one of a version that says it otherwise
