"""The judge of streams: it sees what it is there for."""

from __future__ import annotations

import pytest

from tests.crash.streams import StreamHistory, judge_messages
from tests.crash.workload import PublisherHistory


def history(known: list[tuple[str, int]], confirmed: set[int]) -> StreamHistory:
    return StreamHistory("s", [PublisherHistory("one", "", "s", sent=9, confirmed=confirmed)], known)


def test_a_stream_with_all_that_was_confirmed_and_more_is_right() -> None:
    assert judge_messages(history([("one", 1), ("one", 2), ("one", 5)], {1, 5})) == []


@pytest.mark.parametrize(
    ("known", "what"),
    [
        ([("one", 1)], "2 confirmed messages of one are lost"),
        ([("one", 1), ("one", 3), ("one", 2)], "out of order"),
        ([("one", 1), ("one", 2), ("one", 2), ("one", 3)], "or twice"),
        ([("one", 1), ("one", 2), ("one", 3), ("two", 1)], "who do not publish"),
    ],
)
def test_what_is_wrong_is_said(known: list[tuple[str, int]], what: str) -> None:
    assert what in "; ".join(judge_messages(history(known, {1, 2, 3})))
