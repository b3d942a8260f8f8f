"""The version of this node's software, and which others it works with."""

from __future__ import annotations

from importlib.metadata import version

VERSION = version("leveret-server")
OLDEST_PEER = "0.1.0"  # of nodes that may join


def parsed(text: str) -> tuple[int, ...]:
    """`0.1.0` as numbers; what is none counts as 0."""
    return tuple(int(part) if part.isdecimal() else 0 for part in text.split(".")[:3])


def too_old(other: str) -> bool:
    return parsed(other) < parsed(OLDEST_PEER)
