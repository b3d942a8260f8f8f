"""Super streams: a direct exchange with the argument x-super-stream, and streams that are bound to it, its partitions.

Clients choose the partition of a message themselves, by its key (`route`) or by a hash over the partitions in their order. The
order is an argument of the bindings. Nothing else is kept, so one that was declared by hand, through AMQP, is as good.

Creating one is many declarations. When one of them is refused, those before it are taken back before the answer comes.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from broker.catalog.commands import catalog_commands as commands
from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceExhausted
from broker.names import labelled
from broker.node_queues import NodeQueues
from broker.pending import Pending
from broker.records import Arguments, BindingRecord
from broker.routing.route import route
from broker.session.topology import Topology
from broker.stream_clients.consumer_groups import NO_PARTITION
from broker.stream_clients.many_requests import ManyRequests, Request
from broker.stream_clients.stream_access import STREAM
from broker.stream_clients.stream_directory import StreamDirectory

SUPER_STREAM = "x-super-stream"
PARTITION_ORDER = "x-stream-partition-order"
UNDO_AGAIN_MS = 1_000

_NUMBER_AT_END = re.compile(r"-([0-9]{1,9})$")


class SuperStreams:
    """Those of one virtual host, for one user."""

    def __init__(self, broker: NodeQueues, topology: Topology, directory: StreamDirectory, vhost: str) -> None:
        self._broker = broker
        self._catalog = broker.catalog
        self._topology = topology
        self._directory = directory
        self._vhost = vhost

    # ------------------------------------------------------------------------- to look at

    def partitions(self, name: str) -> tuple[str, ...]:
        """In their order. Raises AccessRefused unless the user may read or write, NotFound."""
        try:
            self._topology.check_permission("read", "exchange", name)
        except BrokerError:
            self._topology.check_permission("write", "exchange", name)
        self._check_exists(name)
        return tuple([binding.destination for binding in self._bindings(name)])

    def route(self, routing_key: str, name: str) -> tuple[str, ...]:
        """Raises AccessRefused unless the user may write to the exchange and to what is found, NotFound."""
        self._topology.check_permission("write", "exchange", name)
        self._check_exists(name)
        found = route(self._catalog, self._vhost, name, routing_key, self._broker.asks(self._vhost, None))
        streams = tuple([queue for queue in found if self._is_stream(queue)])
        for stream in streams:
            self._topology.check_permission("write", "queue", stream)
        return streams

    def partition_index(self, name: str, stream: str) -> int:
        """Of a stream in this super stream: as its binding says, or the number at the end of its name."""
        if not name:
            return NO_PARTITION
        found = next((_order(one) for one in self._bindings(name) if one.destination == stream), None)
        return _number_at_end(stream) if found is None else found

    def _bindings(self, name: str) -> list[BindingRecord]:
        """To streams, each of them once, in their order; those without one come last."""
        found = [
            one
            for one in self._catalog.bindings_of_source(self._vhost, name)
            if one.destination_kind == "queue" and self._is_stream(one.destination)
        ]
        by_stream: dict[str, BindingRecord] = {}
        for one in sorted(found, key=_place):
            by_stream.setdefault(one.destination, one)
        return list(by_stream.values())

    def _is_stream(self, queue: str) -> bool:
        record = self._catalog.queue(self._vhost, queue)
        return record is not None and record.kind == STREAM

    def _check_exists(self, name: str) -> None:
        if not name or self._catalog.exchange(self._vhost, name) is None:
            raise NotFound(f"no {labelled('super stream', name, self._vhost)}")

    # ------------------------------------------------------------------------- to create

    def create(
        self, name: str, partitions: tuple[str, ...], binding_keys: tuple[str, ...], arguments: Arguments, now: int
    ) -> Pending[bool]:
        """False: it, or one of its partitions, was there. Raises AccessRefused."""
        self._check_may_create(name, partitions)
        if self._exists_in_part(name, partitions):
            return Pending.of(False)
        undo: list[commands.Command] = []
        made = ManyRequests(self._declarations(name, partitions, binding_keys, arguments, undo, now), until_error=True)
        return made.begin(self._broker.work).then_ask(lambda error: self._created(error, undo))

    def _check_may_create(self, name: str, partitions: tuple[str, ...]) -> None:
        """As bindings by hand need it: configure, and what connecting a queue to an exchange takes."""
        self._topology.check_permission("configure", "exchange", name)
        self._topology.check_permission("read", "exchange", name)
        for partition in partitions:
            self._topology.check_permission("configure", "queue", partition)
            self._topology.check_permission("write", "queue", partition)

    def _exists_in_part(self, name: str, partitions: tuple[str, ...]) -> bool:
        exchange = self._catalog.exchange(self._vhost, name)
        return exchange is not None or any(self._catalog.queue(self._vhost, one) is not None for one in partitions)

    def _declarations(
        self,
        name: str,
        partitions: tuple[str, ...],
        binding_keys: tuple[str, ...],
        arguments: Arguments,
        undo: list[commands.Command],
        now: int,
    ) -> list[Request]:
        """`undo` gets what takes them back."""
        arguments = {"x-queue-leader-locator": "balanced", **arguments}
        requests: list[Request] = [partial(self._declare_exchange, name, undo, now)]
        requests += [partial(self._declare_partition, one, arguments, undo, now) for one in partitions]
        for order, (partition, key) in enumerate(zip(partitions, binding_keys, strict=True)):
            bound = {PARTITION_ORDER: order}
            requests.append(partial(self._topology.bind_queue, partition, name, key, bound, now))
        return requests

    def _declare_exchange(self, name: str, undo: list[commands.Command], now: int) -> Pending[None]:
        asked = self._topology.declare_exchange(
            name,
            "direct",
            passive=False,
            durable=True,
            auto_delete=False,
            internal=False,
            arguments={SUPER_STREAM: True},
            now=now,
        )
        return asked.map(lambda _: undo.append(commands.DeleteExchange(self._vhost, name, if_unused=True)))

    def _declare_partition(
        self, name: str, arguments: Arguments, undo: list[commands.Command], now: int
    ) -> Pending[None]:
        def declared(is_new: bool) -> None:
            if not is_new:
                raise PreconditionFailed(f"{labelled('stream', name, self._vhost)} was created by somebody else")
            record = self._catalog.queue(self._vhost, name)
            if record is None:  # whoever deletes it may be answered first
                raise NotFound(f"{labelled('stream', name, self._vhost)} was deleted by somebody else")
            undo.append(commands.DeleteQueue(self._vhost, name, record.id))

        return self._directory.create(name, arguments, now).map(declared)

    def _created(self, error: BrokerError | None, undo: list[commands.Command]) -> Pending[bool]:
        if error is None:
            return Pending.of(True)
        # Streams first: then the exchange is unused, unless somebody else has begun to use it.
        requests = [partial(self._take_back, command) for command in reversed(undo)]
        return (
            ManyRequests(requests, until_error=False).begin(self._broker.work).then_ask(lambda _: Pending.failed(error))
        )

    def _take_back(self, command: commands.Command) -> Pending[Any]:
        """Answered after the first attempt. What cannot be changed now is tried until it can."""
        answer: Pending[None] = Pending()

        def refused(error: BrokerError) -> None:
            if isinstance(error, ResourceExhausted):
                self._broker.call_after(UNDO_AGAIN_MS, lambda _: self._take_back_later(command))
            answer.resolve(None)

        self._topology.submit(command, self._broker.turns.now).then(lambda _: answer.resolve(None), refused)
        return answer

    def _take_back_later(self, command: commands.Command) -> None:
        self._take_back(command)

    # ------------------------------------------------------------------------- to delete

    def delete(self, name: str, now: int) -> Pending[None]:
        """With its partitions. Raises AccessRefused; NotFound also for an exchange that is no super stream."""
        self._topology.check_permission("configure", "exchange", name)
        record = self._catalog.exchange(self._vhost, name)
        if record is None or record.arguments.get(SUPER_STREAM) is not True:
            raise NotFound(f"no {labelled('super stream', name, self._vhost)}")
        partitions = [binding.destination for binding in self._bindings(name)]
        for partition in partitions:
            self._topology.check_permission("configure", "queue", partition)
        requests: list[Request] = [partial(self._directory.delete, one, now) for one in partitions]
        requests.append(partial(self._topology.delete_exchange, name, if_unused=False, now=now))
        return ManyRequests(requests, until_error=True).begin(self._broker.work).map(_raise_first)


def _raise_first(error: BrokerError | None) -> None:
    if error is not None:
        raise error


def _order(binding: BindingRecord) -> int | None:
    order = binding.arguments.get(PARTITION_ORDER)
    return order if isinstance(order, int) and not isinstance(order, bool) and order >= 0 else None


def _place(binding: BindingRecord) -> tuple[bool, int]:
    order = _order(binding)
    return order is None, order or 0


def _number_at_end(stream: str) -> int:
    found = _NUMBER_AT_END.search(stream)
    return int(found[1]) if found else NO_PARTITION
