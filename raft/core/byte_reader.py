"""Reading packed bytes from an untrusted source: every read is bounded by the buffer, and says so with one error."""

from __future__ import annotations

from itertools import pairwise
from struct import Struct
from typing import Any

from raft.core.errors import BadBytes
from raft.core.messages import Membership
from storage.disk import Buffer

_U8 = Struct("<B")
_U16 = Struct("<H")
_U32 = Struct("<I")
_U64 = Struct("<Q")
_COUNTS = Struct("<HHH")


class ByteReader:
    """A position in a buffer. All calls raise BadBytes when the buffer ends before what they are to read."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: Buffer, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    def fields(self, layout: Struct) -> tuple[Any, ...]:
        at = self.at
        if self.end - at < layout.size:
            raise BadBytes(f"{layout.size} bytes are to be read at {at}, and the buffer ends at {self.end}")
        self.at = at + layout.size
        return layout.unpack_from(self.data, at)

    def take(self, size: int) -> bytes:
        at = self._pass(size)
        return bytes(self.data[at : at + size])

    def view(self, size: int) -> memoryview:
        """The same without a copy; it keeps the whole buffer in memory."""
        at = self._pass(size)
        return memoryview(self.data)[at : at + size]

    def _pass(self, size: int) -> int:
        at = self.at
        if self.end - at < size:
            raise BadBytes(f"{size} bytes are to be read at {at}, and the buffer ends at {self.end}")
        self.at = at + size
        return at

    def u8(self) -> int:
        value: int = self.fields(_U8)[0]
        return value

    def u16(self) -> int:
        value: int = self.fields(_U16)[0]
        return value

    def u32(self) -> int:
        value: int = self.fields(_U32)[0]
        return value

    def u64(self) -> int:
        value: int = self.fields(_U64)[0]
        return value

    def flag(self) -> bool:
        value = self.u8()
        if value > 1:
            raise BadBytes(f"yes or no is {value} at {self.at - 1}")
        return value == 1

    def text(self) -> str:
        try:
            return self.take(self.u16()).decode()
        except UnicodeDecodeError as error:
            raise BadBytes(f"a name before {self.at} is not UTF-8: {error}") from error

    def membership(self) -> Membership:
        voters, learners, promotable = (
            self._ascending(self.fields(Struct(f"<{count}Q"))) for count in self.fields(_COUNTS)
        )
        if set(voters) & set(learners) or not set(promotable) <= set(learners):
            raise BadBytes(f"voters {voters}, learners {learners}, promotable {promotable} are no membership")
        return Membership(voters, learners, promotable)

    def must_end(self) -> None:
        if self.at != self.end:
            raise BadBytes(f"{self.end - self.at} bytes are left over at {self.at}")

    def _ascending(self, members: tuple[int, ...]) -> tuple[int, ...]:
        if any(one >= following for one, following in pairwise(members)):
            raise BadBytes(f"members {members} do not ascend")
        return members


def encode_membership(membership: Membership) -> bytes:
    """See raft/core/codec.py for the table."""
    voters, learners, promotable = membership
    members = (*voters, *learners, *promotable)
    return _COUNTS.pack(len(voters), len(learners), len(promotable)) + Struct(f"<{len(members)}Q").pack(*members)


def encode_text(text: str) -> bytes:
    encoded = text.encode()
    return _U16.pack(len(encoded)) + encoded
