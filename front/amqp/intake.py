"""From the bytes of a socket to items: frames, runs of publishes, ranges of acknowledgements.

What arrives is split where it lies, without a copy. Only the rest that cannot be split yet is copied and kept: an incomplete
frame, or everything behind the point at which the input of the connection stopped (backpressure.py).
"""

from __future__ import annotations

from typing import Protocol

from broker.reply_codes import FRAME_ERROR
from front.amqp.backpressure import Backpressure
from front.amqp.replies import ProtocolError
from front.amqp.states import DROPS_INPUT, SPLITS_NO_FRAMES, ConnectionState
from front.amqp.terms import Limits
from native.content import Buffer
from native.frame_split import Item, split

UNAUTHENTICATED_BYTES_MAX = 65_536
# An incomplete publish up to this size is kept until it is whole; bigger ones are put together frame by frame, which costs
# twice as much for bodies of 64 KiB (a read of the socket brings up to 256 KiB).
ASSEMBLE_BYTES_MAX = 262_144
# The rest of an incomplete frame usually ends within this many bytes of the next read.
JOINED_BYTES_MAX = 65_536

# For every read: to look a member up in its Enum takes Python 3.11 a fifth of a microsecond.
_EXPECTING_HEADER, _RUNNING = ConnectionState.EXPECTING_HEADER, ConnectionState.RUNNING


class IntakeConnection(Protocol):
    """The connection that the bytes are for. What it makes of some changes how the next ones are split."""

    state: ConnectionState
    limits: Limits
    pressure: Backpressure
    frame_max: int
    framing_lost: bool

    @property
    def awaits_login(self) -> bool: ...

    def take_protocol_header(self, data: Buffer) -> int: ...

    def take_items(self, items: list[Item]) -> None: ...

    def lose_framing(self, error: ProtocolError) -> None: ...


class Intake:
    """See the module. One for each connection, which is told to each call: it has this, and would not end if this had it."""

    __slots__ = ("_unsplit",)

    def __init__(self) -> None:
        self._unsplit: bytearray | None = None  # what cannot be split yet

    @property
    def kept_bytes(self) -> int:
        return 0 if self._unsplit is None else len(self._unsplit)

    def receive(self, connection: IntakeConnection, data: Buffer) -> None:
        """Split what arrived, behind what was kept. `data` may be overwritten afterwards."""
        unsplit, self._unsplit = self._unsplit, None
        if unsplit is None:
            consumed = self._split(connection, data, 0)
            if consumed < len(data):
                self._keep_rest(connection, data, consumed)
        else:
            self._receive_behind(connection, unsplit, data)

    def _receive_behind(self, connection: IntakeConnection, unsplit: bytearray, data: Buffer) -> None:
        """Of a big read only as much is copied as completes the incomplete frame; the rest is split where it lies."""
        kept = len(unsplit)
        unsplit += data[:JOINED_BYTES_MAX] if len(data) > JOINED_BYTES_MAX else data
        consumed = self._split(connection, unsplit, 0)
        if len(data) <= JOINED_BYTES_MAX:
            self._keep_rest(connection, unsplit, consumed)
        elif consumed >= kept:
            self._keep_rest(connection, data, self._split(connection, data, consumed - kept))
        else:
            unsplit += data[JOINED_BYTES_MAX:]
            self._keep_rest(connection, unsplit, self._split(connection, unsplit, consumed))

    def split_kept(self, connection: IntakeConnection) -> None:
        """The input of the connection goes on: split what arrived while it was stopped."""
        unsplit, self._unsplit = self._unsplit, None
        if unsplit is not None:
            self._keep_rest(connection, unsplit, self._split(connection, unsplit, 0))

    def forget(self) -> None:
        self._unsplit = None

    def limit_unauthenticated(self, connection: IntakeConnection, kept_bytes: int) -> None:
        """What one kind of buffer keeps of a client whose login is being checked."""
        if kept_bytes > UNAUTHENTICATED_BYTES_MAX:
            connection.lose_framing(
                ProtocolError(FRAME_ERROR, f"more than {UNAUTHENTICATED_BYTES_MAX} bytes before the login was answered")
            )

    def _keep_rest(self, connection: IntakeConnection, data: Buffer, consumed: int) -> None:
        if consumed >= len(data):
            return
        if isinstance(data, bytearray):
            del data[:consumed]
            self._unsplit = data
        else:
            self._unsplit = bytearray(memoryview(data)[consumed:])
        if connection.awaits_login:
            self.limit_unauthenticated(connection, len(self._unsplit))

    def _split(self, connection: IntakeConnection, data: Buffer, position: int) -> int:
        """Hand over all that is whole from `position` on; returns the position of the first byte that is not."""
        pressure = connection.pressure
        if connection.state is _EXPECTING_HEADER:
            position = connection.take_protocol_header(data)
        while pressure.postponed is None and not connection.framing_lost and connection.state not in SPLITS_NO_FRAMES:
            frame_max, message_bytes_max = connection.frame_max, connection.limits.message_bytes_max
            assemble_max = ASSEMBLE_BYTES_MAX if connection.state is _RUNNING else 0
            items, position, error = split(data, position, frame_max, message_bytes_max, assemble_max)
            connection.take_items(items)
            if error is None:
                break
            if pressure.postponed is None and frame_max == connection.frame_max:  # else: stopped, or tuned since
                connection.lose_framing(ProtocolError(*error))
        return len(data) if connection.framing_lost or connection.state in DROPS_INPUT else position
