"""Who did what, as sessions tell it to their queues: the actor of a publish and of a settlement, and why messages come back."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest

from broker.actors import ActorKind, GoneReason, LogActor, submitter
from broker.catalog.commands.catalog_commands import Command, DeleteQueue
from broker.login.audit import Actor, acting_for, as_actor_of_now
from broker.login.client_address import ClientAddress
from broker.pending import Pending
from broker.queues.queue_type import BackReason, Outcome, Slice
from broker.session import session as session_module
from tests.unit.broker.broker_world import Client, World

Settlement = tuple[Outcome, BackReason, LogActor | None]


@pytest.fixture(autouse=True, params=["one by one", "all at once"])
def giving_back(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "all at once":
        monkeypatch.setattr(session_module, "GIVEN_BACK_ONE_BY_ONE_MAX", 0)


@pytest.fixture
def client() -> Client:
    client = World().client()
    client.declare("q")
    return client


@pytest.fixture
def settled(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[Settlement]:
    queue: Any = client.world.broker.queue("/", "q")
    settle = queue.settle
    seen: list[Settlement] = []

    def note(piece: Slice, outcome: Outcome, now: int) -> None:
        seen.append((outcome, piece.back, piece.taker))
        settle(piece, outcome, now)

    monkeypatch.setattr(queue, "settle", note)
    return seen


class Names:
    """Gives numbers, and hears who is gone."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def name(self, *actors: LogActor) -> None:
        for number, actor in enumerate(actors, 1):
            actor.named(self, number)

    def gone(self, actor: LogActor, reason: int) -> None:
        self.heard.append((actor.kind.name.lower(), reason))


def test_each_way_of_giving_back_has_its_reason(client: Client, settled: list[Settlement]) -> None:
    ways: list[tuple[Callable[[], None], Outcome, BackReason]] = [
        (lambda: client.session.reject(1, True, client.world.now), Outcome.REQUEUED, BackReason.REJECTED),
        (lambda: client.session.nack(2, False, True, client.world.now), Outcome.RELEASED, BackReason.NACKED),
        (lambda: client.session.recover(True, client.world.now), Outcome.RELEASED, BackReason.RECOVERED),
        (lambda: client.session.close(client.world.now), Outcome.REQUEUED, BackReason.CHANNEL_CLOSED),
    ]
    client.publish("", "q", b"a")
    for way, outcome, reason in ways:
        client.get("q")
        way()
        client.world.end_turn()
        assert [(one[0], one[1]) for one in settled] == [(outcome, reason)]
        assert settled[0][2] is client.session.actor, "a get has no consumer: its channel had the message"
        settled.clear()


def test_a_part_of_a_delivery_comes_back_for_a_reason_of_its_own(client: Client, settled: list[Settlement]) -> None:
    client.publish("", "q", b"a", b"b", b"c")
    for _ in range(3):
        client.get("q")
    client.session.acknowledge(2, 2, False, client.world.now)
    client.session.nack(3, True, True, client.world.now)
    client.world.end_turn()
    reasons = [(outcome, back) for outcome, back, _ in settled]
    assert reasons[0] == (Outcome.ACKNOWLEDGED, BackReason.NOT_SAID)
    assert set(reasons[1:]) == {(Outcome.RELEASED, BackReason.NACKED)}


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        (GoneReason.CONNECTION_LOST, BackReason.CONNECTION_LOST),
        (GoneReason.FORCED, BackReason.CONNECTION_LOST),
        (GoneReason.CLOSED, BackReason.CHANNEL_CLOSED),
    ],
)
def test_what_a_client_held_comes_back_as_its_connection_ended(
    client: Client, settled: list[Settlement], left: GoneReason, reason: BackReason
) -> None:
    client.publish("", "q", b"a")
    client.get("q")
    client.connection.left = left
    client.world.disconnect(client)
    assert [one[:2] for one in settled] == [(Outcome.REQUEUED, reason)]


def test_those_who_were_named_are_said_to_be_gone_in_the_order_in_which_they_go(client: Client) -> None:
    tag = client.consume("q")
    consumer = client.session._consumers[tag].actor
    assert consumer is not None
    assert consumer.kind is ActorKind.CONSUMER and consumer.parent is client.session.actor
    assert client.session.actor.parent is client.connection.actor
    names = Names()
    names.name(client.connection.actor, client.session.actor, consumer)
    client.world.disconnect(client)
    lost = GoneReason.CONNECTION_LOST
    assert names.heard == [("consumer", lost), ("channel", lost), ("connection", lost)]


def test_a_consumer_whose_queue_goes_is_gone_for_that_reason(client: Client) -> None:
    consumer = client.session._consumers[client.consume("q")].actor
    assert consumer is not None
    names = Names()
    names.name(consumer)
    client.delete("q")
    assert names.heard == [("consumer", GoneReason.QUEUE_GONE)]


def test_a_publish_is_numbered_as_its_confirm_is(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    found = client.world.broker.find_queue("/", "q")
    assert found is not None
    runs: list[tuple[LogActor | None, int, int]] = []
    monkeypatch.setattr(
        found.kind, "publish", lambda queues, run, receipt, now: runs.append((run.publisher, run.number, run.count))
    )
    actor = client.session.actor
    client.publish("", "q", b"a", b"b")
    client.publish("", "q", b"c")
    assert runs == [(actor, 1, 2), (actor, 3, 1)]
    client.session.publisher.select_confirms()
    client.publish("", "q", b"d")
    assert runs[-1] == (actor, 1, 1), "confirms count from 1 on again"


def test_what_a_client_declares_is_submitted_as_its_own(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata: Any = client.world.broker.metadata
    submit = metadata.submit
    seen: list[LogActor | None] = []

    def note(command: Command) -> Pending[Any]:
        seen.append(submitter())
        answer: Pending[Any] = submit(command)
        return answer

    monkeypatch.setattr(metadata, "submit", note)
    client.declare("r")
    client.delete("r")
    assert seen == [client.connection.actor] * 2
    client.world.broker.submit(DeleteQueue("/", "q"), client.world.now)
    assert seen[2:] == [None], "what a node does by itself is nobody's"


def test_what_an_operator_asks_for_is_submitted_as_that_users_also_later() -> None:
    def asked() -> LogActor | None:
        acting_for(Actor("root", ClientAddress("192.0.2.7", 4_000, False, "HTTP")))
        later = as_actor_of_now(lambda _: submitter())
        acting_for(Actor("somebody else", ClientAddress("192.0.2.8", 4_000, False, "HTTP")))
        return later(None)

    actor = copy_context().run(asked)
    assert actor is not None
    assert (actor.kind, actor.user, actor.address, actor.product) == (
        ActorKind.CONNECTION,
        "root",
        "192.0.2.7:4000",
        "HTTP",
    )
    assert submitter() is None
