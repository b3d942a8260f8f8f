"""The admission of a front's connections, over all its listeners: who comes in, who gives way, and what is logged of it.

    accepted      a stranger, which has a place among `strangers`; or refused, and closed at once
    logged in     counted against `connections` alone
    left          counted no more

Who gives way to whom is decided by broker/login/admission.py; this closes what gives way, whether or not it has its transport
yet, and when descriptors run out. AMQP, HTTP, gRPC and the listener for other nodes have one each.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from broker.login.admission import Admission, Decision
from broker.login.log_throttle import LogThrottle
from front.sockets.listener import Address, Listener

REFUSALS_LOGGED_S = 10.0  # once in so long for each source


class Guest(asyncio.BaseProtocol):
    """What a gate asks of the protocol object of a connection."""

    __slots__ = ()

    source: str  # as limits count it; empty: not known yet

    def abort(self) -> None:
        """Close it at once. No harm when it has no transport."""
        raise NotImplementedError


G = TypeVar("G", bound=Guest)


@dataclass(slots=True, frozen=True)
class GateLimits:
    """0 is no limit."""

    strangers: int
    strangers_per_source: int
    connections: int = 0  # with those that have logged in


class Gate(Generic[G]):
    """`describe` is asked for the counts and limits that a log line names, given connections and strangers."""

    def __init__(
        self,
        limits: GateLimits,
        *,
        monotonic: Callable[[], float],
        logger: logging.Logger,
        describe: Callable[[int, int], str],
    ) -> None:
        self.limits = limits
        self.refused_total = 0
        self.evicted_total = 0
        self._strangers: Admission[G] = Admission(limits.strangers, limits.strangers_per_source, monotonic)
        self._known: set[G] = set()  # that have logged in
        self._listeners: list[Listener[G]] = []
        self._monotonic = monotonic
        self._logger = logger
        self._describe = describe
        self._throttle = LogThrottle(REFUSALS_LOGGED_S)

    # ------------------------------------------------------------------------- listeners

    def listen(
        self,
        host: str,
        port: int,
        *,
        backlog: int,
        guest: Callable[[Address], G | None],
        tls: ssl.SSLContext | None = None,
        handshake_timeout_s: float = 5.0,
        on_failed: Callable[[str, OSError], None] | None = None,
    ) -> Address:
        """Accept from now on; `guest` makes the protocol of each connection, or refuses it. Raises OSError."""

        def admit(address: Address) -> G | None:
            one = guest(address)
            return one if one is not None and self.admit(one) else None

        listener: Listener[G] = Listener(
            host,
            port,
            backlog=backlog,
            admit=admit,
            logger=self._logger,
            tls=tls,
            handshake_timeout_s=handshake_timeout_s,
            on_lost=self.left,
            on_failed=on_failed,
            on_exhausted=self.make_room,
        )
        listener.serve()
        self._listeners.append(listener)
        return listener.address

    def close(self) -> None:
        """Accept nothing more. What was admitted stays, and `listen` may be called again."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    # ------------------------------------------------------------------------- who is in

    @property
    def strangers(self) -> int:
        """Connections without a login."""
        return len(self._strangers)

    @property
    def known(self) -> int:
        """Connections that have logged in."""
        return len(self._known)

    def is_stranger(self, one: G) -> bool:
        """False also for one that gave way, perhaps before its transport was there."""
        return one in self._strangers

    def admit(self, one: G) -> bool:
        """A newcomer; False: there is no place for it."""
        return self._carried_out(one, self._strangers.enter(one, one.source, full=self._full))

    def source_known(self, one: G) -> bool:
        """Its `source` is another one than when it was admitted; False: there is no place for it, and it is counted no more."""
        return self._carried_out(one, self._strangers.rename(one, one.source))

    def logged_in(self, one: G) -> None:
        """It is no stranger any more. No harm when it was none, or gave way."""
        if one in self._strangers:
            self._strangers.leave(one)
            self._known.add(one)

    def left(self, one: G) -> None:
        self._strangers.leave(one)
        self._known.discard(one)

    def make_room(self) -> None:
        """There are no descriptors left."""
        victim = self._strangers.evict()
        if victim is not None:
            self._close(victim)

    # ------------------------------------------------------------------------- steps

    @property
    def _full(self) -> bool:
        return 0 < self.limits.connections <= self.strangers + self.known

    def _carried_out(self, one: G, decision: Decision[G]) -> bool:
        if decision.evicted is not None:
            self._close(decision.evicted)
        elif not decision.admitted:
            self.refused_total += 1
            self._log(one.source, "was refused")
        return decision.admitted

    def _close(self, victim: G) -> None:
        self.evicted_total += 1
        self._log(victim.source, "gave way to a newer one before it had authenticated")
        victim.abort()
        for listener in self._listeners:
            listener.abandon(victim)

    def _log(self, source: str, what: str) -> None:
        suppressed = self._throttle.may_log(source, self._monotonic())
        if suppressed is not None:
            counts = self._describe(self.strangers + self.known, self.strangers)
            text = "a connection from %s %s: %s; %d like this were not logged"
            self._logger.warning(text, source or "a load balancer", what, counts, suppressed)
