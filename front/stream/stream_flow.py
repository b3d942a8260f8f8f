"""Back-pressure on one connection of the stream protocol: what stops, why, and what starts it again.

    what stops            while                                                         started again by
    --------------------  ------------------------------------------------------------  ------------------------------
    READING the socket    a disk alarm is raised, and the client publishes (`alarm`)    the alarm clears
                          too much is published and not confirmed                       three quarters of it remain
                          it publishes faster than a limit allows (`hold`)              the time for it has come
                          more than KEPT_BYTES_MAX of input wait, INPUT being stopped   they are worked off
                          more than UNSENT_BYTES_MAX of output are unsent               the client reads: `sent`

    INPUT                 the answer to a request is pending (`answering`)              the answer
                          so much was handled in this turn (`resting`)                  the next round of the event loop
                          more than UNSENT_BYTES_MAX of output are unsent               the client reads: `sent`

    DELIVERIES            the write buffer is full (`writable` was False)               the client reads: `sent`,
                                                                                        `set_transport_writable`

This class decides, others act: `StreamConnection.proceed` starts input and deliveries again, whoever drives it asks `reads`.
How many bytes a confirm frees is not known, only how many messages: outstanding bytes shrink in proportion.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from broker.pending import Pending, ignore
from front.stream.stream_terms import StreamLimits

# Of a frame that is incomplete more may be kept, up to what was agreed on: it is not handled before the rest is read.
KEPT_BYTES_MAX = 1_048_576
# Deliveries stop at the write buffer's high mark, far below: what exceeds this are answers to a client that reads none.
UNSENT_BYTES_MAX = 16_777_216


class StreamFlow:
    """See the module. One for each connection."""

    __slots__ = (
        "_deliveries_stopped", "_held", "_limits", "_publishing_stopped", "_wake", "alarm", "answering", "input_waits",
        "kept_bytes", "outstanding_bytes", "outstanding_messages", "publishes", "resting", "transport_writable",
        "unsent_bytes",
    )  # fmt: skip

    def __init__(self, limits: StreamLimits, wake: Callable[[], None]) -> None:
        self._limits = limits
        self._wake = wake
        self.alarm: str | None = None
        self.publishes = False  # it has a publisher
        self.kept_bytes = 0  # input that cannot be handled yet
        self.input_waits = False  # it could be, were the connection not stopped
        self.answering = False
        self.resting = False
        self.unsent_bytes = 0  # output that the transport has not been given
        self.transport_writable = True
        self.outstanding_messages = 0  # published and neither confirmed nor refused
        self.outstanding_bytes = 0
        self._publishing_stopped = False
        self._held = 0  # publishes whose successors are to wait
        self._deliveries_stopped = False

    @property
    def reads(self) -> bool:
        """False while nothing should be read from the socket."""
        return (
            not (self.alarm is not None and self.publishes)
            and not self._publishing_stopped
            and not self._held
            and not (self.input_waits and self.kept_bytes > KEPT_BYTES_MAX)
            and not self.congested
        )

    @property
    def input_stopped(self) -> bool:
        return self.answering or self.resting or self.congested

    @property
    def can_proceed(self) -> bool:
        """Something was stopped and the reason is gone: `StreamConnection.proceed` starts it again."""
        return (self._deliveries_stopped and self._has_room) or (self.input_waits and not self.input_stopped)

    # ------------------------------------------------------------------------- publishing

    def published(self, messages: int, size: int) -> None:
        self.outstanding_messages += messages
        self.outstanding_bytes += size
        if self._exceeds(1.0):
            self._publishing_stopped = True

    def answered(self, messages: int) -> None:
        """So many were confirmed or refused."""
        before = self.outstanding_messages
        assert messages <= before, f"{messages} messages confirmed, {before} are outstanding"
        self.outstanding_messages = before - messages
        self.outstanding_bytes = self.outstanding_bytes * self.outstanding_messages // before if before else 0
        if self._publishing_stopped and not self._exceeds(0.75):
            self._publishing_stopped = False
            self._wake()

    def hold(self, until: Pending[None]) -> None:
        """Read nothing before this is answered."""
        self._held += 1
        until.then(self._let_go, ignore)

    def _let_go(self, _: None) -> None:
        self._held -= 1
        if not self._held:
            self._wake()

    def _exceeds(self, share: float) -> bool:
        limits = self._limits
        return self.outstanding_messages >= share * (
            limits.outstanding_messages_max or inf
        ) or self.outstanding_bytes >= share * (limits.outstanding_bytes_max or inf)

    # ------------------------------------------------------------------------- output

    @property
    def congested(self) -> bool:
        """So much output is unsent that no further request is handled."""
        return self.unsent_bytes > UNSENT_BYTES_MAX

    def sent(self) -> int:
        """The transport was given all output. Returns how many bytes that were."""
        size, self.unsent_bytes = self.unsent_bytes, 0
        return size

    @property
    def writable(self) -> bool:
        """May a chunk be added? After a False, `restart_deliveries` tells when there is room."""
        if self._has_room:
            return True
        self._deliveries_stopped = True
        return False

    @property
    def _has_room(self) -> bool:
        return self.transport_writable and self.unsent_bytes < self._limits.write_buffer_high_bytes

    def set_transport_writable(self, writable: bool) -> None:
        self.transport_writable = writable
        if writable and (self._deliveries_stopped or self.unsent_bytes):
            self._wake()

    def restart_deliveries(self) -> bool:
        """True once, when deliveries were stopped and there is room again."""
        if not (self._deliveries_stopped and self._has_room):
            return False
        self._deliveries_stopped = False
        return True
