"""Messages that do not arrive as one run: returns, and deliveries that other frames interrupt.

A method with a content, then a header frame, then body frames until the announced size; on each channel by itself.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

_CONTENT_HEAD = struct.Struct(">HHQ")
_CLASS_BASIC = 60


class ContentError(ValueError):
    """Raised when a frame does not belong where it comes."""


@dataclass(slots=True)
class ArrivingContent:
    """One message, of which the method has come."""

    method: bytes
    bytes_max: int
    props: bytes | None = None
    missing: int = 0
    body: bytearray = field(default_factory=bytearray)  # not a list of frames, which may be empty and without end

    def take_header(self, payload: bytes) -> bool:
        """True: nothing more is to come. Raises ContentError."""
        if self.props is not None or len(payload) < _CONTENT_HEAD.size:
            raise ContentError("a content header that was not expected, or is too short")
        class_id, _, size = _CONTENT_HEAD.unpack_from(payload)
        if class_id != _CLASS_BASIC or size > self.bytes_max:
            raise ContentError(f"a content of class {class_id} with {size} bytes, at most {self.bytes_max} are taken")
        self.props, self.missing = payload[_CONTENT_HEAD.size :], size
        return bool(size == 0)

    def take_body(self, payload: bytes) -> bool:
        """True: nothing more is to come. Raises ContentError."""
        if self.props is None or len(payload) > self.missing:
            raise ContentError("a body frame that was not expected, or is larger than announced")
        self.body += payload
        self.missing -= len(payload)
        return self.missing == 0
