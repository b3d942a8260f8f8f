"""links/amqp/conversation.py: as whom it logs in, and what frames it asks for."""

from __future__ import annotations

import pytest

from links.amqp.conversation import login_terms
from links.amqp.opening import FRAME_MAX
from links.amqp.uri import parse_uri


@pytest.mark.parametrize(("asked", "frame_max"), [(0, FRAME_MAX), (4096, 4096), (2**32 - 1, FRAME_MAX)])
def test_no_uri_asks_for_frames_that_fill_the_memory(asked: int, frame_max: int) -> None:
    assert login_terms(parse_uri(f"amqp://h?frame_max={asked}"), {}).frame_max == frame_max


@pytest.mark.parametrize(
    ("uri", "login"), [("amqp://h", ("guest", "guest")), ("amqp://u@h", ("u", "")), ("amqp://u:p@h", ("u", "p"))]
)
def test_who_logs_in(uri: str, login: tuple[str, str]) -> None:
    terms = login_terms(parse_uri(uri), {})
    assert (terms.user, terms.password) == login
