"""Sub-batches, taken apart for consumers that know single messages only.

Their publisher has made them, and perhaps compressed them: nobody has looked inside before. What cannot be taken apart is a
fault of the publisher's and not of the disk: its messages are left out, and their offsets stay empty. No batch becomes more
bytes than it announces, nor more than UNCOMPRESSED_BYTES_MAX, which publishing refuses too. 64 KiB become so many in 0.2 s, so
that is done a STEP_BYTES at a time.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator

from raft.core.errors import BadBytes
from storage.disk import Buffer
from stream.chunks.chunk import SubBatch

UNCOMPRESSED_BYTES_MAX = 64 << 20
STEP_BYTES = 1 << 20
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")  # by their numbers

_GZIP_WINDOW = 16 + zlib.MAX_WBITS  # gzip's header and checksum are expected


def items_of_batch(batch: SubBatch) -> Generator[None, None, Buffer]:
    """The items in it, step by step. Raises BadBytes."""
    if not batch.compression:
        return batch.data
    if batch.compression != COMPRESSIONS.index("gzip"):
        known = batch.compression < len(COMPRESSIONS)
        raise BadBytes(f"compression {COMPRESSIONS[batch.compression] if known else batch.compression}")
    if batch.uncompressed_bytes > UNCOMPRESSED_BYTES_MAX:
        raise BadBytes(f"{batch.uncompressed_bytes} bytes, and {UNCOMPRESSED_BYTES_MAX} is the most")
    return (yield from _gunzip(batch))


def _gunzip(batch: SubBatch) -> Generator[None, None, bytearray]:
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    items = bytearray(batch.uncompressed_bytes)
    size, data = 0, batch.data
    while not inflater.eof:
        if size:
            yield
        try:
            piece = inflater.decompress(data, min(STEP_BYTES, len(items) - size + 1))  # so that more is noticed
        except zlib.error as error:
            raise BadBytes(f"no gzip: {error}") from error
        if not piece:
            break
        size, at, data = size + len(piece), size, inflater.unconsumed_tail
        if size > len(items):
            break
        items[at:size] = piece
    if size != len(items):
        raise BadBytes(f"{len(items)} bytes are announced, and there are not so many")
    if not inflater.eof:
        raise BadBytes("its end is missing")
    return items
