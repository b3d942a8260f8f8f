"""Changes of the membership of the engine's groups, as operators make them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, cast

from raft.core.errors import RaftError
from raft.core.membership import AddLearner, Change, Promote, RemoveMember, members_of
from raft.core.messages import Membership, node_of
from tests.sim.faults import HAPPENINGS, Faults, Happen
from tests.sim.plan import Fault

if TYPE_CHECKING:
    from tests.sim.engine import EngineSite, EngineWorld

ENGINE_HAPPENINGS: dict[str, Happen] = dict(HAPPENINGS)


def kind(name: str) -> Callable[[Happen], Happen]:
    def register(happen: Happen) -> Happen:
        ENGINE_HAPPENINGS[name] = happen
        return happen

    return register


def world_of(faults: Faults) -> EngineWorld:
    return cast("EngineWorld", faults.world)


def _change(
    faults: Faults,
    fault: Fault,
    group: int,
    change: Change,
    then: Callable[[RaftError | None], None] = lambda error: None,
) -> None:
    """The fault takes effect with the change."""
    found = faults.world.leader(group)
    if found is None or found[0].process is None:
        return
    site, driver = found
    name = f"{type(change).__name__} asked"

    def hand_over() -> None:
        def told(results: object, error: RaftError | None) -> None:
            faults.world.watch.count(f"{name}: {type(error).__name__ if error else 'done'}")
            if error is None:
                faults.took_effect(fault)
            then(error)

        driver.change(change, told)

    site.run(site.life, hand_over, ())


@kind("add member")
@kind("add learner")
def _add(faults: Faults, fault: Fault, random: Random) -> None:
    """A node that belongs to a group no more, or not yet, is taken in."""
    world = world_of(faults)
    for group in world.watch.books:
        found = world.leader(group)
        if found is None:
            continue
        nodes = [node_of(one) for one in members_of(found[1].core._s.membership)]
        free = [
            site
            for site in world.sites.values()
            if site.number not in nodes and site.process is not None and not world.is_leaving(site, group)
        ]
        if not free:
            continue
        site = random.choice(free)
        if group not in site.groups and not site.stopped:
            site.groups[group] = True
            site.run(site.life, world.create_missing, (site,))
        driver = world.driver(site, group)
        if driver is not None:
            _change(faults, fault, group, AddLearner(driver.me, promote=fault.kind == "add member"))


@kind("promote")
def _promote(faults: Faults, fault: Fault, random: Random) -> None:
    for group in faults.world.watch.books:
        found = faults.world.leader(group)
        learners = found[1].core._s.membership.learners if found else ()
        if learners:
            _change(faults, fault, group, Promote(random.choice(learners)))


@kind("remove member")
def _remove(faults: Faults, fault: Fault, random: Random) -> None:
    """Never so many that are not frail that these are no majority any more."""
    world = world_of(faults)
    site = faults.site(fault)
    for group in world.watch.books:
        found = world.leader(group)
        if found is None or site is None:
            continue
        membership: Membership = found[1].core._s.membership
        gone = [one for one in members_of(membership) if node_of(one) == site.number]
        left = [one for one in membership.voters if one not in gone]
        sound = [one for one in left if not world.is_frail(node_of(one))]
        if gone and len(sound) * 2 > len(left) and len(sound) * 2 > len(membership.voters):
            _change(faults, fault, group, RemoveMember(gone[0]), partial(_delete_later, faults, site, group))


def _delete_later(faults: Faults, site: EngineSite, group: int, error: RaftError | None) -> None:
    """What operators do when a member is out of its group: its log goes, too. Until then it is not taken in again."""
    if error is None:
        site.leaving[group] = True
        faults.later(0.5, _delete_log, faults, site, group)


def _delete_log(faults: Faults, site: EngineSite, group: int) -> None:
    """Not before somebody else leads: until then others may believe in the removed member, and only it can tell them."""
    found = faults.world.leader(group)
    if (found is None or found[0] is site) and not faults.world.is_healed:
        faults.later(0.5, _delete_log, faults, site, group)
        return
    site.leaving.pop(group, None)
    if found is None or found[0] is site or site.process is None or site.stopped:
        return
    is_member = site.number in [node_of(one) for one in members_of(found[1].core._s.membership)]
    if world_of(faults).driver(site, group) is not None and not is_member:
        site.groups.pop(group, None)
        site.run(site.life, site.process.leave, (group,))
