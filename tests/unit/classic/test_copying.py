"""classic/copying.py: parts of stored runs as they are published to another queue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from classic.copying import CopiedPart, as_published
from classic.stored_run import StoredRun
from native.content import encode, messages

BODIES = [b"x" * size for size in (1, 4_000, 20, 3, 9_000, 7)]


def run_of(content_first: int, *, in_memory: bool) -> tuple[StoredRun, Any]:
    """Messages 10 to 15 of a queue, of whose content those before `content_first` are left out already."""
    content = b"".join(encode(b"\0\0", body) for body in BODIES[content_first - 10 :])
    run = StoredRun(10, len(BODIES), "", "q", content, sum(map(len, BODIES)), True, 0, None)
    run.loaded(content, content_first)
    if not in_memory:
        run.content = None
    return run, SimpleNamespace(backing=SimpleNamespace(read=lambda _: (content, content_first)))


@pytest.mark.parametrize("in_memory", (True, False))
@pytest.mark.parametrize(("first", "end", "content_first"), [(10, 16, 10), (10, 11, 10), (12, 15, 10), (14, 16, 13)])
def test_a_part_of_a_run_says_how_many_bytes_its_bodies_have(
    first: int, end: int, content_first: int, in_memory: bool
) -> None:
    """Found by chaos (conversion-cut-short): it was guessed, and a leader elsewhere refused the copy for ever."""
    run, queue = run_of(content_first, in_memory=in_memory)
    copied = as_published(queue, CopiedPart(run, first, end), 0)
    bodies = [body for _, body in messages(copied.content, 0, copied.count)]
    assert bodies == BODIES[first - 10 : end - 10]
    assert copied.body_bytes == sum(map(len, bodies))
