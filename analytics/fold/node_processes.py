"""Which process of a node wrote a record of its log. Each numbers its actors from 1 on, so a number is somebody else in the
next one, and records of classic queues have no more than the number.

A process says who its first actor is before any record that names one, and the next process comes behind all that this one
has written. So what names an actor is of the process that has begun to name some last.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

PLACE_UNKNOWN = 0  # of rows that earlier builds have converted


class ClassicActor(NamedTuple):
    """Who published to a classic queue, or was given messages of it."""

    node: str
    incarnation: int
    number: int


class ProcessBegin(NamedTuple):
    """Where a node's log first names an actor of this process."""

    node: str
    incarnation: int
    place: int  # as of events of classic queues


class NodeProcesses:
    """Of all nodes. Nothing is said of one of whose processes some may have begun anywhere."""

    def __init__(self, begins: Iterable[ProcessBegin] = ()) -> None:
        known = sorted(begins, key=lambda one: (one.node, one.place))
        vague = {one.node for one in known if one.place == PLACE_UNKNOWN}
        self._begins: dict[str, list[ProcessBegin]] = {}
        for one in known:
            if one.node not in vague:
                self._begins.setdefault(one.node, []).append(one)

    def at(self, node: str, place: int) -> int | None:
        """The incarnation of the one that wrote there. None: nothing says it."""
        begins = self._begins.get(node, [])
        behind = bisect_right(begins, place, key=lambda one: one.place)
        return begins[behind - 1].incarnation if behind else None
