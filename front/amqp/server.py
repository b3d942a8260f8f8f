"""AMQP 0-9-1 over sockets: what the server of all protocols, front/sockets/client_server.py, has to know of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from front.amqp.connection import Connection
from front.amqp.states import ConnectionState
from front.amqp.terms import Identity, Limits
from front.sockets.client_protocol import ClientProtocol
from front.sockets.client_server import ClientServer, ServerLimits
from front.sockets.input_share import InputShare

if TYPE_CHECKING:
    from broker.broker import Broker


def amqp_server(
    broker: Broker,
    identity: Identity,
    *,
    wall_ms: Callable[[], int],
    monotonic: Callable[[], float],
    logger: logging.Logger,
    limits: Limits | None = None,
    server_limits: ServerLimits | None = None,
    tls_username_from: str = "common-name",
    input_share: InputShare | None = None,
) -> ClientServer:
    """Listens once it is told where."""
    terms = limits or Limits()
    protocol = ClientProtocol(
        name="AMQP",
        peer_protocol="AMQP 0-9-1",
        id_prefix="amqp",
        running=ConnectionState.RUNNING,
        closed=ConnectionState.CLOSED,
        open=lambda outside, peer, now: Connection(broker, outside, peer, terms, identity, now),
        handshake_timeout_s=terms.handshake_timeout_s,
        close_timeout_s=terms.close_timeout_s,
        write_buffer_high_bytes=terms.write_buffer_high_bytes,
    )
    return ClientServer(
        protocol,
        broker.turns,
        wall_ms=wall_ms,
        monotonic=monotonic,
        logger=logger,
        limits=server_limits,
        tls_username_from=tls_username_from,
        input_share=input_share,
    )
