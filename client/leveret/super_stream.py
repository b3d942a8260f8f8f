"""Super streams: several streams under one name, its partitions, over which publishers spread what they publish.

    orders = node.super_stream("orders")
    await orders.create(partitions=3)
    async with await orders.publisher() as publisher:
        await publisher.publish(b"one book", key="customer 17")       # all of one key go to one partition, in their order
    for partition in await orders.partitions():
        async with node.stream(partition).read("first") as reader:
            ...

The partition of a key is found as other clients of streams do: the MurmurHash3 of its UTF-8, modulo the number of partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

from leveret.message import Message
from leveret.publisher import MAX_UNCONFIRMED, Publisher
from leveret.requests import NodeRequests
from leveret.stream import stream_arguments
from leveret.v1 import streams_pb2 as pb
from leveret.values import to_table

HASH_SEED = 104_729  # that of every client
_MASK = 0xFFFFFFFF


class SuperStream:
    """One super stream of the connection's vhost, created or not yet. Made by `Node.super_stream()`."""

    def __init__(self, node: NodeRequests, name: str) -> None:
        self._node = node
        self.name = name

    async def create(
        self,
        *,
        partitions: int = 0,
        binding_keys: Sequence[str] = (),
        max_age: str | timedelta | None = None,
        max_length_bytes: int | None = None,
        segment_bytes_max: int | None = None,
        filter_bytes: int | None = None,
        members: int | None = None,
        leader_locator: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Create it with so many partitions, or with one for each of these keys; the streams' names in their order. The limits
        are those of each partition, as in Stream.declare. Raises PreconditionFailed when a part of it is there already; then,
        and when anything else is refused, nothing is created."""
        request = pb.CreateSuperStreamRequest(
            vhost=self._node.vhost,
            name=self.name,
            partitions=partitions,
            binding_keys=binding_keys,
            arguments=to_table(
                stream_arguments(
                    max_age=max_age,
                    max_length_bytes=max_length_bytes,
                    segment_bytes_max=segment_bytes_max,
                    filter_bytes=filter_bytes,
                    members=members,
                    leader_locator=leader_locator,
                    arguments=arguments,
                )
            ),
        )
        return list((await self._node.call("streams", "CreateSuperStream", request)).partitions)

    async def delete(self) -> None:
        """Delete it with its partitions and all that is in them."""
        request = pb.DeleteSuperStreamRequest(vhost=self._node.vhost, name=self.name)
        await self._node.call("streams", "DeleteSuperStream", request)

    async def partitions(self) -> list[str]:
        """The streams that it consists of, in their order."""
        request = pb.ListPartitionsRequest(vhost=self._node.vhost, name=self.name)
        return list((await self._node.call("streams", "ListPartitions", request)).partitions)

    async def publisher(
        self, *, name: str = "", resend: bool = False, max_unconfirmed: int = MAX_UNCONFIRMED
    ) -> SuperStreamPublisher:
        """Open when this returns, for the partitions that there are now."""
        partitions = await self.partitions()
        made = Publisher(self._node, name=name, resend=resend, max_unconfirmed=max_unconfirmed)
        self._node.children.add(made)
        await made.open()
        return SuperStreamPublisher(made, partitions)


class SuperStreamPublisher:
    """A publisher that spreads messages over partitions by their keys. Many tasks may share it."""

    def __init__(self, publisher: Publisher, partitions: Sequence[str]) -> None:
        self._publisher = publisher
        self._partitions = partitions

    async def publish(self, message: Message | bytes, *, key: str) -> None:
        """Publish, and return when it is confirmed. Raises as Publisher.publish."""
        await self.publish_many((message,), key=key)

    async def publish_many(self, messages: Iterable[Message | bytes], *, key: str) -> None:
        """Publish all of one key in this order, and return when they are confirmed."""
        await self._publisher.publish_many(messages, routing_key=self.partition_of(key))

    def partition_of(self, key: str) -> str:
        """The stream that messages with this key go to."""
        return self._partitions[murmur_hash(key.encode(), HASH_SEED) % len(self._partitions)]

    async def flush(self) -> None:
        """Wait until nothing is unconfirmed."""
        await self._publisher.flush()

    async def close(self) -> None:
        """Wait for what is unconfirmed, then end."""
        await self._publisher.close()

    async def __aenter__(self) -> SuperStreamPublisher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._publisher.__aexit__(kind, error, trace)


def murmur_hash(data: bytes, seed: int) -> int:
    """MurmurHash3 with 32 bits, unsigned."""
    found = seed
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        found ^= _scrambled(int.from_bytes(data[at : at + 4], "little"))
        found = (_rotated(found, 13) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        found ^= _scrambled(int.from_bytes(data[whole:], "little"))
    found ^= len(data)
    found = ((found ^ (found >> 16)) * 0x85EBCA6B) & _MASK
    found = ((found ^ (found >> 13)) * 0xC2B2AE35) & _MASK
    return found ^ (found >> 16)


def _scrambled(block: int) -> int:
    return (_rotated((block * 0xCC9E2D51) & _MASK, 15) * 0x1B873593) & _MASK


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK
