"""Rounds of reads: one on its way, the others gather."""

from __future__ import annotations

import pytest

from raft.core.reads import Reads
from raft.core.ready import ReadPoint


def test_reads_gather_while_a_round_is_on_its_way() -> None:
    reads = Reads()
    assert not reads.begin(5)
    assert reads.wanted == 0
    reads.wait(1)
    assert reads.begin(5)
    reads.wait(2)
    reads.wait(3)
    assert not reads.begin(6)
    assert reads.wanted == 1
    assert reads.confirmed(0) == ()
    assert list(reads.confirmed(1)) == [ReadPoint(1, 5)]
    assert reads.begin(7)
    assert list(reads.confirmed(2)) == [ReadPoint(2, 7), ReadPoint(3, 7)]
    assert reads.wanted == 0


def test_an_answer_to_an_earlier_round_confirms_nothing() -> None:
    reads = Reads()
    reads.wait(1)
    reads.begin(5)
    reads.confirmed(1)
    reads.wait(2)
    reads.begin(6)
    assert reads.confirmed(1) == ()
    assert reads.wanted == 2


def test_nobody_says_back_what_was_not_asked() -> None:
    with pytest.raises(AssertionError, match="read round 1 said back, only 0"):
        Reads().confirmed(1)


def test_all_are_lost_with_the_leadership() -> None:
    reads = Reads()
    reads.wait(1)
    reads.begin(5)
    reads.wait(2)
    assert reads.lost() == [1, 2]
    assert reads.wanted == 0
    assert reads.lost() == []
