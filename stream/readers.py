"""All who read one stream on this node, each from its own place on: consumers, and clients of the stream protocol.

They are read for in turn, and in each turn of the event loop so many bytes for one of them and for all: a replay holds up
nobody who reads the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from broker.consumer import Consumer
from broker.stream_contract import ChunkReader
from stream.reader_figures import ReaderFigures
from stream.reading import StreamPlace, StreamReading

PUMP_BYTES_MAX = 4 << 20  # read for all readers of a stream on this node in one turn

ReadingClient = Consumer | ChunkReader


class PlacedReader(Protocol):
    """What is read for one client."""

    place: StreamPlace
    figures: ReaderFigures

    @property
    def tag(self) -> str:
        """As people are shown it."""

    @property
    def held(self) -> int:
        """Messages that it was given and has not settled."""

    def read(self, reading: StreamReading) -> bool:
        """As much as its client can be given now. Whether there may be more for it, in another turn. Raises Damaged."""

    def deleted(self) -> None:
        """Its client is told that nothing comes any more, unless somebody else does that."""


class StreamReaders:
    """See the module."""

    def __init__(self, on_skipped: Callable[[int], None]) -> None:
        """`on_skipped` is told how many messages retention removed before a reader came to them."""
        self._readers: dict[ReadingClient, PlacedReader] = {}  # whose turn is next stands first
        self._on_skipped = on_skipped
        self._delivered_before = self._bytes_sent_before = 0  # to readers that have left

    def __len__(self) -> int:
        return len(self._readers)

    def add(self, client: ReadingClient, reader: PlacedReader) -> None:
        assert client not in self._readers, f"{client!r} reads already"
        self._readers[client] = reader

    def leave(self, client: ReadingClient) -> None:
        reader = self._readers.pop(client, None)
        if reader is not None:
            self._delivered_before += reader.figures.delivered
            self._bytes_sent_before += reader.figures.bytes_sent

    def leave_all(self) -> None:
        """The stream is deleted."""
        for client, reader in list(self._readers.items()):
            self.leave(client)
            reader.deleted()

    def read(self, reading_at: Callable[[StreamPlace], StreamReading]) -> bool:
        """What they can be given now. Whether there may be more for them, in another turn. Raises Damaged. `reading_at`: by
        which way a reader with this place reads."""
        more = False
        read = 0
        for client in list(self._readers):
            if read >= PUMP_BYTES_MAX:
                return True
            reader = self._readers.pop(client, None)
            if reader is not None:
                self._readers[client] = reader  # behind the others, which are first in the next turn
                before = reader.figures.bytes_read
                more = self._read_for(reader, reading_at(reader.place)) or more
                read += reader.figures.bytes_read - before
        return more

    def _read_for(self, reader: PlacedReader, reading: StreamReading) -> bool:
        before = reader.figures.skipped
        try:
            return reader.read(reading)
        finally:
            if reader.figures.skipped > before:
                self._on_skipped(reader.figures.skipped - before)

    # What is shown.

    @property
    def delivered(self) -> int:
        """Messages, also to those that have left."""
        return self._delivered_before + sum([reader.figures.delivered for reader in self._readers.values()])

    @property
    def bytes_sent(self) -> int:
        return self._bytes_sent_before + sum([reader.figures.bytes_sent for reader in self._readers.values()])

    @property
    def held(self) -> int:
        """Messages that they have not settled."""
        return sum([reader.held for reader in self._readers.values()])

    def lag(self, end: int) -> int:
        """Messages before this offset that the one which is furthest behind has not been given."""
        return max([max(0, end - reader.place.offset) for reader in self._readers.values()], default=0)

    def details(self, end: int) -> list[dict[str, Any]]:
        """How far each is behind this offset."""
        return [
            {
                "consumer_tag": reader.tag,
                "offset": reader.place.offset,
                "offset_lag": max(0, end - reader.place.offset),
                "bytes_sent": reader.figures.bytes_sent,
            }
            for reader in self._readers.values()
        ]
