"""Members that are compared with each other, and groups whose machine goes to a later version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from broker.queues.queue_type import Outcome
from broker.queues.shared_limit import SharedLimit
from broker.records import QueueRecord
from quorum.fifo.versions import VERSION_NEWEST, VERSION_OLDEST, WINDOWS_CHANGE
from quorum.queue import QuorumQueue
from raft.core.errors import Damaged
from raft.core.messages import Membership, member_id, node_of
from replicated.comparison import ASK_AGAIN_MS, COMPARE_MS, Comparison, odd_ones
from replicated.letters import AnswerStatus, BadLetter, Compared, Verdict, compared, decode_compared, give_up, refusal
from replicated.member import MARK_ENTRIES, MARKS_MAX, Marks, Odd
from replicated.verdicts import Verdicts, is_due
from tests.unit.quorum.clients import Clients, Publisher, Taker
from tests.unit.quorum.nodes import QuorumNode

ROUND_S = COMPARE_MS / 1000 + 2
ONE, TWO, THREE, FOUR = (member_id(node, 7) for node in (1, 2, 3, 4))
THREE_VOTERS = Membership((ONE, TWO, THREE))


@pytest.mark.parametrize(
    ("digests", "voters", "odd"),
    [
        ({1: {5: 7}, 2: {5: 7}, 3: {5: 7}}, 3, None),
        ({1: {5: 7, 6: 8}, 2: {5: 7}, 3: {4: 1}}, 3, None),
        ({1: {5: 7}, 2: {5: 7}, 3: {5: 9}}, 3, Odd((3,), 5)),
        ({1: {5: 9}, 2: {5: 7}, 3: {5: 7}}, 3, Odd((1,), 5)),
        ({1: {5: 7}, 3: {5: 9}}, 3, Odd((), 5)),
        ({1: {5: 7}, 2: {5: 9}}, 2, Odd((), 5)),
        ({1: {5: 7}, 2: {5: 8}, 3: {5: 9}}, 3, Odd((), 5)),
        ({1: {5: 7}, 2: {5: 7}, 3: {5: 7}, 4: {5: 1}, 5: {5: 2}}, 5, Odd((4, 5), 5)),
        ({1: {5: 7}, 2: {5: 7}, 4: {5: 1}}, 5, Odd((), 5)),
        ({1: {5: 7, 9: 1}, 2: {5: 7, 9: 1}, 3: {5: 8, 9: 2}}, 3, Odd((3,), 9)),
    ],
    ids=[
        "equal", "nothing in common differs", "a follower", "the leader", "one does not answer", "two of two", "all",
        "two of five", "two of five agree", "at the latest entry that they have in common",
    ],
)  # fmt: skip
def test_what_a_majority_has_come_to_is_right(
    digests: Mapping[int, Mapping[int, int]], voters: int, odd: Odd | None
) -> None:
    assert odd_ones(digests, voters) == odd


def test_members_remember_their_digests_at_the_same_entries_however_these_came_in() -> None:
    clients = Clients()
    record = clients.cluster.declare("q", [1, 2, 3])
    publisher = Publisher(clients, 1, record)
    for _ in range(3 * MARK_ENTRIES):
        publisher.publish(1)
        clients.cluster.run(0.01)
    clients.cluster.run(1)
    marks = [
        member.marks.all(member.machine)
        for node in clients.cluster.alive()
        if (member := node.queue(record).member) is not None
    ]
    assert marks[0] == marks[1] == marks[2]
    assert 3 <= len(marks[0]) <= MARKS_MAX + 1
    clients.cluster.run(2 * ROUND_S)
    assert clients.cluster.diverged == []


@pytest.mark.parametrize("odd", ["a follower", "the leader"])
def test_a_member_in_another_state_than_the_majority_is_told_of_and_made_anew(odd: str) -> None:
    clients, record, publisher = _with_members_on(1, 2, 3)
    cluster = clients.cluster
    leader = cluster.leader(record).number
    wrong = leader if odd == "the leader" else leader % 3 + 1
    _falsify(cluster.nodes[wrong].queue(record))
    before = {node_of(one): one for one in cluster.records[record.id].members}
    publisher.publish(20)
    cluster.run(2 * ROUND_S)
    assert [(node, told.nodes) for node, told in cluster.diverged] == [(leader, (wrong,))]
    after = {node_of(one): one for one in cluster.records[record.id].members}
    assert before.keys() == after.keys()
    assert sum(node.kind.verdicts.divergences for node in cluster.alive()) == 1
    assert {node for node in before if before[node] != after[node]} == {wrong}
    taker = Taker(clients, wrong, record)
    cluster.run(2)
    assert taker.bodies == [b"%d" % number for number in range(40)]


@pytest.mark.parametrize("odd", ["follower", "leader"])
def test_a_member_with_another_body_is_found_and_made_anew(odd: str) -> None:
    """It had "pay 900" in its log, with good checksums. Lengths and counts were equal, so nothing was ever found; and it might
    have led some day."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    cluster.run(1)
    leader = cluster.leader(record).number
    victim = next(number for number in (1, 2, 3) if number != leader)
    carry = cluster.carry

    def changes_bytes(sender: QuorumNode, to: int, letter: bytes) -> None:
        if to == victim:
            letter = bytes(letter).replace(b"pay100", b"pay900")
        carry(sender, to, letter)

    cluster.carry = changes_bytes  # type: ignore[method-assign]
    publisher = Publisher(clients, leader, record, "pay10")
    publisher.publish(1)
    cluster.run(0.5)
    assert publisher.confirmed == [b"pay100"]
    cluster.carry = carry  # type: ignore[method-assign]
    if odd == "leader":
        way_driver = cluster.nodes[leader].queue(record).route.driver
        mine = cluster.nodes[victim].queue(record).route.driver
        assert way_driver is not None and mine is not None
        cluster.nodes[leader].groups.transfer(way_driver.group, mine.me)
    cluster.run(ROUND_S + 5)
    found_by = victim if odd == "leader" else leader  # who begins to lead compares at once
    assert [(node, found.nodes) for node, found in cluster.diverged] == [(found_by, (victim,))]
    for node in cluster.alive():
        member = node.queue(record).member
        assert member is not None
        (ready,) = member.machine.browse(0, 5)
        body = member.bodies.get(ready.piece)
        assert body.content.endswith(b"pay100"), f"node {node.number} has {body.content[-6:]!r}"


def test_of_two_members_in_another_state_the_second_is_given_up_when_the_first_votes_again() -> None:
    clients, record, publisher = _with_members_on(1, 2, 3, 4, 5)
    cluster = clients.cluster
    leader = cluster.leader(record).number
    wrong = {leader, leader % 5 + 1}
    for number in wrong:
        _falsify(cluster.nodes[number].queue(record))
    founders = set(record.members)
    publisher.publish(1)
    anew: set[int] = set()  # nodes whose new members were seen to vote
    for _ in range(int(6 * ROUND_S / 0.05)):
        cluster.run(0.05)
        drivers = [driver for node in cluster.alive() if (driver := node.queue(record).route.driver) is not None]
        voters = {voter for driver in drivers if driver.leads for voter in driver.core.status().membership.voters}
        anew |= {node_of(voter) for voter in voters - founders}
        assert not voters or len([driver for driver in drivers if driver.me in voters]) >= 4, "two were away at once"
    assert anew == wrong
    told = [odd.nodes for _, odd in cluster.diverged]
    assert told[0] == tuple(sorted(wrong))
    assert set(told[1:]) == {tuple(wrong - {leader})}
    taker = Taker(clients, leader, record)
    cluster.run(2)
    assert taker.bodies == [b"%d" % number for number in range(21)]


def test_of_two_members_in_another_state_the_second_stays_however_long_the_first_is_away() -> None:
    """A member that takes long to be made anew is no voter on the way yet, and was overlooked."""
    clients, record, publisher = _with_members_on(1, 2, 3, 4, 5)
    cluster = clients.cluster
    leader = cluster.leader(record).number
    first, second = sorted({1, 2, 3, 4, 5} - {leader})[:2]
    slow = cluster.nodes[first]
    waiting: list[tuple[int, Damaged, Callable[[], bool]]] = []  # repairs that its disk takes long for

    def wait_with_repair(*repair: Any) -> None:
        waiting.append(repair)

    vars(slow)["_repair"] = wait_with_repair
    for number in (first, second):
        _falsify(cluster.nodes[number].queue(record))
    publisher.publish(1)
    cluster.run(3 * ROUND_S)
    assert len(waiting) == 1, "the first was given up, once"
    assert cluster.records[record.id].members == record.members
    del vars(slow)["_repair"]
    slow._repair(*waiting[0])
    cluster.run(4 * ROUND_S)
    kept = set(record.members) & set(cluster.records[record.id].members)
    assert {node_of(member) for member in kept} == {1, 2, 3, 4, 5} - {first, second}


def test_a_new_member_that_is_away_keeps_nobody_from_being_made_anew() -> None:
    clients, record, publisher = _with_members_on(1, 2, 3, nodes=4)
    cluster = clients.cluster
    leader = cluster.leader(record)
    leader.kind.administration.add_member(leader.queue(record), 4)
    driver = leader.queue(record).route.driver
    assert driver is not None
    while not driver.core.status().membership.promotable:
        cluster.loop.run_for(0.001)
    cluster.nodes[4].kill()
    wrong = leader.number % 3 + 1
    _falsify(cluster.nodes[wrong].queue(record))
    publisher.publish(20)
    cluster.run(3 * ROUND_S)
    assert [node_of(one) for one in driver.core.status().membership.promotable] == [4]
    kept = set(record.members) & set(cluster.records[record.id].members)
    assert {node_of(member) for member in kept} == {1, 2, 3} - {wrong}


@pytest.mark.parametrize(
    "forged",
    [
        {},
        {"leader": "another"},
        {"term": -1},
        {"term": 1},
        {"member": "earlier"},
        {"digest": "what it has"},
        {"after": 1 << 40},
    ],
    ids=[
        "as it should be", "of a member that does not lead", "of an earlier term", "of a later term",
        "for an earlier member of the node", "for a state that is the majority's", "for a state that it has told nobody",
    ],
)  # fmt: skip
def test_a_member_gives_up_on_the_word_of_its_leader_alone(forged: dict[str, Any]) -> None:
    clients, record, _ = _with_members_on(1, 2, 3)
    cluster = clients.cluster
    leader = cluster.leader(record)
    cluster.run(ROUND_S)  # compared once
    number, other = sorted({1, 2, 3} - {leader.number})
    node = cluster.nodes[number]
    queue = node.queue(record)
    assert queue.member is not None and queue.route.driver is not None
    after, digest = next(iter(queue.member.told_digests.items()))
    me, standing = queue.route.driver.me, queue.route.driver.standing
    verdict = Verdict(after, digest + 1, standing.term, standing.leader, me)
    changes = {"another": queue.record.members[other - 1], "earlier": me - 1, "what it has": digest}
    wrong = {name: changes.get(value, value) for name, value in forged.items()}
    if "term" in wrong:
        wrong["term"] += standing.term
    sender = other if forged.get("leader") else leader.number
    letter = give_up(queue.group, verdict._replace(**wrong))
    node.kind._parts.letters.heard(sender, letter, None)
    cluster.run(0.01)
    stays = queue.route.driver is not None and queue.route.driver.me == me
    assert stays is bool(forged)


def test_a_member_does_not_give_up_on_the_word_of_a_node_that_names_the_leader() -> None:
    clients, record, _ = _with_members_on(1, 2, 3)
    cluster = clients.cluster
    leader = cluster.leader(record)
    cluster.run(ROUND_S)
    number, other = sorted({1, 2, 3} - {leader.number})
    queue = cluster.nodes[number].queue(record)
    assert queue.member is not None and queue.route.driver is not None
    after, digest = next(iter(queue.member.told_digests.items()))
    me, standing = queue.route.driver.me, queue.route.driver.standing
    verdict = Verdict(after, digest + 1, standing.term, standing.leader, me)
    cluster.nodes[number].kind._parts.letters.heard(other, give_up(queue.group, verdict), None)
    cluster.run(0.01)
    assert queue.route.driver is not None and queue.route.driver.me == me, (
        "another member would be in its place at once"
    )


def test_a_member_whose_vote_in_a_later_term_is_on_disk_does_not_give_up() -> None:
    """It knows of that term before it follows anybody in it: the verdict is of a leader that may be none any more."""
    verdict = Verdict(5, 8, 4, TWO, ONE)
    driver: Any = SimpleNamespace(me=ONE, standing=SimpleNamespace(leader=TWO, term=4))

    def store(term: int) -> Any:
        return SimpleNamespace(member=ONE, facts=lambda: SimpleNamespace(term=term))

    assert is_due(verdict, 2, driver, store(4), {5: 7})
    assert not is_due(verdict, 2, driver, store(5), {5: 7})


def test_no_verdict_counts_while_another_member_of_this_node_takes_part_than_the_store_has() -> None:
    """One that was given up a moment ago, say: the verdict is about what has come in its place."""
    verdict = Verdict(5, 8, 4, TWO, ONE)
    store: Any = SimpleNamespace(member=ONE, facts=lambda: SimpleNamespace(term=4))
    earlier: Any = SimpleNamespace(me=member_id(1, 6), standing=SimpleNamespace(leader=TWO, term=4))
    assert not is_due(verdict, 2, earlier, store, {5: 7})


def test_verdicts_about_a_member_that_is_not_here_any_more_are_dropped() -> None:
    damaged: list[int] = []
    ports: Any = SimpleNamespace(node=1, groups=SimpleNamespace(damaged=lambda group, _: damaged.append(group)))
    verdicts = Verdicts(ports, SimpleNamespace(), lambda: 1, lambda *_: None)  # type: ignore[arg-type]
    gone: Any = SimpleNamespace(group=1, member=None, route=SimpleNamespace(driver=None))
    verdicts.heard(gone, 2, Verdict(5, 8, 4, TWO, ONE))
    verdicts.give_up_member(gone, Verdict(5, 8, 4, ONE, ONE))
    assert damaged == []


def _with_members_on(*members: int, nodes: int | None = None) -> tuple[Clients, QueueRecord, Publisher]:
    """A queue with twenty messages that all members know."""
    clients = Clients(nodes or len(members))
    record = clients.cluster.declare("q", members)
    publisher = Publisher(clients, 1, record)
    publisher.publish(20)
    clients.cluster.run(1)
    return clients, record, publisher


def _falsify(queue: QuorumQueue) -> None:
    assert queue.member is not None
    queue.member.machine.state.digest ^= queue.session.key.node << 32


def test_without_a_majority_of_one_mind_all_members_stay_and_it_is_told() -> None:
    clients, record, publisher = _with_members_on(1, 2, nodes=3)
    cluster = clients.cluster
    _falsify(cluster.nodes[2].queue(record))
    publisher.publish(1)
    cluster.run(ROUND_S)
    assert [told.nodes for _, told in cluster.diverged] == [()]
    assert cluster.records[record.id].members == record.members


def test_a_group_goes_to_the_newest_version_when_it_is_founded() -> None:
    clients = Clients()
    record = clients.cluster.declare("q", [1, 2, 3])
    clients.cluster.run(1)
    assert versions(clients, record.id) == {1: VERSION_NEWEST, 2: VERSION_NEWEST, 3: VERSION_NEWEST}


def test_a_group_keeps_its_version_until_the_nodes_of_all_members_know_a_later_one() -> None:
    clients = Clients()
    cluster = clients.cluster
    cluster.nodes[3].kind.machine_version = VERSION_OLDEST
    record = cluster.declare("q", [1, 2, 3])
    publisher, taker = Publisher(clients, 1, record), Taker(clients, 1, record, settles=False, prefetch=1)
    publisher.publish(1)
    cluster.run(1)
    taker.settle_all(Outcome.RELEASED)
    cluster.run(ROUND_S)
    assert versions(clients, record.id) == {1: VERSION_OLDEST, 2: VERSION_OLDEST, 3: VERSION_OLDEST}
    assert taker.got == [(b"0", False), (b"0", True)]
    assert [piece.headers for piece in taker.held] == [{"x-acquired-count": 1, "x-delivery-count": 1}], "a failure"
    cluster.nodes[3].kill()
    cluster.run(1)
    cluster.restart(3)  # as newer software
    cluster.run(ROUND_S)
    assert versions(clients, record.id) == {1: VERSION_NEWEST, 2: VERSION_NEWEST, 3: VERSION_NEWEST}
    taker.settle_all(Outcome.RELEASED)
    cluster.run(1)
    assert taker.got[2:] == [(b"0", True)]
    assert [piece.headers for piece in taker.held] == [{"x-acquired-count": 2, "x-delivery-count": 1}], "and none"


@pytest.mark.parametrize("known", range(VERSION_OLDEST, VERSION_NEWEST))
def test_nobody_is_asked_for_more_than_the_version_that_all_know(known: int) -> None:
    """Nodes are updated one by one: what is new begins with the last one."""
    clients = Clients()
    cluster = clients.cluster
    cluster.nodes[2].kind.machine_version = known
    record = cluster.declare("q", [1, 2, 3])
    cluster.run(ROUND_S)
    assert versions(clients, record.id) == {1: known, 2: known, 3: known}
    cluster.nodes[2].kill()
    cluster.run(1)
    cluster.restart(2)  # as newer software
    cluster.run(ROUND_S)
    assert versions(clients, record.id) == {1: VERSION_NEWEST, 2: VERSION_NEWEST, 3: VERSION_NEWEST}


@pytest.mark.parametrize("node", [1, 2, 3], ids=["the leader's", "another member's", "no member's"])
def test_a_limit_that_was_raised_before_the_group_could_follow_holds_when_it_can(node: int) -> None:
    """A group is of the oldest version until all members' nodes were heard: a client that raised its limit meanwhile was
    given nothing more (a Celery worker with tasks that have a countdown, on a busy cluster)."""
    clients = Clients()
    cluster = clients.cluster
    cluster.nodes[2].kind.machine_version = WINDOWS_CHANGE - 1
    record = cluster.declare("q", [1, 2], home=1)
    shared = SharedLimit()
    shared.limit = 1
    publisher = Publisher(clients, 1, record)
    taker = Taker(clients, node, record, settles=False, shared=shared)
    publisher.publish(5)
    cluster.run(1)
    assert taker.bodies == [b"0"]
    shared.limit = 3
    clients.hosts[node].wake(taker.queue)
    cluster.run(1)
    assert taker.bodies == [b"0"], "the group cannot follow yet"
    cluster.nodes[2].kind.machine_version = VERSION_NEWEST
    publisher.publish(1)  # something to compare
    cluster.run(2 * ROUND_S)
    assert cluster.leader(record).queue(record).member.machine.version == VERSION_NEWEST
    assert taker.bodies == [b"0", b"1", b"2"]


def test_answers_of_members_are_read_as_they_were_written() -> None:
    assert decode_compared(compared(2, 7, [(5, 1 << 63)])) == Compared(AnswerStatus.DONE, 7, [(5, 1 << 63)])
    assert decode_compared(refusal(AnswerStatus.NO_GROUP, 0)) == Compared(AnswerStatus.NO_GROUP)
    for broken in (b"", b"\x00", compared(2, 7, [])[:-1], compared(2, 7, [(1, 2)])[:-1], b"\xff" * 20):
        with pytest.raises(BadLetter):
            decode_compared(broken)


def versions(clients: Clients, number: int) -> dict[int, int]:
    found = {}
    for node in clients.cluster.alive():
        member = node.queue(clients.cluster.records[number]).member
        assert member is not None
        found[node.number] = member.machine.version
    return found


# The leader's side alone: whom it asks, when, and what it makes of the answers.


class LeadersComparison:
    """The others answer when `answer` says so."""

    def __init__(self, membership: Membership = THREE_VOTERS, node: int = 1) -> None:
        self.now = 0
        self.away: set[int] = set()
        self.asked: dict[int, Callable[[bytes | None], None]] = {}
        self.given_up: list[Verdict] = []
        self.upgrades: list[int] = []
        self.newest_version = 1
        driver = SimpleNamespace(
            me=member_id(node, 7),
            standing=SimpleNamespace(term=5),
            core=SimpleNamespace(status=lambda: SimpleNamespace(membership=membership)),
        )
        self.machine = SimpleNamespace(version=1, applied=9, digest=7)
        member = SimpleNamespace(machine=self.machine, marks=Marks())
        queue: Any = SimpleNamespace(group=1, route=SimpleNamespace(driver=driver), member=member)
        calls = SimpleNamespace(connected=lambda node: node not in self.away, ask=self._ask)
        ports: Any = SimpleNamespace(node=node, topic=3, calls=calls, wall_ms=lambda: self.now)
        verdicts: Any = SimpleNamespace(
            newest_version=lambda: self.newest_version,
            diverged=lambda *_: None,
            give_up_member=lambda _, verdict: self.given_up.append(verdict),
        )
        self.comparison = Comparison(queue, ports, verdicts, self.upgrades.append)

    def _ask(self, node: int, topic: int, letter: bytes, on_answer: Callable[[bytes | None], None]) -> None:
        self.asked[node] = on_answer

    def look(self, now: int) -> list[int]:
        """Which nodes are asked."""
        self.now = now
        self.asked.clear()
        self.comparison.look(now)
        return sorted(self.asked)

    def answer(self, node: int, digest: int = 7, version: int = 1) -> None:
        self.asked[node](compared(1, version, [(9, digest)]))


def test_the_others_are_asked_again_when_it_is_time_and_something_is_new() -> None:
    leader = LeadersComparison()
    assert leader.look(COMPARE_MS) == [2, 3]
    for node in (2, 3):
        leader.answer(node)
    assert leader.look(2 * COMPARE_MS) == [], "nothing is new"
    leader.machine.applied += 1
    assert leader.look(3 * COMPARE_MS - 1) == []
    assert leader.look(3 * COMPARE_MS) == [2, 3]
    leader.machine.applied += 1
    assert leader.look(1) == [2, 3], "the clock was set back"


@pytest.mark.parametrize("silence", ["away", "no answer", "no group"])
def test_a_node_whose_version_is_not_known_is_asked_again_soon(silence: str) -> None:
    leader = LeadersComparison()
    leader.away = {2} if silence == "away" else set()
    leader.look(COMPARE_MS)
    leader.answer(3)
    if silence != "away":
        leader.asked[2](None if silence == "no answer" else refusal(AnswerStatus.NO_GROUP, 0))
    leader.away = set()
    assert leader.look(COMPARE_MS + ASK_AGAIN_MS - 1) == []
    assert leader.look(COMPARE_MS + ASK_AGAIN_MS) == [2]


@pytest.mark.parametrize("went_at", [1, COMPARE_MS - 1])
def test_a_node_whose_link_went_is_asked_again_soon(went_at: int) -> None:
    leader = LeadersComparison()
    leader.look(COMPARE_MS)
    for node in (2, 3):
        leader.answer(node)
    assert leader.look(2 * COMPARE_MS) == [], "nothing is new"
    leader.now = 2 * COMPARE_MS + went_at
    leader.comparison.link_went(2)
    due = min(leader.now + ASK_AGAIN_MS, 3 * COMPARE_MS)
    assert leader.look(due - 1) == []
    assert leader.look(due) == [2]


@pytest.mark.parametrize("ended", ["the leadership", "the link"])
def test_what_is_answered_too_late_counts_for_nothing(ended: str) -> None:
    leader = LeadersComparison()
    leader.newest_version = 2
    leader.look(0)
    leader.answer(3, version=2)
    if ended == "the link":
        leader.comparison.link_went(2)
    else:
        leader.comparison.end()
    leader.answer(2, version=2)
    assert leader.upgrades == []


def test_a_group_of_one_member_goes_to_the_newest_version() -> None:
    """It has nobody to ask."""
    leader = LeadersComparison(Membership((ONE,)))
    leader.look(0)
    assert leader.upgrades == []
    leader.newest_version = 2
    leader.look(COMPARE_MS)
    assert leader.upgrades == [2]


def test_no_member_is_given_up_for_what_one_that_is_away_now_has_answered_before() -> None:
    """Two would be gone: the one that is away, and the one that is made anew."""
    leader = LeadersComparison()
    leader.look(0)
    leader.answer(2)
    leader.asked[3](None)
    leader.away = {2}
    assert leader.look(ASK_AGAIN_MS) == [3]
    leader.answer(3, digest=8)
    assert leader.comparison.diverged == Odd((), 9) and leader.given_up == []


@pytest.mark.parametrize("connected", [True, False])
def test_no_member_goes_while_another_one_is_on_its_way_to_vote(connected: bool) -> None:
    """It is what the group has instead of one that went before. One whose node is away is not waited for."""
    leader = LeadersComparison(Membership((ONE, TWO, THREE), (FOUR,), (FOUR,)))
    leader.away = set() if connected else {4}
    for node in leader.look(COMPARE_MS):
        leader.answer(node, digest=8 if node == 3 else 7)
    assert leader.comparison.diverged == Odd((3,), 9)
    assert {verdict.member for verdict in leader.given_up} == (set() if connected else {THREE})


def test_the_leader_is_given_up_first_where_it_is_one_of_several() -> None:
    leader = LeadersComparison(Membership(tuple(member_id(node, 7) for node in (1, 2, 3, 4, 5))), node=5)
    leader.machine.digest = 1
    for node in leader.look(0):
        leader.answer(node, digest=8 if node == 2 else 7)
    assert leader.comparison.diverged == Odd((2, 5), 9)
    assert [node_of(verdict.member) for verdict in leader.given_up] == [5]


def test_a_learner_in_another_state_is_no_voter_that_is_given_up() -> None:
    """What it has come to says nothing of the voters, and none of them is it."""
    leader = LeadersComparison(Membership((ONE, TWO, THREE), (FOUR,), ()))
    for node in leader.look(COMPARE_MS):
        leader.answer(node, digest=8 if node == 4 else 7)
    assert leader.comparison.diverged is None and leader.given_up == []


FIVE_VOTERS = Membership(tuple(member_id(node, 7) for node in (1, 2, 3, 4, 5)))


def test_a_member_that_was_restored_remembers_its_digest_at_the_very_next_entry() -> None:
    """Though it stands among those of which the first one was remembered before."""
    marks, machine = Marks(), SimpleNamespace(version=1, applied=65, digest=1)
    marks.before(66, machine)
    marks.clear()
    machine.applied, machine.digest = 70, 2
    marks.before(71, machine)
    machine.applied, machine.digest = 71, 3
    assert marks.all(machine) == {70: 2, 71: 3}


@pytest.mark.parametrize("silence", ["away", "behind"])
def test_no_member_goes_while_a_voter_is_away_or_has_not_come_so_far(silence: str) -> None:
    """A majority is of one mind without it, and would be one member short of it for as long as the other one is made anew."""
    leader = LeadersComparison(FIVE_VOTERS)
    leader.away = {5} if silence == "away" else set()
    asked = leader.look(COMPARE_MS)
    for node in asked:
        if node == 5:
            leader.asked[5](compared(1, 1, [(3, 7)]))
        else:
            leader.answer(node, digest=8 if node == 2 else 7)
    assert leader.comparison.diverged == Odd((2,), 9)
    assert leader.given_up == []
    leader.away = set()
    again = leader.look(2 * COMPARE_MS)
    assert again == [2, 3, 4, 5], "though nothing is new since"
    for node in again:
        leader.answer(node, digest=8 if node == 2 else 7)
    assert [node_of(verdict.member) for verdict in leader.given_up] == [2]
