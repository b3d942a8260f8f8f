"""Clients over HTTP: each figure stands under its own name, and each list has what its path names and no more."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker.client_connection import Connection
from broker.counting.counters import Counters
from broker.operations.clients import ConsumerView
from broker.operations.stream_users import SubscriptionView
from broker.queues.queue_type import QueueStatistics
from broker.stream_clients.client_terms import ReadOptions
from front.web.samples.figures import SampledFigures
from front.web.views.client_views import consumer_view, subscription_view
from front.web.views.declared_views import queue_view
from front.web.views.message_stats import session_counts
from tests.unit.front.web.test_api import HOME, World, client, world

__all__ = ["world"]  # the fixture


class Sink:
    """What a consumer of a session has for its channel."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection, self.number = connection, number


class Session:
    """A channel with one consumer, whose figures are all different."""

    def __init__(self, connection: Connection, number: int = 1) -> None:
        self.connection, self.number, self.vhost, self.user = connection, number, connection.vhost, connection.user
        self.counters = Counters(published=1)
        flows = SimpleNamespace(published={}, routed={}, into={})
        self.publisher = SimpleNamespace(flows=lambda: flows)
        queue = SimpleNamespace(record=SimpleNamespace(name="orders", vhost=self.vhost))
        self.consumer = SimpleNamespace(
            queue=queue, tag=f"tag {number} of {connection.name}", sink=Sink(connection, number), no_ack=False,
            exclusive=False, prefetch=5, outstanding=0, priority=0, active=True, timeout_ms=None, arguments={}, delivered=0,
        )  # fmt: skip

    def consumers(self) -> list[Any]:
        return [self.consumer]

    def statistics(self) -> dict[str, Any]:
        numbers = {
            "consumers": 1, "prefetch": 2, "global_prefetch": 3, "unacknowledged": 4, "unconfirmed": 5, "uncommitted": 6,
        }  # fmt: skip
        return {**numbers, "confirms": True, "transactional": False, **self.counters.as_dict()}


@pytest.fixture
def busy(world: World) -> World:
    """Connections a1 and a2 of user app, with channels 1 and 2 each, and r of user root, with channel 1."""
    a1, a2, r = (client(user, name=name) for user, name in (("app", "a1"), ("app", "a2"), ("root", "r")))
    world.broker.clients = [a1, a2, r]
    for one in world.broker.clients:
        one.id = f"id-{one.name}"
    sessions: list[Any] = [Session(one, number) for one in (a1, a2) for number in (1, 2)] + [Session(r)]
    world.broker.sessions = lambda: sessions  # type: ignore[method-assign]
    world.broker.consumers = lambda: [one.consumer for one in sessions]  # type: ignore[method-assign]
    return world


# Which clients a path names.


def test_connections_of_a_user_are_listed_and_closed_and_those_of_others_stay(busy: World) -> None:
    path = "/api/connections/username/app"
    assert [one["name"] for one in busy.get(path)] == ["a1", "a2"]
    assert busy.get(path, "user-management") == []
    assert busy.request("DELETE", path, user="user-management").status == 204
    assert busy.broker.closed == [], "whoever may not see them cannot close them either"
    assert busy.request("DELETE", path, x_reason="moved").status == 204
    assert [(user, "moved" in error.text) for user, error in busy.broker.closed] == [("app", True)] * 2


def test_a_connection_that_goes_meanwhile_keeps_nobody_from_closing_the_others_of_its_user(busy: World) -> None:
    """The rest of them stayed open, and the answer was 404."""
    looks, close = iter([busy.broker.clients]), busy.broker.connections

    def connections() -> list[Connection]:
        close()
        return next(looks, busy.broker.clients[1:])

    busy.broker.connections = connections  # type: ignore[method-assign]
    assert busy.request("DELETE", "/api/connections/username/app").status == 204
    assert [user for user, _ in busy.broker.closed] == ["app"]


def test_connections_that_one_may_see_and_not_close_are_not_said_to_be_closed(busy: World) -> None:
    assert busy.refused("DELETE", "/api/connections/username/app", user="user-monitoring").status == 404
    assert busy.broker.closed == []


def test_channels_of_a_connection_are_its_own(busy: World) -> None:
    assert [one["name"] for one in busy.get("/api/connections/a2/channels")] == ["a2 (1)", "a2 (2)"]
    assert len(busy.get("/api/channels")) == len(busy.get("/api/vhosts/v/channels")) == 5
    assert busy.get("/api/vhosts/%2F/channels") == busy.get("/api/channels", "user-management") == []
    assert busy.refused("GET", "/api/connections/a3/channels").status == 404


def test_a_channel_has_its_own_consumers(busy: World) -> None:
    found = busy.get("/api/channels/a1%20(2)")
    assert (found["name"], [one["consumer_tag"] for one in found["consumer_details"]]) == ("a1 (2)", ["tag 2 of a1"])
    assert busy.refused("GET", "/api/channels/a1%20(3)").status == 404


def test_consumers_are_ones_own_or_with_monitoring_all(busy: World) -> None:
    assert len(busy.get("/api/consumers")) == len(busy.get("/api/consumers/v", "user-monitoring")) == 5
    assert busy.get("/api/consumers", "user-management") == busy.get("/api/consumers/%2F") == []


def test_only_connections_that_are_held_up_are_told_as_such(busy: World) -> None:
    for one, state in zip(busy.broker.clients, ("blocked", "running", "flow"), strict=True):
        one.statistics = lambda state=state: {"state": state}  # type: ignore[misc]
    assert [one["name"] for one in busy.get("/api/leveret/blocked-connections")] == ["a1", "r"]


# Each figure under its name.


def test_a_channel_is_shown_under_the_names_that_tools_know(busy: World) -> None:
    shown = busy.get("/api/channels/r%20(1)")
    assert {name: shown[name] for name in shown if name.startswith(("messages_", "prefetch", "global", "consumer_c"))} == {
        "consumer_count": 1, "prefetch_count": 2, "global_prefetch_count": 3, "messages_unacknowledged": 4,
        "messages_unconfirmed": 5, "messages_uncommitted": 6,
    }  # fmt: skip
    assert (shown["confirm"], shown["transactional"], shown["number"], shown["node"]) == (True, False, 1, HOME)
    assert (shown["user"], shown["vhost"], shown["connection_details"]["name"]) == ("root", "v", "r")


def test_what_a_channel_counts_is_shown_under_the_names_that_tools_know() -> None:
    counters = Counters(
        published=1, confirmed=2, returned=3, dropped=4, delivered=5, delivered_no_ack=60, got=700, got_no_ack=8_000,
        got_empty=9, redelivered=10, acknowledged=11, routed=12, refused=13, published_confirm=14,
    )  # fmt: skip
    assert session_counts(counters) == {
        "publish": 1, "confirm": 2, "return_unroutable": 3, "drop_unroutable": 4, "deliver": 5, "deliver_no_ack": 60,
        "get": 700, "get_no_ack": 8_000, "get_empty": 9, "deliver_get": 8_765, "redeliver": 10, "ack": 11,
    }  # fmt: skip


CONSUMER = ConsumerView(
    vhost="v", queue="q", consumer_tag="t", connection="c", channel=3, no_ack=False, exclusive=True, prefetch=4,
    outstanding=1, priority=0, active=True, timeout_ms=5, arguments={"x-priority": 1}, user="u", peer_host="::1",
    peer_port=6,
)  # fmt: skip


def test_a_consumer_is_shown_under_the_names_that_tools_know() -> None:
    details = {
        "name": "c (3)", "connection_name": "c", "number": 3, "node": HOME, "user": "u", "peer_host": "::1", "peer_port": 6,
    }  # fmt: skip
    assert consumer_view(HOME, CONSUMER) == {
        "arguments": {"x-priority": 1}, "ack_required": True, "active": True, "activity_status": "up",
        "consumer_tag": "t", "consumer_timeout": 5, "exclusive": True, "prefetch_count": 4,
        "queue": {"name": "q", "vhost": "v"}, "channel_details": details,
    }  # fmt: skip
    other = consumer_view(HOME, replace(CONSUMER, no_ack=True, active=False))
    assert (other["ack_required"], other["active"], other["activity_status"]) == (False, False, "waiting")


@pytest.mark.parametrize(("next_offset", "shown"), [(0, 0), (1, 0), (8, 7)])
def test_a_reader_of_a_stream_is_shown_with_the_last_that_it_was_given(next_offset: int, shown: int) -> None:
    view = SubscriptionView(
        client("u"), "v", "s", 1, ReadOptions(name="group", single_active=True), True, "single_active", credit=2,
        delivered=3, offset=next_offset, lag=4, lag_s=0.5,
    )  # fmt: skip
    found = subscription_view(HOME, view)
    assert found.pop("connection_details")["user"] == "u"
    assert found == {
        "queue": {"name": "s", "vhost": "v"}, "subscription_id": 1, "credits": 2, "consumed": 3, "offset": shown,
        "offset_lag": 4, "lag_s": 0.5, "active": True, "activity_status": "single_active",
        "properties": {"name": "group", "single-active-consumer": "true"},
    }  # fmt: skip


def test_sizes_of_a_queue_are_shown_under_the_names_that_tools_know(world: World) -> None:
    figures = QueueStatistics(
        ready_bytes=10, unacknowledged_bytes=2, persistent=3, persistent_bytes=4, ram=5, ram_bytes=6, consumers=7,
        consumer_capacity=0.5, memory_bytes=8,
    )  # fmt: skip
    view = world.api._ports.operations.resources.view(world.broker.catalog.queue("v", "orders"), figures)  # type: ignore[arg-type]
    shown = queue_view(view, SampledFigures())
    sizes = {
        "message_bytes": 12, "message_bytes_ready": 10, "message_bytes_unacknowledged": 2, "message_bytes_persistent": 4,
        "message_bytes_ram": 6, "messages_persistent": 3, "messages_ram": 5, "consumers": 7, "consumer_capacity": 0.5,
        "consumer_utilisation": 0.5, "memory": 8,
    }  # fmt: skip
    assert {name: shown[name] for name in sizes} == sizes
    assert json.dumps(shown)
