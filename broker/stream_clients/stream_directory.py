"""Creates, deletes and locates streams for one client. Declarations go the way of all protocols (session/topology.py)."""

from __future__ import annotations

from collections.abc import Callable

from broker.catalog import catalog_commands as commands
from broker.errors import BrokerError, ResourceExhausted
from broker.node_queues import NodeQueues
from broker.pending import Pending, ignore
from broker.queue_deletion import delete_queue
from broker.records import Arguments
from broker.session.topology import Topology
from broker.stream_clients.client_terms import StreamAddress, StreamLocation
from broker.stream_clients.stream_access import STREAM, StreamAccess
from broker.stream_contract import StreamContract

AddressOf = Callable[
    [str], tuple[str, int] | None
]  # where stream clients reach the node of this name, if that is known


class StreamDirectory:
    """See the module."""

    def __init__(
        self, broker: NodeQueues, access: StreamAccess, topology: Topology, vhost: str, address_of: AddressOf
    ) -> None:
        self._broker = broker
        self._access = access
        self._topology = topology
        self._vhost = vhost
        self._address_of = address_of

    def create(self, name: str, arguments: Arguments, now: int) -> Pending[bool]:
        """False: it was there, and is the same. Raises AccessRefused, PreconditionFailed."""
        self._topology.check_permission("configure", "queue", name)
        is_new = self._broker.catalog.queue(self._vhost, name) is None
        asked = self._topology.declare_queue(
            name,
            passive=False,
            durable=True,
            exclusive=False,
            auto_delete=False,
            arguments={**arguments, "x-queue-type": STREAM},
            now=now,
        )
        return asked.map(lambda _: is_new)

    def delete(self, name: str, now: int) -> Pending[None]:
        """Raises AccessRefused, NotFound."""
        self._topology.check_permission("configure", "queue", name)
        record = self._access.record(name)
        found = self._broker.find_queue(self._vhost, name)
        if found is None:
            command = commands.DeleteQueue(self._vhost, name, record.id)
            return self._broker.submit(command, now).map(ignore)
        return delete_queue(self._broker, found.queue, if_unused=False, if_empty=False, now=now).map(ignore)

    def locate(self, names: tuple[str, ...]) -> list[StreamLocation | BrokerError]:
        return [self._located(name) for name in names]

    def _located(self, name: str) -> StreamLocation | BrokerError:
        try:
            return self._location(self._access.visible(name))
        except BrokerError as error:
            return error

    def _location(self, queue: StreamContract) -> StreamLocation:
        """Of nodes that can be reached. Raises ResourceExhausted when there are none."""
        places = queue.places()
        leader = self._address(places.leader) if places.leader else None
        others = [self._address(node) for node in places.members if node != places.leader]
        replicas = tuple([address for address in others if address is not None])
        if leader is None and not replicas:
            raise ResourceExhausted(f"no node with a member of {queue.record.label} can be reached by stream clients")
        return StreamLocation(leader, replicas)

    def _address(self, node: str) -> StreamAddress | None:
        found = self._address_of(node)
        return None if found is None else StreamAddress(*found)

    def figures(self, name: str) -> dict[str, int]:
        """By the names that the protocol gives them. All that is shown of a stream is committed."""
        found = self._access.stream("read", name).stream_figures()
        return {
            "first_chunk_id": found.first_chunk,
            "committed_chunk_id": found.last_chunk,
            "last_chunk_id": found.last_chunk,
            "committed_offset": found.last_offset,
        }
