"""The way from this node to the leader of one queue's group, wherever that is.

This node's own member says who leads, as soon as it knows. A node without one asks the nodes that have one, in turn, and
follows what they answer. Nothing is kept here: what was not answered is said again by quorum/session.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from quorum import commands, letters
from quorum.bodies import Bodies
from quorum.commands import Got, Result
from quorum.letters import QUORUM_TOPIC, AnswerStatus, BadLetter, Fetched, News
from raft.errors import Damaged, RaftError, TooLarge
from raft.messages import NodeId
from replicated.ports import Calls, Driver, Groups

OnAnswer = Callable[[Sequence[Result | Fetched] | None], None]
"""Told the results of the ops, or None: nothing was done, or nobody knows."""


class Way:
    """See the module."""

    def __init__(
        self,
        group: int,
        groups: Groups,
        calls: Calls,
        queue_ms: Callable[[], int],
        members: Callable[[], Sequence[NodeId]],
        on_news: Callable[[News], None],
        on_refused: Callable[[NodeId, str], None],
    ) -> None:
        self.driver: Driver | None = None  # this node's member, if it has one
        self.bodies: Bodies | None = None  # and its entries
        self._group = group
        self._groups = groups
        self._calls = calls
        self._queue_ms = queue_ms  # what time it is in the queue, where it is led
        self._members = members
        self._on_news = on_news
        self._on_refused = on_refused  # told of a leader's node that takes what is said here for harmful, and why
        self._believed: NodeId = 0  # to lead; for a node without a member
        self._tried = 0  # members' nodes, one after the other
        self._asked: NodeId = 0  # the node that was asked last, if not this one

    @property
    def leads(self) -> bool:
        return self.driver is not None and self.driver.leads

    def leader(self) -> NodeId:
        """The node to ask; 0: none can be asked now."""
        driver = self.driver
        node = driver.leader_node if driver is not None else self._believed
        if node == self._groups.node:
            return node if self.leads else 0
        return node if node and self._calls.connected(node) else 0

    def look_for(self) -> NodeId:
        """As `leader`; where nobody knows, a node that may."""
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

    def asks_in_vain(self) -> bool:
        """Whether the node that was asked last leads no more, as far as is known here. One that stands still, or hears nobody,
        never says so, and its link may live on for long."""
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
        """What the node that was asked says of who leads (0: nobody), unless it may lead and just has too much to do."""
        if status not in (AnswerStatus.AGAIN, AnswerStatus.REFUSED):
            self._believed = leader

    def propose(self, ops: Sequence[bytes], on_answer: OnAnswer) -> None:
        """Have the ops applied as one entry."""
        node = self.leader()
        if not node:
            on_answer(None)
        elif node == self._groups.node:
            self._asked = 0
            self.propose_here(ops, partial(self._proposed, on_answer))
        else:
            self._asked = node
            answered = partial(self._answered, node, on_answer)
            self._calls.ask(node, QUORUM_TOPIC, letters.propose(self._group, ops), answered)

    def propose_here(
        self, ops: Sequence[Any], on_results: Callable[[Sequence[Result] | None, RaftError | None], None]
    ) -> None:
        """This node leads, as far as it knows."""
        data = b"".join((commands.entry_head(self._queue_ms()), *ops))

        def told(results: Sequence[Any] | None, error: RaftError | None) -> None:
            assert not isinstance(error, TooLarge), f"an entry of {len(data)} bytes: larger runs are not to be taken"
            on_results(results[0] if results else None, error)

        self._groups.propose(self._group, [data], told)

    def _proposed(self, on_answer: OnAnswer, results: Sequence[Result] | None, error: RaftError | None) -> None:
        if results is None:
            on_answer(None)
            return
        assert self.bodies is not None, f"group {self._group} has applied an entry here, without a member"
        try:
            bodies = [self.bodies.get(result.piece) for result in results if type(result) is Got]
        except Damaged as damage:  # asked again, another member gives the same message
            self._groups.damaged(self._group, damage)
            on_answer(None)
            return
        on_answer(letters.with_bodies(results, bodies) if bodies else results)

    def _answered(self, node: NodeId, on_answer: OnAnswer, data: bytes | None) -> None:
        if data is None:
            self.forget(node)
            on_answer(None)
            return
        try:
            answer = letters.decode_answer(data)
        except BadLetter:
            self.forget(node)  # of a version that says it otherwise: somebody else may lead some day
            on_answer(None)
            return
        if answer.status is AnswerStatus.DONE:
            self._on_news(answer.news)
            on_answer(answer.results)
            return
        if answer.status is AnswerStatus.REFUSED:
            self._on_refused(node, answer.refusal)
        self.refused(answer.status, answer.leader)
        on_answer(None)
