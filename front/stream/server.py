"""The stream protocol over sockets: what the server of all protocols, front/sockets/client_server.py, has to know of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from front.sockets.client_protocol import ClientProtocol
from front.sockets.client_server import ClientServer, ServerLimits
from front.sockets.input_share import InputShare
from front.stream.connection import StreamConnection
from front.stream.phases import ConnectionPhase
from front.stream.session_port import StreamHost
from front.stream.stream_terms import PROTOCOL, StreamIdentity, StreamLimits

if TYPE_CHECKING:
    from broker.turns import Turns


def stream_server(
    broker: StreamHost,
    turns: Turns,
    identity: StreamIdentity,
    *,
    wall_ms: Callable[[], int],
    monotonic: Callable[[], float],
    logger: logging.Logger,
    limits: StreamLimits | None = None,
    server_limits: ServerLimits | None = None,
    tls_username_from: str = "common-name",
    input_share: InputShare | None = None,
) -> ClientServer:
    """Listens once it is told where."""
    terms = limits or StreamLimits()
    protocol = ClientProtocol(
        name="the stream protocol",
        peer_protocol=PROTOCOL,
        id_prefix="stream",
        running=ConnectionPhase.RUNNING,
        closed=ConnectionPhase.CLOSED,
        open=lambda outside, peer, now: StreamConnection(broker, outside, peer, terms, identity, now),
        handshake_timeout_s=terms.step_timeout_s,
        close_timeout_s=terms.step_timeout_s,
        write_buffer_high_bytes=terms.write_buffer_high_bytes,
        sends_files=True,
    )
    return ClientServer(
        protocol,
        turns,
        wall_ms=wall_ms,
        monotonic=monotonic,
        logger=logger,
        limits=server_limits,
        tls_username_from=tls_username_from,
        input_share=input_share,
    )
