"""node/foundation.py: what a stop undoes."""

from __future__ import annotations

import pytest

from node.foundation import undo


def test_what_fails_at_a_stop_keeps_nothing_else_open() -> None:
    closed: list[str] = []

    def fails() -> None:
        closed.append("fails")
        raise OSError("the disk failed")

    steps = [lambda: closed.append("log"), fails, lambda: closed.append("queues")]
    with pytest.raises(OSError, match="the disk failed"):
        undo(steps)
    assert closed == ["queues", "fails", "log"] and not steps
