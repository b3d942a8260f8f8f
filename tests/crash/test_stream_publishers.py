"""The judge of names and stored offsets: it sees what it is there for."""

from __future__ import annotations

import pytest

from tests.crash.stream_publishers import StoredOffset, kept_wrongly
from tests.crash.workload import PublisherHistory

NAMED = PublisherHistory("named", "", "s", sent=9, confirmed={1, 2, 3})


@pytest.mark.parametrize("last", [3, 9])
@pytest.mark.parametrize("offset", [5, 6])
def test_a_name_and_an_offset_at_least_as_far_as_was_answered_are_right(last: int, offset: int) -> None:
    assert not list(kept_wrongly("s", NAMED, last, StoredOffset(5), offset))


@pytest.mark.parametrize(
    ("last", "offset", "what"),
    [
        (2, 5, "knows named up to 2; 3 were confirmed"),
        (10, 5, "knows named up to 10; 3 were confirmed, 9 sent"),
        (3, 4, "5 was stored, and now it is 4"),
    ],
)
def test_what_is_wrong_is_said(last: int, offset: int, what: str) -> None:
    assert what in "; ".join(kept_wrongly("s", NAMED, last, StoredOffset(5), offset))
