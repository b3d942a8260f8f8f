"""Sub-batches, taken apart for consumers that know single messages only.

Their publisher has made them, and perhaps compressed them: nobody has looked inside before. What cannot be taken apart is a
fault of the publisher's and not of the disk: its messages are left out, and their offsets stay empty. No batch becomes more
bytes than it announces, nor more than UNCOMPRESSED_BYTES_MAX, which publishing refuses too.
"""

from __future__ import annotations

import zlib

from raft.core.errors import BadBytes
from storage.disk import Buffer
from stream.chunks.chunk import SubBatch

UNCOMPRESSED_BYTES_MAX = 64 << 20
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")  # by their numbers

_GZIP_WINDOW = 16 + zlib.MAX_WBITS  # gzip's header and checksum are expected


def items_of_batch(batch: SubBatch) -> Buffer:
    """The items in it. Raises BadBytes."""
    if not batch.compression:
        return batch.data
    if batch.compression != COMPRESSIONS.index("gzip"):
        known = batch.compression < len(COMPRESSIONS)
        raise BadBytes(f"compression {COMPRESSIONS[batch.compression] if known else batch.compression}")
    if batch.uncompressed_bytes > UNCOMPRESSED_BYTES_MAX:
        raise BadBytes(f"{batch.uncompressed_bytes} bytes, and {UNCOMPRESSED_BYTES_MAX} is the most")
    return _gunzip(batch)


def _gunzip(batch: SubBatch) -> bytes:
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        items = inflater.decompress(batch.data, batch.uncompressed_bytes + 1)  # so that more is noticed
    except zlib.error as error:
        raise BadBytes(f"no gzip: {error}") from error
    if len(items) != batch.uncompressed_bytes:
        raise BadBytes(f"{batch.uncompressed_bytes} bytes are announced, and there are not so many")
    if not inflater.eof:
        raise BadBytes("its end is missing")
    return items
