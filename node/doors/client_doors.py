"""Draining a node: its clients are sent to other nodes, and none is let in until it is revived. Administration goes on."""

from __future__ import annotations

from collections.abc import Sequence

from broker.broker import Broker
from broker.errors import ResourceExhausted
from front.grpc.server import Server
from front.sockets.client_server import ClientServer


class ClientDoors:
    """What clients come in by. Fulfils node/membership/cluster.py's Maintenance."""

    def __init__(self, broker: Broker, servers: Sequence[ClientServer], grpc: Sequence[Server]) -> None:
        self._broker = broker
        self._servers = servers
        self._grpc = grpc

    async def drain(self) -> None:
        if self._broker.closed_because:
            return
        for one in self._servers:
            one.suspend()
        for server in self._grpc:
            await server.show_serving(False)
        self._broker.send_clients_away(f"node '{self._broker.node}' is drained for maintenance: connect to another one")
        self._broker.turns.request()

    async def revive(self) -> None:
        if not self._broker.closed_because:
            return
        try:
            for one in self._servers:
                await one.resume()
        except OSError as error:
            raise ResourceExhausted(f"clients cannot be let in again: {error}") from error
        self._broker.let_clients_in()
        for server in self._grpc:
            await server.show_serving(True)
