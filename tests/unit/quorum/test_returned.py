"""Messages that came back stand where the rules say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quorum.fifo import returned as module
from quorum.fifo.returned import Returned
from quorum.fifo.stored import NEVER, StoredMessages


def run_of(length: int, first: int = 0) -> StoredMessages:
    return StoredMessages(7, 9, first, length, 3, 30, NEVER, 4, 0, 0)


def test_a_part_that_comes_back_stands_before_what_is_left_of_its_run() -> None:
    """What is left kept the place of the whole run, and was handed out before the message that stood before it. A member that
    had begun from a snapshot put it right, and so differed from the others."""
    returned = Returned()
    returned.puts_in_place = True
    returned.put(run_of(3))
    assert returned.take(1) == run_of(1)
    second = returned.take(1)
    returned.put(second)
    assert [returned.take(1).first for _ in range(2)] == [1, 2]


def test_a_part_that_comes_back_waits_its_turn_by_default() -> None:
    returned = Returned()
    returned.put(run_of(3))
    first = returned.take(1)
    returned.put(first)
    assert [returned.take(1).first for _ in range(3)] == [1, 2, 0]


def message(entry: int, expires_at: int = NEVER, priority: int = 4) -> StoredMessages:
    return StoredMessages(entry, 9, 0, 1, 1, 10, expires_at, priority, 1, 1)


def returned_of(entries: Sequence[int], *, in_place: bool = False) -> Returned:
    returned = Returned()
    returned.puts_in_place = in_place
    for entry in entries:
        returned.put(message(entry, expires_at=1000 + entry))
    return returned


def entries_of(returned: Returned) -> list[int]:
    return [stored.entry for stored in returned]


@pytest.mark.parametrize("in_place", [False, True])
def test_many_blocks_keep_their_order(in_place: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_ROWS", 4)
    mixed = [at * 37 % 101 for at in range(101)]
    returned = returned_of(mixed, in_place=in_place)
    expected = sorted(mixed) if in_place else mixed
    assert entries_of(returned) == expected
    assert returned.entries() == set(mixed) and len(returned) == 101
    assert [returned.take(1).entry for _ in range(101)] == expected
    assert not returned


@pytest.mark.parametrize("in_place", [False, True])
def test_the_first_that_have_expired_are_taken_out(in_place: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_ROWS", 4)
    mixed = [at * 37 % 101 for at in range(101)]
    returned = returned_of(mixed, in_place=in_place)
    order = sorted(mixed) if in_place else mixed
    due = [entry for entry in order if entry <= 50]
    assert [one.entry for one in returned.expire(1050, 20)] == due[:20]
    assert returned.soonest() <= 1050
    assert [one.entry for one in returned.expire(1050, 100)] == due[20:]
    assert returned.soonest() == 1051
    assert entries_of(returned) == [entry for entry in order if entry > 50]


def test_few_blocks_are_looked_at_for_what_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_ROWS", 10)
    returned = returned_of(range(1000))
    looked: list[int] = []
    expire = module._Block.expire
    monkeypatch.setattr(module._Block, "expire", lambda *of: looked.append(1) or expire(*of))
    assert len(returned.expire(1500, 25)) == 25
    assert len(looked) == 3


def test_an_order_that_changes_moves_nothing_that_waits() -> None:
    returned = returned_of([5, 3, 9])
    returned.order(True, at_once=False)
    for entry in (8, 2):
        returned.put(message(entry))
    assert entries_of(returned) == [5, 3, 9, 2, 8]
    assert returned.line_rows == 3 and returned.precedes(31), "what is in line goes before all others"
    returned.order(False, at_once=False)
    returned.put(message(1))
    assert entries_of(returned) == [5, 3, 9, 2, 8, 1]


def test_before_version_8_all_of_it_found_its_old_place() -> None:
    returned = returned_of([5, 3, 9])
    returned.order(True, at_once=True)
    assert entries_of(returned) == [3, 5, 9]
    assert returned.line_rows == 0 and not returned.precedes(31)
