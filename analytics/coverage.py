"""What an answer stands on: which nodes and files were read, from when to when, and what could not be read of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

DELETED = "the node deleted this file before it was read"


class DamagedBytes(NamedTuple):
    node: str
    file: int
    offset: int
    length: int
    torn: bool
    reason: str


class MissingFiles(NamedTuple):
    """Of a node's log, between files that are there."""

    node: str
    first: int
    last: int

    def sentence(self) -> str:
        which = f"file {self.first}" if self.first == self.last else f"files {self.first} to {self.last}"
        return f"{which} of the log of {self.node} {'is' if self.first == self.last else 'are'} missing"


class CutOff(NamedTuple):
    """Files that a node's log lacks, and the replicated logs of which it says more behind them: there, entries that are missing
    are noticed by themselves. Any other log may have gone on in these files, and ended there."""

    missing: MissingFiles
    told_behind: frozenset[int]

    def why(self, group: int) -> str | None:
        """None: it is not concerned."""
        return None if group in self.told_behind else f"{self.missing.sentence()}, and may have had the last entries"


class Coverage(NamedTuple):
    nodes: list[str]
    files: int
    file_bytes: int
    first: str | None  # ISO, UTC: when the first record was written that says when
    last: str | None
    damage: list[DamagedBytes]
    without_bodies: tuple[str, ...] = ()  # nodes whose export was made without the contents of messages
    skipped: int = 0  # files that cannot say anything of what was asked, and so were not read
    missing: tuple[MissingFiles, ...] = ()

    @property
    def is_damaged(self) -> bool:
        """Whether something that was durable could not be read."""
        return any(not one.torn for one in self.damage)

    @property
    def has_gaps(self) -> bool:
        """Whether the log said more within its window than could be read."""
        return self.is_damaged or bool(self.missing)

    def as_object(self) -> dict[str, object]:
        damage, missing = ([one._asdict() for one in found] for found in (self.damage, self.missing))
        return {**self._asdict(), "damage": damage, "missing": missing}

    def sentence(self) -> str:
        window = f"from {self.first} to {self.last}" if self.first else "of unknown times"
        damaged = [one for one in self.damage if not one.torn]
        places = counted(len(damaged), "place", "places")
        lost = f", {sum(one.length for one in damaged)} bytes in {places} are damaged" if damaged else ""
        nodes = f"{counted(len(self.nodes), 'node', 'nodes')} ({', '.join(self.nodes)})"
        withheld = f", contents of messages withheld by {', '.join(self.without_bodies)}" if self.without_bodies else ""
        files = counted(self.files, "file", "files")
        skipped = f", {counted(self.skipped, 'file', 'files')} that cannot tell of it skipped" if self.skipped else ""
        missing = "".join(f", {one.sentence()}" for one in self.missing)
        return f"read: {nodes}, {files}, {self.file_bytes} bytes, {window}{lost}{missing}{withheld}{skipped}"


def but_oldest(damage: Iterable[DamagedBytes], files: Iterable[tuple[str, int]]) -> list[DamagedBytes]:
    """Without the files that a node had deleted before anything was read of its log: it deletes the oldest first, so the answer
    is that to the question a moment later. `files`: nodes and numbers of those that were to be read."""
    found = list(damage)
    gone = {(one.node, one.file) for one in found if one.reason == DELETED}
    begins: dict[str, int] = {}
    for node, number in sorted({*files} - gone, reverse=True):
        begins[node] = number
    return [one for one in found if (one.node, one.file) not in gone or one.file > begins.get(one.node, -1)]


def missing_between(there: Iterable[tuple[str, int]]) -> tuple[MissingFiles, ...]:
    """`there`: nodes and numbers of the files of their logs. A node deletes the oldest first, so none in between."""
    return tuple(
        MissingFiles(node, one + 1, other - 1)
        for (node, one), (same, other) in pairwise(sorted(there))
        if node == same and other > one + 1
    )


def cut_offs(missing: Iterable[MissingFiles], told: Iterable[tuple[str, int, Iterable[int]]]) -> list[CutOff]:
    """`told`: of files of logs the node, the number, and of which replicated logs it has entries or says that some are
    committed."""
    files = list(told)
    return [
        CutOff(
            gap,
            frozenset(
                group for node, number, groups in files if node == gap.node and number > gap.last for group in groups
            ),
        )
        for gap in missing
    ]


def counted(number: int, one: str, several: str) -> str:
    """The number with its noun."""
    return f"{number:,} {one if number == 1 else several}"


def iso_time(micros: int | None) -> str | None:
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="milliseconds")
