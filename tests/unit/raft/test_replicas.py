"""A later member of a node has a higher number, and that is on the disk before anybody hears of it."""

from __future__ import annotations

import pytest

from raft.core.errors import NumbersUsedUp
from raft.core.messages import member_id, node_of, replica_of, shown
from raft.store.replicas import RESERVED, ReplicaNumbers, reserved_from, successor

END = 10_000


class DiskWithNumbers:
    """What `reserve` has made durable, for one process after another."""

    def __init__(self, reserved: int = 99) -> None:
        self.reserved = reserved
        self.fsyncs = 0
        self.full = False

    def reserve(self, reserved: int) -> None:
        if self.full:
            raise OSError("no room")
        assert reserved > self.reserved, f"{reserved} are reserved, and {self.reserved} were"
        self.reserved = reserved
        self.fsyncs += 1

    def process(self) -> ReplicaNumbers:
        given = self.reserved
        self.reserved = reserved_from(given + 1, END)
        return ReplicaNumbers(given, self.reserved, END, self.reserve)


def test_no_number_is_given_before_the_disk_says_that_it_may_be_in_use() -> None:
    disk = DiskWithNumbers()
    new_replica = disk.process()
    for _ in range(3 * RESERVED):
        assert new_replica(0) <= disk.reserved
    assert disk.fsyncs == 2, "one for many"


def test_each_process_gives_numbers_above_all_that_any_before_it_may_have_given() -> None:
    disk = DiskWithNumbers()
    given = [new_replica(0) for new_replica in (disk.process() for _ in range(5)) for _ in range(3)]
    assert given == sorted(set(given))
    assert given[0] == 100


def test_a_number_that_was_forgotten_by_all_but_the_disk_is_not_given_again() -> None:
    """Simulated seed 8100087 of brokers: the log forgot that a member had been repaired, and what was repaired again got the
    same number. The leader believed that it still had what the first one had acknowledged."""
    disk = DiskWithNumbers()
    first = successor(member_id(7, 37), disk.process())
    assert successor(member_id(7, 37), disk.process()) > first


def test_when_the_disk_takes_nothing_no_number_is_given() -> None:
    disk = DiskWithNumbers()
    new_replica = disk.process()
    given = [new_replica(0) for _ in range(RESERVED)]
    disk.full = True
    with pytest.raises(OSError, match="no room"):
        new_replica(0)
    disk.full = False
    assert new_replica(0) == given[-1] + 1


def test_a_number_is_above_the_one_that_others_know() -> None:
    disk = DiskWithNumbers()
    new_replica = disk.process()
    assert new_replica(5_000) == 5_001
    assert disk.reserved >= 5_001
    assert new_replica(0) == 5_002


def test_numbers_that_the_disk_was_not_granted_are_never_given() -> None:
    new_replica = DiskWithNumbers(END - 3).process()
    assert [new_replica(0), new_replica(0)] == [END - 2, END - 1]
    with pytest.raises(NumbersUsedUp, match="start the node with an empty one"):
        new_replica(0)
    with pytest.raises(NumbersUsedUp, match="an old data directory"):
        DiskWithNumbers().process()(END + 5)


def test_a_successor_is_above_the_later_member_that_others_know() -> None:
    disk = DiskWithNumbers()
    new_replica = disk.process()
    assert successor(member_id(7, 3), new_replica) == member_id(7, 100)
    assert successor(member_id(7, 3), new_replica, heard=member_id(7, 190)) == member_id(7, 191)
    assert successor(member_id(7, 290), new_replica, heard=member_id(7, 3)) == member_id(7, 291)


def test_a_member_of_another_node_is_no_earlier_one() -> None:
    with pytest.raises(AssertionError, match="does not live on node 7"):
        successor(member_id(7, 3), DiskWithNumbers().process(), heard=member_id(8, 90))


def test_people_read_a_member_as_node_and_replica() -> None:
    member = member_id(3, 42)
    assert (node_of(member), replica_of(member), shown(member)) == (3, 42, "3.42")
