"""The Python client of Leveret.

    import leveret

    async with leveret.connect("127.0.0.1:5680", user="app", password="secret") as node:
        await node.topology.declare_queue("orders")
        publisher = await node.publisher()
        await publisher.publish(b"one book", routing_key="orders")     # returns when it is safe
        async with node.consume("orders", prefetch=100) as deliveries:
            async for delivery in deliveries:
                await delivery.ack()

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
from leveret.message import Delivery, GotMessage, Message
from leveret.publisher import Publisher
from leveret.sync import SyncConsumer, SyncDelivery, SyncNode, SyncPublisher, connect_sync
from leveret.values import FarTimestamp

__all__ = [
    "DEFAULT_TARGET",
    "ConnectionLost",
    "Consumer",
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
    "SubscriptionEnded",
    "SyncConsumer",
    "SyncDelivery",
    "SyncNode",
    "SyncPublisher",
    "TimedOut",
    "Tls",
    "Unauthenticated",
    "Unroutable",
    "connect",
    "connect_sync",
]
