"""First contact with a real node: what clients are told of it, and from which address of this machine they come."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
from pathlib import Path

import kombu
import pika
import pytest

import leveret
from node.config import Config
from node.doors.listening import has_ipv6_loopback
from tests.running_node import RunningNode, running_node


def test_clients_see_the_product_that_they_know_and_who_it_is_beside_it(node: RunningNode) -> None:
    """kombu, and Celery with it, asks for a limit of the whole channel only where both say that there is one."""
    with kombu.Connection(node.amqp_url) as connection:
        said = connection.connection.server_properties
        assert (said["product"], said["product_name"]) == ("RabbitMQ", "Leveret")
        assert said["version"] == Config().amqp.announce_version
        assert not connection.qos_semantics_matches_spec


def test_a_node_may_say_who_it_is_and_nothing_else(tmp_path: Path) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text("[amqp]\nannounce_product = false\n")
    with running_node("--config", str(config)) as other, kombu.Connection(other.amqp_url) as connection:
        said = connection.connection.server_properties
        assert said["product"] == said["product_name"] == "Leveret"
        assert said["version"] == said["product_version"]


@pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no IPv6")
def test_guest_comes_in_over_ipv6_on_all_fronts() -> None:
    with running_node("--amqp", "[::1]:0", "--grpc", "[::1]:0", "--http", "[::1]:0") as other:
        assert other.amqp[0] == "[::1]", "the ready line names it last"
        with contextlib.closing(pika.BlockingConnection(pika.ConnectionParameters("::1", other.amqp[1]))) as connection:
            connection.channel().queue_declare("over-ipv6", durable=True)
        web = http.client.HTTPConnection("::1", other.http[1], timeout=30)
        login = base64.b64encode(b"guest:guest").decode()
        web.request("GET", "/api/overview", headers={"Authorization": f"Basic {login}"})
        overview = json.loads(web.getresponse().read())
        assert (overview["product_name"], overview["rabbitmq_version"]) == ("Leveret", Config().amqp.announce_version)
        assert asyncio.run(queues_over_grpc(other)) == ["over-ipv6"]


async def queues_over_grpc(node: RunningNode) -> list[str]:
    async with leveret.connect(f"[::1]:{node.grpc[1]}") as client:
        return [queue.name for queue in await client.topology.queues()]
