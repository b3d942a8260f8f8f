"""What a stream offers beyond the contract of any queue (queue_type.py): its items and chunks as they are stored.

A client of the stream protocol publishes items as chunks hold them, may name itself and number what it publishes, reads whole
chunks for credit, and stores offsets in the stream. As with any queue, calls come from the event loop only and never wait; what
takes time is answered through a `Receipt` or a `Pending`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from broker.actors import LogActor
from broker.messages.browsed import Browsed
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.messages.stored_bytes import Sendable
from broker.pending import Pending
from broker.queues.queue_type import Queue
from wire.stream.publish_frame import StreamRun


class Begin(Enum):
    """An end of the stream."""

    FIRST = "first"
    LAST = "last"
    NEXT = "next"


@dataclass(frozen=True, slots=True)
class AtOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class AtTime:
    time_ms: int


OffsetSpec = Begin | AtOffset | AtTime


class MessageFilter(NamedTuple):
    """Which messages a reader wants; a chunk that surely has none of them is not delivered."""

    values: tuple[str, ...]
    match_unfiltered: bool = False  # messages without a filter value, too


class StreamFigures(NamedTuple):
    """Of the member on this node; -1 for what an empty stream does not have."""

    first_chunk: int  # offset of its first message, as all chunks are named
    last_chunk: int
    last_offset: int


class StreamTracking(NamedTuple):
    """What a stream keeps by names, as the member on this node knows it."""

    publishers: dict[str, int]  # the last id that is stored
    offsets: dict[str, int]  # what readers have stored


class ReaderProgress(NamedTuple):
    """How far a reader has come."""

    offset: int  # of the message that it is given next
    offset_lag: int  # messages that there are for it
    lag_s: float  # so much newer than the chunk that it came to last is that of the stream; 0 before it came to one


class StreamPlaces(NamedTuple):
    """Where a stream is, by the names of nodes."""

    leader: str  # empty while none is known
    members: tuple[str, ...]  # the leader included


class ChunkReader(Protocol):
    """A subscription, as its stream sees it."""

    wanted: MessageFilter | None

    @property
    def actor(self) -> LogActor | None:
        """As the log names it; None: it does not."""

    @property
    def tag(self) -> str:
        """As people are shown it among the readers of the stream."""

    @property
    def credit(self) -> int:
        """How many chunks may be delivered now: none while its client has no room, or another one of its group is active."""

    def deliver(self, last_chunk: int, chunk: Sendable, message_count: int) -> None:
        """One chunk as it is stored; takes one credit. `last_chunk` names the last one of the stream."""

    def unavailable(self) -> None:
        """The stream was deleted, or can not be read on this node any more. It is detached."""


class PlacesWatcher(Protocol):
    """A client that publishes to the stream or reads it."""

    def stream_moved(self, queue: StreamContract) -> None:
        """Another node leads than before, or the stream was deleted."""


class StreamContract(Queue, Protocol):
    """A stream on this node, whether this node has a member or not."""

    # publishing

    def publish_items(self, reference: str, run: StreamRun, receipt: Receipt) -> None:
        """Store the run as it is. With a reference, items with ids up to the last one of this reference that was stored are
        known, and not stored again; they count as accepted when the earlier ones are committed. The receipt is answered once.
        Raises ResourceExhausted when nothing can be kept any more."""

    def publish_numbered(self, reference: str, first_number: int, run: Run, receipt: Receipt) -> None:
        """The same for messages of AMQP 0-9-1, whose ids are consecutive."""

    def publisher_sequence(self, reference: str, now: int) -> Pending[int]:
        """The last id that was stored under this reference, 0 when there is none. Decided by the leader."""

    # reading

    def check_readable(self) -> None:
        """Raises ResourceExhausted while this node can not read the stream."""

    def attach(self, reader: ChunkReader, spec: OffsetSpec, now: int) -> Pending[None] | None:
        """Chunks are delivered from the one on that holds the place, also when it begins before it. None: it is attached;
        otherwise it will be, or is refused. Nothing is delivered before that."""

    def detach(self, reader: ChunkReader) -> None:
        """Unknown readers are ignored. A reader may attach again, elsewhere."""

    def reader_ready(self, reader: ChunkReader) -> None:
        """It may have credit again."""

    def resolve(self, spec: OffsetSpec, now: int) -> Pending[int]:
        """The offset of the chunk with which a reader would begin; behind the end, the next offset."""

    def browse_from(self, asked: object, limit: int, now: int) -> Pending[list[Browsed]]:
        """As `browse`, from a place on that is named as consumers name it in x-stream-offset. Any node can be asked. Raises
        PreconditionFailed for what names no place."""

    # stored offsets

    def store_offset(self, reference: str, offset: int, now: int) -> None:
        """Nobody is told whether it could be; several of one turn are one entry of the log."""

    def query_offset(self, reference: str, now: int) -> Pending[int | None]:
        """What was stored last, by any node; sees what this node has stored before. None: nothing. Decided by the leader."""

    # what is shown

    def stream_figures(self) -> StreamFigures: ...

    def tracking(self) -> StreamTracking | None:
        """None: this node has no member."""

    def progress(self, reader: ChunkReader) -> ReaderProgress | None:
        """Of one that is attached; None: it is not, yet."""

    def places(self) -> StreamPlaces: ...

    def times_led(self) -> int:
        """How many times this node has begun to lead it. 0: it does not lead it now."""

    def watch(self, watcher: PlacesWatcher) -> None:
        """Until `unwatch`."""

    def unwatch(self, watcher: PlacesWatcher) -> None: ...
