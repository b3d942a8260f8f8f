"""What happened, as one number: two runs of a seed must come to the same."""

from __future__ import annotations

import hashlib
from struct import Struct

_HEAD = Struct("<dI")
_GATHERED_EVENTS = 1 << 10  # that are hashed at once


class Trace:
    """Every event of every node, with its time and, if it is a letter, its bytes."""

    def __init__(self) -> None:
        self.events = 0
        self._hash = hashlib.blake2b(digest_size=8)
        self._gathered = bytearray()
        self.log: list[str] | None = None  # set to [] to read what happened

    def event(self, now: float, node: int, what: str) -> None:
        self.events += 1
        self._gathered += _HEAD.pack(now, node)
        self._gathered += what.encode()
        if self.events % _GATHERED_EVENTS == 0:
            self._hash_gathered()
        if self.log is not None:
            self.log.append(f"{now:.6f} {node} {what}")

    def letter(self, letter: bytes) -> None:
        self._gathered += letter

    def _hash_gathered(self) -> None:
        self._hash.update(self._gathered)
        self._gathered.clear()

    @property
    def hash(self) -> str:
        self._hash_gathered()
        return self._hash.hexdigest()
