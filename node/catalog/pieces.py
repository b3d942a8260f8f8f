"""The catalog on its way to a node that has none, in pieces: a whole one may be larger than an answer between nodes may be
(node/peers/calls.py, PAYLOAD_BYTES_MAX). Little endian:

    asked       FETCH u8 | number u64: of the copy, 0 for a new one | offset u64
    answered    TAKEN u8 | number u64 | size u64: of the whole | its bytes from the offset on, PIECE_BYTES of them at most;
                or NOT_TAKEN: that node does not lead, or has no such copy any more
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from node.catalog.courier import FETCH, NOT_TAKEN, TAKEN
from raft.core.errors import BadBytes
from raft.core.messages import NodeId
from storage.disk import Buffer

PIECE_BYTES = 16 << 20  # large enough to be rare, and small beside what else waits for a link

_ASK = Struct("<BQQ")
_ANSWER = Struct("<sQQ")


class Copies:
    """What the leader's node gives away: one copy for each node that asks, until it has all of it or its link is gone."""

    def __init__(self) -> None:
        self._copies: dict[NodeId, tuple[int, bytes]] = {}
        self._number = 0

    def begin(self, node: NodeId, state: Sequence[Buffer]) -> list[Buffer]:
        """The first piece of the state as it is now."""
        self._number += 1
        self._copies[node] = self._number, b"".join(state)
        return self.piece(node, self._number, 0)

    def piece(self, node: NodeId, number: int, offset: int) -> list[Buffer]:
        kept, data = self._copies.get(node, (0, b""))
        if kept != number or offset > len(data):
            return [NOT_TAKEN]
        part = memoryview(data)[offset : offset + PIECE_BYTES]
        if offset + len(part) == len(data):
            del self._copies[node]
        return [_ANSWER.pack(TAKEN, number, len(data)), part]

    def forget(self, node: NodeId) -> None:
        self._copies.pop(node, None)


class IncomingCopy:
    """What a node has got of a copy."""

    def __init__(self) -> None:
        self._number = 0
        self._parts: list[bytes] = []
        self._got = 0

    def request(self) -> bytes:
        """For what comes next."""
        return _ASK.pack(FETCH, self._number, self._got)

    def take(self, answer: bytes) -> bytes | None:
        """The whole, once it is there. Raises BadBytes for what is no piece of this copy."""
        if len(answer) < _ANSWER.size:
            raise BadBytes(f"a piece of the catalog in {len(answer)} bytes")
        taken, number, size = _ANSWER.unpack_from(answer)
        part = answer[_ANSWER.size :]
        self._got += len(part)
        if taken != TAKEN or self._number not in (0, number) or self._got > size or not (part or self._got == size):
            raise BadBytes(f"{len(part)} bytes of a catalog of {size} do not go on with copy {self._number}")
        self._number = number
        self._parts.append(part)
        return b"".join(self._parts) if self._got == size else None


def decode_request(payload: bytes) -> tuple[int, int]:
    """Number of the copy, and offset. Raises BadBytes."""
    if len(payload) != _ASK.size:
        raise BadBytes(f"{len(payload)} bytes ask for the catalog")
    _, number, offset = _ASK.unpack(payload)
    return number, offset
