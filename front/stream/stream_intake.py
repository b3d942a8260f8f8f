"""From the bytes of a socket to frames, and from Publish frames to runs: as much as fits a turn of the event loop.

Frames that hold nothing but messages and sub-batches are cut into runs where they lie (native/stream_publish.py). Others are
taken one by one; a Publish frame among them is worked off run by run, for one of 1 MiB can hold 80,000. After STEPS_PER_TURN
frames and runs the input rests until the next round of the loop, so that other clients come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Protocol

from front.sockets.peer import Outside
from front.stream.phases import DROPS_INPUT, STRANGERS, ConnectionPhase
from front.stream.publishers import StreamPublishers
from front.stream.stream_flow import StreamFlow
from front.stream.stream_terms import StreamLimits
from native.content import Buffer
from native.stream_publish import published
from wire.stream.command_fields import BadStreamFrame
from wire.stream.command_frames import SIZE_BYTES, frame_end
from wire.stream.command_keys import ResponseCode
from wire.stream.publish_frame import StreamRun

# Of frames and runs. One costs 5 to 30 µs, with what it causes in the broker: below 10 ms a turn, and up to twice as many where
# a walk over plain messages has found many short runs.
STEPS_PER_TURN = 256


class StreamIntakeConnection(Protocol):
    """The connection that the frames are for."""

    state: ConnectionPhase
    limits: StreamLimits
    pressure: StreamFlow
    outside: Outside
    publishers: StreamPublishers | None
    frame_max: int
    now: int

    def take_frame(self, frame: bytes) -> None: ...

    def send_bytes(self, data: Buffer) -> None: ...

    def fail_frame(self, error: BadStreamFrame) -> None:
        """It cannot be understood; the next one could be."""

    def fail_framing(self, error: BadStreamFrame) -> None:
        """Where the next frame begins is unknown."""


class StreamIntake:
    """See the module. One for each connection, which it is given with each call: a cycle would outlive the connection until the
    garbage collector comes."""

    __slots__ = ("_framing_lost", "_in_frame", "_in_frame_bytes", "_kept", "_steps_left")

    def __init__(self) -> None:
        self._kept: bytearray | None = None  # what cannot be handled yet
        self._in_frame: Iterator[bytes] | None = None  # of a Publish frame, what is left; it says what is to be sent
        self._in_frame_bytes = 0
        self._steps_left = STEPS_PER_TURN
        self._framing_lost = False

    # ------------------------------------------------------------------------- what is called

    def receive(self, connection: StreamIntakeConnection, data: Buffer) -> None:
        """What arrived. `data` may be overwritten afterwards."""
        if self._is_over(connection):
            return
        self._steps_left = STEPS_PER_TURN
        kept, self._kept = self._kept, None
        if kept is not None:
            kept += data
            data = kept
        self._split(connection, data)

    def go_on(self, connection: StreamIntakeConnection) -> bool:
        """With what was kept, where the reason is gone. True if there was anything to do."""
        if not (connection.pressure.input_waits and self._handles_frames(connection)):
            return False
        kept, self._kept = self._kept, None
        self._split(connection, b"" if kept is None else kept)
        return True

    def work_off(self, publishing: Iterator[bytes], frame_bytes: int) -> None:
        """Before the next frame is taken."""
        assert self._in_frame is None, "a frame is taken while another one is worked off"
        self._in_frame, self._in_frame_bytes = publishing, frame_bytes

    def forget_publishing(self) -> None:
        """There are no publishers any more; other frames are taken still."""
        self._in_frame, self._in_frame_bytes = None, 0

    def forget(self, connection: StreamIntakeConnection) -> None:
        self.forget_publishing()
        self._kept = None
        pressure = connection.pressure
        pressure.kept_bytes, pressure.input_waits = 0, False

    def _lose_framing(self, connection: StreamIntakeConnection, error: BadStreamFrame) -> None:
        self._framing_lost = True
        connection.fail_framing(error)

    # ------------------------------------------------------------------------- steps

    def _is_over(self, connection: StreamIntakeConnection) -> bool:
        return self._framing_lost or connection.state in DROPS_INPUT

    def _handles_frames(self, connection: StreamIntakeConnection) -> bool:
        return not (connection.pressure.input_stopped or self._is_over(connection))

    def _split(self, connection: StreamIntakeConnection, data: Buffer) -> None:
        """Handle the whole frames of `data`, and keep the rest."""
        position = 0
        with memoryview(data) as view:
            while self._handles_frames(connection):
                if self._in_frame is not None:
                    self._publish_on(connection, self._in_frame)
                else:
                    position = self._publish_runs(connection, view, position)
                    frame = self._frame_at(connection, view, position)
                    if frame is None:
                        break
                    position += SIZE_BYTES + len(frame)
                    self._steps_left -= 1
                    connection.take_frame(frame)
                if self._steps_left <= 0:
                    self._rest(connection)
        self._keep(connection, data, position)

    def _publish_runs(self, connection: StreamIntakeConnection, view: memoryview, position: int) -> int:
        publishers = connection.publishers
        if publishers is None:
            return position
        runs, position = published(view, position, connection.frame_max)
        for number, item_count, message_count, ids, items, unpacked in runs:
            run = StreamRun(item_count, message_count, ids, items, unpacked_bytes=unpacked)
            connection.send_bytes(publishers.publish_run(number, run, connection.now))
        self._steps_left -= len(runs)
        return position

    def _frame_at(self, connection: StreamIntakeConnection, view: memoryview, position: int) -> bytes | None:
        """None while it is incomplete, or too long."""
        try:
            end = frame_end(view, position, connection.frame_max)
        except BadStreamFrame as error:
            self._lose_framing(connection, error)
            return None
        return None if end is None else bytes(view[position + SIZE_BYTES : end])

    def _publish_on(self, connection: StreamIntakeConnection, publishing: Iterator[bytes]) -> None:
        try:
            for answer in publishing:
                connection.send_bytes(answer)
                self._steps_left -= 1
                if self._steps_left <= 0 or not self._handles_frames(connection):
                    return
        except BadStreamFrame as error:
            connection.fail_frame(error)
        self.forget_publishing()

    def _rest(self, connection: StreamIntakeConnection) -> None:
        connection.pressure.resting = True
        connection.outside.soon(partial(self._rested, connection))

    def _rested(self, connection: StreamIntakeConnection) -> None:
        self._steps_left = STEPS_PER_TURN
        connection.pressure.resting = False
        if connection.pressure.can_proceed:
            connection.outside.wake()

    def _keep(self, connection: StreamIntakeConnection, data: Buffer, position: int) -> None:
        if self._is_over(connection):
            self.forget(connection)
            return
        rest = len(data) - position
        pressure = connection.pressure
        pressure.kept_bytes = rest + self._in_frame_bytes
        pressure.input_waits = bool(pressure.kept_bytes) and not self._handles_frames(connection)
        if not rest:
            return
        if connection.state in STRANGERS and rest > connection.limits.initial_frame_max + SIZE_BYTES:
            self._lose_framing(connection, BadStreamFrame("frame too large", ResponseCode.FRAME_TOO_LARGE))
        elif isinstance(data, bytearray):
            del data[:position]
            self._kept = data
        else:
            self._kept = bytearray(memoryview(data)[position:])
