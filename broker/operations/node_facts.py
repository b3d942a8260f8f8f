"""What the process knows of its node and the broker does not, and the port through which it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.catalog.definitions.definitions_writer import PasswordHashes
from broker.pending import Pending


@dataclass(slots=True, frozen=True)
class ListenerFacts:
    protocol: str
    address: str
    tls: bool = False


@dataclass(slots=True, frozen=True)
class AlarmFacts:
    kind: str  # memory, disk
    reason: str
    since_ms: int


@dataclass(slots=True, frozen=True)
class CertificateFacts:
    """Of all listeners within TLS."""

    path: str
    valid_until_ms: int


@dataclass(slots=True, frozen=True)
class NodeFacts:
    """What the process knows of itself."""

    cluster_name: str
    version: str
    python_version: str
    kernels: str  # compiled or plain
    process_id: int
    started_at_ms: int
    data_dir: str
    memory_bytes: int
    memory_limit_bytes: int
    disk_free_bytes: int
    disk_free_limit_bytes: int
    log_level: str
    files_open: int = 0
    files_max: int = 0  # that the process may open
    processors: int = 1
    read_bytes: int = 0  # from disks, by the process
    written_bytes: int = 0
    collections: int = 0  # of garbage
    context_switches: int = 0
    listeners: Sequence[ListenerFacts] = ()


class NodePort(Protocol):
    """node/admin.py fulfils it."""

    @property
    def node_name(self) -> str: ...

    @property
    def identity(self) -> dict[str, str]:
        """Product, version, node and cluster, under the keys that the management API and definitions have for them."""

    def facts(self) -> NodeFacts: ...

    def effective_config(self) -> str:
        """One key a line, and no secrets."""

    def alarms(self) -> Sequence[AlarmFacts]:
        """Those that are on now."""

    def certificate(self) -> CertificateFacts | None:
        """None: nothing listens within TLS. Raises PreconditionFailed when its file cannot be read."""

    def set_log_level(self, level: str) -> None:
        """One of LOG_LEVELS (this_node.py), until the node stops."""

    def hash_password(self, password: bytes, current: str | None = None) -> Pending[str]:
        """As users' records keep it; `current` where that is its hash already. Slow on purpose, so elsewhere than on the event
        loop."""

    @property
    def password_hashes(self) -> PasswordHashes:
        """How they are written into definitions."""
