"""What one reader of a stream has been given."""

from __future__ import annotations

from dataclasses import dataclass

TURN_BYTES_MAX = 1 << 20  # read for one reader before others have their turn


@dataclass(slots=True)
class ReaderFigures:
    """See the module."""

    delivered: int = 0  # messages
    bytes_sent: int = 0
    bytes_read: int = 0  # also of chunks that its filter does not want
    skipped: int = 0  # messages that retention removed before it came to them
    told_offset: int | None = None  # where the log says that it is; None: the log does not
    came_to_ms: int | None = None  # the time of the chunk that it came to last

    def comes_to(self, offset: int, first_offset: int, time_ms: int) -> None:
        """It wants what comes from this offset on; the next chunk that there is begins here, and is of this time."""
        self.skipped += max(0, first_offset - offset)
        self.came_to_ms = time_ms
