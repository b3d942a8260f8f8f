"""Super streams are created whole, and each key has its partition, the same as other clients find for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import leveret
from leveret import errors
from leveret.super_stream import HASH_SEED, SuperStreamPublisher, murmur_hash
from tests.unit.client.test_ctl import Node
from tests.unit.front.grpc.fakes import Running, bounded, running


def with_node(work: Any) -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target) as node:
            await work(server, node)

    bounded(run())


@pytest.mark.parametrize(
    ("data", "seed", "found"),
    [
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"a", 0x9747B28C, 0x7FA09EA6),
        (b"aa", 0x9747B28C, 0x5D211726),
        (b"aaa", 0x9747B28C, 0x283E0130),
        (b"aaaa", 0x9747B28C, 0x5A97808A),
        (b"Hello, world!", 0x9747B28C, 0x24884CBA),
    ],
)
def test_the_hash_is_that_of_its_published_vectors(data: bytes, seed: int, found: int) -> None:
    assert murmur_hash(data, seed) == found


def test_keys_go_where_other_clients_of_streams_send_them() -> None:
    """The examples with which those clients test their routing."""
    publisher = SuperStreamPublisher(None, ["01", "02", "03"])  # type: ignore[arg-type]
    found = [publisher.partition_of(f"hello{number}") for number in range(1, 11)]
    assert found == ["02", "01", "02", "03", "01", "03", "01", "02", "01", "03"]
    assert HASH_SEED == 104_729


def test_a_super_stream_from_creating_to_deleting() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        orders = node.super_stream("orders")
        assert await orders.create(partitions=3, max_age="7D") == ["orders-0", "orders-1", "orders-2"]
        assert server.broker.super_streams["orders"][1:] == (("0", "1", "2"), {"x-max-age": "7D"})
        assert await orders.partitions() == ["orders-0", "orders-1", "orders-2"]
        async with await orders.publisher() as publisher:
            await publisher.publish(b"one", key="customer 17")
            await publisher.publish_many([b"two", b"three"], key="customer 17")
            await publisher.flush()
            partition = publisher.partition_of("customer 17")
        assert [one.body for one in await node.stream(partition).browse(limit=9)] == [b"one", b"two", b"three"]
        with pytest.raises(
            errors.PreconditionFailed, match="super stream 'orders', or one of its partitions, is there"
        ):
            await orders.create(partitions=1)
        await orders.delete()
        with pytest.raises(errors.NotFound, match="no super stream 'orders'"):
            await orders.partitions()
        regions = node.super_stream("regions")
        assert await regions.create(binding_keys=["eu", "us"]) == ["regions-eu", "regions-us"]

    with_node(work)


@pytest.mark.parametrize(
    ("name", "wanted", "text"),
    [
        ("s", {}, "either a number of partitions or binding keys"),
        ("s", {"partitions": 1, "binding_keys": ["a"]}, "either a number of partitions or binding keys"),
        ("s", {"partitions": 1_001}, "at most 1000 partitions, not 1001"),
        ("s", {"binding_keys": ["a", "b", "a"]}, "a binding key comes twice"),
        ("", {"partitions": 1}, "a super stream needs a name"),
    ],
)
def test_what_cannot_be_a_super_stream_is_refused(name: str, wanted: dict[str, Any], text: str) -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        with pytest.raises(errors.InvalidRequest, match=text):
            await node.super_stream(name).create(**wanted)
        assert not server.broker.super_streams

    with_node(work)


@pytest.mark.parametrize("reference", ["", "r" * 256, "\u20ac" * 86])
def test_a_reference_has_a_size_that_can_be_stored(reference: str) -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        await node.stream("s").declare()
        for asked in (node.stream("s").store_offset(reference, 1), node.stream("s").stored_offset(reference)):
            with pytest.raises(errors.InvalidRequest, match=f"1 to 255 bytes, not {len(reference.encode())}"):
                await asked
        with pytest.raises(errors.InvalidRequest, match="an offset is at most"):
            await node.stream("s").store_offset("r", 1 << 63)
        await node.stream("s").store_offset("r" * 255, (1 << 63) - 1)

    with_node(work)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    started = Node()
    yield started.server
    started.stop()


def test_programs_without_an_event_loop_have_the_same(server: Running) -> None:
    with leveret.connect_sync(server.target) as node:
        orders = node.super_stream("blocking")
        assert orders.create(partitions=2) == orders.partitions() == ["blocking-0", "blocking-1"]
        with orders.publisher() as publisher:
            publisher.publish(b"one", key="k")
            publisher.publish_many([b"two"], key="k", timeout_s=5)
        held = [one.body for name in orders.partitions() for one in node.stream(name).browse(limit=9)]
        assert held == [b"one", b"two"]
        orders.delete()
