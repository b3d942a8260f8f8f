"""Streams of real nodes through the Python client and `leveretctl`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import leveret
from tests.e2e.test_cluster import process_of
from tests.e2e.test_quorum_queues import all_are_voters
from tests.e2e.test_streams import ctl, until_voters
from tests.running_cluster import running_cluster
from tests.running_node import RunningNode

WITHIN_S = 60.0


def target(node: RunningNode) -> str:
    return f"{node.grpc[0]}:{node.grpc[1]}"


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_a_program_publishes_to_a_stream_and_reads_it_from_any_place(node: RunningNode) -> None:
    with leveret.connect_sync(target(node)) as connection:
        stream = connection.stream("e2e.places")
        stream.declare(max_age=timedelta(days=1))
        with stream.publisher() as publisher:
            publisher.publish_many(numbered(100))
            publisher.publish(leveret.Message(b"100", headers={"n": 1}, message_id="m"))
        hour_ago = datetime.now(UTC) - timedelta(hours=1)
        for place, first in (("first", 0), (40, 40), (timedelta(hours=1), 0), (hour_ago, 0), ("1h", 0)):
            with stream.read(place, prefetch=10) as reader:
                found = [reader.receive(WITHIN_S) for _ in range(101 - first)]
            assert [message.offset for message in found] == list(range(first, 101))
            assert [message.body for message in found] == numbered(101 - first, first)
            assert (found[-1].headers, found[-1].message.message_id) == ({"n": 1}, "m")
            assert [one.offset for one in stream.browse(place, limit=3)] == [first, first + 1, first + 2]
        with stream.read("next") as reader, stream.publisher() as publisher:
            publisher.publish(b"101")
            assert reader.receive(WITHIN_S).offset == 101
            assert reader.next_offset == 102
        assert stream.browse("next") == []
        with pytest.raises(leveret.RequestRefused, match="neither an offset nor a timestamp"):
            stream.read("soon")
        with pytest.raises(leveret.RequestRefused, match="neither an offset nor a timestamp"):
            stream.browse("soon")
        status = stream.status()
        assert status.queue.kind == "stream"
        assert (status.details["first_offset"], status.details["committed_offset"]) == (0, 101)
        stream.delete()


def test_a_reader_goes_on_at_another_node_when_its_own_is_killed(tmp_path: Path) -> None:
    async def work(targets: list[str], kill: int) -> None:
        async with leveret.connect(targets) as node:
            stream = node.stream("events")
            await stream.declare()
            publisher = await stream.publisher(resend=True)
            await publisher.publish_many(numbered(50))
            async with stream.read("first", prefetch=7) as reader:
                seen = [await anext(reader) for _ in range(20)]
                os.kill(kill, signal.SIGKILL)
                await publisher.publish_many(numbered(50, 50))
                seen += [await anext(reader) for _ in range(80)]
            assert [message.offset for message in seen] == list(range(100))
            assert [message.body for message in seen] == numbered(100)

    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        targets = [cluster.grpc(number) for number in (1, 2, 3)]
        said_before = len(cluster.lines)
        asyncio.run(asyncio.wait_for(work(targets, process_of(cluster, 1)), WITHIN_S))
        cluster.said(r"^n1 +\| ready: ", said_before)


def test_operators_look_at_a_stream_and_move_its_members(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "data") as cluster:
        all_are_voters(cluster)
        ctl(cluster, "stream", "declare", "moved", "--members", "1", "--max-age", "1D")
        for number in range(12):
            ctl(cluster, "publish", f"message {number}", "--key", "moved")
        ctl(cluster, "stream", "add-replica", "moved", "n2")
        until_voters(cluster, "moved", ["n1", "n2"])
        with leveret.connect_sync(cluster.grpc(2)) as node, node.stream("moved").read("first", prefetch=1) as reader:
            assert next(reader).body == b"message 0"
            status = json.loads(ctl(cluster, "--json", "stream", "status", "moved"))
            assert status["details"]["committed_offset"] == 11
            assert [(one["node"], one["first_offset"], one["committed_offset"]) for one in status["group"]["members"]] == [
                ("n1", 0, 11), ("n2", 0, 11),
            ]  # fmt: skip
            (line,) = json.loads(ctl(cluster, "--json", "stream", "readers", "moved"))
            assert (line["node"], line["offset"], line["lag"]) == ("n2", 1, 11)
        ctl(cluster, "stream", "transfer-leader", "moved", "n2")
        ctl(cluster, "stream", "rebalance", "--queue-pattern", "^other")
        ctl(cluster, "stream", "delete-replica", "moved", "n1")
        until_voters(cluster, "moved", ["n2"])
        shown = ctl(cluster, "stream", "read", "moved", "--offset", "5", "--count", "3")  # n1 has no member any more
        assert [line.split(" | ") for line in shown.splitlines()] == [
            [f"{number} (default) moved", f"message {number}"] for number in (5, 6, 7)
        ]
        (listed,) = json.loads(ctl(cluster, "--json", "stream", "list"))
        assert (listed["name"], listed["arguments"]["x-max-age"]) == ("moved", "1D")
