"""Messages over HTTP at a broker with queues: what becomes of those that were got, and what is said of those published."""

from __future__ import annotations

from typing import Any

import pytest

from broker.catalog.commands.catalog_commands import SetVhostLimits
from front.web.http.request import HttpError
from front.web.resources.messages.messages_api import ACK_MODES
from tests.unit.front.web.asked_broker import AskedBroker

MESSAGE = {"routing_key": "q", "properties": {}, "payload": "hello", "payload_encoding": "string"}


class Node(AskedBroker):
    """Has a queue q, whose messages go to `dead` when they are rejected."""

    def __init__(self) -> None:
        super().__init__()
        self.client.declare("dead")
        self.client.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")

    def publish(self, **more: str) -> Any:
        return self.said("POST", "/api/exchanges/%2F/amq.default/publish", MESSAGE | more)

    def get(self, **more: Any) -> list[dict[str, Any]]:
        body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto", **more}
        found: list[dict[str, Any]] = self.said("POST", "/api/queues/%2F/q/get", body)
        return found


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.mark.parametrize("mode", ACK_MODES)
def test_a_message_that_was_got_is_given_back_taken_or_rejected_as_its_mode_says(node: Node, mode: str) -> None:
    node.publish()
    (got,) = node.get(ackmode=mode)
    assert (got["payload"], got["redelivered"]) == ("hello", False)
    node.world.end_turn()
    comes_back, dies = mode.endswith("_true"), mode == "reject_requeue_false"
    assert (node.world.ready("q"), node.world.ready("dead")) == (int(comes_back), int(dies))


def test_all_that_was_got_is_given_back_and_in_its_order(node: Node) -> None:
    for payload in "abc":
        node.publish(payload=payload)
    for _ in range(2):
        found = node.get(count=2)
        assert [(one["payload"], one["message_count"]) for one in found] == [("a", 2), ("b", 1)]
    assert node.world.ready("q") == 3


@pytest.mark.parametrize(("truncate", "shown"), [({}, "hello"), ({"truncate": 2}, "he"), ({"truncate": 9}, "hello")])
def test_a_payload_is_cut_where_it_is_asked_for_and_its_size_is_that_of_all(
    node: Node, truncate: dict[str, int], shown: str
) -> None:
    node.publish()
    (got,) = node.get(**truncate)
    assert (got["payload"], got["payload_bytes"], got["payload_encoding"]) == (shown, 5, "string")


def test_a_payload_comes_as_base64_when_it_is_no_text_or_that_is_asked_for(node: Node) -> None:
    node.publish(payload="/w==", payload_encoding="base64")
    assert [(one["payload"], one["payload_encoding"]) for one in node.get()] == [("/w==", "base64")]
    node.get(ackmode="ack_requeue_false")
    node.publish()
    assert [(one["payload"], one["payload_encoding"]) for one in node.get(encoding="base64")] == [
        ("aGVsbG8=", "base64")
    ]


def test_who_publishes_is_told_whether_it_went_to_a_queue(node: Node) -> None:
    assert node.publish() == {"routed": True}
    assert node.publish(routing_key="no queue") == {"routed": False}
    assert node.world.ready("q") == 1


def test_who_publishes_under_a_limit_that_lets_nothing_come_is_told_so_in_time(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request waited without end, and its session stayed, also when whoever asked had gone."""
    monkeypatch.setattr("front.web.resources.messages.messages_api.CONFIRM_S_MAX", 0.01)
    node.world.submit(SetVhostLimits("/", {"max-message-rate": 0}))
    with pytest.raises(HttpError, match="no confirm came") as refused:
        node.publish()
    assert refused.value.status == 503
    assert [session for session in node.world.broker.sessions() if session is not node.client.session] == []


@pytest.mark.parametrize("wrong", [{"ackmode": "keep"}, {"encoding": "hex"}, {"count": "many"}])
def test_what_cannot_be_asked_for_takes_nothing(node: Node, wrong: dict[str, str]) -> None:
    node.publish()
    with pytest.raises(HttpError) as refused:
        node.get(**wrong)
    assert refused.value.status == 400 and node.world.ready("q") == 1


@pytest.mark.parametrize("wrong", [{"payload": "=", "payload_encoding": "base64"}, {"payload_encoding": "utf-16"}])
def test_a_payload_that_cannot_be_read_is_refused(node: Node, wrong: dict[str, str]) -> None:
    with pytest.raises(HttpError) as refused:
        node.publish(**wrong)
    assert refused.value.status == 400 and node.world.ready("q") == 0
