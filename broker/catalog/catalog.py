"""Everything that is declared, in memory, as it is after the commands applied so far.

`apply` is the only way to change it: it checks the command against the state, raises a BrokerError and has changed
nothing, or changes everything that follows from it (a queue goes with its bindings, a vhost with all it holds) and
answers. It uses no clock and no chance, so that every node that applies the same commands holds the same catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from broker.catalog.arguments import (
    COMPARED_FOR_EXCHANGE,
    QUEUE_KINDS,
    arguments_of_kind,
    check_arguments_equivalent,
    check_exchange,
    check_field_equivalent,
    check_queue,
    check_size,
)
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Command, Record
from broker.catalog.parts.catalog_conversions import CONVERSION_COMMANDS, CatalogConversions
from broker.catalog.parts.catalog_limits import CatalogLimits, check_count
from broker.catalog.parts.catalog_nodes import CatalogNodes
from broker.catalog.parts.catalog_policies import CatalogPolicies
from broker.catalog.parts.catalog_users import CatalogUsers
from broker.catalog.parts.catalog_vhosts import CatalogVhosts
from broker.catalog.parts.held_links import CLAIM_COMMANDS, CLAIM_RECORDS, CatalogClaims
from broker.catalog.parts.namespace import Namespace, identity_of
from broker.catalog.parts.queue_uses import USE_COMMANDS, QueueUses
from broker.catalog.proposed_queue import kind_of, proposed_queue
from broker.errors import NotFound, PreconditionFailed, ResourceLocked
from broker.exchanges.bindings import Destination
from broker.exchanges.delayed_exchange import DELAYED_KIND, DELAYED_TYPE, routing_kind
from broker.exchanges.exchange import check_binding, check_kind
from broker.exchanges.federation_upstream import FEDERATION_KIND, MAX_HOPS
from broker.limits import VHOST_LIMITS, check_limits
from broker.names import check_for_clients, check_length, check_name, labelled, not_found
from broker.records import (
    BindingRecord,
    CatalogHead,
    ExchangeRecord,
    NodeRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    QueueRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)

# Called with each record that came or was replaced (True), or went (False), while the command is being applied.
Observer = Callable[[Record, bool], None]

PREDECLARED_EXCHANGES = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),  # internal: only the broker publishes there
)
# Arguments beside COMPARED_FOR_EXCHANGE that are compared when an exchange of this kind is declared again.
_COMPARED_FOR_KIND = {DELAYED_KIND: frozenset({DELAYED_TYPE}), FEDERATION_KIND: frozenset({MAX_HOPS})}
# Records that only come and go, so that counting both gives how many there are.
_NEVER_REPLACED = (ExchangeRecord, QueueRecord, BindingRecord)


def default_commands(password_hash: str | None) -> list[Command]:
    """What a new cluster begins with: vhost `/`, and user guest, unless there is no hash for it."""
    vhost = commands.PutVhost(VhostRecord("/", description="Default virtual host"))
    return [vhost] if password_hash is None else [vhost, *guest_commands(password_hash)]


def guest_commands(password_hash: str) -> list[Command]:
    """User guest, who may do everything in vhost `/` (and come from loopback only)."""
    return [
        commands.PutUser(UserRecord("guest", password_hash, ("administrator",))),
        commands.PutPermission(PermissionRecord("guest", "/", ".*", ".*", ".*")),
    ]


def check_exclusive_access(record: QueueRecord, connection: str | None) -> None:
    """Raises ResourceLocked when the queue is exclusive to another connection."""
    if record.exclusive and record.owner != connection:
        raise locked(record)


def locked(record: QueueRecord) -> ResourceLocked:
    return ResourceLocked(
        f"cannot obtain exclusive access to locked {labelled('queue', record.name, record.vhost)}. It could be originally "
        "declared on another connection or the exclusive property value does not match that of the original declaration."
    )


class Catalog(CatalogClaims, CatalogConversions, CatalogNodes, CatalogVhosts, CatalogUsers, CatalogPolicies, QueueUses):
    """The applied state. Reading is free; records are immutable; everything iterates in the order it was declared."""

    def __init__(self, limits: CatalogLimits | None = None) -> None:
        self.limits = limits or CatalogLimits()
        self.version = 0  # grows with every change, so that caches can compare it
        self.observer: Observer | None = None
        self.traced_vhosts = set()
        self.rate_limited = set()
        self._begin_empty()

    def _begin_empty(self) -> None:
        self.cluster_id = ""
        self.next_queue_id = 1
        self.next_node_number = 1
        self.nodes: dict[str, NodeRecord] = {}
        self.vhosts = {}
        self.traced_vhosts.clear()
        self.rate_limited.clear()
        self.users = {}
        self._namespaces: dict[str, Namespace] = {}
        self._permissions = {}
        self._topic_permissions = {}
        self._policies = {}
        self._parameters = {}
        self._claims, self._beats = {}, {}
        self._counts: dict[type[Any], int] = dict.fromkeys(_NEVER_REPLACED, 0)  # over all vhosts
        self._queues_by_id: dict[int, QueueRecord] = {}
        self._effective = {}

    # ------------------------------------------------------------------------- reading

    @property
    def head(self) -> CatalogHead:
        return CatalogHead(self.cluster_id, self.next_queue_id, self.next_node_number, asdict(self.limits))

    def namespace(self, vhost: str) -> Namespace:
        """What the vhost holds. Raises NotFound."""
        namespace = self._namespaces.get(vhost)
        if namespace is None:
            raise NotFound(f"no vhost '{vhost}'")
        return namespace

    def exchange(self, vhost: str, name: str) -> ExchangeRecord | None:
        """The default exchange has no record."""
        namespace = self._namespaces.get(vhost)
        exchange = namespace.exchanges.get(name) if namespace is not None else None
        return exchange.record if exchange is not None else None

    def queue(self, vhost: str, name: str) -> QueueRecord | None:
        namespace = self._namespaces.get(vhost)
        return namespace.queues.get(name) if namespace is not None else None

    def exchanges(self, vhost: str) -> Iterable[ExchangeRecord]:
        return (exchange.record for exchange in self.namespace(vhost).exchanges.values())

    def queue_of_id(self, queue_id: int) -> QueueRecord | None:
        return self._queues_by_id.get(queue_id)

    def queues(self, vhost: str) -> Iterable[QueueRecord]:
        return self.namespace(vhost).queues.values()

    def count_exchanges(self, vhost: str) -> int:
        return len(self.namespace(vhost).exchanges)

    def count_queues(self, vhost: str) -> int:
        return len(self.namespace(vhost).queues)

    def bindings(self, vhost: str) -> Iterable[BindingRecord]:
        return self.namespace(vhost).bindings.values()

    def has_binding(self, binding: BindingRecord) -> bool:
        namespace = self._namespaces.get(binding.vhost)
        return namespace is not None and identity_of(binding) in namespace.bindings

    def bindings_of_source(self, vhost: str, exchange: str) -> Iterable[BindingRecord]:
        found = self.namespace(vhost).exchanges.get(exchange)
        return found.outgoing.values() if found is not None else ()

    def bindings_of_destination(self, vhost: str, kind: str, name: str) -> Iterable[BindingRecord]:
        return self.namespace(vhost).incoming((kind, name))

    # ------------------------------------------------------------------------- changing

    def apply(self, command: Command) -> Any:
        """Carry the command out whole, or raise a BrokerError and have done nothing. Answers as the command says."""
        return _APPLY[type(command)](self, command)

    def load(self, record: Record) -> None:
        """Take back a record that was stored: no checks, for they were passed when it came. In the order of LOAD_ORDER."""
        _LOAD[type(record)](self, record)

    def records(self) -> Iterator[Record]:
        """All of them; what one refers to comes before it."""
        yield from self.nodes.values()
        yield from self.vhosts.values()
        yield from self.users.values()
        yield from self._permissions.values()
        yield from self.all_topic_permissions()
        for namespace in self._namespaces.values():
            yield from (exchange.record for exchange in namespace.exchanges.values())
            yield from namespace.queues.values()
            yield from namespace.bindings.values()
        for policies in self._policies.values():
            yield from policies.values()
        yield from (*self._parameters.values(), *self.claim_records())

    def load_head(self, head: CatalogHead) -> None:
        self.cluster_id = head.cluster_id
        self.next_queue_id = max(self.next_queue_id, head.next_queue_id)
        self.next_node_number = max(self.next_node_number, head.next_node_number)
        self._agree_on_limits(head.limits)

    def clear(self) -> None:
        """Forget everything, before another catalog is loaded in its place."""
        self._begin_empty()
        self.version += 1

    def _agree_on_limits(self, limits: Mapping[str, int]) -> None:
        """A limit that an older node does not name is kept; one that only a newer version knows is not for us."""
        known = {field.name for field in fields(CatalogLimits)}
        self.limits = replace(self.limits, **{name: value for name, value in limits.items() if name in known})

    def _changed(self, record: Record, present: bool) -> None:
        if type(record) in _NEVER_REPLACED:
            self._counts[type(record)] += 1 if present else -1
        self._noted(record, present)

    def _noted(self, record: Record, present: bool) -> None:
        self.version += 1
        self._observed(record, present)

    def _observed(self, record: Record, present: bool) -> None:
        if isinstance(record, QueueRecord):
            if present:
                self._queues_by_id[record.id] = record
            else:
                self._queues_by_id.pop(record.id, None)
        if self.observer is not None:
            self.observer(record, present)

    # vhosts

    def _put_vhost(self, command: commands.PutVhost) -> VhostRecord:
        record = command.record
        check_name("vhost", record.name)
        if record.default_queue_type not in QUEUE_KINDS:
            raise PreconditionFailed(f"default queue type '{record.default_queue_type}' is not supported")
        check_limits(record.limits, VHOST_LIMITS)
        current = self.vhosts.get(record.name)
        if current is None:
            check_count("vhosts", len(self.vhosts), self.limits.vhosts)
        else:
            record = replace(record, limits=current.limits)
        self.keep_vhost(record)
        self._changed(record, True)
        if current is None:
            namespace = self._namespaces[record.name] = Namespace(self._changed)
            for name, kind, internal in PREDECLARED_EXCHANGES:
                namespace.add_exchange(ExchangeRecord(record.name, name, kind, internal=internal))
        return record

    def _delete_vhost(self, command: commands.DeleteVhost) -> list[QueueRecord]:
        name = command.name
        record = self.vhosts.get(name)
        if record is None:
            raise NotFound(f"no vhost '{name}'")
        if record.protected_from_deletion:
            raise PreconditionFailed(f"vhost '{name}' is protected from deletion")
        queues = self._namespaces[name].dissolve()
        for queue in queues:
            self._effective.pop(queue.id, None)
        self._delete_permissions(lambda user, vhost: vhost == name)
        self._delete_policies(name)
        del self._namespaces[name]
        self.give_up_vhost(name)
        self._changed(record, False)
        return queues

    # exchanges

    def declared_exchange(self, wish: ExchangeRecord) -> ExchangeRecord | None:
        """The exchange that is there and is as wished, or None when it can be made. Raises what declaring it would."""
        exchange = self.namespace(wish.vhost).exchanges.get(wish.name)
        if exchange is None:
            self._check_new_exchange(wish)
            return None
        current = exchange.record
        for field, received, found in (
            ("type", wish.kind, current.kind),
            ("durable", wish.durable, current.durable),
            ("auto_delete", wish.auto_delete, current.auto_delete),
            ("internal", wish.internal, current.internal),
        ):
            check_field_equivalent(field, "exchange", wish.name, wish.vhost, received, found)
        compared = COMPARED_FOR_EXCHANGE | _COMPARED_FOR_KIND.get(wish.kind, frozenset())
        check_arguments_equivalent(compared, "exchange", wish.name, wish.vhost, wish.arguments, current.arguments)
        return current

    def _check_new_exchange(self, wish: ExchangeRecord) -> None:
        check_name("exchange", wish.name)
        check_kind(wish.kind, wish.arguments)
        check_exchange(wish.vhost, wish.name, wish.arguments)
        check_count("exchanges", self._counts[ExchangeRecord], self.limits.exchanges)

    def _declare_exchange(self, command: commands.DeclareExchange) -> ExchangeRecord:
        found = self.declared_exchange(command.record)
        if found is not None:
            return found
        self.namespace(command.record.vhost).add_exchange(command.record)
        return command.record

    def _delete_exchange(self, command: commands.DeleteExchange) -> ExchangeRecord | None:
        namespace = self.namespace(command.vhost)
        exchange = namespace.exchanges.get(command.name)
        if exchange is None:
            return None
        if command.if_unused and exchange.outgoing:
            raise PreconditionFailed(f"{labelled('exchange', command.name, command.vhost)} in use")
        return namespace.remove_exchange(command.name)

    # queues

    def declared_queue(self, wish: commands.DeclareQueue) -> QueueRecord | None:
        """The queue that is there and is as wished, or None when it can be made. Raises what declaring it would."""
        vhost, name = wish.vhost, wish.name
        current = self.namespace(vhost).queues.get(name)
        kind = kind_of(wish, self.vhosts)
        if current is None:
            self._check_new_queue(wish, kind)
            return None
        if current.exclusive != wish.exclusive or (current.exclusive and current.owner != wish.owner):
            raise locked(current)
        check_field_equivalent("durable", "queue", name, vhost, wish.durable, current.durable)
        check_field_equivalent("auto_delete", "queue", name, vhost, wish.auto_delete, current.auto_delete)
        check_field_equivalent("x-queue-type", "queue", name, vhost, kind, current.kind)
        check_arguments_equivalent(arguments_of_kind(kind), "queue", name, vhost, wish.arguments, current.arguments)
        return current

    def _check_new_queue(self, wish: commands.DeclareQueue, kind: str) -> None:
        check_name("queue", wish.name)
        check_queue(wish, kind)
        limit = self.vhosts[wish.vhost].limits.get("max-queues")
        if limit is not None and self.count_queues(wish.vhost) >= limit:
            raise PreconditionFailed(
                f"cannot declare queue '{wish.name}': queue limit in vhost '{wish.vhost}' ({limit}) is reached"
            )
        check_count("queues", self._counts[QueueRecord], self.limits.queues)

    def _declare_queue(self, command: commands.DeclareQueue) -> QueueRecord:
        found = self.declared_queue(command)
        if found is not None:
            return self.count_use(found) if command.counted else found
        proposed = proposed_queue(command, self.vhosts)
        record = replace(
            proposed,
            arguments={**command.arguments, "x-queue-type": proposed.kind},
            id=self.next_queue_id,
            home=command.home,
            owner=command.owner if command.exclusive else None,
            members=command.members,
        )
        self.next_queue_id += 1
        self.namespace(command.vhost).add_queue(record)
        return record

    def _set_queue_members(self, command: commands.SetQueueMembers) -> QueueRecord | None:
        record = self.queue(command.vhost, command.name)
        if record is None or record.id != command.id:
            return None
        of_old = command.formed < record.formed and not command.anew  # of a leader that was removed, and speaks on
        if record.members != command.members and not of_old:
            # Above 0 in any case: whoever is a member from here on was not a founder, even if it says so.
            record = replace(record, members=command.members, formed=max(1, command.formed))
            self.namespace(command.vhost).queues[command.name] = record
            self._noted(record, True)
        return record

    def remove_queues(self, concerned: Callable[[QueueRecord], bool]) -> list[QueueRecord]:
        gone = []
        for namespace in self._namespaces.values():
            for record in [record for record in namespace.queues.values() if concerned(record)]:
                self._effective.pop(record.id, None)
                gone.append(namespace.remove_queue(record.name))
        return gone

    def _remove_transient_exchanges(self) -> None:
        for namespace in self._namespaces.values():
            for record in [one.record for one in namespace.exchanges.values() if not one.record.durable]:
                if record.name in namespace.exchanges:  # one that goes may take another along
                    namespace.remove_exchange(record.name)

    # bindings

    def check_binding(self, binding: BindingRecord, owner: str | None) -> None:
        """Raises what making this binding would."""
        namespace = self.namespace(binding.vhost)
        source = namespace.exchanges.get(binding.source)
        if source is None:
            raise not_found("exchange", binding.source, binding.vhost)
        destination: Destination = binding.destination_kind, binding.destination
        if not namespace.has_destination(destination):
            raise not_found(binding.destination_kind, binding.destination, binding.vhost)
        queue = namespace.queues[binding.destination] if binding.destination_kind == "queue" else None
        if queue is not None:
            check_exclusive_access(queue, owner)
            check_for_clients(queue.name)
        check_length("routing key", binding.routing_key)
        check_size(binding.destination_kind, binding.destination, binding.vhost, binding.arguments)
        kind = routing_kind(source.record.kind, source.record.arguments)
        check_binding(kind, binding, queue, self.limits.topic_wildcards)
        check_count("bindings", self._counts[BindingRecord], self.limits.bindings)

    def _bind(self, command: commands.Bind) -> BindingRecord:
        self.check_binding(command.record, command.owner)
        namespace = self.namespace(command.record.vhost)
        namespace.add_binding(command.record)
        return namespace.bindings[identity_of(command.record)]

    def _unbind(self, command: commands.Unbind) -> bool:
        return self.namespace(command.record.vhost).remove_binding(command.record)

    # taking back what was stored

    def _load_vhost(self, record: VhostRecord) -> None:
        self.keep_vhost(record)
        self._namespaces[record.name] = Namespace(self._changed)

    def _load_node(self, record: NodeRecord) -> None:
        self.nodes[record.name] = record

    def _load_exchange(self, record: ExchangeRecord) -> None:
        self.namespace(record.vhost).add_exchange(record)

    def _load_queue(self, record: QueueRecord) -> None:
        self.namespace(record.vhost).add_queue(record)
        self.next_queue_id = max(self.next_queue_id, record.id + 1)

    def _load_binding(self, record: BindingRecord) -> None:
        self.namespace(record.vhost).add_binding(record)


_APPLY: dict[type[Any], Callable[[Catalog, Any], Any]] = {
    commands.PutVhost: Catalog._put_vhost,
    commands.DeleteVhost: Catalog._delete_vhost,
    commands.PutUser: Catalog.put_user,
    commands.DeleteUser: Catalog.delete_user,
    commands.PutPermission: Catalog.put_permission,
    commands.DeletePermission: Catalog.delete_permission,
    commands.PutTopicPermission: Catalog.put_topic_permission,
    commands.DeleteTopicPermission: Catalog.delete_topic_permission,
    commands.DeclareExchange: Catalog._declare_exchange,
    commands.DeleteExchange: Catalog._delete_exchange,
    commands.DeclareQueue: Catalog._declare_queue,
    commands.Bind: Catalog._bind,
    commands.Unbind: Catalog._unbind,
    commands.PutPolicy: Catalog.put_policy,
    commands.DeletePolicy: Catalog.delete_policy,
    commands.SetParameter: Catalog.set_parameter,
    commands.ClearParameter: Catalog.clear_parameter,
    commands.SetVhostLimits: Catalog.set_vhost_limits,
    commands.SetUserLimits: Catalog.set_user_limits,
    commands.SetQueueMembers: Catalog._set_queue_members,
    commands.SetClusterId: Catalog.set_cluster_id,
    commands.AddNode: Catalog.add_node,
    commands.JoinNode: Catalog.join_node,
    commands.PutNode: Catalog.put_node,
    commands.RemoveNode: Catalog.remove_node,
    commands.NodeStarted: Catalog.node_started,
    commands.NodeLost: Catalog.node_lost,
    **CLAIM_COMMANDS,
    **CONVERSION_COMMANDS,
    **USE_COMMANDS,
}

_LOAD: dict[type[Any], Callable[[Catalog, Any], None]] = {
    NodeRecord: Catalog._load_node,
    VhostRecord: Catalog._load_vhost,
    UserRecord: Catalog._load_user,
    PermissionRecord: Catalog._load_permission,
    TopicPermissionRecord: Catalog._load_topic_permission,
    ExchangeRecord: Catalog._load_exchange,
    QueueRecord: Catalog._load_queue,
    BindingRecord: Catalog._load_binding,
    PolicyRecord: Catalog._load_policy,
    ParameterRecord: Catalog._load_parameter,
    **CLAIM_RECORDS,
}
# What a record refers to comes before it.
LOAD_ORDER = tuple(_LOAD)
