"""What other nodes say about the queues of one kind: which part of this node answers it, and what is checked first.

Letters of every kind (replicated/letters.py, GroupLetter) are handled here alike. A kind of queue hands in what is its own:
its letters, how the commands of its machine are checked, and how their results are told (KindOfLetters).

What another node's session may have an entry made of is checked before it is proposed. An entry that is committed is applied by
every member, now and at each start: what no machine, snapshot or delivery could carry is refused here, where only the node
that said it is concerned. It is told why, and its link goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any, Generic, TypeVar

from raft.core.errors import Damaged, NotLeader, RaftError
from raft.core.messages import NodeId, node_of
from replicated.administration import Administration
from replicated.letters import (
    HEAD,
    AnswerStatus,
    BadLetter,
    GroupLetter,
    attending,
    decode_attend,
    decode_give_up,
    kind_and_group,
    refusal,
    refused,
)
from replicated.ports import Payload, QueuePorts
from replicated.queue import ReplicatedQueue
from replicated.verdicts import Verdicts

Q = TypeVar("Q", bound=ReplicatedQueue)
OnAnswer = Callable[[Payload], None]


class RefusedProposal(ValueError):
    """What a node asks to have proposed would do harm to every member of the group; the text says why."""


@dataclass(frozen=True, slots=True)
class KindOfLetters(Generic[Q]):
    """What one kind of queue adds. Its letters have numbers that GroupLetter does not."""

    check: Callable[[bytes, int, NodeId], None]
    """The commands in these bytes from this offset on are whole, sound and this node's to say. Raises RefusedProposal."""
    results: Callable[[Q, Sequence[Any]], Payload]
    """The answer to a PROPOSE that was applied, by the queue's leader. Raises Damaged."""
    entry_head_bytes: int  # that an entry has besides the commands of a PROPOSE
    asks: Mapping[IntEnum, Callable[[Q | None, bytes], Payload]] = field(default_factory=dict)
    """Letters that any node answers. None: it knows no such queue. Raises Damaged, if it knows it, and BadLetter."""
    tells: Mapping[IntEnum, Callable[[Q, NodeId, bytes], None]] = field(default_factory=dict)
    """Letters that want no answer. Raises BadLetter."""
    waits: Mapping[IntEnum, Callable[[Q, NodeId, bytes, OnAnswer], None]] = field(default_factory=dict)
    """Letters that any node answers which knows the queue, perhaps later. Raises BadLetter."""


class PeerLetters(Generic[Q]):
    """Of all queues of one kind. `heard` serves the kind's topic."""

    def __init__(
        self,
        own: KindOfLetters[Q],
        queues: Mapping[int, Q],
        *,
        ports: QueuePorts,
        administration: Administration[Q],
        verdicts: Verdicts,
        entry_bytes_max: int,
        on_refused: Callable[[Q, str], None],
    ) -> None:
        """`queues`: by group, those that are open. `on_refused` is told what was not proposed, and why."""
        kinds = [*GroupLetter, *own.asks, *own.waits, *own.tells]
        self._kinds: dict[int, IntEnum] = {kind.value: kind for kind in kinds}
        assert len(self._kinds) == len(kinds), f"two letters have one number: {sorted(kinds)}"
        self._own = own
        self._queues = queues
        self._ports = ports
        self._administration = administration
        self._verdicts = verdicts
        self._entry_bytes_max = entry_bytes_max
        self._on_refused = on_refused

    def heard(self, node: NodeId, letter: bytes, answer: OnAnswer | None) -> None:
        """Raises BadLetter, which ends the link."""
        kind, group = kind_and_group(letter, self._kinds)
        queue = self._queues.get(group)
        if answer is not None:
            self._asked(kind, queue, node, letter, answer)
        elif queue is not None:
            self._told(kind, queue, node, letter)

    # asked

    def _asked(self, kind: IntEnum, queue: Q | None, node: NodeId, letter: bytes, answer: OnAnswer) -> None:
        if kind is GroupLetter.ADMIN:
            self._administration.asked(queue, letter, answer)
        elif kind is GroupLetter.COMPARE:
            answer(self._verdicts.compared(queue))
        elif kind in self._own.asks:
            answer(self._answer_own(kind, queue, letter))
        elif queue is None:
            answer(refusal(AnswerStatus.NO_GROUP, 0))
        elif kind in self._own.waits:
            self._own.waits[kind](queue, node, letter, answer)
        elif queue.leading is None or not queue.route.leads:
            answer(refusal(AnswerStatus.NOT_LEADER, queue.route.leader()))
        elif kind is GroupLetter.PROPOSE:
            self._propose_for(node, queue, letter, answer)
        elif kind is GroupLetter.ATTEND:
            firsts = queue.leading.attend(node, *decode_attend(letter))
            answer(attending(self._ports.node, firsts))
        else:
            raise BadLetter(f"node {node} asks for an answer to a letter of kind {kind.name}")

    def _answer_own(self, kind: IntEnum, queue: Q | None, letter: bytes) -> Payload:
        try:
            return self._own.asks[kind](queue, letter)
        except Damaged as damage:
            assert queue is not None, f"a {kind.name} has met damage of a queue that is not here: {damage}"
            return self._met_damage(queue, damage)

    def _met_damage(self, queue: Q, damage: Damaged) -> bytes:
        self._ports.groups.damaged(queue.group, damage)
        return refusal(AnswerStatus.AGAIN, 0)

    # asked to propose

    def _propose_for(self, node: NodeId, queue: Q, letter: bytes, answer: OnAnswer) -> None:
        try:
            self._check(letter, node)
        except RefusedProposal as error:
            self._on_refused(queue, f"what node {node} has to say is not proposed: {error}")
            answer(refused(self._ports.node, str(error)))
            return
        commands = memoryview(letter)[HEAD.size :]
        queue.route.propose_here((commands,), partial(self._proposed, queue, answer))

    def _check(self, letter: bytes, node: NodeId) -> None:
        size = len(letter) - HEAD.size
        if size + self._own.entry_head_bytes > self._entry_bytes_max:
            raise RefusedProposal(f"{size} bytes of ops, and an entry has at most {self._entry_bytes_max}")
        if not size:
            raise RefusedProposal("there is no op in it")
        self._own.check(letter, HEAD.size, node)

    def _proposed(self, queue: Q, answer: OnAnswer, results: Sequence[Any] | None, error: RaftError | None) -> None:
        if results is None or queue.leading is None or queue.member is None:
            if isinstance(error, NotLeader):
                answer(refusal(AnswerStatus.NOT_LEADER, node_of(error.leader)))
            else:
                answer(refusal(AnswerStatus.AGAIN, queue.route.leader()))
            return
        try:
            told = self._own.results(queue, results)
        except Damaged as damage:
            told = self._met_damage(queue, damage)
        answer(told)

    # told

    def _told(self, kind: IntEnum, queue: Q, node: NodeId, letter: bytes) -> None:
        if kind is GroupLetter.GIVE_UP:
            self._verdicts.heard(queue, node, decode_give_up(letter))
        elif kind is GroupLetter.RELEASED:
            queue.route.forget(node)
            if queue.remote_serving is not None:
                queue.remote_serving.lost(node)
        elif kind in self._own.tells:
            self._own.tells[kind](queue, node, letter)
        else:
            raise BadLetter(f"node {node} wants no answer to a letter of kind {kind.name}")
