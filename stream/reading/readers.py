"""All who read one stream on this node, each from its own place on: consumers, and clients of the stream protocol.

They are read for in turn, so many bytes at a time for one of them, and for all within the node's share of a round of the event
loop (reading_share.py): a replay holds up nobody who reads the end.

Each is looked at when there is something new and it had all there was, or when it can be given something again: hundreds cost
nothing while one gives credit. Where a consumer has room for another reason than what it settled (its client reads again, its
channel allows more), its stream is not told which one it is: then all that had none are looked at (`consumers_may_have_room`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple, Protocol

from broker.queues.consumer import Consumer
from broker.queues.stream_contract import ChunkReader, ReaderProgress
from stream.group.chunk_reading import StreamPlace, StreamReading
from stream.reading.reader_figures import TURN_BYTES_MAX, ReaderFigures
from stream.reading.reading_share import ReadingShare

ReadingClient = Consumer | ChunkReader


class StreamEnd(NamedTuple):
    """The end of what is committed, as far as this node knows."""

    offset: int  # behind the last message
    time_ms: int  # of the last chunk; 0 where it is not known


class WaitsFor(Enum):
    """What a reader needs next, once it was read for."""

    TURN = "another turn: there may be more for it"
    NEWS = "something new: it has all there is"
    ROOM = "its client, which can be given nothing now"


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

    def read(self, reading: StreamReading, bytes_max: int) -> WaitsFor:
        """As much as its client can be given now: chunks until they have so many bytes. Raises Damaged."""

    def deleted(self) -> None:
        """Its client is told that nothing comes any more, unless somebody else does that."""


class StreamReaders:
    """See the module."""

    def __init__(self, on_skipped: Callable[[int], None], on_left: Callable[[ReadingClient, int], None]) -> None:
        """`on_skipped` is told how many messages retention removed before a reader came to them, `on_left` which client has
        left, and the offset that it would have been given next."""
        self._readers: dict[ReadingClient, PlacedReader] = {}
        self._at_end: dict[ReadingClient, None] = {}  # those of them that wait for something new
        self._without_room: dict[ReadingClient, None] = {}  # consumers
        self._due: dict[ReadingClient, None] = {}  # those to be looked at; whose turn is next stands first
        self._old: set[ReadingClient] = set()  # those of them that wait for a share of what is old
        self._on_skipped = on_skipped
        self._on_left = on_left
        self._delivered_before = self._bytes_sent_before = 0  # to readers that have left

    def __len__(self) -> int:
        return len(self._readers)

    def add(self, client: ReadingClient, reader: PlacedReader) -> None:
        assert client not in self._readers, f"{client!r} reads already"
        self._readers[client] = reader
        self._due[client] = None

    def leave(self, client: ReadingClient) -> None:
        reader = self._readers.pop(client, None)
        self._due.pop(client, None)
        self._forget_what_it_waits_for(client)
        if reader is not None:
            self._delivered_before += reader.figures.delivered
            self._bytes_sent_before += reader.figures.bytes_sent
            self._on_left(client, reader.place.offset)

    def leave_all(self) -> None:
        """The stream is deleted."""
        for client, reader in list(self._readers.items()):
            self.leave(client)
            reader.deleted()

    def _forget_what_it_waits_for(self, client: ReadingClient) -> None:
        self._at_end.pop(client, None)
        self._without_room.pop(client, None)
        self._old.discard(client)

    def news(self) -> None:
        """There may be something new for any of them."""
        self._due.update(self._at_end)
        self._at_end.clear()

    @property
    def without_room(self) -> int:
        """Consumers that could be given nothing when they were looked at."""
        return len(self._without_room)

    def consumers_may_have_room(self) -> None:
        self._due.update(self._without_room)
        self._without_room.clear()

    def ready(self, client: ReadingClient) -> None:
        """It can be given something. Unknown ones are ignored."""
        if client in self._readers:
            self._due.setdefault(client)

    def read(self, reading_at: Callable[[StreamPlace], StreamReading], share: ReadingShare) -> bool:
        """What they can be given now. Whether there may be more for them, in another round. Raises Damaged. `reading_at`: by
        which way a reader with this place reads."""
        for client in self._to_be_served(share):
            if share.is_used_up:
                break
            if client in self._due and (client not in self._old or share.left(old=True)):
                self._read_next(client, reading_at, share)  # unless those before it had it leave
        return bool(self._due)

    def _to_be_served(self, share: ReadingShare) -> list[ReadingClient]:
        """Hundreds may wait for what is old, and each client that gives credit has them looked through."""
        if share.is_used_up:
            return []
        return list(self._due) if share.left(old=True) else [one for one in self._due if one not in self._old]

    def _read_next(
        self, client: ReadingClient, reading_at: Callable[[StreamPlace], StreamReading], share: ReadingShare
    ) -> None:
        reader = self._readers[client]
        reading, before, waits_for = reading_at(reader.place), reader.figures.bytes_read, WaitsFor.TURN
        old = not reading.in_memory(reader.place.entry_index)
        if not share.left(old=old):
            self._old.add(client)  # it stays where it is among those to be looked at
            return
        del self._due[client]
        self._forget_what_it_waits_for(client)
        try:
            waits_for = self._read_for(reader, reading, min(TURN_BYTES_MAX, share.left(old=old)))
        finally:
            share.served(reader.figures.bytes_read - before, old=old)
            if client in self._readers:
                self._waits(client, waits_for)

    def _waits(self, client: ReadingClient, waits_for: WaitsFor) -> None:
        match waits_for:
            case WaitsFor.TURN:
                self._due[client] = None  # behind the others
            case WaitsFor.NEWS:
                self._at_end[client] = None
            case WaitsFor.ROOM if isinstance(client, Consumer):
                self._without_room[client] = None

    def _read_for(self, reader: PlacedReader, reading: StreamReading, bytes_max: int) -> WaitsFor:
        before = reader.figures.skipped
        try:
            return reader.read(reading, bytes_max)
        finally:
            if reader.figures.skipped > before:
                self._on_skipped(reader.figures.skipped - before)

    def moved(self) -> Iterator[tuple[ReadingClient, int]]:
        """Those that are to be given another offset next than when this was asked last, or came since."""
        for client, reader in self._readers.items():
            offset = reader.place.offset
            if reader.figures.told_offset != offset:
                reader.figures.told_offset = offset
                yield client, offset

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

    def details(self, end: StreamEnd) -> list[dict[str, Any]]:
        """How far each is behind."""
        return [
            {
                "consumer_tag": reader.tag,
                **self._progress(reader, end)._asdict(),
                "bytes_sent": reader.figures.bytes_sent,
            }
            for reader in self._readers.values()
        ]

    def progress(self, client: ReadingClient, end: StreamEnd) -> ReaderProgress | None:
        """None: it does not read, yet."""
        reader = self._readers.get(client)
        return None if reader is None else self._progress(reader, end)

    @staticmethod
    def _progress(reader: PlacedReader, end: StreamEnd) -> ReaderProgress:
        offset, came_to_ms = reader.place.offset, reader.figures.came_to_ms
        lag = max(0, end.offset - offset)
        return ReaderProgress(
            offset, lag, max(0, end.time_ms - came_to_ms) / 1000 if lag and came_to_ms is not None else 0.0
        )
