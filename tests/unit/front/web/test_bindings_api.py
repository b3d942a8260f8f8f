"""Exchanges and bindings over HTTP at a broker: which of them a path names, and what exactly is made."""

from __future__ import annotations

import pytest

from tests.unit.front.web.asked_broker import AskedBroker


@pytest.fixture
def node() -> AskedBroker:
    """With an exchange `shop` and a queue `orders`."""
    node = AskedBroker()
    node.client.declare("orders")
    node.client.declare_exchange("shop")
    return node


def test_an_exchange_was_there_or_not_and_is_internal_only_where_that_is_said(node: AskedBroker) -> None:
    path = "/api/exchanges/%2F/x"
    body = {"type": "topic", "durable": True, "internal": True}
    assert [node.status("PUT", path, body) for _ in range(2)] == [201, 204]
    shown = node.said("GET", path)
    assert (shown["type"], shown["durable"], shown["internal"], shown["auto_delete"]) == ("topic", True, True, False)
    assert node.said("GET", "/api/exchanges/%2F/shop")["internal"] is False


def test_of_several_bindings_between_the_same_two_that_of_the_key_is_deleted(node: AskedBroker) -> None:
    between = "/api/bindings/%2F/e/shop/q/orders"
    for key in ("a", "b", ""):
        assert node.status("POST", between, {"routing_key": key}) == 201
    assert node.said("GET", f"{between}/b")["routing_key"] == "b"
    assert node.status("DELETE", f"{between}/b") == 204
    assert node.status("DELETE", f"{between}/b") == 404
    assert [one["properties_key"] for one in node.said("GET", between)] == ["~", "a"]


def test_a_queue_has_the_binding_of_the_default_exchange_before_those_that_were_made(node: AskedBroker) -> None:
    node.status("POST", "/api/bindings/%2F/e/shop/q/orders", {"routing_key": "a"})
    found = [(one["source"], one["routing_key"]) for one in node.said("GET", "/api/queues/%2F/orders/bindings")]
    assert found == [("", "orders"), ("shop", "a")]


def test_a_binding_leads_to_the_kind_that_its_path_names(node: AskedBroker) -> None:
    node.client.declare_exchange("orders")
    assert node.status("POST", "/api/bindings/%2F/e/shop/e/orders", {}) == 201
    assert [one["destination_type"] for one in node.said("GET", "/api/exchanges/%2F/shop/bindings/source")] == [
        "exchange"
    ]
    assert len(node.said("GET", "/api/exchanges/%2F/orders/bindings/destination")) == 1
    assert node.said("GET", "/api/bindings/%2F/e/shop/q/orders") == []
    assert node.status("GET", "/api/bindings/%2F/e/shop/x/orders") == 404
