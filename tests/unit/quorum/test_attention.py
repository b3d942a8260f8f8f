"""Who is asked to serve a queue's consumers on a node without a member, and how often."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from quorum.attention import Attention
from raft.messages import NodeId
from replicated import letters
from replicated.leader_route import LeaderRoute
from replicated.letters import AnswerStatus
from replicated.ports import Payload, QueuePorts

ME = 4
MEMBERS = (1, 2, 3)


class Others:
    """The nodes with members; answers wait until `answer`. Fulfils Calls, as far as it is used here."""

    def __init__(self) -> None:
        self.asked: list[NodeId] = []
        self.names: dict[NodeId, NodeId] = {}  # whom each node says leads
        self.leads: NodeId = 0
        self._waiting: list[Callable[[], None]] = []

    def connected(self, node: NodeId) -> bool:
        return True

    def ask(self, node: NodeId, topic: int, letter: Payload, on_answer: Callable[[bytes | None], None]) -> None:
        self.asked.append(node)
        refusal = letters.refusal(AnswerStatus.NOT_LEADER, self.names.get(node, 0))
        answer = letters.attending(node) if node == self.leads else refusal
        self._waiting.append(lambda: on_answer(answer))

    def answer(self, turns: int = 100) -> None:
        """Until nobody is asked any more."""
        while self._waiting and turns:
            turns -= 1
            self._waiting.pop(0)()


class Kind:
    """The quorum queues of this node, as far as they are used here."""

    def __init__(self, others: Others) -> None:
        self.calls = others
        self.groups = SimpleNamespace(node=ME, trusts=lambda node: True)
        self.key = SimpleNamespace(incarnation=1)
        self.looks = 0

    def wall_ms(self) -> int:
        return 1_000

    def attending(self, queue: Any) -> None:
        pass

    def look_for_leader(self, queue: Any) -> None:
        """The real one calls `ask` again, a moment later."""
        self.looks += 1


@pytest.fixture
def others() -> Others:
    return Others()


@pytest.fixture
def kind(others: Others) -> Kind:
    return Kind(others)


@pytest.fixture
def attention(kind: Any) -> Attention:
    queue: Any = SimpleNamespace(group=1, subscriptions={}, departed={}, member=None, deleted=False)
    ports = QueuePorts(ME, 1, 3, kind.groups, kind.calls, SimpleNamespace(), kind.wall_ms, lambda: 1.0)
    queue.route = LeaderRoute(1, ports, lambda: MEMBERS, SimpleNamespace())
    queue.attention = Attention(queue, kind)
    attention: Attention = queue.attention
    return attention


def test_who_is_named_as_the_leader_is_asked_at_once(attention: Attention, others: Others, kind: Kind) -> None:
    others.names, others.leads = {1: 3, 2: 3}, 3
    attention.want()
    others.answer()
    assert others.asked[-1] == 3
    assert (len(others.asked), kind.looks, attention.answered) == (2, 0, True)


def test_two_nodes_that_name_each_other_are_not_asked_in_turn_without_a_pause(
    attention: Attention, others: Others, kind: Kind
) -> None:
    """Each heard of the other one last, and until an election is over that was thousands of letters a second."""
    others.names = {1: 2, 2: 1, 3: 2}
    attention.want()
    for look in range(1, 4):
        others.answer()
        assert (len(others.asked), kind.looks, attention.answered) == (2 * look, look, False)
        attention.ask()  # a moment later
    others.leads = others.names[others.asked[-1]]
    others.answer()
    assert attention.answered


def test_a_leader_that_is_found_is_followed_to_the_next_one_at_once_again(
    attention: Attention, others: Others, kind: Kind
) -> None:
    others.names, others.leads = {1: 2, 2: 3, 3: 2}, 2
    attention.want()
    others.answer()
    asked = len(others.asked)
    assert attention.answered
    others.leads = 3
    attention.ask()
    others.answer()
    assert (others.asked[asked:], kind.looks, attention.answered) == ([2, 3], 0, True)
