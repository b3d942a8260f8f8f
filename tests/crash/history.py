"""What clients of versioned registers did and saw, and whether one order of all of it explains that: linearizability.

Each put that was done got a version, and each read tells the version that it found. So the order is known, and only has to be
checked, exactly and in little time:

- one version of a key has one value, and it is that of the put that got it; - what ended before something else began stands
before it: a read never finds a lower version, and a put always gets a higher one; - a put that was refused for certain is
never seen; one whose fate is unknown may be, and then counts like the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

FOREVER = math.inf
VALUE_SHOWN_MAX = 40


@dataclass(slots=True)
class Operation:
    """`ended` is FOREVER while its fate is unknown. A put has `written`; a read has what it found, version 0 for nothing."""

    key: bytes
    began: float
    ended: float = FOREVER
    written: bytes | None = None
    version: int = 0
    found: bytes | None = None
    refused: bool = False

    @property
    def is_put(self) -> bool:
        return self.written is not None


def judge(operations: list[Operation]) -> list[str]:
    """What is wrong, in sentences. Values that are put must be different ones."""
    by_key: dict[bytes, list[Operation]] = defaultdict(list)
    for operation in operations:
        by_key[operation.key].append(operation)
    return [f"{key!r}: {wrong}" for key, found in by_key.items() for wrong in _judge_key(found)]


def brief(value: bytes | None) -> str:
    """Enough of a value to know it by."""
    return repr(value if value is None or len(value) <= VALUE_SHOWN_MAX else value[:VALUE_SHOWN_MAX] + b"...")


def _judge_key(operations: list[Operation]) -> list[str]:
    puts = {one.written: one for one in operations if one.is_put}
    values = {one.version: one.written for one in operations if one.is_put and one.version}
    wrong: list[str] = []
    for one in operations:
        if one.is_put or one.ended == FOREVER or not one.version:
            continue
        known = values.setdefault(one.version, one.found)
        put = puts.get(one.found)
        if known != one.found:
            wrong.append(f"version {one.version} is {brief(known)} and {brief(one.found)}")
        elif put is None:
            wrong.append(f"{brief(one.found)} was read, and nobody put it")
        elif put.refused:
            wrong.append(f"{brief(one.found)} was read, and its put was refused")
        else:
            put.version = one.version
            if one.ended < put.began:
                wrong.append(f"{brief(one.found)} was read before it was put")
    return wrong + _judge_order([one for one in operations if one.version or (not one.is_put and one.ended < FOREVER)])


def _judge_order(operations: list[Operation]) -> list[str]:
    """Go through beginnings and ends in time: the highest version that has ended bounds from below what begins."""
    wrong = []
    ended = sorted(operations, key=lambda one: one.ended)
    position, floor = 0, 0
    for one in sorted(operations, key=lambda one: one.began):
        while position < len(ended) and ended[position].ended < one.began:
            floor = max(floor, ended[position].version)
            position += 1
        if one.version < floor or (one.is_put and one.version == floor):
            what = "put as" if one.is_put else "read at"
            wrong.append(
                f"{brief(one.written or one.found)} was {what} version {one.version} when {floor} had been seen"
            )
    return wrong
