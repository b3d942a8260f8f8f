"""What a node weighs and costs while nobody asks for anything."""

from __future__ import annotations

import time

from tests.running_node import RunningNode

IDLE_SECONDS = 10


def settled_resident_bytes(node: RunningNode) -> int:
    """Memory once it has stopped changing, or after ten seconds."""
    last = node.resident_bytes()
    for _ in range(20):
        time.sleep(0.5)  # memory is watched, nothing is synchronised by this
        now = node.resident_bytes()
        if abs(now - last) < 1 << 18:
            return now
        last = now
    return last


def idle_cpu_share(*nodes: RunningNode) -> float:
    """Of one core; of several nodes that of the busiest."""
    begin = [node.cpu_seconds() for node in nodes]
    time.sleep(IDLE_SECONDS)  # the measurement itself: what does a node do in this time when nobody asks for anything
    return max(node.cpu_seconds() - before for node, before in zip(nodes, begin, strict=True)) / IDLE_SECONDS
