"""Arithmetic of majorities. Plain functions of plain values; tests compare them with slower, more obvious ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum


class VoteOutcome(Enum):
    """Of an election, as far as it is known."""

    OPEN = "open"
    WON = "won"
    LOST = "lost"


def majority_of(count: int) -> int:
    """How many of so many are more than half."""
    return count // 2 + 1


def is_needed(voter: int, voters: Collection[int], reaches: Callable[[int], bool]) -> bool:
    """Whether the others that can be reached are no majority without this one."""
    left = [one for one in voters if one != voter and reaches(one)]
    return voter in voters and len(left) < majority_of(len(voters))


def reached_by_majority(positions: Iterable[int]) -> int:
    """The highest position that more than half have reached; 0 when there are no members."""
    ascending = sorted(positions)
    return ascending[(len(ascending) - 1) // 2] if ascending else 0


def outcome(voters: int, granted: int, refused: int) -> VoteOutcome:
    """Without voters no election is won."""
    assert granted + refused <= voters, f"{granted} granted and {refused} refused, of {voters} voters"
    needed = majority_of(voters)
    if granted >= needed:
        return VoteOutcome.WON
    if voters - refused < needed:
        return VoteOutcome.LOST
    return VoteOutcome.OPEN
