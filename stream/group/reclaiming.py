"""Room on the disk for what retention has removed.

The store keeps the entries that a stream's newest snapshot names (raft/store/node_log.py), so what was cut goes with the
next one. Raft takes snapshots for what comes: a stream whose messages grow too old while nothing is published would keep its
files for ever, and any stream does until as much has come again as a snapshot is worth. So one is taken for what was cut, and
tried again where the disk had no room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from replicated.ports import MemberDriver
from storage.interval import Interval
from stream.group.member import StreamMember

ROUND_MS = 10_000  # against snapshots: an fsync or four for each stream that is cut, at most so often
TICKS_A_ROUND = 100  # many streams may be cut at once: a round looks at so few of them in one turn of the loop


class StreamRoute(Protocol):
    """The way to the stream's group."""

    @property
    def driver(self) -> MemberDriver | None: ...


class CutStream(Protocol):
    """One stream of the node."""

    @property
    def route(self) -> StreamRoute: ...

    @property
    def member(self) -> StreamMember | None: ...


class Reclaiming:
    """Of all streams on a node. `tick` it some ten times a second."""

    def __init__(self, streams: Callable[[], Iterable[CutStream]]) -> None:
        self._streams = streams
        self._round: list[CutStream] = []  # who has not had its turn in it
        self._in_turn = 1
        self._rounds = Interval(ROUND_MS)

    def tick(self, now_ms: int) -> None:
        if self._rounds.due(now_ms):
            self._round = list(self._streams())
            self._in_turn = len(self._round) // TICKS_A_ROUND + 1
        due, self._round = self._round[: self._in_turn], self._round[self._in_turn :]
        for stream in due:
            _reclaim(stream)


def _reclaim(stream: CutStream) -> None:
    member, driver = stream.member, stream.route.driver
    if member is not None and driver is not None and driver.snapshot_index < member.cut_at:
        driver.take_snapshot_for_room()
