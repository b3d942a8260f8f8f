"""How far producers have come that number their messages themselves, so that one that publishes again after it lost its
connection is not heard twice. Sessions number what one node says; this is what a client says, whatever node it talks to.

A producer's numbers ascend. Which it has used is not remembered, only the highest: what comes with that number or a lower one
was published before.
"""

from __future__ import annotations

PRODUCERS_MAX = 10_000  # beyond, the one that has been silent longest is forgotten


class Producers:
    """Of one queue."""

    __slots__ = ("highest",)

    def __init__(self) -> None:
        self.highest: dict[bytes, int] = {}  # in the order in which they were heard last

    def has_said(self, name: bytes, number: int) -> bool:
        return number <= self.highest.get(name, -1)

    def say(self, name: bytes, number: int) -> None:
        self.highest.pop(name, None)
        self.highest[name] = number
        if len(self.highest) > PRODUCERS_MAX:
            del self.highest[next(iter(self.highest))]
