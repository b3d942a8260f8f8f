"""The route from this node to the leader of one queue's group, on whichever node that is.

This node's own member says who leads, as soon as it knows. A node without a member asks the nodes that have one, in turn, and
follows what they answer. Nothing is kept here: what was not answered is for the queue to propose again.

Who is shown as the leader on a node without a member is who the members' nodes named when they were asked for it
(node/replicas/far_queues.py), whether clients of this node use the queue or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from raft.core.errors import RaftError, TooLarge
from raft.core.messages import NodeId
from replicated import letters
from replicated.letters import AnswerStatus, BadLetter
from replicated.ports import MemberDriver, QueuePorts

OnAnswer = Callable[[Sequence[Any] | None], None]
"""Given the results of the ops, or None: nothing was done, or that is unknown."""


class Entries(Protocol):
    """The entries of one kind of queue: how they begin, and how their results reach who proposed them."""

    def entry(self, ops: Sequence[Any]) -> bytes | None:
        """What the leader's node proposes for these ops. None: it can do nothing with them now."""

    def applied(self, on_answer: OnAnswer, results: Sequence[Any] | None, error: RaftError | None) -> None:
        """This node led: the results of the entry; None: it was not applied, or that is unknown."""

    def decode(self, answer: bytes) -> Sequence[Any]:
        """The results in another node's answer, which says DONE. Raises BadLetter."""

    def refused(self, node: NodeId, why: str) -> None:
        """The leader's node takes the ops for harmful."""


class LeaderSight(NamedTuple):
    """What members' nodes said when a node without a member asked them how the queue is."""

    at_s: float  # by the event loop's clock
    answered: bool  # by one of them at least
    leader: NodeId  # 0: those that have answered know of none


class LeaderRoute:
    """See the module."""

    def __init__(
        self, group: int, ports: QueuePorts, members: Callable[[], Sequence[NodeId]], entries: Entries
    ) -> None:
        self.driver: MemberDriver | None = None  # this node's member, if it has one
        self._group = group
        self._groups = ports.groups
        self._calls = ports.calls
        self._topic = ports.topic
        self._members = members
        self._entries = entries
        self.sight: LeaderSight | None = None  # for a node without a member; None: it has not looked
        self._believed: NodeId = 0  # to lead; for a node without a member
        self._tried = 0  # members' nodes, one after the other
        self._asked: NodeId = 0  # the node that was asked last, if not this one

    @property
    def leads(self) -> bool:
        return self.driver is not None and self.driver.leads

    @property
    def can_read_here(self) -> bool:
        """Whether this node's member has what its machine names. Not for a moment while it is sent a snapshot."""
        return self.driver is not None and self.driver.stands_on_its_log

    def leader(self) -> NodeId:
        """The node to ask; 0: none can be asked now."""
        driver = self.driver
        node = driver.leader_node if driver is not None else self._believed
        if node == self._groups.node:
            return node if self.leads else 0
        return node if node and self._calls.connected(node) else 0

    def shown_leader(self) -> NodeId:
        """For those who look on; 0: none, or that is unknown."""
        return self.leader() if self.driver is not None or self.sight is None else self.sight.leader

    def shown_state(self) -> str:
        """`down`: no node of a member has answered. `unknown`: nobody has looked."""
        if self.shown_leader():
            return "running"
        if self.driver is not None:
            return "minority"
        if self.sight is None:
            return "unknown"
        return "minority" if self.sight.answered else "down"

    def look_for(self) -> NodeId:
        """As `leader`; if that is unknown, a node that may lead."""
        node = self.leader()
        if node or self.driver is not None:
            return node
        nodes = [one for one in self._members() if one != self._groups.node and self._calls.connected(one)]
        nodes = [one for one in nodes if self._groups.trusts(one)] or nodes
        if not nodes:
            return 0
        self._tried += 1
        self._believed = nodes[self._tried % len(nodes)]
        return self._believed

    def leader_moved(self) -> bool:
        """Whether the node that was asked last leads no more, as far as is known here. A node that hangs, or is cut off, never
        says so, and its link may live on for long."""
        if not self._asked:
            return False
        if self.driver is not None:
            return self.driver.leader_node not in (0, self._asked)
        if self._groups.trusts(self._asked):
            return False
        self.forget(self._asked)
        return True

    def forget(self, node: NodeId) -> None:
        """It cannot be asked, or does not lead."""
        if self._believed == node:
            self._believed = 0

    def refused(self, status: AnswerStatus, leader: NodeId) -> None:
        """The leader (0: none) as the node that was asked names it, unless that may lead itself and is just overloaded."""
        if status not in (AnswerStatus.AGAIN, AnswerStatus.REFUSED):
            self._believed = leader

    def propose(self, ops: Sequence[bytes], on_answer: OnAnswer) -> None:
        """Have the ops applied as one entry."""
        driver = self.driver
        if driver is not None and driver.leads:  # so says `leader`, with more calls
            self._asked = 0
            self.propose_here(ops, partial(self._entries.applied, on_answer))
            return
        node = self.leader()
        if not node:
            on_answer(None)
        else:
            self._asked = node
            answered = partial(self._answered, node, on_answer)
            self._calls.ask(node, self._topic, letters.propose(self._group, ops), answered)

    def propose_here(
        self, ops: Sequence[Any], on_results: Callable[[Sequence[Any] | None, RaftError | None], None]
    ) -> None:
        """This node leads, as far as it knows."""
        entry = self._entries.entry(ops)
        if entry is None:
            on_results(None, None)
            return
        size = len(entry)

        def told(results: Sequence[Any] | None, error: RaftError | None) -> None:
            assert type(error) is not TooLarge, f"an entry of {size} bytes: larger runs are not to be taken"
            on_results(results[0] if results else None, error)

        self._groups.propose(self._group, [entry], told)

    def _answered(self, node: NodeId, on_answer: OnAnswer, data: bytes | None) -> None:
        if data is None:
            self.forget(node)
            on_answer(None)
            return
        try:
            answer = letters.decode_answer(data)
            results = self._entries.decode(data) if answer.status is AnswerStatus.DONE else None
        except BadLetter:
            self.forget(node)  # its version has another format: another node may lead later
            on_answer(None)
            return
        if results is not None:
            on_answer(results)
            return
        if answer.status is AnswerStatus.REFUSED:
            self._entries.refused(node, answer.refusal)
        self.refused(answer.status, answer.leader)
        on_answer(None)
