"""What an answer stands on: which nodes and files were read, from when to when, and what could not be read of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple


class DamagedBytes(NamedTuple):
    node: str
    file: int
    offset: int
    length: int
    torn: bool
    reason: str


class Coverage(NamedTuple):
    nodes: list[str]
    files: int
    file_bytes: int
    first: str | None  # ISO, UTC: when the first record was written that says when
    last: str | None
    damage: list[DamagedBytes]
    without_bodies: tuple[str, ...] = ()  # nodes whose export was made without the contents of messages

    @property
    def is_damaged(self) -> bool:
        """Whether something that was durable could not be read."""
        return any(not one.torn for one in self.damage)

    def as_object(self) -> dict[str, object]:
        return {**self._asdict(), "damage": [one._asdict() for one in self.damage]}

    def sentence(self) -> str:
        window = f"from {self.first} to {self.last}" if self.first else "of unknown times"
        damaged = [one for one in self.damage if not one.torn]
        lost = f", {sum(one.length for one in damaged)} bytes in {len(damaged)} places are damaged" if damaged else ""
        nodes = f"{len(self.nodes)} nodes ({', '.join(self.nodes)})"
        withheld = f", contents of messages withheld by {', '.join(self.without_bodies)}" if self.without_bodies else ""
        return f"read: {nodes}, {self.files} files, {self.file_bytes} bytes, {window}{lost}{withheld}"


def iso_time(micros: int | None) -> str | None:
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="milliseconds")
