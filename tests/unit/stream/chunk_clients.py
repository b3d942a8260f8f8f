"""Clients of the stream protocol, as a stream sees them: they read whole chunks for credit."""

from __future__ import annotations

from typing import Any

from broker.actors import LogActor
from broker.errors import BrokerError
from broker.messages.stored_bytes import Sendable, in_memory
from broker.queues.stream_contract import MessageFilter, OffsetSpec
from broker.records import QueueRecord
from native.content import messages
from raft.core.messages import NodeId
from storage.file_piece import FilePiece
from stream.chunks.chunk import CHUNK_HEADER_BYTES, must_be_sound, read_header
from tests.chunk_messages import stream_messages
from tests.unit.quorum.clients import Clients


class ChunkClient:
    """Fulfils ChunkReader. Checks what comes: sound chunks without a gap, for credit, and not before it is attached."""

    tag = "chunks"
    actor: LogActor | None = None

    def __init__(
        self, clients: Clients, node: NodeId, record: QueueRecord, credit: int = 1_000_000, wanted: Any = None
    ) -> None:
        self.clients = clients
        self.node = node
        self.queue = clients.of(node, record)[1]
        self.credit = credit
        self.wanted: MessageFilter | None = wanted
        self.attached = self.left = self.gone = False
        self.errors: list[BrokerError] = []
        self.chunks: list[memoryview] = []
        self.last_chunks: list[int] = []
        self.from_file = 0  # of the chunks, those that were not read into memory
        self.next: int | None = None  # offset that is to come

    def attach(self, spec: OffsetSpec) -> ChunkClient:
        answer = self.queue.attach(self, spec, self.clients.now)
        if answer is None:
            self.attached = True
        else:
            answer.then(self._begin, self.errors.append)
        return self

    def _begin(self, _: None) -> None:
        self.attached = True

    def detach(self) -> None:
        self.left = True
        self.queue.detach(self)

    def give(self, credit: int) -> None:
        self.credit += credit
        self.queue.reader_ready(self)

    def deliver(self, last_chunk: int, chunk: Sendable, message_count: int) -> None:
        assert self.credit > 0 and self.attached and not self.left, "a chunk for who cannot take it"
        self.credit -= 1
        self.from_file += isinstance(chunk, FilePiece)
        chunk = memoryview(in_memory(chunk))
        header = read_header(chunk)
        must_be_sound(header, chunk[CHUNK_HEADER_BYTES:])
        assert message_count == header.message_count
        assert self.wanted or self.next in (None, header.first_offset), f"{header.first_offset}, and {self.next} should"
        assert last_chunk >= header.first_offset
        self.next = header.next_offset
        self.chunks.append(chunk)
        self.last_chunks.append(last_chunk)

    def unavailable(self) -> None:
        assert not self.left
        self.gone = self.left = True

    @property
    def offsets(self) -> list[int]:
        """Of all messages that came."""
        headers = map(read_header, self.chunks)
        return [offset for header in headers for offset in range(header.first_offset, header.next_offset)]

    @property
    def bodies(self) -> list[bytes]:
        return [body for chunk in self.chunks for body in bodies_of(chunk)]


def bodies_of(chunk: memoryview) -> list[bytes]:
    header = read_header(chunk)
    alike = stream_messages(chunk[CHUNK_HEADER_BYTES:], header.item_count, header.first_offset)
    return [body for some in alike for _, body in messages(some.content, 0, some.message_count)]
