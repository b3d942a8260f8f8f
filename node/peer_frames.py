"""What passes between two nodes, as frames over TCP or TLS. All numbers are little endian.

    offset  size  field
         0     4  size      of the payload
         4        payload

The side that was called speaks first. Until both have proven that they know the cluster's secret (node/peer_auth.py) all
payloads are hellos, of at most HELLO_BYTES_MAX:

    hello
         0     4  magic     LVRT
         4     1  version   1
         5     1  kind
         6        fields, one behind the other, at most FIELDS_MAX
    field
         0     1  length    of the name
         1        name      UTF-8
         .     2  length    of the value
         .        value     UTF-8

    kind          said by  fields
    1  CHALLENGE  called   leveret-challenge: counts once, for a few seconds and on this connection
    2  EXCHANGE   caller   leveret-node, leveret-to, leveret-incarnation, leveret-challenge, leveret-nonce (32 random bytes in
                           hexadecimal), leveret-cluster; leveret-proof: HMAC-SHA256 with the secret over these, in hexadecimal
    3  GREET      caller   leveret-content (SHA-256 of the request), leveret-challenge, leveret-nonce; leveret-proof over them
    4  JOIN       caller   the same
    5  ANSWER     called   leveret-proof of its own over all that the caller has said; after EXCHANGE also over its
                           leveret-incarnation, after GREET and JOIN over the SHA-256 of what it answers
    6  REFUSAL    called   leveret-refusal: why, in words. The connection ends

EXCHANGE is for nodes that have numbers. After its ANSWER either side sends letters until the connection ends: see
raft/transport.py and, for those whose first byte is 4, node/peer_calls.py. GREET and JOIN are for nodes that need not have
numbers yet. Behind either comes one payload, the request, and behind its ANSWER one more, the answer, each of at most
REQUEST_BYTES_MAX: messages of proto/leveret/v1/peer.proto. Then the connection ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from node.peer_auth import Metadata
from raft.errors import BadBytes
from storage.disk import Buffer

CHALLENGE, EXCHANGE, GREET, JOIN, ANSWER, REFUSAL = range(1, 7)
REFUSED = "leveret-refusal"

HELLO_BYTES_MAX = 4_096
REQUEST_BYTES_MAX = 1 << 20
FIELDS_MAX = 16
REFUSAL_LENGTH_MAX = 1_000
READ_BYTES = 256 << 10  # what one read takes up to; longer frames are read where they stay

SIZE = Struct("<I")
_HELLO = Struct("<4sBB")
_MAGIC = b"LVRT"
_VERSION = 1
_LENGTH = Struct("<H")
_SHOWN_BYTES = 16

# What else calls at such an address by mistake.
_FOREIGN = {
    b"AMQP": "AMQP",
    b"PRI * HT": "HTTP/2 or gRPC",
    b"\x16\x03": "TLS",
    b"SSH-": "SSH",
    **dict.fromkeys((b"GET ", b"HEAD ", b"POST ", b"PUT ", b"OPTIONS "), "HTTP"),
}


class Refused(Exception):
    """The other side does not let us in; the text is its reason."""


class Hello(NamedTuple):
    kind: int
    fields: Metadata


class FrameReader:
    """Cuts what is read into payloads. `frame_bytes_max` may be raised between two of them."""

    __slots__ = ("_buffer", "_end", "_long", "_long_end", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._end = 0  # of what has been read and not been taken; that is at the beginning
        self._long: memoryview | None = None  # a payload too long for the buffer
        self._long_end = 0

    def get_buffer(self) -> memoryview:
        """Where the next bytes go. It is never empty."""
        if self._long is not None:
            return self._long[self._long_end :]
        return self._buffer[self._end : SIZE.size + self.frame_bytes_max]

    def payloads(self, count: int) -> Iterator[bytes]:
        """Those that so many more bytes complete. Raises BadBytes; nothing can be read any more then."""
        if self._long is not None:
            yield from self._rest_of_long(count)
            return
        buffer, end, at, size = self._buffer, self._end + count, 0, 0
        while end - at >= SIZE.size:
            (size,) = SIZE.unpack_from(buffer, at)
            if size > self.frame_bytes_max:
                head = bytes(buffer[at : min(at + _SHOWN_BYTES, end)])
                raise BadBytes(f"a frame of {size} bytes, {self.frame_bytes_max} may come: {shown(head)}")
            start = at + SIZE.size
            if end - start < size:
                break
            at = start + size
            yield bytes(buffer[start:at])
        rest = end - at
        if rest >= SIZE.size and SIZE.size + size > len(buffer):
            self._long, self._long_end, self._end = memoryview(bytearray(size)), rest - SIZE.size, 0
            self._long[: self._long_end] = buffer[at + SIZE.size : end]
        else:
            buffer[:rest] = buffer[at:end]
            self._end = rest

    def _rest_of_long(self, count: int) -> Iterator[bytes]:
        long = self._long
        assert long is not None, "no long payload is being read"
        self._long_end += count
        if self._long_end == len(long):
            self._long = None
            yield bytes(long)


def framed(payloads: Iterable[Buffer]) -> list[Buffer]:
    """Pieces of frames, to be sent in this order."""
    pieces: list[Buffer] = []
    for payload in payloads:
        pieces.append(SIZE.pack(len(payload)))
        pieces.append(payload)
    return pieces


def encode_hello(kind: int, fields: Iterable[tuple[str, str]]) -> bytes:
    parts = [_HELLO.pack(_MAGIC, _VERSION, kind)]
    for name, value in fields:
        about, data = name.encode(), value.encode()
        parts += [bytes([len(about)]), about, _LENGTH.pack(len(data)), data]
    hello = b"".join(parts)
    assert len(hello) <= HELLO_BYTES_MAX, f"a hello of {len(hello)} bytes, {HELLO_BYTES_MAX} are allowed"
    return hello


def encode_refusal(why: str) -> bytes:
    return encode_hello(REFUSAL, [(REFUSED, why[:REFUSAL_LENGTH_MAX])])


def decode_hello(payload: bytes) -> Hello:
    """Raises BadBytes."""
    if len(payload) < _HELLO.size or not payload.startswith(_MAGIC):
        raise BadBytes(f"no hello of a node: {shown(payload[:_SHOWN_BYTES])}")
    _, version, kind = _HELLO.unpack_from(payload)
    if version != _VERSION:
        raise BadBytes(
            f"a hello of version {version}; this node speaks version {_VERSION}: run the same version on all"
        )
    if not CHALLENGE <= kind <= REFUSAL:
        raise BadBytes(f"there is no hello of kind {kind}")
    fields: Metadata = {}
    at = _HELLO.size
    while at < len(payload):
        name, at = _take(payload, at + 1, payload[at])
        if at + _LENGTH.size > len(payload) or name in fields or len(fields) == FIELDS_MAX:
            raise BadBytes(f"a hello of kind {kind} with field {name!r} cut off, twice or as one of too many")
        fields[name], at = _take(payload, at + _LENGTH.size, *_LENGTH.unpack_from(payload, at))
    return Hello(kind, fields)


def expect_hello(payload: bytes, kind: int) -> Metadata:
    """The fields of a hello of this kind. Raises Refused when it is a refusal, and BadBytes."""
    hello = decode_hello(payload)
    if hello.kind == REFUSAL:
        raise Refused(f"it refuses: {_printable(hello.fields.get(REFUSED, 'for no reason'))}")
    if hello.kind != kind:
        raise BadBytes(f"a hello of kind {hello.kind} instead of {kind}")
    return hello.fields


def shown(head: bytes) -> str:
    """The beginning of what is no frame of ours, for people."""
    for beginning, protocol in _FOREIGN.items():
        if head.startswith(beginning):
            return f"this looks like {protocol}, and only nodes of the cluster may call here"
    return f"it begins with {head!r}"


def _take(payload: bytes, start: int, size: int) -> tuple[str, int]:
    end = start + size
    if end > len(payload):
        raise BadBytes(f"a hello of {len(payload)} bytes ends within a field that ends at {end}")
    try:
        return payload[start:end].decode(), end
    except UnicodeDecodeError as error:
        raise BadBytes(f"a hello has text that is not UTF-8: {error}") from error


def _printable(text: str) -> str:
    """Text that nobody has vouched for must not forge lines of the log."""
    return "".join(c if c.isprintable() else "?" for c in text[:REFUSAL_LENGTH_MAX])
