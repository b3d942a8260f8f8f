"""Numbers that cannot work are refused by name."""

from __future__ import annotations

import pytest

from raft.core.settings import Settings


def test_the_defaults_work() -> None:
    assert Settings().election_min_s < Settings().election_max_s


@pytest.mark.parametrize(
    ("name", "value"),
    [("resend_s", 0.0), ("append_bytes_max", -1), ("window_messages_max", 0), ("commit_news_s", -0.1)],
)
def test_a_number_that_cannot_work_is_named(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        Settings(**{name: value})  # type: ignore[arg-type]


def test_the_longest_wait_is_not_shorter_than_the_shortest() -> None:
    with pytest.raises(ValueError, match=r"election_max_s 0\.1 is below election_min_s 0\.2"):
        Settings(election_min_s=0.2, election_max_s=0.1)
