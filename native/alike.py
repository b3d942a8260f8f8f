"""Cuts messages of a content into runs that a queue takes whole, as native/frame_split.py cuts those of a socket.

A run agrees in what its messages are stored by: persistent, priority, expiration and user id. What routing has to look
at by itself (CC, BCC, the direct reply-to) travels alone. Nothing is copied: a run is said by where it ends.
"""

from __future__ import annotations

from typing import TypeAlias

from native import compiled_twin
from native.content import Buffer, one
from native.frame_split import LOOK_ALONE, RUN_CONTENT_BYTES_MAX, RUN_MESSAGES_MAX, Look, look_at

# (count, position after them, body bytes, persistent, priority, expiration, user id, look)
AlikeRun: TypeAlias = tuple[int, int, int, bool, int, bytes | None, bytes | None, int]


def alike_runs_plain(content: Buffer, position: int, count: int) -> list[AlikeRun]:
    """`count` messages from `position` on. Raises ValueError for damage, FrameError for malformed properties."""
    runs: list[AlikeRun] = []
    start = position
    for _ in range(count):
        props, body, end = one(content, position)
        look = look_at(props)
        if not runs or not _belongs(runs[-1], look, end - start):
            start = position
            runs.append((1, end, len(body), *look))
        else:
            last = runs[-1]
            runs[-1] = (last[0] + 1, end, last[2] + len(body), *look[:4], last[7] | look.look)
        position = end
    return runs


def _belongs(run: AlikeRun, look: Look, size: int) -> bool:
    return (
        run[3:7] == look[:4]
        and not (run[7] | look.look) & LOOK_ALONE
        and run[0] < RUN_MESSAGES_MAX
        and size <= RUN_CONTENT_BYTES_MAX
    )


alike_runs = alike_runs_plain

if (_twin := compiled_twin("frame_split")) is not None:
    alike_runs = _twin.alike_runs
