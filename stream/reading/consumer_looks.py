"""When the consumers of a stream that had no room are looked at, though nobody has told that one of them has some.

Each time that the stream is pumped, while they are few. Hundreds would cost its publishers more than the deliveries: they are
looked at once in LOOK_MS at most. What a consumer has settled is told (`StreamReaders.ready`) and waits for none of this.
"""

from __future__ import annotations

from broker.queues.queue_type import Queue, QueueHost
from stream.reading.readers import StreamReaders

FEW_CONSUMERS = 16
LOOK_MS = 10


class ConsumerLooks:
    """See the module. Of one stream."""

    def __init__(self, queue: Queue, readers: StreamReaders, host: QueueHost) -> None:
        self._queue = queue
        self._readers = readers
        self._host = host
        self._rests = False  # they were looked at, less than LOOK_MS ago
        self._is_asked = False  # to look again then

    def look(self) -> None:
        """The stream is pumped: one of them may have room."""
        if not self._readers.without_room:
            return
        if self._rests:
            self._is_asked = True
            return
        if self._readers.without_room > FEW_CONSUMERS:
            self._rests = True
            self._host.call_after(LOOK_MS, self._rested)
        self._readers.consumers_may_have_room()

    def _rested(self, _: int) -> None:
        self._rests = False
        if self._is_asked:
            self._is_asked = False
            self._host.wake(self._queue)
