"""Creates, deletes and locates streams for one client. Declarations go the way of all protocols (session/topology.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.catalog.commands import catalog_commands as commands
from broker.errors import BrokerError, ResourceExhausted
from broker.node_queues import NodeQueues
from broker.pending import Pending, ignore
from broker.queues.queue_deletion import delete_queue
from broker.queues.stream_contract import StreamContract
from broker.records import Arguments
from broker.session.topology import Topology
from broker.stream_clients.client_terms import StreamAddress, StreamLocation
from broker.stream_clients.stream_access import STREAM, StreamAccess, open_stream

# While a stream has no leader: how long to wait each time before it is looked for anew. Less than a second together: some
# clients wait for an answer no longer, and nothing else of the connection is worked on meanwhile.
LEADER_WAITS_MS = (5, 10, 20, 40, 80, 160, 320)

AddressOf = Callable[
    [str], tuple[str, int] | None
]  # where stream clients of this kind, in plain or within TLS, reach the node of this name, if that is known


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
            return self._topology.submit(command, now).map(ignore)
        by = self._topology.actor
        return delete_queue(self._broker, found.queue, if_unused=False, if_empty=False, now=now, by=by).map(ignore)

    def locate(self, names: tuple[str, ...]) -> Pending[list[StreamLocation | BrokerError]]:
        """A stream that was just declared, or whose leader has just gone, has a leader soon: many clients give up when they are
        told of none, so the answer waits for it (LEADER_WAITS_MS)."""
        answer: Pending[list[StreamLocation | BrokerError]] = Pending()
        self._locate(names, iter(LEADER_WAITS_MS), answer)
        return answer

    def _locate(
        self, names: tuple[str, ...], waits: Iterator[int], answer: Pending[list[StreamLocation | BrokerError]]
    ) -> None:
        found = [self._located(name) for name in names]
        wait_ms = next(waits, None) if any(map(self._leader_is_missing, names, found)) else None
        if wait_ms is None:
            answer.resolve(found)
        else:
            self._broker.call_after(wait_ms, lambda _: self._locate(names, waits, answer))

    def _leader_is_missing(self, name: str, found: StreamLocation | BrokerError) -> bool:
        """It leads somewhere, perhaps, where stream clients do not come: that is no reason to wait."""
        if isinstance(found, BrokerError) or found.leader is not None:
            return False
        queue = open_stream(self._broker, self._vhost, name)
        return queue is not None and not queue.places().leader

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
