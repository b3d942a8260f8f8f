"""What a session declares: exchanges, queues and bindings, as its client asks for them.

For each request: clean the names, check what no user may do, check what this user may do (before anything is looked up, so that
a refusal does not reveal what exists), then submit a command to the catalog, through the metadata port. The answer comes when
it is durable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from broker import names
from broker.catalog import permissions
from broker.catalog.catalog import Catalog, check_exclusive_access
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.mirrored_queues import as_replicated
from broker.catalog.parts.namespace import identity_of
from broker.catalog.permissions import Access, ResourceKind
from broker.catalog.proposed_queue import proposed_queue
from broker.client_connection import Connection
from broker.errors import BrokerError, NotFound, PreconditionFailed
from broker.names import DIRECT_REPLY_TO
from broker.node_queues import NodeQueues
from broker.pending import Pending
from broker.queues.open_queue import OpenQueue
from broker.queues.queue_deletion import counted, delete_queue
from broker.records import Arguments, BindingRecord, ExchangeRecord, QueueRecord
from broker.routing.reply_to import is_reply_name


@dataclass(slots=True)
class Declared:
    """The answer to a declaration: the queue's name, its ready messages and its consumers."""

    name: str
    ready: int
    consumers: int


class Topology:
    """A session's requests about what is declared."""

    def __init__(self, broker: NodeQueues, connection: Connection) -> None:
        self.actor = connection.actor
        self._broker = broker
        self._catalog: Catalog = broker.catalog
        self._connection = connection
        self._vhost = connection.vhost
        self._owner = broker.owner_of(connection)  # of the exclusive queues that it declares
        self._last_declared: str | None = None

    # exchanges

    def declare_exchange(
        self,
        name: str,
        kind: str,
        *,
        passive: bool,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Arguments,
        now: int,
    ) -> Pending[None]:
        name = names.clean(name)
        names.check_not_default_exchange(name)
        if passive:
            permissions.check_any(self._catalog, self._connection.who, self._vhost, "exchange", name)
            if self._catalog.exchange(self._vhost, name) is None:
                raise names.not_found("exchange", name, self._vhost)
            return Pending.of(None)
        self.check_permission("configure", "exchange", name)
        current = self._catalog.exchange(self._vhost, name)
        if current is None:
            names.check_not_reserved("exchange", name)
            self._check_leads_to("exchange", name, arguments.get("alternate-exchange"))
        wish = ExchangeRecord(self._vhost, name, kind, durable, auto_delete, internal, arguments)
        return self.submit(commands.DeclareExchange(wish), now).map(nothing)

    def delete_exchange(self, name: str, *, if_unused: bool, now: int) -> Pending[None]:
        name = names.clean(name)
        names.check_deletable_exchange(name, self._vhost)
        self.check_permission("configure", "exchange", name)
        return self.submit(commands.DeleteExchange(self._vhost, name, if_unused), now).map(nothing)

    # bindings

    def bind_exchange(
        self, destination: str, source: str, routing_key: str, arguments: Arguments, now: int
    ) -> Pending[None]:
        binding = self._binding("exchange", destination, source, routing_key, arguments)
        return self._bind(binding, now)

    def unbind_exchange(
        self, destination: str, source: str, routing_key: str, arguments: Arguments, now: int
    ) -> Pending[None]:
        binding = self._binding("exchange", destination, source, routing_key, arguments)
        return self.submit(commands.Unbind(binding), now).map(nothing)

    def bind_queue(self, queue: str, exchange: str, routing_key: str, arguments: Arguments, now: int) -> Pending[None]:
        binding = self._queue_binding(queue, exchange, routing_key, arguments)
        return self._bind(binding, now)

    def unbind_queue(
        self, queue: str, exchange: str, routing_key: str, arguments: Arguments, now: int
    ) -> Pending[None]:
        binding = self._queue_binding(queue, exchange, routing_key, arguments)
        if identity_of(binding) in self._catalog.namespace(self._vhost).bindings:
            check_exclusive_access(self._existing_record(binding.destination), self._owner)
        return self.submit(commands.Unbind(binding), now).map(nothing)

    def _bind(self, binding: BindingRecord, now: int) -> Pending[None]:
        is_new = identity_of(binding) not in self._catalog.namespace(self._vhost).bindings

        def bound(_: Any) -> None:
            if is_new:
                self._broker.replay_history(binding)

        return self.submit(commands.Bind(binding, self._owner), now).map(bound)

    def _queue_binding(self, queue: str, exchange: str, routing_key: str, arguments: Arguments) -> BindingRecord:
        name = self.named(queue)
        if not queue and not routing_key:
            routing_key = name
        return self._binding("queue", name, exchange, routing_key, arguments)

    def _binding(
        self,
        kind: Literal["queue", "exchange"],
        destination: str,
        source: str,
        routing_key: str,
        arguments: Arguments,
    ) -> BindingRecord:
        """The binding asked for, if this user may make and break it."""
        destination, source = names.clean(destination), names.clean(source)
        names.check_not_default_exchange(source)
        if kind == "exchange":
            names.check_not_default_exchange(destination)
        self.check_permission("write", kind, destination)
        self.check_permission("read", "exchange", source)
        permissions.check_topic(self._catalog, self._connection.who, self._vhost, "read", source, routing_key)
        return BindingRecord(self._vhost, source, destination, kind, routing_key, arguments)

    # queues

    def declare_queue(
        self,
        name: str,
        *,
        passive: bool,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Arguments,
        now: int,
    ) -> Pending[Declared]:
        name = names.clean(name)
        if is_reply_name(name):
            return self._declare_reply_name(name)
        if passive:
            permissions.check_any(self._catalog, self._connection.who, self._vhost, "queue", name)
            self.existing(name)
            return self._declared(name, now)
        is_server_named = not name
        if is_server_named:
            name = names.server_named(self._broker.random_bytes(16))
        else:
            names.check_not_reserved("queue", name)
        self.check_permission("configure", "queue", name)
        wish = commands.DeclareQueue(
            self._vhost,
            name,
            durable=durable and not exclusive,  # it ends with its connection, and that with its node
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments=arguments,
            home=self._broker.node,
            owner=self._owner if exclusive else None,
        )
        return self._declare(wish, is_server_named, now).then_ask(lambda _: self._declared(name, now))

    def _declare(self, wish: commands.DeclareQueue, is_server_named: bool, now: int) -> Pending[Any]:
        meant = as_replicated(self._catalog, wish)
        if self._catalog.declared_queue(meant) is None:
            self._check_new_queue(meant, is_server_named)
        declared: Pending[Any] = Pending()

        def refused(error: BrokerError) -> None:
            if as_replicated(self._catalog, wish) == meant:
                declared.fail(error)
            else:  # its queue was converted in between
                again = Pending.of(None).then_ask(lambda _: self._declare(wish, is_server_named, now))
                again.then(declared.resolve, declared.fail)

        self.submit(meant, now).then(declared.resolve, refused)
        return declared

    def _check_new_queue(self, wish: commands.DeclareQueue, is_server_named: bool) -> None:
        record = proposed_queue(wish, self._catalog.vhosts)
        if is_server_named and record.kind != "classic":
            raise PreconditionFailed(f"Cannot declare a server-named queue for type rabbit_{record.kind}_queue")
        self._check_leads_to("queue", wish.name, wish.arguments.get("x-dead-letter-exchange"))
        self._broker.check_kind(record)

    def _declare_reply_name(self, name: str) -> Pending[Declared]:
        """Nothing to declare: this is how a server asks whether its requester is still there."""
        declared = Declared(name, 0, 1)
        if name == DIRECT_REPLY_TO:
            return Pending.of(declared)

        def answer(is_there: bool) -> Declared:
            if not is_there:
                raise names.not_found("queue", name, self._vhost)
            return declared

        return self._broker.replies.is_there(self._vhost, name).map(answer)

    def _declared(self, name: str, now: int) -> Pending[Declared]:
        self._last_declared = name
        queue = self._broker.queue(self._vhost, name)
        return counted(self._broker, queue, now).map(lambda _: Declared(name, queue.ready_count, queue.consumer_count))

    def purge_queue(self, name: str, now: int) -> Pending[int]:
        name = self.named(name)
        self.check_permission("read", "queue", name)
        queue = self.existing(name).queue
        self._broker.deliver_from(queue, now)
        return queue.purge(now, self.actor)

    def delete_queue(self, name: str, *, if_unused: bool, if_empty: bool, now: int) -> Pending[int]:
        """Answers how many messages were ready; a queue that does not exist is fine."""
        name = self.named(name)
        self.check_permission("configure", "queue", name)
        record = self._catalog.queue(self._vhost, name)
        if record is None:
            return Pending.of(0)
        names.check_for_clients(name)
        if not (if_unused or if_empty) and self._broker.find_queue(self._vhost, name) is None:
            # It is declared, and this node is about to open it: no client of this node has put anything into it.
            check_exclusive_access(record, self._owner)
            return self.submit(commands.DeleteQueue(self._vhost, name, record.id), now).map(lambda _: 0)
        queue = self.existing(name).queue
        return delete_queue(self._broker, queue, if_unused=if_unused, if_empty=if_empty, now=now, by=self.actor)

    # for all requests, also of the session

    def submit(self, command: commands.Command, now: int) -> Pending[Any]:
        return self._broker.submit(command, now, self.actor)

    def check_permission(self, access: Access, kind: ResourceKind, name: str) -> None:
        permissions.check(self._catalog, self._connection.who, self._vhost, access, kind, name)

    def _check_leads_to(self, kind: ResourceKind, name: str, exchange: Any) -> None:
        """To send a queue's dead letters or an exchange's unroutable messages to an exchange, a user must be allowed to read
        here and to write there."""
        if isinstance(exchange, str):
            self.check_permission("read", kind, name)
            self.check_permission("write", "exchange", exchange)

    def named(self, name: str) -> str:
        """The queue meant; the empty name is the one declared last on this session."""
        if name:
            return names.clean(name)
        if self._last_declared is None:
            raise NotFound("no previously declared queue")
        return self._last_declared

    def takeable(self, name: str) -> OpenQueue:
        """The queue, if this user may take messages from it."""
        name = self.named(name)
        self.check_permission("read", "queue", name)
        names.check_for_clients(name)
        return self.existing(name)

    def readable(self, queue: str) -> OpenQueue:
        """One whose messages the user may be told of. Needs the permission that a get needs."""
        name = self.named(queue)
        self.check_permission("read", "queue", name)
        return self.existing(name)

    def existing(self, name: str) -> OpenQueue:
        record = self._existing_record(name)
        found = self._broker.find_queue(self._vhost, name)
        if found is None:
            raise names.not_open(name, self._vhost)
        check_exclusive_access(record, self._owner)
        return found

    def _existing_record(self, name: str) -> QueueRecord:
        record = self._catalog.queue(self._vhost, name)
        if record is None:
            raise names.not_found("queue", name, self._vhost)
        return record


def nothing(_: Any) -> None:
    """For answers that say no more than that it is done."""
