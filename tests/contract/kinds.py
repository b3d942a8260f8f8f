"""The kinds of queue that the contract suite is run on. A new kind adds one line to KINDS, and its figure below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from broker.queue_type import QueueHost, QueueType
from tests.contract.memory_queue import MemoryQueues


def nothing() -> None:
    pass


@dataclass(slots=True)
class Opened:
    """A kind, ready to be tested."""

    kind: QueueType
    let_disk_finish: Callable[[], None] = nothing  # everything that was asked of the disk so far is done after it
    close: Callable[[], None] = nothing


@dataclass(slots=True, frozen=True)
class Kind:
    name: str
    open: Callable[[QueueHost, Path], Opened]  # with a directory of its own


def open_memory(host: QueueHost, directory: Path) -> Opened:
    return Opened(MemoryQueues(host))


KINDS = [Kind("memory", open_memory)]
