"""The management API's paths about streams, over a real broker whose streams are in memory."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from broker.errors import AccessRefused, BrokerError, PreconditionFailed, ResourceExhausted
from broker.operations.stream_admin import StreamAdmin
from broker.queues.stream_contract import StreamPlaces
from broker.records import UserRecord
from front.web.handlers import WebFront
from front.web.http.request import HttpError, Request
from front.web.resources.streams_api import StreamsApi
from front.web.router import WebRouter
from tests.unit.broker.stream_clients.fake_streams import StreamWorld
from tests.unit.front.web.test_api import LOCAL, NOW

SUPER = "/api/stream/super-streams/%2F/orders"
GUEST = UserRecord("guest", "", ("administrator",))


@pytest.fixture
def world() -> StreamWorld:
    return StreamWorld()


def asked(world: StreamWorld, method: str, path: str, body: Any = None, user: UserRecord = GUEST) -> tuple[int, Any]:
    operations: Any = SimpleNamespace(stream_admin=StreamAdmin(world.broker), this_node=SimpleNamespace(facts=None))
    router = WebRouter()
    web_front: Any = WebFront(world.broker, operations, lambda: NOW)
    StreamsApi(web_front).add_routes(router)
    request = Request(method, path, {}, json.dumps(body).encode() if body is not None else b"", LOCAL, NOW, user)
    route, named = router.find(request)
    response = asyncio.run(route.handler(request, **named))  # type: ignore[arg-type]
    return response.status, json.loads(response.body) if response.body else None


@pytest.mark.parametrize(
    ("wanted", "partitions"),
    [
        ({"partitions": 3}, ["orders-0", "orders-1", "orders-2"]),
        ({"partitions": "2"}, ["orders-0", "orders-1"]),
        ({"binding-keys": "eu, us"}, ["orders-eu", "orders-us"]),
        ({"binding-keys": ["us", "eu"]}, ["orders-us", "orders-eu"]),
    ],
)
def test_a_super_stream_has_a_partition_for_each_number_or_key(
    wanted: dict[str, Any], partitions: list[str], world: StreamWorld
) -> None:
    assert asked(world, "PUT", SUPER, wanted) == (204, None)
    assert world.answer(world.stream_user().streams.partitions("orders", NOW)) == tuple(partitions)
    with pytest.raises(PreconditionFailed, match="is there already"):
        asked(world, "PUT", SUPER, wanted)


def test_partitions_have_the_arguments_that_were_given(world: StreamWorld) -> None:
    given = {"max-age": "1D", "max-length-bytes": "5000", "initial-cluster-size": 1}
    asked(world, "PUT", SUPER, {"partitions": 1, "arguments": given})
    assert world.stream("orders-0").record.arguments == {
        "x-queue-type": "stream",
        "x-queue-leader-locator": "balanced",
        "x-max-age": "1D",
        "x-max-length-bytes": 5000,
        "x-initial-cluster-size": 1,
    }


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"partitions": 2, "binding-keys": "a"},
        {"partitions": 0},
        {"partitions": 1001},
        {"partitions": 10**18},
        {"partitions": True},
        {"partitions": -1},
        {"partitions": "two"},
        {"binding-keys": ""},
        {"binding-keys": "a,,b"},
        {"binding-keys": "a, a"},
        {"binding-keys": ["a", 1]},
        {"binding-keys": 7},
        {"partitions": 1, "arguments": []},
        {"partitions": 1, "arguments": {"x-max-age": "1D"}},
        {"partitions": 1, "arguments": {"max-length-bytes": "abc"}},
        {"partitions": 1, "arguments": {"max-age": "banana"}},
        {"partitions": 1, "arguments": {"max-age": 5}},
    ],
)
def test_what_is_wrong_with_a_super_stream_is_said_and_nothing_is_created(
    wanted: dict[str, Any], world: StreamWorld
) -> None:
    with pytest.raises((HttpError, BrokerError)) as refused:
        asked(world, "PUT", SUPER, wanted)
    assert isinstance(refused.value, PreconditionFailed) or getattr(refused.value, "status", 0) == 400
    assert world.broker.catalog.exchange("/", "orders") is None
    assert world.broker.catalog.queue("/", "orders-0") is None


def test_what_is_kept_by_names_is_shown_where_a_copy_is(world: StreamWorld) -> None:
    world.stream_user().create("s")
    stream = world.stream("s")
    stream.last_ids, stream.offsets = {"till 3": 77}, {"billing": 5}
    path = "/api/stream/%2F/s/tracking"
    assert asked(world, "GET", path) == (200, {"writers": {"till 3": 77}, "offsets": {"billing": 5}})
    assert asked(world, "GET", f"{path}?type=writer") == (200, {"writers": {"till 3": 77}})
    assert asked(world, "GET", f"{path}?type=offset") == (200, {"offsets": {"billing": 5}})
    stream.where = StreamPlaces("other@test", ("other@test",))
    with pytest.raises(ResourceExhausted, match="has no copy of stream 's' in vhost '/': ask one of other@test"):
        asked(world, "GET", path)


def test_who_may_not_configure_a_partition_creates_no_super_stream(world: StreamWorld) -> None:
    world.add_user("clerk", configure="^orders$", tags=("management",))
    with pytest.raises(AccessRefused, match="orders-0"):
        asked(world, "PUT", SUPER, {"partitions": 1}, UserRecord("clerk", "", ("management",)))
    assert world.broker.catalog.exchange("/", "orders") is None
