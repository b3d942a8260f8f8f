"""Which rows of a dump are about one queue. A core.

Records name queues by number; which number a queue has is said in each file before the first record that uses it. So a
queue is known once its name was read.
"""

from __future__ import annotations

from typing import Any

from storage.record import Kind


class QueueRows:
    """Rows as node/exporting/log_rows.py makes them, in the order of the log."""

    def __init__(self, queue: str) -> None:
        """`queue`: its name, or VHOST/NAME."""
        self._queue = queue
        self._numbers: set[int] = set()

    def has(self, row: dict[str, Any]) -> bool:
        """Whether this row is about the queue. Also what could not be read: it may be."""
        if "finding" in row:
            return True
        says = row.get("says", {})
        if row["kind"] == Kind.NAME.name and self._is_name(f"{says.get('vhost', '')}/{says.get('name', '')}"):
            self._numbers.add(row["index"])
        elif row["kind"] == Kind.RAFT_GROUP.name and self._is_name(str(says.get("name", ""))):
            self._numbers.add(row["writer"])
        return not self._numbers.isdisjoint(_queues_of(row, says))

    def _is_name(self, name: str) -> bool:
        return self._queue in (name, name.rpartition("/")[2])


def _queues_of(row: dict[str, Any], says: dict[str, Any]) -> set[int]:
    """The queues that a row names."""
    found = {row["writer"]}
    if row["kind"] == Kind.NAME.name:
        found.add(row["index"])
    if isinstance(says.get("queue"), int):  # of an ACTOR it is a name
        found.add(says["queue"])
    found.update(queue for queue, _ in says.get("queues", ()))
    return found
