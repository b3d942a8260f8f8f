"""node/membership/discovery.py: the first boot makes one cluster, whatever network, name service and processes do."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.identity import Bound
from node.membership.discovery import (
    PAUSE_S,
    ROUND_S_MAX,
    SETTLED_S,
    Ask,
    Discovery,
    Found,
    GreetingReply,
    Join,
    Question,
)

HEALED_CYCLES_MAX = 60
CYCLE_S = 0.4


def address_of(name: str) -> str:
    return f"{name}:5681"


@dataclass
class Machine:
    """A data directory, and the process on it if one runs."""

    name: str
    may_found: bool
    peers: frozenset[str]
    nodes_expected: int
    life: int = 0
    up: bool = True
    bound: Bound | None = None  # on disk
    cluster_id: str = ""  # on disk
    discovery: Discovery | None = None

    @property
    def instance(self) -> str:
        return f"instance-{self.name}"


@dataclass
class World:
    """Nodes, and messages that arrive in any order, late or never."""

    machines: dict[str, Machine]
    founded: list[str] = field(default_factory=list)
    taken_in: dict[str, set[str]] = field(default_factory=dict)  # name -> clusters that have it among their nodes
    now: float = 0.0
    ids: Iterable[int] = field(default_factory=itertools.count)
    pool: list[tuple[object, ...]] = field(default_factory=list)

    def start(self, machine: Machine) -> None:
        machine.up = True
        machine.life += 1
        machine.discovery = None
        if not machine.cluster_id:
            machine.discovery = Discovery(
                machine.instance,
                machine.name,
                address_of(machine.name),
                peers=machine.peers,
                may_found=machine.may_found,
                bound=machine.bound,
                new_cluster_id=lambda: f"cluster-{next(iter(self.ids))}",
                nodes_expected=machine.nodes_expected,
            )

    def kill(self, machine: Machine) -> None:
        machine.up = False
        machine.discovery = None

    def cycle(self, machine: Machine) -> None:
        """What the driver does now and then: ask everybody, and see what is to be done."""
        discovery = machine.discovery
        if discovery is None:
            return
        for ask in discovery.questions():
            self.pool.append(("question", machine, machine.life, ask))
        decision = discovery.decide(self.now)
        machine.bound = discovery.bound
        match decision:
            case Found(cluster_id):
                self.founded.append(cluster_id)
                self.taken_in.setdefault(machine.name, set()).add(cluster_id)
                machine.cluster_id, machine.discovery = cluster_id, None
            case Join(_, addresses):
                self.pool.append(("join", machine, machine.life, addresses[0]))

    def deliver(self, message: tuple[object, ...]) -> None:
        match message:
            case "question", Machine() as asking, int(life), Ask() as ask:
                asked = self.machines.get(ask.address.partition(":")[0])
                answer = None
                if asked is not None and asked.up:
                    answer = self.answer(asked, ask.question)
                self.pool.append(("answer", asking, life, ask, answer))
            case "answer", Machine() as asking, int(life), Ask() as ask, answer:
                if asking.up and asking.life == life and asking.discovery is not None:
                    asking.discovery.answered(ask, answer)  # type: ignore[arg-type]
                    asking.bound = asking.discovery.bound
            case "join", Machine() as joining, int(life), str(address):
                member = self.machines[address.partition(":")[0]]
                if member.up and member.cluster_id:
                    self.taken_in.setdefault(joining.name, set()).add(member.cluster_id)
                    self.pool.append(("joined", joining, life, member.cluster_id))
            case "joined", Machine() as joining, int(life), str(cluster_id):
                if joining.up and joining.life == life and joining.discovery is not None:
                    joining.cluster_id, joining.discovery = cluster_id, None

    def answer(self, asked: Machine, question: Question) -> GreetingReply | None:
        if asked.discovery is None:
            return GreetingReply(asked.instance, asked.name, cluster_id=asked.cluster_id)
        answer = asked.discovery.asked(question)
        asked.bound = asked.discovery.bound
        return answer

    def check(self) -> None:
        assert len(self.founded) <= 1, f"two clusters were founded: {self.founded}"
        for name, clusters in self.taken_in.items():
            assert len(clusters) == 1, f"node {name} is in the catalogs of {clusters}"

    def heal(self) -> None:
        """Everybody runs, everything arrives: everybody has to end in one cluster."""
        for machine in self.machines.values():
            if not machine.up:
                self.start(machine)
        for _ in range(HEALED_CYCLES_MAX):
            for machine in self.machines.values():
                self.cycle(machine)
            while self.pool:
                self.deliver(self.pool.pop(0))
            self.now += CYCLE_S
            self.check()
            if all(machine.cluster_id for machine in self.machines.values()):
                break
        stuck = {one.name: one.discovery.waiting_for for one in self.machines.values() if one.discovery is not None}
        assert not stuck, f"these never got anywhere: {stuck}"
        assert len(self.founded) == 1

    def run(self, random: Random, steps: int, grow: bool) -> None:
        """A fifth of the schedules have hardly any faults, so that they get far; the others have more or fewer."""
        names = list(self.machines)
        faults, pace = random.choice((0.0, 0.2, 0.5, 1.0, 2.0)), random.choice((0.01, 0.05, 0.2))
        for _ in range(steps):
            self.now += random.random() * pace
            machine = self.machines[random.choice(names)]
            chance = random.random()
            if chance < 0.02 * faults:
                self.kill(machine)
            elif chance < 0.10 and not machine.up:
                self.start(machine)
            elif chance < 0.25 and machine.up:
                self.cycle(machine)
            elif chance < 0.25 + 0.1 * faults and self.pool:
                self.pool.pop(random.randrange(len(self.pool)))  # lost
            elif chance > 0.99 and grow:
                machine.peers |= {address_of(random.choice(names))}
                if machine.discovery is not None:
                    machine.discovery.looked_up(machine.peers, self.now)
            elif self.pool:
                newest = random.random() < 0.5  # else any, however old
                self.deliver(self.pool.pop(-1 if newest else random.randrange(len(self.pool))))
            self.check()


def world(
    names: Iterable[str], peers: dict[str, frozenset[str]], expected: int = 0, join_only: Iterable[str] = ()
) -> World:
    made = World({name: Machine(name, name not in join_only, peers[name], expected) for name in names})
    for machine in made.machines.values():
        made.start(machine)
    return made


def same_list(names: Iterable[str]) -> dict[str, frozenset[str]]:
    everybody = frozenset(address_of(name) for name in names)
    return dict.fromkeys(everybody_named(everybody), everybody)


def everybody_named(addresses: Iterable[str]) -> list[str]:
    return [address.partition(":")[0] for address in addresses]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 5))
def test_with_the_same_list_there_is_one_cluster_under_every_schedule(seed: int, count: int) -> None:
    random = Random(seed)
    names = [f"n{number}" for number in range(count)]
    made = world(names, same_list(names), join_only=random.sample(names[1:], random.randrange(count)))
    made.run(random, steps=600, grow=False)
    made.heal()


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(2, 5))
def test_with_lists_that_share_one_node_there_is_one_cluster(seed: int, count: int) -> None:
    random = Random(seed)
    names = [f"n{number}" for number in range(count)]
    shared = random.choice(names)
    peers = {
        name: frozenset(map(address_of, {shared, *random.sample(names, random.randrange(count))})) for name in names
    }
    made = world(names, peers)
    made.run(random, steps=600, grow=False)
    made.heal()


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), of_each=st.integers(1, 3), by_name=st.booleans())
def test_two_camps_that_share_one_node_are_one_cluster(seed: int, of_each: int, by_name: bool) -> None:
    """The hardest case: each camp knows itself and the shared node only, and could found without the other."""
    random = Random(seed)
    names = [f"n{number}" for number in range(2 * of_each + 1)]
    random.shuffle(names)
    shared, camps = names[0], (names[1 : of_each + 1], names[of_each + 1 :])
    peers = {name: frozenset(map(address_of, [shared, *camp])) for camp in camps for name in camp}
    peers[shared] = frozenset({address_of(shared)})
    made = world(names, peers, expected=of_each + 1 if by_name else 0, join_only=[shared])
    made.run(random, steps=150 * len(names), grow=False)
    if by_name:
        for machine in made.machines.values():
            machine.peers = frozenset(map(address_of, names))
            if machine.discovery is not None:
                machine.discovery.looked_up(machine.peers, made.now)
    made.heal()


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(2, 5))
def test_with_a_name_whose_answer_grows_there_is_one_cluster(seed: int, count: int) -> None:
    """Each node sees another part of the nodes, and founds when it sees more than half."""
    random = Random(seed)
    names = [f"n{number}" for number in range(count)]
    peers = {name: frozenset(map(address_of, random.sample(names, random.randrange(count)))) for name in names}
    made = world(names, peers, expected=count // 2 + 1)
    made.run(random, steps=600, grow=True)
    for machine in made.machines.values():
        machine.peers = frozenset(map(address_of, names))
        if machine.discovery is not None:
            machine.discovery.looked_up(machine.peers, made.now)
    made.heal()


def test_three_nodes_that_start_at_once_found_with_the_lowest_within_few_questions() -> None:
    names = ["n3", "n1", "n2"]
    made = world(names, same_list(names))
    made.heal()
    assert made.now <= 5 * CYCLE_S
    assert {one.cluster_id for one in made.machines.values()} == set(made.founded)


def test_a_node_alone_in_its_list_founds_at_once_and_one_that_is_to_join_never_does() -> None:
    alone = world(["n1"], same_list(["n1"]))
    alone.cycle(alone.machines["n1"])
    assert len(alone.founded) == 1
    joining = world(["n2"], {"n2": frozenset({address_of("n1")})}, join_only=["n2"])
    discovery = joining.machines["n2"].discovery
    assert discovery is not None
    for _ in range(20):
        joining.cycle(joining.machines["n2"])
        while joining.pool:
            joining.deliver(joining.pool.pop(0))
    assert not joining.founded
    assert "a node of the cluster at n1:5681" in discovery.waiting_for


def test_while_one_node_of_the_list_is_missing_nothing_is_founded_and_the_log_names_it() -> None:
    names = ["n1", "n2", "n3"]
    made = world(names, same_list(names))
    made.kill(made.machines["n3"])
    for _ in range(20):
        for machine in made.machines.values():
            made.cycle(machine)
        while made.pool:
            made.deliver(made.pool.pop(0))
        made.now += 1.0
    discovery = made.machines["n1"].discovery
    assert discovery is not None
    assert discovery.waiting_for.startswith("n3:5681 to answer")
    assert not made.founded


def test_an_answer_to_an_earlier_question_does_not_undo_a_promise() -> None:
    """It was asked, and answered "I found nothing", before the round began that the promise was given to."""
    founder, follower = (
        Discovery(
            f"i-{name}",
            name,
            address_of(name),
            peers=map(address_of, ("n1", "n2")),
            may_found=True,
            bound=None,
            new_cluster_id=lambda: "c1",
        )
        for name in ("n1", "n2")
    )
    (early,) = follower.questions()
    early_answer = founder.asked(early.question)
    (ask,) = founder.questions()
    founder.answered(ask, follower.asked(ask.question))
    assert founder.decide(0.0) is None
    (ask,) = founder.questions()
    answer = follower.asked(ask.question)
    assert answer.promised
    follower.answered(early, early_answer)
    assert follower.bound is not None and follower.bound.cluster_id == "c1"
    founder.answered(ask, answer)
    assert founder.decide(0.0) == Found("c1")


def test_two_nodes_of_one_name_wait_for_an_operator() -> None:
    one = Discovery(
        "i-1", "n1", "a:1", peers=["b:1"], may_found=True, bound=None, new_cluster_id=lambda: pytest.fail("founds")
    )
    (ask,) = one.questions()
    one.answered(ask, GreetingReply("i-2", "n1", may_found=True))
    assert one.decide(0.0) is None
    assert "the node at b:1 is named 'n1' as this one is" in one.waiting_for


def test_members_of_two_clusters_are_not_chosen_between() -> None:
    one = Discovery(
        "i-1", "n1", "a:1", peers=["b:1", "c:1"], may_found=True, bound=None, new_cluster_id=lambda: pytest.fail("x")
    )
    for ask, cluster_id in zip(one.questions(), ("c1", "c2"), strict=True):
        one.answered(ask, GreetingReply(f"i-{cluster_id}", cluster_id, cluster_id=cluster_id))
    assert one.decide(0.0) is None
    assert "nodes of 2 clusters answer: b:1 is of c1, c:1 is of c2" in one.waiting_for


EVERYBODY = frozenset({"a:1", "b:1", "c:1"})


def node_b(bound: Bound | None = None, **of_all: Any) -> Discovery:
    return Discovery(
        "instance-b",
        "b",
        "b:1",
        peers=EVERYBODY,
        may_found=True,
        bound=bound,
        new_cluster_id=lambda: "round of b",
        **of_all,
    )


def lone_pair(**of_all: Any) -> Discovery:
    """Node a, which knows of b; b is free and promises itself to nobody."""
    discovery = Discovery(
        "instance-a",
        "a",
        "a:1",
        peers={"b:1"},
        may_found=True,
        bound=None,
        new_cluster_id=lambda: "round of a",
        **of_all,
    )
    for ask in discovery.questions():
        discovery.answered(ask, GreetingReply("instance-b", "b", may_found=True, knows=frozenset({"a:1", "b:1"})))
    return discovery


def round_of(discovery: Discovery) -> str:
    return discovery.questions()[0].question.founding


def test_who_has_promised_itself_to_one_round_refuses_every_other() -> None:
    discovery = node_b()
    first = Question("instance-a", "a", "a:1", EVERYBODY, "round of a")
    assert discovery.asked(first).promised and discovery.asked(first).promised, "also when it is asked again"
    other = discovery.asked(Question("instance-0", "0", "0:1", EVERYBODY | {"0:1"}, "round of 0"))
    assert not other.promised
    assert other.refusal == "node 'b' has promised to follow the node at a:1"
    assert discovery.bound == Bound("round of a", "a:1", "instance-a", exists=False)


@pytest.mark.parametrize("exists", [True, False])
def test_a_promise_to_a_cluster_that_was_seen_is_not_taken_back(exists: bool) -> None:
    bound = Bound("c", "a:1", "instance-a", exists=exists)
    discovery = node_b(bound)
    ask = next(one for one in discovery.questions() if one.address == "a:1")
    discovery.answered(ask, GreetingReply("instance-a", "a"))
    assert discovery.bound == (bound if exists else None)


def test_a_round_that_was_given_up_is_followed_by_a_pause() -> None:
    discovery = lone_pair()
    discovery.decide(0.0)
    assert round_of(discovery) == "round of a"
    discovery.decide(ROUND_S_MAX)
    assert round_of(discovery) == ""
    discovery.decide(ROUND_S_MAX + PAUSE_S / 2)
    assert round_of(discovery) == "", "others may have a round first"
    discovery.decide(ROUND_S_MAX + PAUSE_S)
    assert round_of(discovery) == "round of a"


def test_nothing_is_founded_until_the_name_service_has_said_the_same_for_a_while() -> None:
    discovery = lone_pair(nodes_expected=2, settled_s=SETTLED_S)
    discovery.decide(0.0)
    assert discovery.waiting_for == "the name service to say the same for a while", "it has said nothing"
    discovery.looked_up({"b:1"}, 1.0)
    discovery.looked_up({"a:1", "b:1"}, 2.0)
    discovery.looked_up({"a:1", "b:1"}, 3.0)
    discovery.decide(1.9 + SETTLED_S)
    assert (discovery.waiting_for, round_of(discovery)) == ("the name service to say the same for a while", "")
    discovery.decide(2.0 + SETTLED_S)
    assert round_of(discovery) == "round of a"


BOUND = Bound("round of a", "a:1", "instance-a", exists=False)


@pytest.mark.parametrize(
    "answer",
    [
        GreetingReply("instance-c", "c", may_found=True),
        GreetingReply("instance-a", "a", may_found=True, founding="round of a"),
        GreetingReply("instance-a", "a", cluster_id="round of a"),
    ],
    ids=["of another node", "of the founder in its round", "of the founder in its cluster"],
)
def test_a_promise_stands_until_its_founder_says_that_it_is_not_in_that_round(answer: GreetingReply) -> None:
    """Who took it back too early would promise itself to a second round, and both would be founded."""
    discovery = node_b(BOUND)
    for ask in discovery.questions():
        discovery.answered(ask, answer)
    assert discovery.bound == BOUND


def test_nothing_is_founded_with_answers_that_promise_nothing() -> None:
    discovery = lone_pair()
    discovery.decide(0.0)
    assert round_of(discovery) == "round of a"
    free = GreetingReply("instance-b", "b", may_found=True, knows=frozenset({"a:1", "b:1"}), refusal="b is busy")
    for ask in discovery.questions():
        discovery.answered(ask, free)
    assert discovery.decide(0.1) is None
    for ask in discovery.questions():
        discovery.answered(ask, replace(free, promised=True))
    assert discovery.decide(0.2) == Found("round of a")


def test_a_promise_to_a_round_that_was_given_up_does_not_count_for_the_next() -> None:
    discovery = Discovery(
        "instance-a",
        "a",
        "a:1",
        peers={"b:1"},
        may_found=True,
        bound=None,
        new_cluster_id=iter(("first", "second")).__next__,
    )
    free = GreetingReply("instance-b", "b", may_found=True, knows=frozenset({"a:1", "b:1"}))
    for ask in discovery.questions():
        discovery.answered(ask, free)
    discovery.decide(0.0)
    (late,) = discovery.questions()
    assert late.question.founding == "first"
    discovery.decide(ROUND_S_MAX)
    discovery.decide(ROUND_S_MAX + PAUSE_S)
    assert round_of(discovery) == "second"
    discovery.answered(late, replace(free, promised=True))
    assert discovery.decide(ROUND_S_MAX + PAUSE_S) is None


def test_a_node_that_asked_once_and_has_gone_is_not_waited_for() -> None:
    """It was started with another address, say: nobody names the old one any more."""
    discovery = lone_pair()
    discovery.asked(Question("instance-x", "x", "x:1", frozenset({"x:1", "a:1"})))
    (gone,) = (ask for ask in discovery.questions() if ask.address == "x:1")
    discovery.answered(gone, None)
    assert "x:1" not in [ask.address for ask in discovery.questions()]
    discovery.decide(0.0)
    assert round_of(discovery) == "round of a"


def test_a_name_service_that_says_what_was_configured_has_said_it() -> None:
    discovery = lone_pair(nodes_expected=2, settled_s=SETTLED_S)
    discovery.looked_up({"b:1"}, 1.0)
    discovery.decide(1.0 + SETTLED_S)
    assert round_of(discovery) == "round of a"
