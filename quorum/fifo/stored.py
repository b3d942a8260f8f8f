"""Messages as the machine keeps them: where they are in the log, and what decides about them. Never what they say."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from quorum.fifo.commands import Piece

NEVER = (1 << 64) - 1  # no expiry; later than everything
STORED = Struct("<QIIIIQQBII")  # as snapshots have it


class StoredMessages(NamedTuple):
    """Consecutive messages of one run that have come to the same."""

    entry: int
    offset: int
    first: int  # in the run
    length: int
    run_length: int
    run_bytes: int  # bodies of the whole run
    expires_at: int  # NEVER: not at all
    priority: int
    delivery_count: int  # deliveries that failed
    acquired_count: int  # times handed out and come back, without what was never seen

    @property
    def size(self) -> int:
        """Bytes of the bodies. The single sizes of a run's messages are not known here: only the sum over parts is exact,
        so a queue that counts bytes is given runs of one message."""
        if self.length == self.run_length:
            return self.run_bytes
        end = self.first + self.length
        return self.run_bytes * end // self.run_length - self.run_bytes * self.first // self.run_length

    @property
    def piece(self) -> Piece:
        return Piece(self.entry, self.offset, self.first, self.length)

    def after_delivery(self, *, failed: bool) -> StoredMessages:
        """As it comes back from a client."""
        return self._replace(delivery_count=self.delivery_count + failed, acquired_count=self.acquired_count + 1)

    def part(self, start: int, length: int) -> StoredMessages:
        """`length` of these messages, from the `start`th on."""
        assert start >= 0 and 0 < length <= self.length - start, f"{length} from {start} of {self.length} messages"
        return self._replace(first=self.first + start, length=length)
