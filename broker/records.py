"""What is declared, as plain data: the rows of the catalog.

A record is immutable; a change replaces it. Everything here can be encoded, so that a store or a replicated log can
keep it (broker/catalog/commands/catalog_commands.py). Names are the client's strings; files never are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from broker.names import labelled
from broker.vouched.scopes import ScopeRights

Arguments = dict[str, Any]
NODE_KINDS = ("disk", "ram")


@dataclass(slots=True, frozen=True)
class NodeRecord:
    """A node of the cluster. A disk node votes on the catalog and keeps it; a RAM node holds it in memory only."""

    name: str
    number: int  # given when it joins, from 1; never used again on this cluster
    disk_id: int  # of the disk that it was started with last: the replica number of members that it founds, in the disk's life
    address: str  # of its listener for other nodes, HOST:PORT
    kind: str = "disk"
    zone: str = ""  # what is likely to fail together; copies are spread over zones
    incarnation: int = 0  # of the process that was started last; grows with every start
    draining: bool = False  # for maintenance: it should lead nothing and take no clients
    joiner: str = ""  # drawn by the process that was granted the life of that disk
    joined: int = 0  # incarnation of that process


@dataclass(slots=True, frozen=True)
class CatalogHead:
    """What is said once in a catalog, beside its records."""

    cluster_id: str = ""  # drawn by the founder; empty before that
    next_queue_id: int = 1
    next_node_number: int = 1
    limits: dict[str, int] = field(default_factory=dict)  # catalog_limits.py: as the cluster has agreed on them


@dataclass(slots=True, frozen=True)
class VhostRecord:
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = "classic"
    protected_from_deletion: bool = False
    limits: dict[str, int] = field(default_factory=dict)  # broker/limits.py, VHOST_LIMITS
    tracing: bool = False  # copies of its messages go to amq.rabbitmq.trace


@dataclass(slots=True, frozen=True)
class UserRecord:
    name: str
    # As node/logins/password_hashes.py writes it; None: no password opens this account. Kept out of tracebacks and debug lines.
    password_hash: str | None = field(repr=False)
    tags: tuple[str, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)  # broker/limits.py, USER_LIMITS

    @property
    def vouched(self) -> ScopeRights | None:
        """What somebody else vouches for that the user may do; None: the catalog says it."""
        return None


@dataclass(slots=True, frozen=True)
class PermissionRecord:
    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(slots=True, frozen=True)
class TopicPermissionRecord:
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


@dataclass(slots=True, frozen=True)
class ExchangeRecord:
    vhost: str
    name: str
    kind: str  # of broker/exchanges/exchange.py, KINDS
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class QueueRecord:
    vhost: str
    name: str
    kind: str  # classic, quorum, stream
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Arguments
    id: int  # never used again on this cluster; files and log records name the queue by it
    home: str = ""  # the node a classic queue lives on
    owner: str | None = None  # the connection an exclusive queue belongs to
    members: tuple[int, ...] = ()  # of its group, as raft/core/messages.py numbers them; quorum queues only
    formed: int = 0  # where in the group's log it got these members; 0: they are its founders, as it was declared
    was: int = 0  # id of the classic queue of its home that was converted into it; 0: of none
    uses: int = 0  # that the catalog knows of, of a queue that goes when it is not used (catalog/parts/queue_uses.py)

    @property
    def label(self) -> str:
        """As messages for people name it."""
        return labelled("queue", self.name, self.vhost)


@dataclass(slots=True, frozen=True)
class BindingRecord:
    vhost: str
    source: str
    destination: str
    destination_kind: str  # queue or exchange
    routing_key: str
    arguments: Arguments = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class PolicyRecord:
    vhost: str
    name: str
    pattern: str
    apply_to: str  # all, exchanges, queues, classic_queues, quorum_queues, streams
    priority: int
    definition: dict[str, Any]
    operator: bool = False


@dataclass(slots=True, frozen=True)
class ParameterRecord:
    """A runtime parameter; `vhost` is empty for a global one. The value is what JSON can say."""

    vhost: str
    component: str
    name: str
    value: Any


@dataclass(slots=True, frozen=True)
class ClaimRecord:
    """The node that runs a link: a shovel, say. `kind` says what, and its vhost and name which."""

    kind: str
    vhost: str  # empty: it belongs to none
    name: str
    node: str
    epoch: int  # grows each time that it is taken


@dataclass(slots=True, frozen=True)
class ClaimBeatRecord:
    """How often a node has said that it holds its claims."""

    node: str
    beat: int
