"""The Python client of Leveret.

    import leveret

    async with leveret.connect("127.0.0.1:5680", user="app", password="secret") as node:
        await node.topology.declare_queue("orders")
        publisher = await node.publisher()
        await publisher.publish(b"one book", routing_key="orders")     # returns when it is safe
        async with node.consume("orders", prefetch=100) as deliveries:
            async for delivery in deliveries:
                await delivery.ack()

Streams are read from any place, with offsets: `node.stream("events")` (leveret.stream).
Programs without an event loop use `leveret.connect_sync` (leveret.sync).
What is named here is public and stays; so are the modules leveret.errors and leveret.records.

The modules of the client are imported when something of them is first asked for: a server needs leveret.v1 only, and would
start a twentieth later.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leveret import errors as errors
    from leveret import records as records
    from leveret.channels import DEFAULT_TARGET, Tls
    from leveret.connection import Node, connect
    from leveret.consumer import Consumer
    from leveret.errors import (
        ConnectionLost,
        LeveretError,
        MessageTooLarge,
        NotConfirmed,
        PublishRefused,
        RequestRefused,
        SubscriptionEnded,
        TimedOut,
        Unauthenticated,
        Unroutable,
    )
    from leveret.message import DelayedMessage, Delivery, GotMessage, Message, StreamMessage
    from leveret.publisher import Publisher
    from leveret.stream import Stream, StreamPublisher, StreamReader
    from leveret.super_stream import SuperStream, SuperStreamPublisher
    from leveret.sync import SyncConsumer, SyncDelivery, SyncNode, SyncPublisher, connect_sync
    from leveret.sync_stream import SyncStream, SyncStreamPublisher, SyncStreamReader
    from leveret.values import FarTimestamp

__all__ = [
    "DEFAULT_TARGET",
    "ConnectionLost",
    "Consumer",
    "DelayedMessage",
    "Delivery",
    "FarTimestamp",
    "GotMessage",
    "LeveretError",
    "Message",
    "MessageTooLarge",
    "Node",
    "NotConfirmed",
    "PublishRefused",
    "Publisher",
    "RequestRefused",
    "Stream",
    "StreamMessage",
    "StreamPublisher",
    "StreamReader",
    "SubscriptionEnded",
    "SuperStream",
    "SuperStreamPublisher",
    "SyncConsumer",
    "SyncDelivery",
    "SyncNode",
    "SyncPublisher",
    "SyncStream",
    "SyncStreamPublisher",
    "SyncStreamReader",
    "TimedOut",
    "Tls",
    "Unauthenticated",
    "Unroutable",
    "connect",
    "connect_sync",
]

_MODULES = {
    name: module
    for module, names in {
        "channels": ("DEFAULT_TARGET", "Tls"),
        "connection": ("Node", "connect"),
        "consumer": ("Consumer",),
        "errors": (
            "ConnectionLost",
            "LeveretError",
            "MessageTooLarge",
            "NotConfirmed",
            "PublishRefused",
            "RequestRefused",
            "SubscriptionEnded",
            "TimedOut",
            "Unauthenticated",
            "Unroutable",
        ),
        "message": ("DelayedMessage", "Delivery", "GotMessage", "Message", "StreamMessage"),
        "publisher": ("Publisher",),
        "stream": ("Stream", "StreamPublisher", "StreamReader"),
        "super_stream": ("SuperStream", "SuperStreamPublisher"),
        "sync": ("SyncConsumer", "SyncDelivery", "SyncNode", "SyncPublisher", "connect_sync"),
        "sync_stream": ("SyncStream", "SyncStreamPublisher", "SyncStreamReader"),
        "values": ("FarTimestamp",),
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    if name in ("errors", "records"):
        return import_module(f"leveret.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"leveret.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "errors", "records"})
