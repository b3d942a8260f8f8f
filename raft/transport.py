"""The port Net, and the letters that pass between two nodes.

A letter is everything that one round of a node's loop has for another node, or a sign of life. Little endian:

    offset  size  field
         0     1  kind      1: batches   2: ping   3: pong
    batches
         1        batches of raft/core/codec.py, one behind the other
    ping and pong
         1     8  sender's incarnation
         9     8  number    of the ping; a pong says it back
        17     8  receiver's incarnation, as far as the sender knows; 0: not yet

A letter arrives whole or not at all. Letters of one connection arrive in order, and nothing else is promised: the network,
and a queue that is full, may lose any of them. Raft asks again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Protocol, TypeAlias, final

from raft.core import codec
from raft.core.errors import BadBytes
from raft.core.messages import Message, NodeId
from storage.disk import Buffer

BATCHES = 1
PING = 2
PONG = 3

# Up to here one copy costs less than handing over the pieces.
JOINED_BYTES_MAX = 64 << 10
LETTER_BYTES = 1 << 20  # a fuller one is sent, and another begun; a single large message may make it longer

_SIGN = Struct("<BQQQ")
_BATCHES_HEAD = bytes([BATCHES])


Letter: TypeAlias = bytes | list[Buffer]
"""Large ones in pieces, one behind the other: entries go to all followers, and to the disk, from where they lie."""


def letter_bytes(letter: Letter) -> int:
    return sum([len(part) for part in letter]) if isinstance(letter, list) else len(letter)


def joined(letter: Letter) -> bytes:
    return b"".join(letter) if isinstance(letter, list) else letter


class Net(Protocol):
    """The way to the other nodes."""

    def send(self, node: NodeId, letter: Letter) -> None:
        """Send soon, or lose it: when there is no connection, or too much waits for this node already. Never blocks and
        never raises."""


class Ears(Protocol):
    """Receives what arrives from other nodes: raft/groups.py."""

    def receive(self, node: NodeId, letter: Buffer) -> None:
        """A view is that of a buffer which is written to again afterwards: nothing of it is to be kept."""

    def connected(self, node: NodeId) -> None: ...

    def disconnected(self, node: NodeId) -> None: ...


@final
@dataclass(slots=True)
class Sign:
    """A ping or a pong; immutable."""

    is_pong: bool
    incarnation: int  # the sender's
    number: int
    to_incarnation: int


def encode_sign(sign: Sign) -> bytes:
    return _SIGN.pack(PONG if sign.is_pong else PING, sign.incarnation, sign.number, sign.to_incarnation)


def nothing_to_say() -> defaultdict[NodeId, defaultdict[int, list[Message]]]:
    """What gathers for letters: by node and group."""
    return defaultdict(partial(defaultdict, list))


def letters_of(groups: Mapping[int, list[Message]]) -> Iterable[Letter]:
    """What is to be said to one node, by group. A command alone has nodes say a single message, which is written in one go."""
    if len(groups) == 1:
        ((group, messages),) = groups.items()
        lone = codec.encode_lone(group, messages[0]) if len(messages) == 1 else None
        if lone is not None:
            return (b"".join((_BATCHES_HEAD, *lone)),)
    return encode_batches(groups.items())


def encode_batches(groups: Iterable[tuple[int, list[Message]]]) -> Iterator[Letter]:
    """Messages of groups as letters."""
    parts: list[Buffer] = [_BATCHES_HEAD]
    size = 1
    for group, messages in groups:
        batch, batch_size = codec.batch_parts(group, messages)
        if size + batch_size > LETTER_BYTES and len(parts) > 1:
            yield b"".join(parts) if size <= JOINED_BYTES_MAX else parts
            parts, size = [_BATCHES_HEAD], 1
        parts += batch
        size += batch_size
    if len(parts) > 1:
        yield b"".join(parts) if size <= JOINED_BYTES_MAX else parts


def decode(letter: Buffer) -> Sign | Iterable[tuple[int, list[Message]]]:
    """A sign, or the messages by group. Raises BadBytes, for messages while they are taken."""
    kind = letter[0] if letter else 0
    if kind == BATCHES:
        return codec.decode_batches(letter, 1)
    if kind not in (PING, PONG) or len(letter) != _SIGN.size:
        raise BadBytes(f"there is no letter of kind {kind} and {len(letter)} bytes")
    _, incarnation, number, to_incarnation = _SIGN.unpack(letter)
    return Sign(kind == PONG, incarnation, number, to_incarnation)
