"""Who is asked to serve a queue's consumers on a node without a member, and how often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from raft.core.messages import NodeId
from raft.group_owners import GroupOwners
from replicated import letters
from replicated.leader_route import LeaderRoute
from replicated.letters import AnswerStatus
from replicated.ports import Payload, QueuePorts
from replicated.remote_serving import WANTED_MS, RemoteServing

ME = 4
MEMBERS = (1, 2, 3)


class Others:
    """The nodes with members; answers wait until `answer`. Fulfils Calls, as far as it is used here."""

    def __init__(self) -> None:
        self.asked: list[NodeId] = []
        self.names: dict[NodeId, NodeId] = {}  # whom each node says leads
        self.leads: NodeId = 0
        self.firsts: list[tuple[int, int]] = []  # what the leader's node says with its answer
        self.served_from: list[list[tuple[int, int]]] = []  # what each is asked for
        self._waiting: list[Callable[[], None]] = []

    def connected(self, node: NodeId) -> bool:
        return True

    def ask(self, node: NodeId, topic: int, letter: Payload, on_answer: Callable[[bytes | None], None]) -> None:
        self.asked.append(node)
        self.served_from.append(letters.decode_attend(bytes(letter))[1])
        refusal = letters.refusal(AnswerStatus.NOT_LEADER, self.names.get(node, 0))
        answer = letters.attending(node, self.firsts) if node == self.leads else refusal
        self._waiting.append(lambda: on_answer(answer))

    def answer(self, turns: int = 100) -> None:
        """Until nobody is asked any more."""
        while self._waiting and turns:
            turns -= 1
            self._waiting.pop(0)()


class Queue:
    """A queue in use on this node, without a member here. Fulfils ServedQueue."""

    group = 1
    deleted = False

    def __init__(self, ports: QueuePorts) -> None:
        entries: Any = SimpleNamespace()
        self.route = LeaderRoute(1, ports, lambda: MEMBERS, entries)
        self.looks = 0
        self.consumers: list[tuple[int, int]] = []
        self.departed: list[int] = []

    def has_member(self) -> bool:
        return False

    def consumers_here(self) -> list[tuple[int, int]]:
        return self.consumers

    def departed_here(self) -> list[int]:
        return list(self.departed)

    def forget_departed(self, numbers: Sequence[int]) -> None:
        self.departed = [one for one in self.departed if one not in numbers]

    def skip_to(self, firsts: Sequence[tuple[int, int]]) -> None:
        self.consumers = list((dict(self.consumers) | dict(firsts)).items())

    def look_for_leader(self) -> None:
        """The real one has `ask` called again, a moment later."""
        self.looks += 1


@pytest.fixture
def others() -> Others:
    return Others()


@pytest.fixture
def ports(others: Others) -> QueuePorts:
    calls: Any = others
    groups: Any = SimpleNamespace(node=ME, trusts=lambda node: True)
    loop: Any = SimpleNamespace()
    return QueuePorts(ME, 1, 3, groups, GroupOwners(), calls, loop, lambda: 1_000, lambda: 1.0)


@pytest.fixture
def queue(ports: QueuePorts) -> Queue:
    return Queue(ports)


@pytest.fixture
def serving(queue: Queue, ports: QueuePorts) -> RemoteServing:
    return RemoteServing(queue, ports, queue.look_for_leader, lambda: None)


def test_who_is_named_as_the_leader_is_asked_at_once(serving: RemoteServing, others: Others, queue: Queue) -> None:
    others.names, others.leads = {1: 3, 2: 3}, 3
    serving.want()
    others.answer()
    assert others.asked[-1] == 3
    assert (len(others.asked), queue.looks, serving.answered) == (2, 0, True)


def test_two_nodes_that_name_each_other_are_not_asked_in_turn_without_a_pause(
    serving: RemoteServing, others: Others, queue: Queue
) -> None:
    """Each heard of the other one last, and until an election is over that was thousands of letters a second."""
    others.names = {1: 2, 2: 1, 3: 2}
    serving.want()
    for look in range(1, 4):
        others.answer()
        assert (len(others.asked), queue.looks, serving.answered) == (2 * look, look, False)
        serving.ask()  # a moment later
    others.leads = others.names[others.asked[-1]]
    others.answer()
    assert serving.answered


def test_a_leader_that_is_found_is_followed_to_the_next_one_at_once_again(
    serving: RemoteServing, others: Others, queue: Queue
) -> None:
    others.names, others.leads = {1: 3, 2: 3, 3: 1}, 3
    serving.want()
    others.answer()
    assert (len(others.asked), others.asked[-1], serving.answered) == (2, 3, True), "it was named by another one"
    others.leads = 1
    serving.ask()
    others.answer()
    assert (others.asked[2:], queue.looks, serving.answered) == ([3, 1], 0, True)


def test_a_queue_is_served_as_long_as_it_has_consumers_or_was_used_lately(
    serving: RemoteServing, others: Others, queue: Queue, ports: QueuePorts
) -> None:
    serving.want()
    last = ports.wall_ms() + WANTED_MS
    assert serving.go_on(last)
    assert not serving.go_on(last + 1)
    queue.consumers = [(1, 1)]
    assert serving.go_on(last + 1)


def test_a_node_that_hangs_is_left_and_what_it_answers_later_does_not_count(
    serving: RemoteServing, others: Others, queue: Queue, ports: QueuePorts
) -> None:
    groups: Any = ports.groups
    others.leads = 2
    serving.want()
    (hanging,) = others.asked
    assert hanging == others.leads, "it has answered, and that is on its way"
    groups.trusts = lambda node: node != hanging
    assert serving.go_on(ports.wall_ms())
    assert others.asked[-1] != hanging, "another one is asked"
    others.answer(1)
    assert not serving.answered
    others.leads = ({*MEMBERS} - {hanging, others.asked[-1]}).pop()
    others.answer()
    serving.ask()
    others.answer()
    assert serving.answered and hanging not in others.asked[1:]


def test_consumers_that_left_are_forgotten_when_a_node_serves_us_that_was_asked_behind_that(
    serving: RemoteServing, others: Others, queue: Queue
) -> None:
    """What was out to them has come before its answer. Those that left since it was asked are for the next answer."""
    queue.departed = [1, 2]
    serving.want()
    others.answer()
    assert (serving.answered, queue.departed) == (False, [1, 2])
    others.leads = 3
    queue.route.refused(AnswerStatus.NOT_LEADER, 3)
    serving.ask()
    queue.departed.append(3)
    others.answer()
    assert serving.answered and queue.departed == [3]


def test_what_is_missed_while_an_answer_is_on_its_way_is_asked_for_behind_it(
    serving: RemoteServing, others: Others, queue: Queue
) -> None:
    """That answer says up to where all was sent when it was asked for."""
    others.leads = 3
    queue.route.refused(AnswerStatus.NOT_LEADER, 3)
    serving.want()
    serving.missed()
    assert others.asked == [3], "one at a time"
    others.answer()
    assert others.asked == [3, 3]
    serving.missed()
    others.answer()
    assert others.asked == [3, 3, 3], "nothing was on its way: once is enough"


def test_a_node_that_serves_us_is_left_when_it_is_suspected_or_says_so_and_once(
    serving: RemoteServing, others: Others, queue: Queue, ports: QueuePorts
) -> None:
    groups: Any = ports.groups
    others.leads = 3
    queue.route.refused(AnswerStatus.NOT_LEADER, 3)
    serving.want()
    others.answer()
    serving.lost(2)
    assert serving.answered and not queue.looks
    groups.trusts = lambda node: node != 3
    assert serving.go_on(ports.wall_ms())
    assert (serving.answered, queue.looks) == (False, 1)
    assert others.asked[-1] != 3
    serving.lost(3)
    assert queue.looks == 1, "it serves nobody here since"


@pytest.mark.parametrize("why", ["a member is here", "it is deleted"])
def test_an_answer_for_a_queue_that_needs_it_no_more_changes_nothing(
    why: str, serving: RemoteServing, others: Others, queue: Queue
) -> None:
    serving.want()
    queue.departed = [1]
    if why == "it is deleted":
        queue.deleted = True
    else:
        serving.end()
    others.answer()
    assert (serving.answered, queue.looks, queue.departed, len(others.asked)) == (False, 0, [1], 1)


def test_what_is_out_to_a_consumer_no_more_is_skipped_before_more_is_asked_for(
    serving: RemoteServing, others: Others, queue: Queue
) -> None:
    """Or it would be asked for again, and again."""
    others.leads, others.firsts = 3, [(1, 5)]
    queue.route.refused(AnswerStatus.NOT_LEADER, 3)
    queue.consumers = [(1, 2), (2, 9)]
    serving.want()
    serving.missed()  # what is out to it has come, and is not what comes next
    others.answer(1)
    assert (others.asked, others.served_from) == ([3, 3], [[(1, 2), (2, 9)], [(1, 5), (2, 9)]])


@pytest.mark.parametrize(("behind", "served"), [(b"", True), (bytes(15), False)], ids=["nothing", "half of it"])
def test_an_answer_of_an_earlier_version_skips_nothing_and_one_that_is_cut_is_none(
    behind: bytes, served: bool, serving: RemoteServing, others: Others, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    attending = letters.attending
    monkeypatch.setattr(letters, "attending", lambda node, firsts: attending(node) + behind)
    others.leads = 3
    queue.consumers = [(1, 2)]
    queue.route.refused(AnswerStatus.NOT_LEADER, 3)
    serving.want()
    others.answer(1)
    assert (serving.answered, queue.looks, queue.consumers) == (served, 0 if served else 1, [(1, 2)])
