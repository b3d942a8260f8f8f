"""node/membership/discovery.py, guard by guard: what one blank node must not do, so that two of them do not found two clusters.

tests/unit/node/test_discovery.py lets whole nodes meet in any order; here one node is told what the others say.
"""

from __future__ import annotations

from typing import Any

import pytest

from node.identity import Bound
from node.membership.discovery import Discovery, Found, GreetingReply, Join, Question

BOTH = frozenset({"a:1", "b:1"})
FREE_B = GreetingReply("instance-b", "b", may_found=True, knows=BOTH)
BOUND_TO_A = Bound("round of a", "a:1", "instance-a", exists=False)


def node_a() -> Discovery:
    """It has asked b, which is free."""
    made = Discovery(
        "instance-a", "a", "a:1", peers=BOTH, may_found=True, bound=None, new_cluster_id=lambda: "round of a"
    )
    hears(made, FREE_B)
    return made


def in_its_round() -> Discovery:
    made = node_a()
    assert made.decide(0.0) is None and asked_plainly(made).founding == "round of a"
    return made


def node_b(bound: Bound | None = None) -> Discovery:
    return Discovery(
        "instance-b", "b", "b:1", peers=BOTH, may_found=True, bound=bound, new_cluster_id=lambda: "round of b"
    )


def hears(node: Discovery, *answers: GreetingReply | None) -> None:
    """Of those that it asks, in the order of their addresses."""
    for ask, answer in zip(node.questions(), answers, strict=True):
        node.answered(ask, answer)


def asked_plainly(node: Discovery) -> GreetingReply:
    return node.asked(Question("instance-b", "b", "b:1", BOTH))


def round_of_a(**of_all: Any) -> Question:
    return Question(
        **{"instance": "instance-a", "name": "a", "address": "a:1", "knows": BOTH, "founding": "round of a"} | of_all
    )


def places_asked(node: Discovery) -> list[str]:
    return [ask.address for ask in node.questions()]


def test_a_founder_says_that_it_is_in_its_round() -> None:
    """Who has promised itself to it would take that back."""
    assert asked_plainly(node_a()).founding == ""
    assert asked_plainly(in_its_round()).founding == "round of a"


def test_who_is_asked_outside_of_a_round_promises_nothing() -> None:
    node = node_b()
    answer = node.asked(Question("instance-a", "a", "a:1", BOTH))
    assert (answer.promised, answer.bound, node.bound) == (False, None, None)


def test_who_refuses_is_not_bound() -> None:
    node = node_b()
    assert not node.asked(round_of_a(knows=frozenset({"a:1"}))).promised
    assert node.bound is None


def test_who_belongs_to_a_cluster_that_it_has_seen_is_not_bound_to_the_round_again() -> None:
    """That could be taken back."""
    node = node_b(Bound("round of a", "a:1", "instance-a", exists=True))
    assert node.asked(round_of_a()).promised
    assert node.bound == Bound("round of a", "a:1", "instance-a", exists=True)


@pytest.mark.parametrize("how", ["in its round", "decided", "itself"])
def test_who_founds_promises_itself_to_nobody(how: str) -> None:
    node = in_its_round() if how != "itself" else node_a()
    if how == "decided":
        hears(node, GreetingReply("instance-b", "b", may_found=True, knows=BOTH, promised=True))
        assert node.decide(0.1) == Found("round of a")
    question = Question("instance-0", "0", "b:1", BOTH, "round of 0")
    if how == "itself":
        question = round_of_a()
    answer = node.asked(question)
    assert (answer.promised, answer.refusal) == (False, "node 'a' is about to found a cluster itself")
    assert node.bound is None


def test_what_was_decided_stays_decided() -> None:
    """The founding is on its way to the disk, and others may have been told of it."""
    node = in_its_round()
    hears(node, GreetingReply("instance-b", "b", may_found=True, knows=BOTH, promised=True))
    assert node.decide(0.1) == Found("round of a")
    for answer in (None, GreetingReply("instance-b", "b", cluster_id="c")):
        hears(node, answer)
        assert node.decide(100.0) == Found("round of a")


def test_a_founder_that_hears_of_a_cluster_gives_its_round_up_and_joins() -> None:
    node = in_its_round()
    hears(node, GreetingReply("instance-b", "b", cluster_id="c"))
    assert node.decide(0.1) == Join("c", ("b:1",))
    assert node.bound == Bound("c", "b:1", "instance-b", exists=True)
    assert asked_plainly(node).founding == ""


def test_a_founder_that_misses_a_node_gives_its_round_up() -> None:
    node = in_its_round()
    hears(node, None)
    assert node.decide(0.1) is None
    assert asked_plainly(node).founding == ""


def test_a_founder_that_hears_of_one_more_node_gives_its_round_up_though_all_of_it_have_promised() -> None:
    """It may have a camp of its own, in which another one founds."""
    node = in_its_round()
    hears(node, GreetingReply("instance-b", "b", may_found=True, knows=BOTH, promised=True))
    node.asked(Question("instance-c", "c", "c:1", frozenset({"c:1", "a:1"})))
    free_c = GreetingReply("instance-c", "c", may_found=True, knows=frozenset({"c:1", "a:1"}))
    for ask in node.questions():
        node.answered(ask, free_c if ask.address == "c:1" else FREE_B)
    assert node.decide(0.1) is None
    assert asked_plainly(node).founding == ""


def test_everybody_is_asked_whom_anybody_knows_of_or_has_promised_itself_to() -> None:
    node = node_a()
    assert places_asked(node) == ["b:1"]
    hears(node, GreetingReply("instance-b", "b", may_found=True, knows=BOTH | {"c:1"}))
    assert places_asked(node) == ["b:1", "c:1"]
    bound = Bound("round of z", "z:1", "instance-z", exists=False)
    hears(node, GreetingReply("instance-b", "b", may_found=True, knows=BOTH, bound=bound), None)
    assert places_asked(node) == ["b:1", "z:1"]
    assert places_asked(node_b(Bound("round of y", "y:1", "instance-y", exists=False))) == ["a:1", "y:1"]


@pytest.mark.parametrize("answer", [None, GreetingReply("instance-a", "a", cluster_id="another")])
def test_who_has_promised_itself_waits_for_that_cluster_and_no_other(answer: GreetingReply | None) -> None:
    node = node_b(BOUND_TO_A)
    hears(node, answer)
    node.bound = (
        BOUND_TO_A  # also where the founder has said that it is in another one, and the promise is not taken back yet
    )
    assert node.decide(0.0) is None
    assert node.waiting_for.startswith("the node at a:1, because this node has promised to follow it")
    assert asked_plainly(node).founding == "", "nor does it begin a round"


def test_who_has_promised_itself_joins_that_cluster_and_never_takes_it_back() -> None:
    node = node_b(BOUND_TO_A)
    hears(node, GreetingReply("instance-a", "a", cluster_id="round of a"))
    assert node.decide(0.0) == Join("round of a", ("a:1",))
    assert node.bound == Bound("round of a", "a:1", "instance-a", exists=True)
