"""What the leader's node proposes for what a node says to a stream, messages and offsets to be stored, and how it answers.

Fulfils replicated.leader_route.Entries. The answer to a PROPOSE, if that is DONE, goes on with one byte: Written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raft.core.errors import RaftError
from raft.core.messages import NodeId
from replicated.leader_route import OnAnswer
from replicated.letters import STATUS, AnswerStatus, BadLetter
from stream.chunks.publish_ops import check_publishing
from stream.chunks.store_ops import STORE, check_storing
from stream.group.leading import StreamLeading
from stream.group.machine import Written


class PublishEntries:
    """Of one stream."""

    __slots__ = ("_on_refused", "_wall_ms", "leading")

    def __init__(self, wall_ms: Callable[[], int], on_refused: Callable[[str], None]) -> None:
        self.leading: StreamLeading | None = None  # of this node
        self._wall_ms = wall_ms
        self._on_refused = on_refused

    def entry(self, ops: Sequence[Any]) -> bytes | None:
        return self.leading.seal(ops, self._wall_ms()) if self.leading is not None else None

    def applied(self, on_answer: OnAnswer, results: Sequence[Any] | None, error: RaftError | None) -> None:
        on_answer(results)

    def decode(self, answer: bytes) -> Sequence[Written]:
        try:
            return [Written(one) for one in answer[STATUS.size :]]
        except ValueError as error:
            raise BadLetter(f"an answer of {len(answer)} bytes about a stream: {error}") from error

    def refused(self, node: NodeId, why: str) -> None:
        """It is said again, perhaps to another node some day."""
        self._on_refused(f"node {node} does not take what this node publishes: {why}")


def check_said(letter: bytes, at: int, node: NodeId) -> None:
    """What another node says is whole, sound, and its own to say. Raises RefusedProposal."""
    if letter[at] == STORE:
        check_storing(letter, at)
    else:
        check_publishing(letter, at, node)


def done(leader: NodeId, results: Sequence[Written]) -> bytes:
    """The answer to a PROPOSE that was applied."""
    return STATUS.pack(AnswerStatus.DONE, leader) + bytes(results)
