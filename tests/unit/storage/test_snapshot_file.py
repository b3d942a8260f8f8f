"""A file that is replaced as a whole: the old content or the new one, at every crash and every fault."""

from __future__ import annotations

from random import Random

import pytest

from storage import fact_file, snapshot_file
from storage.errors import Corrupt, StorageError
from tests.sim.disk import Fault, SimDisk, fault_at

NAME = "node.facts"


def test_nothing_saved_is_not_an_empty_content() -> None:
    with pytest.raises(FileNotFoundError):
        snapshot_file.load(SimDisk(), NAME)
    assert fact_file.load(SimDisk(), NAME) is None


def test_every_prefix_and_every_flipped_bit_is_noticed() -> None:
    disk = SimDisk()
    snapshot_file.save(disk, NAME, [b"what we must ", b"not forget"])
    content = disk.content(NAME)
    assert snapshot_file.decode(NAME, content) == b"what we must not forget"
    for length in range(len(content)):
        with pytest.raises(Corrupt):
            snapshot_file.decode(NAME, content[:length])
    for bit in range(len(content) * 8):
        twin = bytearray(content)
        twin[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corrupt):
            snapshot_file.decode(NAME, bytes(twin))
    with pytest.raises(Corrupt, match="should hold"):
        snapshot_file.decode(NAME, content + b"x")


@pytest.mark.parametrize("fault", [Fault.EIO, Fault.ENOSPC, Fault.ENOSPC_PARTIAL])
def test_a_fault_or_a_power_cut_at_every_call_leaves_the_old_or_the_new_facts(fault: Fault) -> None:
    for number in range(1, 12):
        for seed in range(4):
            disk = SimDisk()
            fact_file.save(disk, NAME, {"term": 1})
            disk.calls = 0
            disk.faults = fault_at(number, fault)
            saved = True
            try:
                fact_file.save(disk, NAME, {"term": 2})
            except StorageError:
                saved = False
            disk.faults = lambda call: None
            disk.crash(Random(seed))
            facts = fact_file.load(disk, NAME)
            assert facts == {"term": 2} or (not saved and facts == {"term": 1})
            fact_file.save(disk, NAME, {"term": 3})
            assert fact_file.load(disk, NAME) == {"term": 3}


def test_facts_that_are_not_json_are_damage() -> None:
    disk = SimDisk()
    snapshot_file.save(disk, NAME, [b"{not json"])
    with pytest.raises(Corrupt, match="JSON"):
        fact_file.load(disk, NAME)
