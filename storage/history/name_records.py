"""Who the actors of a log file are, and what its queues are called. All integers are little endian.

An actor publishes, consumes or settles: a client's connection, one of its channels, a consumer, or another node of the
cluster on behalf of its clients. Other records name it by a number that one process gives once, from 1 on; 0 names nobody.
Each log file says who the actors and queues are that its records name, in the commit in which they are named first, before
the record that names them: a file that is copied away explains itself. An actor of another process with the same number has
another incarnation.

The records of this table belong to no writer (0). The index is the number of the actor or of the queue.

    ACTOR        somebody whom records of this file name
        incarnation u64   of the process that gave the number (node/identity.py)
        parent u32        the actor to which it belongs: a channel's connection, a consumer's channel; 0: none
        prefetch u32      of a consumer; 0: no limit
        kind u8           1 connection | 2 channel | 3 consumer | 4 node of the cluster
        flags u8          1: a consumer that does not acknowledge
        texts             user, virtual host, address, name of the connection, product, consumer tag, queue: those of its kind,
                          the others are empty
    ACTOR_GONE   it is gone; records that come later may still name it
        reason u8         1 closed by its client | 2 its connection was lost | 3 closed by the broker | 4 its queue went or may
                          not be read any more | 5 it did not settle in time
    NAME         a queue, or another replicated log
        texts             kind, virtual host, name; a log that belongs to no queue that is declared has no virtual host

    text    length u16 | UTF-8, at most TEXT_BYTES_MAX bytes of it
"""

from __future__ import annotations

from struct import Struct, error
from typing import NamedTuple

# A name that clients choose may be as long as a frame; longer ones are cut, for what they are to tell fits well into this.
TEXT_BYTES_MAX = 512
_ACTOR = Struct("<QIIBB")
_NO_ACK = 1
_LENGTH = Struct("<H")


class ActorRow(NamedTuple):
    """One ACTOR record, without its number."""

    kind: int
    incarnation: int = 0
    parent: int = 0
    user: str = ""
    vhost: str = ""
    address: str = ""
    connection_name: str = ""
    product: str = ""
    tag: str = ""
    queue: str = ""
    prefetch: int = 0
    no_ack: bool = False


class NameRow(NamedTuple):
    """One NAME record, without the number of the queue."""

    kind: str  # as in x-queue-type
    vhost: str
    name: str


def encode_actor(row: ActorRow) -> bytes:
    flags = _NO_ACK if row.no_ack else 0
    head = _ACTOR.pack(row.incarnation, row.parent, row.prefetch, row.kind, flags)
    return head + _texts(row.user, row.vhost, row.address, row.connection_name, row.product, row.tag, row.queue)


def decode_actor(payload: bytes | memoryview) -> ActorRow:
    """Raises ValueError."""
    try:
        incarnation, parent, prefetch, kind, flags = _ACTOR.unpack_from(payload)
    except error as short:
        raise ValueError(f"an actor of {len(payload)} bytes") from short
    user, vhost, address, connection_name, product, tag, queue = _read_texts(payload, _ACTOR.size, 7)
    return ActorRow(
        kind, incarnation, parent, user, vhost, address, connection_name, product, tag, queue, prefetch,
        bool(flags & _NO_ACK),
    )  # fmt: skip


def encode_gone(reason: int) -> bytes:
    return bytes((reason,))


def decode_gone(payload: bytes | memoryview) -> int:
    """Raises ValueError."""
    if not payload:
        raise ValueError("an actor is gone without a reason")
    return payload[0]


def encode_name(row: NameRow) -> bytes:
    return _texts(*row)


def decode_name(payload: bytes | memoryview) -> NameRow:
    """Raises ValueError."""
    return NameRow(*_read_texts(payload, 0, 3))


def _texts(*texts: str) -> bytes:
    return b"".join(map(_text, texts))


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > TEXT_BYTES_MAX:  # no character is left in halves
        raw = raw[:TEXT_BYTES_MAX].decode("utf-8", "ignore").encode()
    return _LENGTH.pack(len(raw)) + raw


def _read_texts(payload: bytes | memoryview, at: int, count: int) -> list[str]:
    texts: list[str] = []
    for _ in range(count):
        start = at + _LENGTH.size
        if start > len(payload) or (at := start + _LENGTH.unpack_from(payload, at)[0]) > len(payload):
            raise ValueError(f"text {len(texts)} of {count} ends behind byte {len(payload)}")
        texts.append(bytes(payload[start:at]).decode("utf-8", "surrogateescape"))
    return texts
