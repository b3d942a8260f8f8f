"""What waits in a queue, in order of sequences: new runs join at the tail, what comes back goes to its exact old place."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from classic.stored_run import Part


class ReadyList:
    """Parts, none overlapping. `count` and `body_bytes` are sums over them."""

    __slots__ = ("_parts", "body_bytes", "count")

    def __init__(self) -> None:
        self._parts: deque[Part] = deque()
        self.count = 0
        self.body_bytes = 0

    def __iter__(self) -> Iterator[Part]:
        return iter(self._parts)

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def head(self) -> Part:
        return self._parts[0]

    def append(self, part: Part) -> None:
        """A part behind everything that waits."""
        assert not self._parts or self._parts[-1].sequence + self._parts[-1].count <= part.sequence, (
            f"{part.sequence} is appended behind {self._parts[-1].sequence}"
        )
        self._parts.append(part)
        self.count += part.count
        self.body_bytes += part.body_bytes

    def put_back(self, part: Part) -> None:
        """A part at its old place. Most come back to the front, so the place is looked for from there."""
        index = 0
        for waiting in self._parts:
            if waiting.sequence > part.sequence:
                break
            index += 1
        self._parts.insert(index, part)
        self.count += part.count
        self.body_bytes += part.body_bytes

    def drop_head(self) -> Part:
        part = self._parts.popleft()
        self.count -= part.count
        self.body_bytes -= part.body_bytes
        return part

    def shorten_head(self, count: int, position: int, body_bytes: int) -> None:
        """The first `count` messages of the head are gone; what is left begins at `position`."""
        head = self._parts[0]
        assert 0 < count < head.count, f"{count} of the head's {head.count} messages are to go"
        head.sequence += count
        head.count -= count
        head.position = position
        head.body_bytes -= body_bytes
        self.count -= count
        self.body_bytes -= body_bytes

    def clear(self) -> list[Part]:
        parts = list(self._parts)
        self._parts.clear()
        self.count = self.body_bytes = 0
        return parts
