"""What operators do with streams that no other queue has: super streams, and what is kept in a stream by names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.client_connection import Connection
from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceExhausted
from broker.names import labelled
from broker.operations.operator import MANAGEMENT, Operator
from broker.pending import Pending
from broker.queues.stream_contract import StreamTracking
from broker.records import Arguments
from broker.session.topology import Topology
from broker.stream_clients.stream_access import STREAM, StreamAccess, open_stream
from broker.stream_clients.stream_directory import StreamDirectory
from broker.stream_clients.super_streams import SuperStreams

if TYPE_CHECKING:
    from broker.broker import Broker


class StreamAdmin:
    """Each raises TagMissing, AccessRefused or NotFound for who may not, or asks for what is not there."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def tracking(self, who: Operator, vhost: str, name: str) -> StreamTracking:
        """As the member on this node knows it. Raises ResourceExhausted where there is none."""
        self._check_may_see(who, vhost)
        stream, label = open_stream(self._broker, vhost, name), labelled(STREAM, name, vhost)
        if stream is None:
            raise NotFound(f"no {label}")
        found = stream.tracking()
        if found is None:
            members = ", ".join(stream.places().members)
            raise ResourceExhausted(f"node {self._broker.node} has no copy of {label}: ask one of {members}")
        return found

    def create_super_stream(
        self, who: Operator, vhost: str, name: str, binding_keys: tuple[str, ...], arguments: Arguments, now: int
    ) -> Pending[None]:
        """As a connection of theirs would, a partition for each key. Raises PreconditionFailed when a part of it is there."""
        self._check_may_see(who, vhost)
        partitions = tuple([f"{name}-{key}" for key in binding_keys])
        asked = self._super_streams(who, vhost, now).create(name, partitions, binding_keys, arguments, now)
        return asked.map(lambda created: _must_be_new(name, vhost, created=created))

    def _super_streams(self, who: Operator, vhost: str, now: int) -> SuperStreams:
        connection = Connection(
            "", "", who.name, vhost, "", {}, now, _nobody_to_close, _nobody_to_block, dict, login=who.login
        )
        topology, access = Topology(self._broker, connection), StreamAccess(self._broker, connection)
        directory = StreamDirectory(self._broker, access, topology, vhost, lambda _: None)
        return SuperStreams(self._broker, topology, directory, vhost)

    def _check_may_see(self, who: Operator, vhost: str) -> None:
        who.require_tag(MANAGEMENT)
        who.check_may_see(self._broker.catalog, vhost)


def _must_be_new(name: str, vhost: str, *, created: bool) -> None:
    if not created:
        raise PreconditionFailed(f"{labelled('super stream', name, vhost)}, or one of its partitions, is there already")


def _nobody_to_close(error: BrokerError) -> None:
    """It is a request, and is answered with what becomes of it."""


def _nobody_to_block(reason: str | None) -> None:
    """It publishes nothing."""
