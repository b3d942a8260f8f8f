"""One message put together from its frames, for what the splitter does not take whole: big bodies, interrupted ones.

    basic.publish    then one header frame    then body frames until the announced size

What is wrong is said at the first frame that shows it, except of a message above the limit: it is known by its header, none
of its body is kept, and it is refused when all of it has arrived. Until then its client is busy sending and does not listen.
"""

from __future__ import annotations

import struct

from broker.errors import PreconditionFailed
from broker.reply_codes import FRAME_ERROR, UNEXPECTED_FRAME
from front.amqp.replies import ProtocolError
from native.frame_split import FrameError, Look, look_at
from wire.amqp import frame

CLASS_BASIC = 60
# Above it a header is no honest mistake (message_bytes_max is, and closes the channel only).
BODY_BYTES_HARD_MAX = 536_870_912

_HEADER = struct.Struct(">HHQ")
_LENGTHS = struct.Struct("<II")


class Assembly:
    """A publish whose content is arriving. `missing` is None until the header has come."""

    __slots__ = ("_chunks", "_look", "_props", "body_bytes", "message_bytes_max", "method_payload", "missing")

    def __init__(self, method_payload: bytes, message_bytes_max: int) -> None:
        self.method_payload = method_payload
        self.message_bytes_max = message_bytes_max
        self.missing: int | None = None
        self.body_bytes = 0
        self._props = b""
        self._look = Look(False, 0, None, None, 0)
        self._chunks: list[bytes] = []

    def take(self, kind: int, payload: bytes) -> bool:
        """Add the next frame; True when the message is whole."""
        if self.missing is None:
            self._take_header(kind, payload)
        else:
            self._take_body(kind, payload)
        return self.missing == 0

    def _take_header(self, kind: int, payload: bytes) -> None:
        if kind != frame.HEADER:
            raise expected_header("non content header frame")
        if len(payload) < _HEADER.size + 2:
            raise ProtocolError(FRAME_ERROR, f"content header of {len(payload)} bytes")
        class_id, weight, size = _HEADER.unpack_from(payload)
        if class_id != CLASS_BASIC:
            raise expected_header(f"one for class {class_id}")
        if weight:
            raise ProtocolError(FRAME_ERROR, f"content header with weight {weight}, which is always 0")
        if size > BODY_BYTES_HARD_MAX:
            raise ProtocolError(
                FRAME_ERROR, f"content body size {size} exceeds maximum allowed size {BODY_BYTES_HARD_MAX}"
            )
        self._props = payload[_HEADER.size :]
        try:
            self._look = look_at(self._props)
        except FrameError as error:
            raise ProtocolError(error.code, error.text) from error
        self.body_bytes = self.missing = size

    def _take_body(self, kind: int, payload: bytes) -> None:
        assert self.missing is not None, "a body before its header"
        if kind != frame.BODY:
            raise ProtocolError(
                UNEXPECTED_FRAME,
                f"expected content body, got {'method' if kind == frame.METHOD else 'content header'} frame instead",
            )
        if len(payload) > self.missing:
            raise ProtocolError(FRAME_ERROR, "content body frame exceeds remaining content size")
        self.missing -= len(payload)
        if payload and not self._is_too_big:  # an endless row of empty body frames must not grow anything
            self._chunks.append(payload)

    @property
    def _is_too_big(self) -> bool:
        return self.body_bytes > self.message_bytes_max

    @property
    def kept_bytes(self) -> int:
        """What has arrived of the body and is in memory."""
        return 0 if self._is_too_big else self.body_bytes - (self.missing or 0)

    @property
    def look(self) -> Look:
        return self._look

    def content(self) -> bytes:
        """The whole message. Raises PreconditionFailed when it is above the limit."""
        if self._is_too_big:
            raise PreconditionFailed(
                f"message size {self.body_bytes} is larger than configured max size {self.message_bytes_max}"
            )
        assert self.missing == 0, f"{self.missing} bytes of {self.body_bytes} are missing"
        return b"".join([_LENGTHS.pack(len(self._props), self.body_bytes), self._props, *self._chunks])


def expected_header(instead: str) -> ProtocolError:
    return ProtocolError(UNEXPECTED_FRAME, f"expected content header for class {CLASS_BASIC}, got {instead} instead")
