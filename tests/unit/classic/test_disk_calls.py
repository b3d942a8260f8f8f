"""At every single call of the disk while housekeeping works: the power goes, there is no room, or the device fails.

Each test is a run without faults to learn the calls, and one life for each of them, disturbed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from random import Random

import pytest

from tests.sim.disk import OPENING, Call, Fault, Faults
from tests.unit.classic.disk_calls import TICKS_TO_TRY_AGAIN, Life, PowerCut, Stopped, calls_of

ROOM_IS_ASKED_FOR_BY = ("create", "write", "rename", "make_dir", "begin_dir")
BOTH = pytest.mark.parametrize("beside", [False, True], ids=["at once", "beside the loop"])


def lives(beside: bool, operations: Iterable[str] = ()) -> Iterator[tuple[Life, Call]]:
    """A life for each call of the disk that does one of these, or anything; all that happens before its `work` is done."""
    for call in calls_of(beside):
        if not operations or call.operation in operations:
            life = Life(beside)
            life.prepare()
            life.said = f"call {call.number}, {call.operation} {call.name}"
            yield life, call


def at(life: Life, call: Call, fault: Fault, times: int = 1) -> Faults:
    """A fault at this call, and at the ones behind it. From then on the life is watched."""
    first = life.world.disk.calls + call.number

    def faults(one: Call) -> Fault | None:
        if one.number == first:
            life.watch()
        return fault if first <= one.number < first + times else None

    return faults


def cut_at(life: Life, number: int) -> Faults:
    number += life.world.disk.calls

    def faults(call: Call) -> Fault | None:
        if call.number >= number:
            raise PowerCut
        return None

    return faults


def test_the_work_does_all_that_housekeeping_can_do() -> None:
    """Otherwise the tests below would disturb something that does not happen."""
    seen = {(call.operation, call.name.rpartition(".")[2].partition("/")[0]) for call in calls_of(beside=False)}
    for wanted in (
        ("create", "rdq"), ("read", "rdq"), ("delete", "rdq"), ("create", "idx"), ("delete", "idx"), ("create", "body"),
        ("delete", "body"), ("delete", "log"), ("rename", "tmp"), ("remove_dir", "classic"),
    ):  # fmt: skip
        assert wanted in seen, f"{wanted} is not in {sorted(seen)}"
    transient = [call for call in calls_of(beside=False) if call.name.startswith("store/transient")]
    assert any(call.operation == "read" for call in transient), "nothing of the transient store is compacted"


@BOTH
def test_the_power_may_go_at_any_call(beside: bool) -> None:
    for life, call in lives(beside):
        assert not life.disturbed(cut_at(life, call.number))
        life.cut(None if call.number % 3 == 0 else Random(call.number))
        life.check()
        life.go_on()
        life.cut(Random(call.number))
        life.check(", and then another life")


@BOTH
def test_the_node_may_be_stopped_at_any_tick(beside: bool) -> None:
    """Whatever is under way in the background then: the next life does all that housekeeping has to do."""
    for ticks in count():
        life = Life(beside)
        life.prepare()
        life.said = f"stopped after {ticks} ticks"
        life.ticks_left = ticks
        try:
            life.work()
        except Stopped:
            life.ticks_left = None
        else:
            assert ticks > 20, "the work took few ticks"
            return
        life.stop()
        life.check()
        life.go_on()
        life.ticks(TICKS_TO_TRY_AGAIN)
        assert life.world.kind._storage.failed is None, f"{life.said}: {life.world.kind._storage.failed}"
        life.cut(Random(ticks))
        life.check(", and then another life")


@pytest.mark.parametrize(("beside", "times"), [(False, 1), (False, 40), (True, 1)])
def test_there_may_be_no_room_at_any_call(beside: bool, times: int) -> None:
    for life, call in lives(beside, ROOM_IS_ASKED_FOR_BY):
        if life.disturbed(at(life, call, Fault.ENOSPC_PARTIAL if call.number % 2 else Fault.ENOSPC, times)):
            assert life.world.kind._storage.failed is None, f"{life.said}: {life.world.kind._storage.failed}"
            life.wait_for_room()
        life.cut(None if call.number % 3 == 0 else Random(call.number))
        life.check()


@BOTH
def test_there_may_be_no_room_and_then_the_power_goes(beside: bool) -> None:
    """Before what found no room was tried again, or while it is."""
    for life, call in lives(beside, ROOM_IS_ASKED_FOR_BY):
        chance = Random(call.number)
        full, later = at(life, call, Fault.ENOSPC, chance.choice((1, 1, 20))), call.number + chance.randrange(1, 120)
        cut = cut_at(life, later)
        life.disturbed(lambda one, full=full, cut=cut: cut(one) or full(one))  # type: ignore[misc]
        life.cut(chance)
        life.check(f", and the power goes at {later}")


@BOTH
def test_the_device_may_fail_at_any_call(beside: bool) -> None:
    for life, call in lives(beside):
        if life.disturbed(at(life, call, Fault.EIO)) and call.number % 2:
            life.stop()
        else:
            life.cut(None)
        life.check()


@pytest.mark.parametrize(("beside", "times"), [(False, 1), (True, 30)])
def test_there_may_be_no_descriptor_at_any_call(beside: bool, times: int) -> None:
    for life, call in lives(beside, OPENING):
        assert life.disturbed(at(life, call, Fault.EMFILE, times)), f"{life.said} ended the node"
        assert life.world.kind._storage.failed is None, f"{life.said}: {life.world.kind._storage.failed}"
        life.wait_for_room()
        life.check_now()
        life.cut(None if call.number % 3 == 0 else Random(call.number))
        life.check()
