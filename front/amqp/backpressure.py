"""Back-pressure on one AMQP connection: what stops, why, and what starts it again.

    what stops            while                                                           started again by
    --------------------  --------------------------------------------------------------  -------------------------------------
    READING the socket    an alarm is raised and the client publishes (`alarm`)           the alarm clears: `alarm = None`
                          more than WAITING_BYTES_MAX wait in channels (`waiting_bytes`)  the channels work them off
                          the output is congested: more than UNSENT_BYTES_MAX of it are   the client reads: `sent`
                          unsent (`congested`)
                          the log is behind and the client publishes (client_server.py)   ClientServer.hold_publishers(False)
                          the socket used up its share of the turn (client_socket.py)     the next round of the event loop

    INPUT of the          its login is being checked (`wait_for_login`)                   `login_answered`
    connection            the output is congested (`postpone`)                            the client reads: `sent`

    INPUT of one channel  the answer to one of its methods is pending (Channel.answer)    the answer: `resume_channel`
                          the output is congested, and the channel is working off what    the client reads: `sent`
                          waited

    DELIVERIES            the write buffer is full (`writable` was False)                 the client reads: `sent`,
                                                                                          `set_transport_writable`

Input that is stopped is kept: of the connection in `postponed` (items) and in the intake (bytes), of a channel in
`Channel._waiting`. It is bounded, because reading stops: with UNSENT_BYTES_MAX at once, for channels at WAITING_BYTES_MAX, and
before a login the intake keeps no more than UNAUTHENTICATED_BYTES_MAX.

This class decides, others act. `Connection.proceed` starts input and deliveries again, at the end of each turn for which
the connection was woken; `ClientSocket.update_reading` pauses and resumes the socket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from native.frame_split import FRAME, PUBLISH, Item

WAITING_BYTES_MAX = 1_048_576
# Deliveries stop at the write buffer's high mark, far below: what exceeds this are answers to a client that reads none.
UNSENT_BYTES_MAX = 16_777_216


class WaitingChannel(Protocol):
    """A channel whose input may wait."""

    def take_waiting(self, now: int) -> None: ...


class Backpressure:
    """See the module. One for each connection."""

    __slots__ = (
        "_deliveries_stopped", "_login_pending", "_resumable", "_wake", "_write_buffer_high_bytes", "alarm", "postponed",
        "transport_writable", "unsent_bytes", "waiting_bytes",
    )  # fmt: skip

    def __init__(self, write_buffer_high_bytes: int, wake: Callable[[], None]) -> None:
        """`wake` asks for a call of `Connection.proceed` soon."""
        self._write_buffer_high_bytes = write_buffer_high_bytes
        self._wake = wake
        self.alarm: str | None = None  # why a publishing client is not read from
        self.unsent_bytes = 0  # output that the transport has not been given
        self.transport_writable = True  # the transport's own buffer has room
        self.waiting_bytes = 0  # input that waits in channels
        self.postponed: list[Item] | None = None  # input of the stopped connection; None: it is not stopped
        self._login_pending = False
        self._resumable: list[WaitingChannel] = []  # the reason why their input waits is gone
        self._deliveries_stopped = False  # a queue was refused, and delivers again when it is woken

    # ------------------------------------------------------------------------- reading

    @property
    def reads(self) -> bool:
        """False while nothing should be read from the socket, as far as the connection knows."""
        return (
            self.alarm is None
            and self.waiting_bytes <= WAITING_BYTES_MAX
            and self.unsent_bytes <= UNSENT_BYTES_MAX  # `congested`, without a call in every turn
        )

    # ------------------------------------------------------------------------- output

    @property
    def congested(self) -> bool:
        """So much output is unsent that no further method is handled."""
        return self.unsent_bytes > UNSENT_BYTES_MAX

    def sent(self) -> int:
        """The transport was given all output. Returns how many bytes that were."""
        count, self.unsent_bytes = self.unsent_bytes, 0
        return count

    @property
    def writable(self) -> bool:
        """May deliveries be added? After a False, sessions are resumed once there is room."""
        if self.transport_writable and self.unsent_bytes < self._write_buffer_high_bytes:
            return True
        self._deliveries_stopped = True
        return False

    @property
    def _has_room(self) -> bool:
        """As `writable`, but asking changes nothing."""
        return self.transport_writable and self.unsent_bytes < self._write_buffer_high_bytes

    def set_transport_writable(self, writable: bool) -> None:
        self.transport_writable = writable
        if writable and (self._deliveries_stopped or self.unsent_bytes):
            self._wake()

    def restart_deliveries(self) -> bool:
        """True once, when deliveries were stopped and there is room again: resume all sessions."""
        if not (self._deliveries_stopped and self._has_room):
            return False
        self._deliveries_stopped = False
        return True

    # ------------------------------------------------------------------------- input of the connection

    def wait_for_login(self) -> None:
        self.postponed = []
        self._login_pending = True

    def login_answered(self) -> None:
        self._login_pending = False
        self._wake()

    def postpone(self, items: list[Item]) -> None:
        """Stop: these items were split off already."""
        self.postponed = items

    def take_postponed(self) -> list[Item] | None:
        """What was postponed, to be handled now; None if nothing was, or if the reason still holds."""
        if self._login_pending or self.congested:
            return None
        items, self.postponed = self.postponed, None
        return items

    def forget_postponed(self) -> None:
        """The connection is ending, and what its client sent before does not count any more."""
        self.postponed = None
        self._login_pending = False

    # ------------------------------------------------------------------------- input of channels

    def resume_channel(self, channel: WaitingChannel) -> None:
        """It can go on with what waits in it."""
        self._resumable.append(channel)
        self._wake()

    def next_channel(self) -> WaitingChannel | None:
        """A channel to go on with now."""
        return self._resumable.pop() if self._resumable and not self.congested else None

    def forget_channels(self) -> None:
        """They are gone with all that waited in them, which must not keep close-ok from being read."""
        self._resumable.clear()
        self.waiting_bytes = 0

    # ------------------------------------------------------------------------- both

    @property
    def can_proceed(self) -> bool:
        """Something was stopped and the reason is gone: `Connection.proceed` starts it again."""
        if self._deliveries_stopped and self._has_room:
            return True
        input_waits = bool(self._resumable) or (self.postponed is not None and not self._login_pending)
        return input_waits and not self.congested


def item_bytes(item: Item) -> int:
    """What an item keeps in memory, roughly."""
    if item[0] == PUBLISH:
        return len(item[4]) + len(item[2])
    return 64 + (len(item[3]) if item[0] == FRAME else 0)
