"""Bytes on their way to a client that lie in a file, and need not be read to be sent."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from native.content import Buffer


class StoredBytes(Protocol):
    """A piece of a file that does not change."""

    def __len__(self) -> int: ...

    def read(self) -> Buffer:
        """All of them. Raises OSError when they cannot be read."""

    def send_to(self, socket: int, start: int) -> int:
        """Give a socket that does not block, by its descriptor, what it takes from `start` on. Returns how many, at least one.
        Raises OSError: BlockingIOError when it takes none now."""


Sendable: TypeAlias = Buffer | StoredBytes


def in_memory(part: Sendable) -> Buffer:
    """Raises OSError when it cannot be read."""
    return part if isinstance(part, bytes | bytearray | memoryview) else part.read()
