"""node/identity.py: what a node never forgets about itself."""

from __future__ import annotations

import os
from random import Random

import pytest

from node.identity import DISK, Bound, KnownNode, NodeIdentity
from storage import fact_file, names
from storage.errors import Corrupt
from tests.sim.disk import SimDisk

NOW = 1_700_000_000_000
OTHER = KnownNode(1, "n1", "10.0.0.1:5681", DISK)


def begin(disk: SimDisk, now: int = NOW) -> NodeIdentity:
    return NodeIdentity.begin(disk, "n2", DISK, now, os.urandom)


def test_a_new_directory_belongs_to_no_cluster_and_is_like_no_other() -> None:
    one, other = begin(SimDisk()), begin(SimDisk())
    assert one.blank and one.number == 0
    assert one.instance != other.instance
    assert one.disk_id == NOW // 1000


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


def test_members_are_numbered_by_the_clock() -> None:
    disk = SimDisk()
    identity = begin(disk)
    assert identity.new_replica(0, NOW + 60_500, 0.5) == NOW // 1000 + 60
    assert identity.new_replica(identity.disk_id, NOW + 60_500, 0.5) == NOW // 1000 + 60
    later = begin(disk, NOW + 90_000)
    assert later.new_replica(0, NOW + 90_000, 0.5) == NOW // 1000 + 90


def test_with_a_clock_that_was_set_back_members_are_later_than_all_before_and_differ_from_life_to_life() -> None:
    """What a life gave may be forgotten, and the next one stands where it stood: with the same disk, the same clock, and the
    same that is known of the member before."""
    disk, chance = SimDisk(), Random(1)
    founder = begin(disk).disk_id
    begin(disk, NOW + 90_000)
    for known in (0, founder, NOW // 1000 + 30, NOW // 1000 + 5000):
        lives = [begin(disk, NOW + 1_000 * life) for life in range(5)]
        given = [identity.new_replica(known, NOW + 2_000, chance.random()) for identity in lives]
        assert len(set(given)) == len(given)
        assert min(given) > max(known, NOW // 1000 + 89)


def test_a_node_that_changes_its_kind_has_later_members_than_it_had_whatever_its_clock_says() -> None:
    disk = SimDisk()
    identity = begin(disk)
    identity.change_kind("ram", NOW - 60_500, above=NOW // 1000 + 700)
    assert begin(disk).disk_id == NOW // 1000 + 701


def test_a_founder_founds_with_the_disk_it_has_and_not_with_one_that_lost_something() -> None:
    disk = SimDisk()
    identity = begin(disk)
    identity.found("c1")
    assert begin(disk).place.founds
    identity.renew_disk(NOW)
    place = begin(disk).place
    assert not place.founds
    assert (place.cluster_id, place.number, place.disk_id) == ("c1", 1, NOW // 1000 + 1)


def test_who_joined_knows_the_others_at_the_next_start_and_founds_nothing() -> None:
    disk = SimDisk()
    identity = begin(disk)
    identity.bind(Bound("c1", OTHER.address, "ab", exists=True))
    identity.join("c1", 2, [OTHER, KnownNode(2, "n2", "10.0.0.2:5681", DISK)])
    place = begin(disk).place
    assert (place.number, place.founds, place.others) == (2, False, (OTHER,))
    assert begin(disk).bound is None
    identity.know([KnownNode(1, "n1", "10.0.0.9:5681", DISK)])
    assert begin(disk).place.others[0].address == "10.0.0.9:5681"


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
