"""node/identity.py: what a node never forgets about itself."""

from __future__ import annotations

import os
from contextlib import suppress
from random import Random

import pytest

from broker.catalog.parts.disk_lives import FIRST_LIFE, LIFE_NUMBERS
from node.identity import DISK, RAM, Bound, Departure, KnownNode, NodeIdentity
from raft.store.replicas import RESERVED
from storage import fact_file, names
from storage.errors import Corrupt, DiskFailed
from tests.sim.disk import Fault, SimDisk, no_faults

NOW = 1_700_000_000_000
OTHER = KnownNode(1, "n1", "10.0.0.1:5681", DISK)


def begin(disk: SimDisk, now: int = NOW) -> NodeIdentity:
    return NodeIdentity.begin(disk, "n2", DISK, now, os.urandom)


def test_a_new_directory_belongs_to_no_cluster_and_is_like_no_other() -> None:
    one, other = begin(SimDisk()), begin(SimDisk())
    assert one.blank and one.number == 0
    assert one.instance != other.instance
    assert one.disk_id == 0


def test_each_process_has_a_higher_incarnation_though_the_clock_was_set_back() -> None:
    disk = SimDisk()
    first = begin(disk)
    second = begin(disk, NOW - 1_000_000)
    assert second.incarnation == first.incarnation + 1
    assert (second.instance, second.disk_id) == (first.instance, first.disk_id)


def test_an_old_copy_is_known_by_its_last_life_however_often_it_is_refused() -> None:
    disk = SimDisk()
    first = begin(disk)
    assert first.earlier_incarnation == 0
    first.take_part()
    for _ in range(3):  # each of these is refused its place
        assert begin(disk).earlier_incarnation == first.incarnation
    later = begin(disk)
    later.take_part()
    assert begin(disk).earlier_incarnation == later.incarnation


def joined(disk: SimDisk, life: int = FIRST_LIFE) -> NodeIdentity:
    identity = begin(disk)
    identity.join("c1", 2, life, [OTHER])
    return identity


def test_members_are_numbered_upward_in_the_life_that_the_disk_was_granted() -> None:
    disk, life = SimDisk(), FIRST_LIFE + LIFE_NUMBERS
    identity = joined(disk, life)
    assert identity.place.disk_id == life
    assert [identity.new_replica(0), identity.new_replica(life)] == [life + 1, life + 2]
    assert identity.new_replica(life + 700) == life + 701


def test_no_process_gives_a_number_again_whatever_the_clocks_say() -> None:
    disk = SimDisk()
    given = [joined(disk).new_replica(0)]
    for process in range(5):
        identity = begin(disk, NOW - 1_000 * process)
        given += [identity.new_replica(0) for _ in range(RESERVED + 5)]
    assert given == sorted(set(given))


def test_a_number_is_on_the_disk_before_it_is_given() -> None:
    disk = SimDisk()
    identity = joined(disk)
    for _ in range(RESERVED + 5):
        number = identity.new_replica(0)
        facts = fact_file.load(disk, names.NODE_FACTS)
        assert facts is not None and facts["reserved"] >= number


def test_power_that_is_lost_at_any_call_of_the_disk_has_no_number_given_twice() -> None:
    for calls in range(1, 100):
        disk = SimDisk()
        given = [joined(disk).place.disk_id]
        end = disk.calls + calls
        disk.faults = lambda call, end=end: Fault.EIO if call.number >= end else None  # type: ignore[misc]
        with suppress(DiskFailed):
            while True:
                identity = begin(disk)
                for _ in range(RESERVED + 2):
                    given.append(identity.new_replica(0))
        disk.faults = no_faults
        disk.crash(Random(calls))
        assert begin(disk).new_replica(0) > max(given)


def test_a_directory_of_a_build_that_numbered_by_the_clock_goes_on_above_what_that_gave() -> None:
    disk = SimDisk()
    old = {
        "instance": "ab",
        "disk_id": NOW // 1000,
        "incarnation": NOW + 5,
        "cluster_id": "c1",
        "number": 1,
        "kind": DISK,
    }
    fact_file.save(disk, names.NODE_FACTS, old | {"founder_disk": NOW // 1000, "lived": NOW})
    identity = begin(disk, NOW + 60_000)
    place = identity.place
    assert (place.disk_id, place.founds) == (NOW // 1000, True), "what it founded is its own"
    first = identity.new_replica(0)
    assert first == FIRST_LIFE
    assert identity.new_replica(NOW // 1000 + 1_023) > first
    assert begin(disk).new_replica(0) > first


def test_a_directory_whose_clock_was_far_ahead_goes_on_above_what_that_gave() -> None:
    disk, late = SimDisk(), 1000 * (FIRST_LIFE + 500)
    old = {"instance": "ab", "disk_id": NOW // 1000, "incarnation": late, "cluster_id": "c1", "number": 2, "kind": DISK}
    fact_file.save(disk, names.NODE_FACTS, old)
    identity = begin(disk)
    assert identity.place.disk_id == FIRST_LIFE + LIFE_NUMBERS
    assert identity.new_replica(0) > FIRST_LIFE + LIFE_NUMBERS


def test_a_blank_directory_of_an_earlier_build_has_no_number_of_its_own() -> None:
    disk = SimDisk()
    fact_file.save(disk, names.NODE_FACTS, {"instance": "ab", "disk_id": NOW // 1000, "incarnation": NOW})
    identity = begin(disk)
    assert (identity.instance, identity.blank, identity.disk_id) == ("ab", True, 0)
    identity.join("c1", 2, FIRST_LIFE, [OTHER])
    assert begin(disk).place.disk_id == FIRST_LIFE


def test_a_node_that_changes_its_kind_has_later_members_than_it_had() -> None:
    disk = SimDisk()
    identity = joined(disk)
    identity.change_kind("ram", above=FIRST_LIFE + 700)
    assert begin(disk).disk_id == FIRST_LIFE + 701


def test_a_disk_knows_under_which_number_it_has_begun_a_member() -> None:
    disk = SimDisk()
    identity = begin(disk)
    identity.found("00")
    assert not begin(disk).has_begun_member
    identity = begin(disk)
    identity.begin_member()
    again = begin(disk)
    assert again.has_begun_member
    again.renew_disk()
    assert not again.has_begun_member and not begin(disk).has_begun_member
    again.begin_member()
    again.change_kind(RAM, again.disk_id)
    assert not again.has_begun_member, "its members are other ones, and in memory"
    again.begin_member()
    again.change_kind(DISK, again.disk_id)
    assert not begin(disk).has_begun_member, "as a RAM node it had none on its disk"


def test_a_founder_founds_with_the_disk_it_has_and_not_with_one_that_lost_something() -> None:
    disk = SimDisk()
    identity = begin(disk)
    identity.found("c1")
    assert begin(disk).place.founds
    identity = begin(disk)
    identity.renew_disk()
    place = begin(disk).place
    assert not place.founds
    assert (place.cluster_id, place.number) == ("c1", 1)
    assert FIRST_LIFE < place.disk_id == identity.place.disk_id


def test_who_joined_knows_the_others_at_the_next_start_and_founds_nothing() -> None:
    disk = SimDisk()
    identity = begin(disk)
    identity.bind(Bound("c1", OTHER.address, "ab", exists=True))
    identity.join("c1", 2, FIRST_LIFE, [OTHER, KnownNode(2, "n2", "10.0.0.2:5681", DISK)])
    place = begin(disk).place
    assert (place.number, place.founds, place.others) == (2, False, (OTHER,))
    assert begin(disk).bound is None
    identity.know([KnownNode(1, "n1", "10.0.0.9:5681", DISK)])
    assert begin(disk).place.others[0].address == "10.0.0.9:5681"


def test_a_process_on_an_empty_disk_is_later_than_the_last_one_that_the_cluster_knows() -> None:
    """Its clock may be behind: as an earlier process it would not be listened to."""
    disk = SimDisk()
    identity = begin(disk)
    identity.outlive(NOW - 7_000)
    assert identity.incarnation == NOW
    identity.outlive(NOW + 7_000)
    identity.join("c1", 2, FIRST_LIFE, [OTHER])
    assert identity.place.incarnation == NOW + 7_001
    assert begin(disk).incarnation == NOW + 7_002


def test_a_promise_outlives_the_process() -> None:
    disk = SimDisk()
    promise = Bound("c1", OTHER.address, "ab", exists=False)
    begin(disk).bind(promise)
    assert begin(disk).bound == promise


def test_facts_that_are_none_are_damage_and_not_a_blank_node() -> None:
    disk = SimDisk()
    fact_file.save(disk, names.NODE_FACTS, {"instance": 5})
    with pytest.raises(Corrupt, match="no facts of a node"):
        begin(disk)


def test_a_node_that_is_to_leave_is_still_when_it_starts_and_one_that_is_not_any_more_is_not() -> None:
    disk = SimDisk()
    identity = joined(disk)
    assert identity.leaving is None
    identity.intend(Departure(lose_queues=True))
    again = begin(disk)
    assert again.leaving == Departure(lose_queues=True)
    again.intend(None)
    assert begin(disk).leaving is None


def test_facts_of_a_build_that_knew_of_no_leaving_are_of_a_node_that_stays() -> None:
    disk = SimDisk()
    joined(disk)
    facts = fact_file.load(disk, names.NODE_FACTS)
    assert facts is not None
    del facts["leaving"]
    fact_file.save(disk, names.NODE_FACTS, facts)
    assert begin(disk).leaving is None


def test_facts_of_a_later_build_are_read_and_what_it_knew_beside_is_passed_over() -> None:
    """A build that knows of no leaving does so with that."""
    disk = SimDisk()
    joined(disk)
    facts = fact_file.load(disk, names.NODE_FACTS)
    assert facts is not None
    fact_file.save(disk, names.NODE_FACTS, {**facts, "wish": {"of": "later"}})
    assert begin(disk).number == 2
