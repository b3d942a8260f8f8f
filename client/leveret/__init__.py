"""The Python client of Leveret.

    import leveret

    async with leveret.connect("127.0.0.1:5680", user="app", password="secret") as node:
        await node.topology.declare_queue("orders")
        publisher = await node.publisher()
        await publisher.publish(b"one book", routing_key="orders")     # returns when it is safe
        async with node.consume("orders", prefetch=100) as deliveries:
            async for delivery in deliveries:
                await delivery.ack()

What is named here is public and stays; so are the modules leveret.errors and leveret.records.
"""

from leveret.connection import DEFAULT_TARGET, Node, Tls, connect
from leveret.consumer import Consumer
from leveret.errors import (
    ConnectionLost,
    LeveretError,
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
    "Node",
    "NotConfirmed",
    "PublishRefused",
    "Publisher",
    "RequestRefused",
    "SubscriptionEnded",
    "TimedOut",
    "Tls",
    "Unauthenticated",
    "Unroutable",
    "connect",
]
