"""How clients look as JSON: the management API's field names, which tools know from RabbitMQ."""

from __future__ import annotations

from typing import Any

from broker.client_connection import Connection
from broker.json_values import readable, to_json
from broker.operations.stream_users import PublisherView, SubscriptionView
from broker.stream_clients.client_terms import ReadOptions

Json = dict[str, Any]

# Our name of a figure, beside the management API's. A connection has those that its protocol knows.
_FIGURES = {
    "state": "state",
    "bytes_in": "recv_oct",
    "bytes_out": "send_oct",
    "pending_out_bytes": "send_pend",
    "channels": "channels",
    "channel_max": "channel_max",
    "frame_max": "frame_max",
    "heartbeat_s": "timeout",
    "peer_host": "peer_host",
    "peer_port": "peer_port",
    "tls": "ssl",
    "publishers": "publishers",
    "subscriptions": "subscriptions",
}


def connection_view(node: str, connection: Connection) -> Json:
    figures = connection.statistics()
    properties: Json = to_json(connection.client_properties)
    given_name = properties.get("connection_name")
    return {
        "name": connection.name,
        "node": node,
        "type": "network",
        "protocol": connection.protocol,
        "user": connection.user,
        "vhost": connection.vhost,
        "connected_at": connection.connected_at,
        "client_properties": properties,
        **({} if given_name is None else {"user_provided_name": given_name}),
        **{name: figures[ours] for ours, name in _FIGURES.items() if ours in figures},
    }


def publisher_view(node: str, view: PublisherView) -> Json:
    return {
        "queue": {"name": view.stream, "vhost": view.vhost},
        "connection_details": _connection_details(node, view.connection),
        "publisher_id": view.publisher_id,
        "reference": view.reference,
        "published": view.published,
        "confirmed": view.confirmed,
        "errored": view.refused,
    }


def subscription_view(node: str, view: SubscriptionView) -> Json:
    """`offset` is that of the last message that it was given, as RabbitMQ has it."""
    return {
        "queue": {"name": view.stream, "vhost": view.vhost},
        "connection_details": _connection_details(node, view.connection),
        "subscription_id": view.subscription_id,
        "credits": view.credit,
        "consumed": view.delivered,
        "offset": max(0, view.offset - 1),
        "offset_lag": view.lag,
        "lag_s": view.lag_s,
        "active": view.active,
        "activity_status": view.activity,
        "properties": _properties(view.options),
    }


def _connection_details(node: str, connection: Connection) -> Json:
    figures = connection.statistics()
    peer: Json = {name: figures[name] for name in ("peer_host", "peer_port") if name in figures}
    return {"name": connection.name, "user": connection.user, "node": node, **peer}


def _properties(options: ReadOptions) -> dict[str, str]:
    """As its client has given them."""
    given = {"name": options.name, "super-stream": options.super_stream, "identifier": options.identifier}
    given |= {f"filter.{place}": value for place, value in enumerate(options.filter_values)}
    given["single-active-consumer"] = "true" if options.single_active else ""
    given["match-unfiltered"] = "true" if options.match_unfiltered else ""
    return {name: readable(value) for name, value in given.items() if value}
