"""What a scenario asks of a cluster, whatever its nodes run in: processes, network namespaces, containers.

Every backend starts, stops, kills, pauses and resumes nodes, and shows a stopped node's files. What only some can do is named
by `Can`, and a scenario runs on those backends that can all it needs. All calls block; the runner makes them in threads, one at
a time. A backend is begun once and ended once, whatever happened in between: `end` leaves nothing behind.

Nodes are called n1, n2, ...; the disk nodes first. Which node leads what is no business of a backend: the runner asks the
nodes themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

Address = tuple[str, int]


class Can(Enum):
    """What a backend may be able to do besides what all do."""

    ISOLATE = "isolate a node from all others, both ways"
    CUT = "cut single directions between nodes"
    SHAPE = "slow down, drip, corrupt and reset single links between nodes"
    POWER = "cut the power under a node's disk"
    FSYNC = "make a node's fsync slow, or fail"
    FULL = "fill up a node's disk"
    CONFIG = "start a node with another configuration"
    LIMIT = "limit a running node's processor time and memory"
    DESCRIPTORS = "limit a running node's file descriptors"
    LINE = "kill a node as it logs a line"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a cluster is made of, and what its nodes are told beside that."""

    disk_nodes: int = 3
    ram_nodes: int = 0
    config: str = ""
    """TOML for all nodes, such as tiny log files that make a short run do what takes days otherwise."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"n{number + 1}" for number in range(self.disk_nodes + self.ram_nodes))

    @property
    def disk_names(self) -> tuple[str, ...]:
        return self.names[: self.disk_nodes]


@dataclass(frozen=True, slots=True)
class LinkShape:
    """How bytes pass from one node to another. The default is a link without any fault."""

    delay_s: float = 0.0
    jitter_s: float = 0.0  # added at random: so what is said on different links is heard in another order
    bytes_per_s: float = 0.0  # 0: as many as come
    resets_per_s: float = 0.0  # how often the connection is reset, on average
    flips_per_mib: float = 0.0  # bits that arrive wrong, on average; checksums of TCP and Ethernet miss some in reality


class NodeFailed(Exception):
    """A node did not start, or did not stop in order. The text says which and ends with its log."""


class Backend(Protocol):
    """A cluster. `can` is known before it is begun."""

    @property
    def can(self) -> frozenset[Can]: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def credentials(self) -> tuple[str, str]:
        """User and password that may do anything, from wherever clients are."""

    def begin(self) -> None:
        """Start all nodes on empty disks, as one cluster. Returns when all serve clients. Raises NodeFailed."""

    def end(self) -> None:
        """End all nodes, whatever state they are in, and remove what was made for them except the directory of logs."""

    def amqp(self, node: str) -> Address:
        """Where clients reach it; the same after each start."""

    def grpc(self, node: str) -> str:
        """HOST:PORT where operators reach it; the same after each start."""

    def log(self, node: str) -> str:
        """All that it has written to its log, over all starts."""

    def is_running(self, node: str) -> bool:
        """Whether its process exists, paused or not."""

    def start(self, node: str) -> None:
        """Start it again on its disk. Returns when it serves clients. Raises NodeFailed."""

    def stop(self, node: str) -> None:
        """Ask it to stop, and wait until it has. Raises NodeFailed when it does not, or says that something went wrong."""

    def kill(self, node: str) -> None:
        """Without warning, also when it is paused. Returns when it is gone."""

    def pause(self, node: str) -> None:
        """It does nothing from now on, and nobody is told."""

    def resume(self, node: str) -> None: ...

    def data_dir(self, node: str) -> Path:
        """Where its files can be read and changed while it does not run."""

    # Only with Can.ISOLATE or Can.CUT

    def isolate(self, node: str) -> None:
        """No node hears it, and it hears no node. Packets are dropped: nobody is told. Clients still reach it."""

    def cut(self, deaf: str, unheard: Iterable[str]) -> None:
        """`deaf` hears nothing any more of those `unheard`."""

    def mend(self) -> None:
        """All nodes hear each other again, at full speed."""

    # Only with Can.SHAPE

    def shape_link(self, sender: str, receiver: str, shape: LinkShape) -> None: ...

    def bits_flipped(self) -> int:
        """On all links, since the cluster began."""

    def links_bent(self) -> int:
        """How often bytes were late, slow or changed, or a connection was reset, since the cluster began."""

    # Only with Can.POWER

    def cut_power(self, nodes: Iterable[str]) -> None:
        """All at the same moment. Their processes and what was not durable are gone afterwards; `start` brings them back."""

    # Only with Can.FSYNC

    def slow_fsync(self, node: str, seconds: float) -> None:
        """Each fsync takes this much longer from now on; 0 ends it."""

    def fail_fsync(self, node: str) -> None:
        """Each fsync fails from now on, until the node is started again."""

    # Only with Can.FULL

    def fill_disk(self, node: str, left_bytes: int = 0) -> None:
        """Leave no more space than this on its disk."""

    def free_disk(self, node: str) -> None: ...

    # Only with Can.LIMIT

    def limit_processor(self, node: str, share: float) -> None:
        """This share of one core, until `lift_limits`."""

    def limit_memory(self, node: str, further_bytes: int) -> None:
        """So much more than it has; the kernel kills it when it wants more. Until `lift_limits`."""

    def lift_limits(self, node: str) -> bool:
        """Whether the kernel has held the node back for them. Also when it has ended meanwhile."""

    # Only with Can.DESCRIPTORS

    def limit_descriptors(self, node: str) -> None:
        """It can open no file and accept no connection any more, until `restore_descriptors`."""

    def restore_descriptors(self, node: str) -> None:
        """Also when it has ended meanwhile."""

    # Only with Can.LINE

    def kill_at_line(self, node: str, text: str) -> None:
        """Killed as soon as it has logged a line with this text, until it is started again."""

    def run_until_sync(self, node: str, number: int, *command: str) -> bool:
        """A command of `leveret` on the directory of a node that does not run, killed instead of its so manyth sync. Whether it
        came to its end before."""

    # Only with Can.CONFIG

    def start_with(self, node: str, config: str) -> None:
        """As `start`, with this TOML behind that of the shape, for this one time."""


class BaseBackend:
    """What a backend says to faults that it cannot do. `Can` keeps them away, so asking is a mistake of the scenario."""

    can: frozenset[Can] = frozenset()

    @classmethod
    def unfit(cls, shape: Shape) -> str | None:
        """Why no cluster of this shape can be made, or None."""
        return None

    def _cannot(self, what: Can) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} cannot {what.value}")

    def isolate(self, node: str) -> None:
        raise self._cannot(Can.ISOLATE)

    def cut(self, deaf: str, unheard: Iterable[str]) -> None:
        raise self._cannot(Can.CUT)

    def mend(self) -> None:
        """Nothing was ever cut."""

    def shape_link(self, sender: str, receiver: str, shape: LinkShape) -> None:
        raise self._cannot(Can.SHAPE)

    def bits_flipped(self) -> int:
        raise self._cannot(Can.SHAPE)

    def links_bent(self) -> int:
        raise self._cannot(Can.SHAPE)

    def cut_power(self, nodes: Iterable[str]) -> None:
        raise self._cannot(Can.POWER)

    def slow_fsync(self, node: str, seconds: float) -> None:
        raise self._cannot(Can.FSYNC)

    def fail_fsync(self, node: str) -> None:
        raise self._cannot(Can.FSYNC)

    def fill_disk(self, node: str, left_bytes: int = 0) -> None:
        raise self._cannot(Can.FULL)

    def free_disk(self, node: str) -> None:
        raise self._cannot(Can.FULL)

    def limit_processor(self, node: str, share: float) -> None:
        raise self._cannot(Can.LIMIT)

    def limit_memory(self, node: str, further_bytes: int) -> None:
        raise self._cannot(Can.LIMIT)

    def lift_limits(self, node: str) -> bool:
        raise self._cannot(Can.LIMIT)

    def limit_descriptors(self, node: str) -> None:
        raise self._cannot(Can.DESCRIPTORS)

    def restore_descriptors(self, node: str) -> None:
        raise self._cannot(Can.DESCRIPTORS)

    def kill_at_line(self, node: str, text: str) -> None:
        raise self._cannot(Can.LINE)

    def run_until_sync(self, node: str, number: int, *command: str) -> bool:
        raise self._cannot(Can.LINE)

    def start_with(self, node: str, config: str) -> None:
        raise self._cannot(Can.CONFIG)
