"""A client's reader of one stream, with the credit that the client gives it: one for each chunk."""

from __future__ import annotations

from collections.abc import Callable

from broker.actors import ActorKind, LogActor
from broker.messages.stored_bytes import Sendable
from broker.pending import Pending
from broker.queues.stream_contract import AtOffset, AtTime, Begin, MessageFilter, OffsetSpec, StreamContract
from broker.stream_clients.client_terms import ReadOptions, StreamSink
from wire.stream.command_fields import OffsetSpec as RequestedOffset
from wire.stream.command_keys import OffsetKind

OFFSET_MAX = (1 << 63) - 1  # the protocol has 64 bits without a sign, files and AMQP have one

_ENDS = {OffsetKind.FIRST: Begin.FIRST, OffsetKind.LAST: Begin.LAST, OffsetKind.NEXT: Begin.NEXT}


def place_of(requested: RequestedOffset) -> OffsetSpec | None:
    """None: the client leaves it open."""
    if requested.kind is OffsetKind.OFFSET:
        return AtOffset(min(requested.value, OFFSET_MAX))
    if requested.kind is OffsetKind.TIMESTAMP:
        return AtTime(requested.value)
    return _ENDS.get(requested.kind)


def filter_of(options: ReadOptions) -> MessageFilter | None:
    """None: all messages are wanted."""
    return MessageFilter(options.filter_values, options.match_unfiltered) if options.filter_values else None


class ClientReader:
    """See the module. Fulfils ChunkReader.

    It is given chunks for what is `granted`, and only while it is `active`: one that belongs to a group waits for its turn.
    """

    __slots__ = (
        "_on_delivered", "_on_unavailable", "_sink", "active", "actor", "answer", "delivered", "granted", "number", "options",
        "queue", "spec", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        queue: StreamContract,
        spec: OffsetSpec,
        options: ReadOptions,
        sink: StreamSink,
        connection: LogActor,
        *,
        on_delivered: Callable[[int], None],
        on_unavailable: Callable[[ClientReader], None],
    ) -> None:
        self.number = number
        self.queue = queue
        self.spec = spec  # where its client wants to begin if it says nothing else
        self.options = options
        self.wanted = filter_of(options)
        self.active = not options.single_active
        self.actor = LogActor(ActorKind.CONSUMER, connection, tag=options.name or self.tag, queue=queue.record.name)
        self.delivered = 0  # messages
        self.granted = 0  # chunks that its client has room for
        self.answer: Pending[None] | None = None  # to the request that made it, until that is answered
        self._sink = sink
        self._on_delivered = on_delivered
        self._on_unavailable = on_unavailable

    @property
    def tag(self) -> str:
        return f"stream.subid-{self.number}"

    @property
    def credit(self) -> int:
        return self.granted if self.active and self._sink.writable else 0

    def deliver(self, last_chunk: int, chunk: Sendable, message_count: int) -> None:
        assert self.granted > 0, f"a chunk without credit for subscription {self.number}"
        self.granted -= 1
        self.delivered += message_count
        self._on_delivered(message_count)
        self._sink.deliver(self.number, last_chunk, chunk)

    def unavailable(self) -> None:
        self._on_unavailable(self)
