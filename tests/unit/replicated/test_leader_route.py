"""replicated/leader_route.py: which node is asked, and what is believed of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from raft.core.errors import RaftError
from raft.core.messages import NodeId
from replicated import letters
from replicated.leader_route import LeaderRoute
from replicated.letters import STATUS, AnswerStatus, BadLetter

ME, SECOND, THIRD = 1, 2, 3
GROUP, TOPIC = 7, 9


class World:
    """Node 1, which has links to the others; what is asked waits in `asked`. The results of an entry are its answer."""

    node = ME

    def __init__(self, *members: NodeId) -> None:
        self.linked = {SECOND, THIRD}
        self.suspected: set[NodeId] = set()
        self.asked: list[tuple[NodeId, bytes, Any]] = []
        self.proposed: list[Sequence[bytes]] = []
        self.refusals: list[tuple[NodeId, str]] = []
        self.answers: list[Sequence[Any] | None] = []
        ports: Any = SimpleNamespace(groups=self, calls=self, topic=TOPIC)
        self.route = LeaderRoute(GROUP, ports, lambda: members, self)

    def member_here(self, leader_node: NodeId) -> Any:
        driver: Any = SimpleNamespace(leads=leader_node == ME, leader_node=leader_node)
        self.route.driver = driver
        return driver

    def propose_op(self) -> None:
        self.route.propose([b"op"], self.answers.append)

    def say(self, answer: bytes | None) -> None:
        """The answer to what was asked last."""
        self.asked[-1][2](answer)

    # groups

    def trusts(self, node: NodeId) -> bool:
        return node not in self.suspected

    def propose(self, group: int, commands: Sequence[bytes], on_results: Any) -> None:
        self.proposed.append(commands)
        on_results([["done here"]], None)

    # calls

    def connected(self, node: NodeId) -> bool:
        return node in self.linked

    def ask(self, node: NodeId, topic: int, payload: Any, on_answer: Any) -> None:
        self.asked.append((node, b"".join(payload), on_answer))

    # entries

    def entry(self, ops: Sequence[Any]) -> bytes:
        return b"".join(ops)

    def applied(self, on_answer: Any, results: Sequence[Any] | None, error: RaftError | None) -> None:
        on_answer(results)

    def decode(self, answer: bytes) -> Sequence[Any]:
        if answer[STATUS.size :] == b"unreadable":
            raise BadLetter("of another version")
        return [answer[STATUS.size :]]

    def refused(self, node: NodeId, why: str) -> None:
        self.refusals.append((node, why))


def test_a_member_here_says_who_is_asked_as_long_as_there_is_a_link() -> None:
    world = World(ME, SECOND, THIRD)
    driver = world.member_here(THIRD)
    assert world.route.leader() == world.route.look_for() == THIRD
    world.linked.discard(THIRD)
    assert world.route.leader() == world.route.look_for() == 0
    driver.leader_node = ME
    assert world.route.leader() == 0, "it has led, and does so no more"
    driver.leads = True
    assert world.route.leader() == ME


def test_a_member_is_read_where_its_log_has_what_its_machine_names() -> None:
    world = World(ME, SECOND)
    assert not world.route.can_read_here
    driver = world.member_here(SECOND)
    for stands in (True, False, True):
        driver.stands_on_its_log = stands
        assert world.route.can_read_here is stands


def test_where_nothing_is_known_the_members_nodes_are_asked_in_turn_trusted_ones_first() -> None:
    world = World(SECOND, THIRD)
    route = world.route
    assert route.leader() == 0
    first = route.look_for()
    assert route.look_for() == route.leader() == first, "until it is known to be wrong"
    route.forget(first)
    second = route.look_for()
    assert {first, second} == {SECOND, THIRD}
    world.suspected = {SECOND}
    for _ in range(3):
        route.forget(route.leader())
        assert route.look_for() == THIRD
    world.suspected = {SECOND, THIRD}
    route.forget(THIRD)
    assert route.look_for() in (SECOND, THIRD), "one of them may be wrong about itself being away"
    world.linked.clear()
    assert route.look_for() == 0


def test_what_is_said_goes_to_the_leader_or_nowhere() -> None:
    world = World(SECOND, THIRD)
    world.propose_op()
    assert (world.asked, world.answers) == ([], [None])
    world.route.refused(AnswerStatus.NOT_LEADER, THIRD)
    world.propose_op()
    assert [(node, letter) for node, letter, _ in world.asked] == [(THIRD, b"".join(letters.propose(GROUP, [b"op"])))]
    world.say(STATUS.pack(AnswerStatus.DONE, THIRD) + b"result")
    world.member_here(ME)
    world.propose_op()
    assert world.proposed == [[b"op"]]
    assert world.answers == [None, [b"result"], ["done here"]]


@pytest.mark.parametrize(
    ("answer", "leader"),
    [
        (None, 0),
        (STATUS.pack(AnswerStatus.NOT_LEADER, THIRD), THIRD),
        (STATUS.pack(AnswerStatus.NOT_LEADER, 0), 0),
        (STATUS.pack(AnswerStatus.NO_GROUP, 0), 0),
        (STATUS.pack(AnswerStatus.AGAIN, THIRD), SECOND),
        (letters.refused(THIRD, "harmful"), SECOND),
        (STATUS.pack(AnswerStatus.DONE, SECOND) + b"unreadable", 0),
        (b"?", 0),
    ],
    ids=[
        "silence",
        "another leads",
        "none leads",
        "no such queue",
        "overloaded",
        "refused",
        "of a later version",
        "junk",
    ],
)
def test_an_answer_without_results_says_who_is_to_be_asked_next(answer: bytes | None, leader: NodeId) -> None:
    world = World(SECOND, THIRD)
    world.route.refused(AnswerStatus.NOT_LEADER, SECOND)
    world.propose_op()
    world.say(answer)
    assert world.answers == [None]
    assert world.route.leader() == leader
    assert world.refusals == ([(SECOND, "harmful")] if answer is not None and answer.endswith(b"harmful") else [])


def test_a_leader_that_hangs_is_left_when_its_node_is_suspected() -> None:
    world = World(SECOND, THIRD)
    assert not world.route.leader_moved(), "nobody was asked"
    world.route.refused(AnswerStatus.NOT_LEADER, SECOND)
    world.propose_op()
    assert not world.route.leader_moved()
    world.suspected = {SECOND}
    assert world.route.leader_moved()
    assert world.route.leader() == 0


def test_a_member_here_notices_that_another_leads_than_the_one_that_was_asked() -> None:
    world = World(ME, SECOND, THIRD)
    driver = world.member_here(SECOND)
    world.propose_op()
    driver.leader_node = 0
    assert not world.route.leader_moved(), "it may be elected again"
    driver.leader_node = THIRD
    assert world.route.leader_moved()
    driver.leader_node, driver.leads = ME, True
    world.propose_op()
    assert not world.route.leader_moved(), "this node was asked last"
