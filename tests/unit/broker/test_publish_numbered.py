"""Messages that their publisher has numbered go to the one stream that their key names, and are confirmed as any others."""

from __future__ import annotations

import pytest

from broker.errors import AccessRefused, PreconditionFailed, ResourceExhausted
from broker.messages.message import Run
from native.content import encode
from tests.unit.broker.broker_world import Client, refused
from tests.unit.broker.stream_clients.fake_streams import StreamWorld


@pytest.fixture
def world() -> StreamWorld:
    return StreamWorld()


@pytest.fixture
def client(world: StreamWorld) -> Client:
    world.stream_user().create("s")
    client = world.client()
    client.session.publisher.select_confirms()
    return client


def run(key: str, *bodies: bytes, exchange: str = "") -> Run:
    return Run(exchange, key, b"".join(encode(b"\0\0", body) for body in bodies), len(bodies), sum(map(len, bodies)))


def test_they_are_confirmed_when_the_stream_has_them(world: StreamWorld, client: Client) -> None:
    client.session.publisher.publish_numbered(run("s", b"a", b"b"), "till", 5, world.now)
    world.end_turn()
    assert client.confirms == [(1, 2, True, True)]
    assert world.stream("s").last_ids == {"till": 6}
    assert client.session.counters.published == client.session.counters.routed == 2


def test_what_the_stream_does_not_take_is_refused(world: StreamWorld, client: Client) -> None:
    world.stream("s").full = ResourceExhausted("too much waits")
    client.session.publisher.publish_numbered(run("s", b"a"), "till", 1, world.now)
    world.end_turn()
    assert client.confirms == [(1, 1, False, False)]


@pytest.mark.parametrize(("key", "exchange"), [("q", ""), ("none", ""), ("s", "amq.direct")])
def test_only_a_stream_takes_them(world: StreamWorld, client: Client, key: str, exchange: str) -> None:
    client.declare("q")
    text = "only a stream takes numbered messages: publish to the default exchange with its name"
    refused(
        PreconditionFailed,
        text,
        lambda: client.session.publisher.publish_numbered(run(key, b"a", exchange=exchange), "till", 1, world.now),
    )
    assert not world.stream("s").last_ids


def test_they_need_the_permissions_of_any_publish(world: StreamWorld, client: Client) -> None:
    world.add_user("app", write="^other$")
    app = world.client("app")
    app.session.publisher.select_confirms()
    with pytest.raises(AccessRefused):
        app.session.publisher.publish_numbered(run("s", b"a"), "till", 1, world.now)
    assert not world.stream("s").last_ids
