"""What passes between two nodes, as frames over TCP or TLS. All numbers are little endian.

    a plain frame
         0     4  size      of the payload
         4        payload

    a checked frame
         0     4  size      of the payload
         4     4  checksum  CRC32C of the payload
         8     4  checksum  CRC32C of the 8 bytes before: a size that is wrong would have the reader wait for bytes
        12        payload

TCP's own checksum has 16 bits, and network cards and their drivers compute it: wrong bytes do arrive. A letter in which one bit
is wrong may say something else that makes sense, and would be fsynced and confirmed as that. So letters travel in checked
frames, over TLS too. A frame whose checksum is wrong ends the connection, and the next one begins anew.

The side that was called speaks first. Until both have proven that they know the cluster's secret (node/peers/handshake.py) all
payloads are hellos, of at most HELLO_BYTES_MAX, in plain frames: what they say is proven by what follows, or comes to nothing.

    hello
         0     4  magic     LVRT
         4     1  version   3; 1 had no checked frames, 2 none of the messages 9 to 13 of raft/core/codec.py
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

EXCHANGE is for nodes that have numbers. After its ANSWER either side sends letters, in checked frames, until the connection
ends: see raft/transport.py and, for those whose first byte is 4, node/peers/calls.py. GREET and JOIN are for nodes that need
not have numbers yet. Behind either comes one payload, the request, and behind its ANSWER one more, the answer, each of at most
REQUEST_BYTES_MAX: messages of proto/node/peers/peer.proto, in plain frames, as the proof covers them. Then the connection ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from native.crc32c import crc32c
from node.peers.handshake import Metadata
from raft.core.errors import BadBytes
from raft.transport import Letter, letter_bytes
from storage.disk import Buffer

CHALLENGE, EXCHANGE, GREET, JOIN, ANSWER, REFUSAL = range(1, 7)
REFUSED = "leveret-refusal"

HELLO_BYTES_MAX = 4_096
REQUEST_BYTES_MAX = 1 << 20
FIELDS_MAX = 16
REFUSAL_LENGTH_MAX = 1_000
# What one read takes up to where frames may be as long; longer ones are read where they stay, in fresh memory. Letters with
# entries of large messages are shorter, and fresh memory for each costs a follower more than a copy would.
READ_BYTES = 4 << 20
# And at first: most links never have as much under way, and memory costs when it is touched for the first time.
FIRST_READ_BYTES = 256 << 10
# Checked payloads from here on are handed on where they were read: one copy less.
VIEWED_BYTES_MIN = 64 << 10

SIZE = Struct("<I")
CHECKED = Struct("<III")
_HEAD = Struct("<II")  # of a checked frame, without its own checksum
_HELLO = Struct("<4sBB")
_MAGIC = b"LVRT"
VERSION = 3
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


class WrongChecksum(BadBytes):
    """Bytes were changed on their way, by what lies between the nodes or by a fault of one of them."""


class Refused(Exception):
    """The other side does not let us in; the text is its reason."""


class Hello(NamedTuple):
    kind: int
    fields: Metadata


class FrameReader:
    """Cuts what is read into payloads. `frame_bytes_max` may be raised, and `checked` set, between two of them. The buffer
    grows with what comes, up to what may come: little, as long as nothing is proven."""

    __slots__ = ("_buffer", "_end", "_filled", "_long", "_long_checksum", "_long_end", "checked", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.checked = False  # frames are checked ones from now on
        self._buffer = memoryview(bytearray())
        self._end = 0  # of what has been read and not been taken; that is at the beginning
        self._filled = False  # by the last read: there was more to come
        self._long: memoryview | None = None  # a payload too long for the buffer
        self._long_end = 0
        self._long_checksum: int | None = None

    def get_buffer(self) -> memoryview:
        """Where the next bytes go. It is never empty."""
        if self._long is not None:
            return self._long[self._long_end :]
        if self._filled or len(self._buffer) < FIRST_READ_BYTES:
            self._make_room(max(FIRST_READ_BYTES, 2 * len(self._buffer)))
        head = CHECKED.size if self.checked else SIZE.size
        return self._buffer[self._end : head + self.frame_bytes_max]

    def _make_room(self, wanted: int) -> None:
        """For so many bytes, or for what may come if that is less."""
        self._filled = False
        room = min(wanted, CHECKED.size + self.frame_bytes_max, READ_BYTES)
        if len(self._buffer) < room:
            grown = memoryview(bytearray(room))
            grown[: self._end] = self._buffer[: self._end]
            self._buffer = grown

    def payloads(self, count: int) -> Iterable[Buffer]:
        """Those that so many more bytes complete. Raises BadBytes; nothing can be read any more then. Large checked ones are
        views, for as long as nothing else is asked of this reader."""
        lone = self._lone(count)
        return (lone,) if lone is not None else self._payloads(count)

    def _lone(self, count: int) -> bytes | None:
        """The payload, if what was read is one sound, small frame and nothing else, as where little is said."""
        size = count - CHECKED.size
        if self._end or not 0 < size < VIEWED_BYTES_MIN or not self.checked or self._long is not None:
            return None
        buffer = self._buffer
        said, checksum, of_head = CHECKED.unpack_from(buffer)
        if said != size or size > self.frame_bytes_max or crc32c(buffer[: _HEAD.size]) != of_head:
            return None
        payload = bytes(buffer[CHECKED.size : count])
        if crc32c(payload) != checksum:
            return None
        self._filled = count == len(buffer)
        return payload

    def _payloads(self, count: int) -> Iterator[Buffer]:
        if self._long is not None:
            yield from self._rest_of_long(count)
            return
        buffer, end, at = self._buffer, self._end + count, 0
        self._filled = end == len(buffer)
        head = size = 0
        checksum: int | None = None
        while end - at >= (head := CHECKED.size if self.checked else SIZE.size):
            size, checksum = self._head(at, end)
            start = at + head
            if end - start < size:
                break
            at = start + size
            yield _sound(buffer[start:at], checksum)
        rest = end - at
        if rest >= head and head + size > READ_BYTES:
            self._long, self._long_end, self._end = memoryview(bytearray(size)), rest - head, 0
            self._long_checksum = checksum
            self._long[: self._long_end] = buffer[at + head : end]
            return
        if at:
            buffer[:rest] = buffer[at:end]
        self._end = rest
        if rest >= head and head + size > len(buffer):
            self._make_room(head + size)

    def _head(self, at: int, end: int) -> tuple[int, int | None]:
        """Size and checksum of the payload of the frame that begins there. Raises BadBytes."""
        buffer, checksum = self._buffer, None
        if self.checked:
            size, checksum, of_head = CHECKED.unpack_from(buffer, at)
            if crc32c(buffer[at : at + _HEAD.size]) != of_head:
                head = bytes(buffer[at : at + CHECKED.size])
                raise WrongChecksum(f"the head of a frame was changed on its way: {head.hex(' ', 4)}")
        else:
            (size,) = SIZE.unpack_from(buffer, at)
        if size > self.frame_bytes_max:
            raise BadBytes(
                f"a frame of {size} bytes, {self.frame_bytes_max} may come: "
                f"{shown(bytes(buffer[at : min(at + _SHOWN_BYTES, end)]))}"
            )
        return size, checksum

    def _rest_of_long(self, count: int) -> Iterator[Buffer]:
        long = self._long
        assert long is not None, "no long payload is being read"
        self._long_end += count
        if self._long_end == len(long):
            self._long = None
            yield _sound(long, self._long_checksum)


def _sound(view: memoryview, checksum: int | None) -> Buffer:
    """The payload that lies there, if it has this checksum. Raises WrongChecksum."""
    if checksum is None:
        return bytes(view)
    payload = view if len(view) >= VIEWED_BYTES_MIN else bytes(view)
    _check(payload, checksum)
    return payload


def _check(payload: Buffer, expected: int) -> None:
    found = crc32c(payload)
    if found != expected:
        raise WrongChecksum(
            f"a frame of {len(payload)} bytes was changed on its way: its checksum is {found:#010x}, and {expected:#010x} was "
            "sent"
        )


def framed(payloads: Iterable[Letter], *, checked: bool = False) -> list[Buffer]:
    """Pieces of frames, to be sent in this order."""
    pieces: list[Buffer] = []
    for payload in payloads:
        if isinstance(payload, list):
            pieces += _framed_pieces(payload, checked)
        elif checked:
            pieces += (_checked_head(len(payload), crc32c(payload)), payload)
        else:
            pieces += (SIZE.pack(len(payload)), payload)
    return pieces


def checked_frame(payload: bytes) -> bytes:
    """A small one, whole."""
    return _checked_head(len(payload), crc32c(payload)) + payload


def _framed_pieces(letter: list[Buffer], checked: bool) -> list[Buffer]:
    size, checksum = letter_bytes(letter), 0
    for part in letter if checked else ():
        checksum = crc32c(part, checksum)
    return [_checked_head(size, checksum) if checked else SIZE.pack(size), *letter]


def _checked_head(size: int, checksum: int) -> bytes:
    head = _HEAD.pack(size, checksum)
    return head + SIZE.pack(crc32c(head))


def encode_hello(kind: int, fields: Iterable[tuple[str, str]]) -> bytes:
    parts = [_HELLO.pack(_MAGIC, VERSION, kind)]
    for name, value in fields:
        about, data = name.encode(), value.encode()
        parts += [bytes([len(about)]), about, _LENGTH.pack(len(data)), data]
    hello = b"".join(parts)
    assert len(hello) <= HELLO_BYTES_MAX, f"a hello of {len(hello)} bytes, {HELLO_BYTES_MAX} are allowed"
    return hello


def encode_refusal(why: str) -> bytes:
    return encode_hello(REFUSAL, [(REFUSED, why[:REFUSAL_LENGTH_MAX])])


def decode_hello(said: Buffer) -> Hello:
    """Raises BadBytes."""
    payload = bytes(said)
    if len(payload) < _HELLO.size or not payload.startswith(_MAGIC):
        raise BadBytes(f"no hello of a node: {shown(payload[:_SHOWN_BYTES])}")
    _, version, kind = _HELLO.unpack_from(payload)
    if version != VERSION:
        which = "an earlier" if version < VERSION else "a later"
        raise BadBytes(
            f"a hello of version {version}, and this node speaks version {VERSION}: the other one runs {which} build of "
            "Leveret, and both must be of the same protocol"
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


def expect_hello(payload: Buffer, kind: int) -> Metadata:
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
