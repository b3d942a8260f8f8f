"""When an answer may leave: all that can be reached follow, in the order of the commands, and nobody holds it up for long."""

from __future__ import annotations

import pytest

from node.catalog.followers import WAIT_S, Followers
from raft.core.messages import NodeId


class Scene:
    """One node's view of the others, with a clock that is set by hand."""

    def __init__(self, *reachable: NodeId) -> None:
        self.reachable = list(reachable)
        self.now = 100.0
        self.told: list[str] = []
        self.followers = Followers(lambda: self.reachable, lambda: self.now)

    def wait(self, number: int, name: str = "") -> None:
        self.followers.when_followed(number, lambda: self.told.append(name or str(number)))


def test_nobody_else_is_there_to_follow() -> None:
    scene = Scene()
    scene.wait(1)
    assert scene.told == ["1"]


def test_an_answer_leaves_when_the_last_of_the_others_follows() -> None:
    scene = Scene(2, 3)
    scene.wait(1)
    scene.followers.follows(3, 1)
    assert scene.told == []
    scene.followers.follows(2, 1)
    assert scene.told == ["1"]


def test_a_node_that_follows_a_later_command_follows_those_before() -> None:
    scene = Scene(2)
    for number in (1, 2, 3, 4):
        scene.wait(number)
    scene.followers.follows(2, 3)
    assert scene.told == ["1", "2", "3"]


def test_others_may_be_ahead_of_this_node() -> None:
    scene = Scene(2)
    scene.followers.follows(2, 5)
    scene.wait(5)
    assert scene.told == ["5"]


def test_what_nobody_has_to_follow_is_answered_in_its_place() -> None:
    scene = Scene(2)
    scene.wait(1)
    scene.wait(0, "refused")
    assert scene.told == []
    scene.followers.follows(2, 1)
    assert scene.told == ["1", "refused"]


def test_nobody_waits_for_a_node_that_cannot_be_reached_any_more() -> None:
    scene = Scene(2, 3)
    scene.wait(1)
    scene.followers.follows(3, 1)
    scene.reachable.remove(2)
    scene.followers.look()
    assert scene.told == ["1"]


def test_a_node_that_does_not_get_on_holds_up_one_answer_for_a_while_and_no_other() -> None:
    scene = Scene(2, 3)
    scene.wait(1)
    scene.wait(2)
    scene.followers.follows(3, 2)
    scene.now += WAIT_S / 2
    scene.followers.look()
    assert scene.told == []
    scene.now += WAIT_S / 2
    scene.followers.look()
    assert scene.told == ["1", "2"]
    scene.wait(3)
    scene.followers.follows(3, 3)
    assert scene.told == ["1", "2", "3"], "node 2 is no more waited for"


@pytest.mark.parametrize(("said", "awaited"), [(1, True), (7, True), (0, False)])
def test_a_node_that_has_caught_up_is_waited_for_again(said: int, awaited: bool) -> None:
    scene = Scene(2)
    scene.wait(1)
    scene.now += WAIT_S
    scene.followers.look()
    scene.followers.follows(2, said)
    scene.wait(8)
    assert scene.told == (["1"] if awaited else ["1", "8"])


def test_a_node_that_lags_behind_is_not_waited_for_until_it_follows_what_was_answered_without_it() -> None:
    """It held up one answer more with each command that it followed late."""
    scene = Scene(2)
    scene.wait(1)
    scene.now += WAIT_S
    scene.wait(2)
    scene.wait(3)
    assert scene.told == ["1", "2", "3"]
    for late in (1, 2):
        scene.followers.follows(2, late)
        scene.wait(late + 3)
    assert scene.told == ["1", "2", "3", "4", "5"]
    scene.followers.follows(2, 5)
    scene.wait(6)
    assert scene.told == ["1", "2", "3", "4", "5"]


def test_who_still_waits_is_answered_when_the_node_stops() -> None:
    scene = Scene(2)
    scene.wait(1)
    scene.wait(2)
    scene.followers.close()
    assert scene.told == ["1", "2"]
