"""Listeners for the clients of one protocol, with their sockets, TLS and the clock; client_protocol.py says what they speak.

listen, suspend, resume    where clients are let in, and while a node is drained they are kept out
hold_publishers            the log has too much waiting: connections that publish are not read from
stop                       clients are told, and have STOP_TIMEOUT_S to go
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from broker.errors import ConnectionForced
from broker.login.client_address import source_of
from broker.turns import Turns
from front.sockets.busy_poll import BusyPoll
from front.sockets.client_protocol import ClientProtocol
from front.sockets.client_socket import INPUT_BYTES, ClientSocket
from front.sockets.gate import Gate, GateLimits
from front.sockets.input_share import InputShare
from front.sockets.listener import Address
from front.sockets.socket_peer import endpoint_text
from front.sockets.wheel import SLOT_S, TimerWheel

# How long clients may take to close their sockets when the node stops.
STOP_TIMEOUT_S = 3.0


@dataclass(slots=True, frozen=True)
class ServerLimits:
    """Ceilings for all listeners together; 0 is no limit. `connections_key` is what the configuration calls the first."""

    connections: int = 16_000
    unauthenticated_connections: int = 1_000
    unauthenticated_per_source: int = 500
    tls_handshake_timeout_s: float = 5.0
    write_buffer_low_bytes: int = 1_048_576
    backlog: int = 1024
    connections_key: str = "limits.connections"


class ClientServer:
    """All listeners of a node for one protocol, and their connections. Fulfils SocketServer."""

    def __init__(
        self,
        protocol: ClientProtocol,
        turns: Turns,
        *,
        wall_ms: Callable[[], int],
        monotonic: Callable[[], float],
        logger: logging.Logger,
        limits: ServerLimits | None = None,
        tls_username_from: str = "common-name",
        input_share: InputShare | None = None,
    ) -> None:
        """`input_share`: with the servers of other protocols, for the loop is one."""
        self.protocol = protocol
        self.turns = turns
        self.limits = limits or ServerLimits()
        self.write_buffer_low_bytes = self.limits.write_buffer_low_bytes
        self.wall_ms = wall_ms
        self.logger = logger
        self.tls_username_from = tls_username_from
        self.sockets: set[ClientSocket] = set()
        self.gate: Gate[ClientSocket] = Gate(
            GateLimits(
                self.limits.unauthenticated_connections,
                self.limits.unauthenticated_per_source,
                self.limits.connections,
            ),
            monotonic=monotonic,
            logger=logger,
            describe=self._describe,
        )
        self.opened_total = 0
        self.publishers_held = False
        self.input = memoryview(bytearray(INPUT_BYTES))
        self.input_share = input_share or InputShare(next_round)
        self.busy_poll: BusyPoll | None = None  # None: the loop sleeps as soon as nothing is left to be done
        self.wheel: TimerWheel[ClientSocket] = TimerWheel(monotonic())
        self.monotonic = monotonic
        self._ids = itertools.count(1)
        self._listens: list[tuple[str, int, ssl.SSLContext | None, bool]] = []  # how they were begun
        self._sweep: asyncio.TimerHandle | None = None
        self._stopping = False
        self._all_gone = asyncio.Event()

    # ------------------------------------------------------------------------- life

    async def listen(
        self, host: str, port: int, tls: ssl.SSLContext | None = None, *, proxy_protocol: bool = False
    ) -> int:
        """Start listening; returns the port, which the system chooses when 0 is asked for."""
        address = self.gate.listen(
            host,
            port,
            backlog=self.limits.backlog,
            guest=partial(self._guest, proxy_protocol=proxy_protocol),
            tls=tls,
            handshake_timeout_s=self.limits.tls_handshake_timeout_s,
        )
        port = address[1]
        self._listens.append((host, port, tls, proxy_protocol))
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SLOT_S, self._sweep_timers)
        where = endpoint_text(address)
        self.logger.info("listening for %s on %s%s", self.protocol.name, where, " (TLS)" if tls else "")
        return port

    async def stop(self) -> None:
        """Refuse new connections, close the others with a reason, and wait up to STOP_TIMEOUT_S for them to end."""
        self._stopping = True
        self.gate.close()
        reason = ConnectionForced("broker forced connection closure with reason 'shutdown'")
        for one in list(self.sockets):
            one.end(reason)
        self.turns.end()
        if self.sockets:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), STOP_TIMEOUT_S)
        for one in list(self.sockets):
            one.abort()
        if self._sweep is not None:
            self._sweep.cancel()

    def suspend(self) -> None:
        """Listen no more, until `resume`. Connections stay."""
        self.gate.close()

    async def resume(self) -> None:
        """Listen again where it did. Raises OSError when an address was taken meanwhile."""
        listens, self._listens = self._listens, []
        for host, port, tls, proxy_protocol in listens:
            await self.listen(host, port, tls, proxy_protocol=proxy_protocol)

    def hold_publishers(self, held: bool) -> None:
        """Stop or resume reading from connections that publish: the log has too much waiting."""
        self.publishers_held = held
        for one in self.sockets:
            one.update_reading()

    def statistics(self) -> dict[str, int]:
        return {
            "connections": len(self.sockets),
            "unauthenticated": self.gate.strangers,
            "opened_total": self.opened_total,
            "closed_total": self.opened_total - len(self.sockets),
            "refused_total": self.gate.refused_total,
            "evicted_total": self.gate.evicted_total,
        }

    # ------------------------------------------------------------------------- sockets

    def next_id(self) -> str:
        return f"{self.protocol.id_prefix}-{next(self._ids)}"

    def _guest(self, address: Address, *, proxy_protocol: bool) -> ClientSocket | None:
        """Of a connection that was accepted. Behind a load balancer its source is unknown yet."""
        if self._stopping:
            return None
        return ClientSocket(self, proxy_protocol, "" if proxy_protocol else source_of(address[0]))

    def _describe(self, connections: int, strangers: int) -> str:
        limits = self.limits
        return (
            f"{connections} connections are open ({limits.connections_key}: {limits.connections}), {strangers} of them without "
            f"a login (limits.unauthenticated_connections: {limits.unauthenticated_connections}, per source: "
            f"{limits.unauthenticated_per_source})"
        )

    def forget(self, one: ClientSocket) -> None:
        self.sockets.discard(one)
        if self._stopping and not self.sockets:
            self._all_gone.set()

    def _sweep_timers(self) -> None:
        self._sweep = asyncio.get_running_loop().call_later(SLOT_S, self._sweep_timers)
        due = self.wheel.due(self.monotonic())
        if due:
            for one in due:
                one.timer_elapsed()
            self.turns.request()


def next_round(call: Callable[[], None]) -> None:
    """Call it in the next round of the loop."""
    asyncio.get_running_loop().call_soon(call)
