"""What one client of the stream protocol has declared and is owed, without a connection: publishers, subscriptions, flow."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.pending import Pending
from front.stream.publishers import StreamPublishers
from front.stream.response_codes import RequestRefused
from front.stream.stream_flow import StreamFlow
from front.stream.stream_terms import StreamLimits
from front.stream.subscriptions import StreamSubscriptions
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_keys import OffsetKind, ResponseCode
from wire.stream.publish_frame import StreamRun, pack_ids
from wire.stream.stream_commands import (
    ConsumerUpdateResponse,
    DeclarePublisherRequest,
    DeletePublisherRequest,
    SubscribeRequest,
    UnsubscribeRequest,
)

OUTSTANDING_MAX = 4
FIRST = OffsetSpec(OffsetKind.FIRST)


class Client:
    """Its session answers to a declaration or a subscription when the test says so."""

    def __init__(self) -> None:
        self.woken = 0
        self.asked: list[Pending[None]] = []
        self.updated: list[tuple[Any, ...]] = []
        session: Any = SimpleNamespace(
            disk_alarm=False,
            declare_publisher=lambda *_: self.ask(),
            delete_publisher=lambda *_: None,
            publish=lambda *_: None,
            check_readable=lambda stream: None,
            subscribe=lambda *_: self.ask(),
            unsubscribe=lambda *_: None,
            consumer_updated=lambda *update: self.updated.append(update),
        )
        self.flow = StreamFlow(StreamLimits(outstanding_messages_max=OUTSTANDING_MAX), self.wake)
        self.publishers = StreamPublishers(session, self.flow, 0)
        self.subscriptions = StreamSubscriptions(session)

    def wake(self) -> None:
        self.woken += 1

    def ask(self) -> Pending[None]:
        self.asked.append(Pending())
        return self.asked[-1]

    def declare(self, number: int) -> None:
        self.publishers.declare(DeclarePublisherRequest(1, number, "", "s"), 0)
        self.asked.pop().resolve(None)

    def publish(self, number: int, *ids: int) -> None:
        assert (
            self.publishers.publish_run(number, StreamRun(len(ids), len(ids), pack_ids(list(ids)), b"items"), 0) == b""
        )

    def subscribe(self, number: int, **properties: str) -> Pending[Any]:
        return self.subscriptions.subscribe(SubscribeRequest(1, number, "s", FIRST, 1, properties), 0)


@pytest.fixture
def client() -> Client:
    return Client()


def refusal_of(answer: Pending[Any]) -> ResponseCode:
    told: list[Any] = []
    answer.then(lambda _: pytest.fail("it was taken"), told.append)
    (error,) = told
    assert isinstance(error, RequestRefused)
    return error.code


def test_what_was_confirmed_is_not_owed_any_more_when_its_publisher_goes(client: Client) -> None:
    """It was taken off twice, and what another publisher is owed with it."""
    for number in (1, 2):
        client.declare(number)
    client.publish(1, 1, 2)
    client.publish(2, 1)
    client.publishers.confirm(1, pack_ids([1]))
    client.publishers.delete(DeletePublisherRequest(2, 1), 0)
    assert client.flow.outstanding_messages == 1
    client.publishers.confirm(2, pack_ids([1]))
    client.publishers.delete(DeletePublisherRequest(3, 2), 0)
    assert client.flow.outstanding_messages == 0


def test_a_client_publishes_as_long_as_it_has_a_publisher(client: Client) -> None:
    """Who does not is read from during a disk alarm."""
    for number in (1, 2):
        client.declare(number)
    client.flow.alarm = "the disk is nearly full"
    client.publishers.delete(DeletePublisherRequest(2, 1), 0)
    assert not client.flow.reads
    client.publishers.delete(DeletePublisherRequest(3, 2), 0)
    assert client.flow.reads


def test_a_publisher_whose_stream_goes_before_the_answer_is_not_declared(client: Client) -> None:
    answer = client.publishers.declare(DeclarePublisherRequest(1, 1, "", "s"), 0)
    assert not client.publishers.stream_unavailable("s")
    client.asked.pop().resolve(None)
    assert refusal_of(answer) is ResponseCode.STREAM_NOT_AVAILABLE
    assert client.publishers.by_number == {}


def test_a_subscription_whose_stream_goes_before_the_answer_is_none(client: Client) -> None:
    answer = client.subscribe(1)
    assert not client.subscriptions.stream_unavailable("s")
    client.asked.pop().resolve(None)
    assert refusal_of(answer) is ResponseCode.STREAM_NOT_AVAILABLE
    assert client.subscriptions.by_number == {}


@pytest.mark.parametrize("comes_again", [False, True])
def test_an_answer_to_what_a_subscription_was_told_that_is_gone_says_nothing(client: Client, comes_again: bool) -> None:
    group = {"single-active-consumer": "true", "name": "g"}
    client.subscribe(1, **group)
    client.asked.pop().resolve(None)
    correlation, _ = client.subscriptions.activate(1, True)
    client.subscriptions.unsubscribe(UnsubscribeRequest(2, 1), 0)
    if comes_again:
        client.subscribe(1, **group)
        client.asked.pop().resolve(None)
    client.subscriptions.updated(ConsumerUpdateResponse(correlation, ResponseCode.OK, FIRST), 0)
    assert client.updated == []


def test_reading_goes_on_when_enough_is_confirmed_and_somebody_is_told(client: Client) -> None:
    client.declare(1)
    client.publish(1, *range(OUTSTANDING_MAX))
    assert not client.flow.reads
    client.publishers.confirm(1, pack_ids([0]))
    assert (client.flow.reads, client.woken) == (False, 0), "three quarters of it remain"
    client.publishers.confirm(1, pack_ids([1]))
    assert (client.flow.reads, client.woken) == (True, 1)


@pytest.mark.parametrize("waits", ["output", "deliveries", "nothing"])
def test_when_the_transport_can_be_written_to_what_waits_for_it_goes_on(client: Client, waits: str) -> None:
    wake: Callable[[bool], None] = client.flow.set_transport_writable
    wake(False)
    if waits == "output":
        client.flow.unsent_bytes = 10
    elif waits == "deliveries":
        assert not client.flow.writable
    wake(True)
    assert client.woken == (waits != "nothing")
