"""Messages that their client has numbered are stored once, whoever says them again."""

from __future__ import annotations

from typing import Any

import pytest

from broker.messages.confirms import Receipt
from broker.messages.message import LOOK_HEADERS, Run
from native.content import encode
from quorum.fifo.commands import Producer
from quorum.numbered import may_be_numbered, producer_of
from tests.unit.quorum.clients import Clients
from wire.amqp.tables import encode_properties


def properties(**headers: Any) -> bytes:
    return encode_properties({"headers": {name.replace("_", "-"): value for name, value in headers.items()}})


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"x_producer": "p", "x_seq": 7}, Producer(b"p", 7)),
        ({"x_producer": "p", "x_seq": 0}, Producer(b"p", 0)),
        ({"x_producer": "p"}, None),
        ({"x_seq": 7}, None),
        ({"x_producer": "", "x_seq": 7}, None),
        ({"x_producer": "p" * 256, "x_seq": 7}, None),
        ({"x_producer": "p", "x_seq": -1}, None),
        ({"x_producer": "p", "x_seq": 1 << 62}, None),
        ({"x_producer": "p", "x_seq": "7"}, None),
        ({"x_producer": "p", "x_seq": True}, None),
        ({"x_producer": 5, "x_seq": 7}, None),
    ],
)
def test_only_a_name_and_a_number_make_a_producer(headers: dict[str, Any], found: Producer | None) -> None:
    assert producer_of(properties(**headers)) == found


def test_a_dead_letter_has_no_number_any_more() -> None:
    """The queue where it died has stored it once; where it goes, a later number may have died before it."""
    deaths = [{"queue": "q", "reason": "expired", "count": 1}]
    assert producer_of(properties(x_producer="p", x_seq=7, x_death=deaths)) is None


def test_properties_that_cannot_be_read_name_nobody() -> None:
    assert producer_of(b"\x20\x00\x00\x00\x00\x09\x0ax-producer") is None


def test_runs_without_headers_are_not_looked_at() -> None:
    content = encode(properties(x_producer="p", x_seq=1), b"")
    assert may_be_numbered(Run("", "k", content, 1, 0, look=LOOK_HEADERS))
    assert not may_be_numbered(Run("", "k", content, 1, 0))
    assert not may_be_numbered(Run("", "k", encode(properties(other=1), b""), 1, 0, look=LOOK_HEADERS))


class Publisher:
    """Fulfils AnswersTo."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bool]] = []

    def answered(self, receipt: Receipt) -> None:
        self.answers.append((receipt.first, receipt.taken))

    def given_up(self, receipt: Receipt) -> None:
        raise AssertionError("nobody gives up")


def test_what_is_published_again_on_another_node_is_confirmed_and_there_once() -> None:
    clients = Clients()
    record = clients.cluster.declare("q", [1, 2, 3])
    clients.cluster.leader(record)
    publisher = Publisher()
    contents = [encode(properties(x_producer="p", x_seq=number), b"%d" % number) for number in range(4)]

    def publish(node: int, first: int, end: int) -> None:
        content = b"".join(contents[first:end])
        run = Run("", "k", content, end - first, end - first, persistent=True, look=LOOK_HEADERS)
        kind, queue = clients.of(node, record)
        kind.publish((queue,), run, Receipt(publisher, first, end - 1, 1), clients.now)
        clients.cluster.run(0.3)

    publish(1, 0, 3)
    publish(2, 1, 4)
    publish(3, 0, 1)
    assert publisher.answers == [(0, True), (1, True), (0, True)]
    assert clients.drain(1, record) == [b"0", b"1", b"2", b"3"]
