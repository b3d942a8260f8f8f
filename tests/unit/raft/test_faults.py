"""raft/faults.py: what ends a node's part in its groups, and who hears of it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from raft.core.errors import BadBytes
from raft.faults import StopOnFault
from storage.errors import DiskFailed


@pytest.fixture
def reasons() -> list[str]:
    return []


def test_a_disk_that_fails_stops_the_node_and_is_nobody_elses_fault(reasons: list[str]) -> None:
    with StopOnFault(reasons.append):
        raise DiskFailed("cannot write: Input/output error")
    assert reasons == ["cannot write: Input/output error"]


def test_a_mistake_stops_the_node_and_is_raised(reasons: list[str]) -> None:
    with pytest.raises(KeyError), StopOnFault(reasons.append):
        raise KeyError("group")
    assert reasons == ["a fault of this node: KeyError('group')"]


def test_what_a_peer_says_wrong_is_raised_and_stops_nothing(reasons: list[str]) -> None:
    with pytest.raises(BadBytes), StopOnFault(reasons.append):
        raise BadBytes("a letter that is none")
    with suppress(KeyboardInterrupt), StopOnFault(reasons.append):
        raise KeyboardInterrupt
    with StopOnFault(reasons.append):
        pass
    assert reasons == []
