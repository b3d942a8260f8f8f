"""Which channel publishes where, added up over nodes; and how many messages one request gets."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from front.web import message_flows
from front.web.message_flows import _exchange, _grouped
from front.web.resources.messages import messages_api
from front.web.resources.messages.messages_api import MessagesApi
from front.web.samples.shapes import ROUTE


def row(exchange: str, count: int, vhost: str = "v") -> dict[str, Any]:
    return {"exchange": exchange, "vhost": vhost, "counts": {"publish": count}}


def test_rows_of_one_thing_are_added_up_and_the_busiest_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_flows, "KEPT_MAX", 2)
    rows = [row("few", 1), row("e", 3), row("e", 4), row("e", 5, "another vhost")]
    found = _grouped(rows, "exchange", _exchange, ROUTE.names)
    assert [(one["exchange"]["vhost"], one["exchange"]["name"], one["stats"]["publish"]) for one in found] == [
        ("v", "e", 7),
        ("another vhost", "e", 5),
    ]


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        (2, 2),
        (100, 4),  # the next one is beyond the bytes of an answer
        (0, 0),
        (-1, 0),
    ],
)
def test_so_many_messages_are_got_as_are_asked_for_and_fit_into_an_answer(
    monkeypatch: pytest.MonkeyPatch, asked: int, got: int
) -> None:
    monkeypatch.setattr(messages_api, "GOT_BYTES_MAX", 31)
    assert len(messages_got(asked)) == got


def test_no_more_messages_are_got_than_an_answer_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_api, "GOT_MAX", 3)
    assert len(messages_got(100)) == 3


def messages_got(count: int) -> list[Any]:
    """Of a queue with any number of messages of 10 bytes."""

    async def done(change: Any) -> Any:
        return change

    front: Any = SimpleNamespace(done=done)
    message = SimpleNamespace(content=b"0123456789")
    session: Any = SimpleNamespace(get=lambda *_: message)
    return asyncio.run(MessagesApi(front)._got(session, "q", count, no_ack=False, now=0))
