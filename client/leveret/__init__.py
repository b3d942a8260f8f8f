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
"""

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
