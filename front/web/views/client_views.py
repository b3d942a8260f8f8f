"""How clients look as JSON: the management API's field names, which tools know from RabbitMQ."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from broker.client_connection import Connection
from broker.counting.counters import Counters
from broker.json_values import readable, to_json
from broker.operations.clients import ConsumerView
from broker.operations.stream_users import PublisherView, SubscriptionView
from broker.session.session import Session
from broker.stream_clients.client_terms import ReadOptions
from front.web.views.message_stats import session_stats

Json = dict[str, Any]

# Our name of a figure, beside the management API's. A connection has those that its protocol knows.
_FIGURES = {
    "state": "state",
    "bytes_in": "recv_oct",
    "bytes_out": "send_oct",
    "reads": "recv_cnt",
    "writes": "send_cnt",
    "pending_out_bytes": "send_pend",
    "mechanism": "auth_mechanism",
    "channels": "channels",
    "channel_max": "channel_max",
    "frame_max": "frame_max",
    "heartbeat_s": "timeout",
    "host": "host",
    "port": "port",
    "peer_host": "peer_host",
    "peer_port": "peer_port",
    "tls": "ssl",
    "tls_protocol": "ssl_protocol",
    "tls_cipher": "ssl_cipher",
    "publishers": "publishers",
    "subscriptions": "subscriptions",
}
_COUNTED = {
    "channels": 0,
    "recv_oct": 0,
    "send_oct": 0,
    "recv_cnt": 0,
    "send_cnt": 0,
    "send_pend": 0,
    "state": "running",
    "ssl": False,
}  # until known
_UNKNOWN = dict.fromkeys(
    (
        "auth_mechanism",
        "ssl_protocol",
        "ssl_cipher",
        "ssl_hash",
        "ssl_key_exchange",
        "peer_cert_subject",
        "peer_cert_issuer",
        "peer_cert_serial_number",
        "peer_cert_validity",
    )
)
_CONSUMER_STATES = {True: "up", False: "waiting"}


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
        "user_who_performed_action": connection.user,
        "vhost": connection.vhost,
        "connected_at": connection.connected_at,
        "client_properties": {"capabilities": {}, **properties},
        **({} if given_name is None else {"user_provided_name": given_name}),
        **_UNKNOWN,
        **_COUNTED,
        **{name: figures[ours] for ours, name in _FIGURES.items() if ours in figures},
        "recv_oct_details": {"rate": 0.0},
        "send_oct_details": {"rate": 0.0},
    }


def channel_name(connection: Connection, number: int) -> str:
    return f"{connection.name} ({number})"


def channel_details(node: str, session: Session) -> Json:
    connection = session.connection
    figures = connection.statistics()
    return {
        "name": channel_name(connection, session.number),
        "number": session.number,
        "node": node,
        "connection_name": connection.name,
        "peer_host": figures.get("peer_host", ""),
        "peer_port": figures.get("peer_port", 0),
        "user": session.user,
    }


def channel_view(node: str, session: Session) -> Json:
    connection, figures = session.connection, session.statistics()
    counters = Counters(**{name: figures[name] for name in Counters().as_dict()})
    return {
        "name": channel_name(connection, session.number),
        "number": session.number,
        "node": node,
        "connection_details": peer_view(connection),
        "user": session.user,
        "user_who_performed_action": session.user,
        "vhost": session.vhost,
        "state": "running",
        "confirm": figures["confirms"],
        "transactional": figures["transactional"],
        "consumer_count": figures["consumers"],
        "prefetch_count": figures["prefetch"],
        "global_prefetch_count": figures["global_prefetch"],
        "messages_unacknowledged": figures["unacknowledged"],
        "messages_unconfirmed": figures["unconfirmed"],
        "messages_uncommitted": figures["uncommitted"],
        "acks_uncommitted": 0,
        "message_stats": session_stats(counters),
    }


def since(idle_ms: int | None) -> Json:
    """Since when nothing was done with it, as RabbitMQ writes it; nothing while something is."""
    if idle_ms is None:
        return {}
    return {"idle_since": datetime.fromtimestamp(idle_ms / 1_000, UTC).isoformat(timespec="milliseconds")}


def consumer_view(node: str, view: ConsumerView) -> Json:
    return {
        "arguments": to_json(view.arguments),
        "ack_required": not view.no_ack,
        "active": view.active,
        "activity_status": _CONSUMER_STATES[view.active],
        "consumer_tag": readable(view.consumer_tag),
        "consumer_timeout": view.timeout_ms,
        "exclusive": view.exclusive,
        "prefetch_count": view.prefetch,
        "queue": {"name": view.queue, "vhost": view.vhost},
        "channel_details": {
            "name": f"{view.connection} ({view.channel})",
            "connection_name": view.connection,
            "number": view.channel,
            "node": node,
            "user": view.user,
            "peer_host": view.peer_host,
            "peer_port": view.peer_port,
        },
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


def peer_view(connection: Connection) -> Json:
    """As what belongs to it names it."""
    figures = connection.statistics()
    return {
        "name": connection.name,
        "peer_host": figures.get("peer_host", ""),
        "peer_port": figures.get("peer_port", 0),
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
