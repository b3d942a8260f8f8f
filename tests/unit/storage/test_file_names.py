"""Each log file names what its records speak of by number, whoever else has that number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storage.disk import Buffer
from storage.history.file_names import FileNames
from storage.history.name_records import NameRow, decode_name
from storage.wal.log_core import Location


@dataclass
class Queue:
    id: int
    kind: str
    vhost: str
    name: str


class Log:
    """What was appended, in a file that a test changes."""

    def __init__(self) -> None:
        self.failed: str | None = None
        self.gathering_file = 1
        self.names: list[tuple[int, NameRow]] = []

    def append_lazy(self, kind: int, writer: int, index: int, parts: Sequence[Buffer]) -> Location:
        self.names.append((index, decode_name(b"".join(bytes(part) for part in parts))))
        return Location(self.gathering_file, 0, 0)


FIRST = Queue(1, "classic", "/", "first")
ORDERS = Queue(1 << 32, "quorum", "/", "orders")


def test_the_catalog_and_the_first_queue_have_one_number_and_each_its_name() -> None:
    """The first queue of a cluster had no name: the catalog's log had been named before, and has the same number."""
    log = Log()
    names = FileNames(log, 1, {1: FIRST, ORDERS.id: ORDERS}.get)
    names.group(1, "catalog", "metadata")
    names.queue(FIRST)
    names.group(ORDERS.id, "quorum", "//orders")
    assert log.names == [
        (1, NameRow("catalog", "", "metadata")),
        (1, NameRow("classic", "/", "first")),
        (ORDERS.id, NameRow("quorum", "/", "orders")),
    ]


def test_a_name_is_said_once_in_each_file() -> None:
    log = Log()
    names = FileNames(log, 1)
    for file in (1, 1, 2):
        log.gathering_file = file
        names.queue(FIRST)
        names.group(9, "stream", "s")
    assert [number for number, _ in log.names] == [1, 9, 1, 9]
