"""leveretctl stream ...: what it shows of streams, their members and readers, and messages from wherever one wants them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from front.node_ports import GroupView, MemberView, ReaderView
from leveret.ctl import streams
from leveret.ctl.terminal import exits
from leveret.records import StreamConsumer
from tests.unit.client.test_ctl import Ctl, Node
from tests.unit.front.grpc.fakes import Running


@pytest.fixture(scope="module")
def node() -> Iterator[Running]:
    started = Node()
    yield started.server
    started.stop()


@pytest.fixture
def leveretctl(node: Running, capsys: pytest.CaptureFixture[str]) -> Iterator[Ctl]:
    command = Ctl(node.target, capsys)
    command("stream", "declare", "s")
    yield command
    command("queue", "delete", "s")


def test_streams_are_declared_with_their_limits_and_listed_by_name(leveretctl: Ctl, node: Running) -> None:
    options = ["--max-age", "7D", "--max-length-bytes", "1000", "--segment-bytes", "500", "--filter-bytes", "16"]
    declared = leveretctl(
        "stream", "declare", "a", *options, "--members", "3", "--leader-locator", "balanced", "-a", "x=1"
    )
    assert declared == "stream 'a' is declared: 0 messages, 0 consumers\n"
    leveretctl("queue", "declare", "another-kind")
    listed = leveretctl.json("stream", "list")
    assert [(one["name"], one["kind"], one["ready"]) for one in listed] == [("a", "stream", 0), ("s", "stream", 0)]
    assert listed[0]["arguments"] == {
        "x-queue-type": "stream", "x-max-age": "7D", "x-max-length-bytes": 1000, "x-stream-max-segment-size-bytes": 500,
        "x-stream-filter-size-bytes": 16, "x-initial-cluster-size": 3, "x-queue-leader-locator": "balanced", "x": 1,
    }  # fmt: skip
    assert [line.split()[1] for line in leveretctl("stream", "list").splitlines()] == ["name", "a", "s"]
    assert "is no stream: see `leveretctl queue status another-kind`" in leveretctl(
        "stream", "status", "another-kind", code=exits.DATA
    )
    for name in ("a", "another-kind"):
        leveretctl("queue", "delete", name)
    leveretctl("queue", "delete", "s")
    assert leveretctl("stream", "list") == "no streams in vhost '/'\n"


def test_status_shows_each_member_and_readers_by_their_lag(leveretctl: Ctl, node: Running) -> None:
    readers = [ReaderView("near", 90, 0, 9_000), ReaderView("far", 5, 85, 500, 1.5)]
    node.members.group_of = GroupView(
        "n1", 4, 90, 2, 300, False, 2,
        [
            MemberView("n1", "1.7", "leader", "voter", first_offset=3, committed_offset=89, segments=2, bytes=2048),
            MemberView(
                "n2", "2.9", "follower", "voter", lag=7, first_offset=3, committed_offset=80, segments=2, readers=readers
            ),
            MemberView("n3", "3.7", "down", "voter", away_since_ms=1_700_000_000_000, lag=40),
        ],
    )  # fmt: skip
    shown = leveretctl("stream", "status", "s").splitlines()
    assert shown[0].split() == ["stream", "s", "in", "vhost", "/"]
    table = [line.split() for line in shown[-3:]]
    assert table[0][:3] == ["n1", "leader", "voter"] and table[0][-7:] == ["3", "89", "2", "2.0", "KiB", "0", "0"]
    assert table[1][-7:] == ["3", "80", "2", "0", "B", "2", "7"]
    assert table[2][1] == "down"
    members = leveretctl.json("stream", "status", "s")["group"]["members"]
    assert [(one["committed_offset"], len(one["readers"])) for one in members] == [(89, 0), (80, 2), (0, 0)]
    assert [line.split() for line in leveretctl("stream", "readers", "s").splitlines()[1:]] == [
        ["n2", "far", "5", "85", "1.5", "500"],
        ["n2", "near", "90", "0", "0", "9000"],
    ]
    assert leveretctl.json("stream", "readers", "s")[0] == {
        "node": "n2", "consumer_tag": "far", "offset": 5, "lag": 85, "lag_s": 1.5, "bytes_sent": 500,
    }  # fmt: skip
    node.members.group_of = None
    assert "nobody reads stream 's'" in leveretctl("stream", "readers", "s")


def test_a_group_is_shown_with_the_consumer_that_reads() -> None:
    def consumer(stream: str, connection: str, group: str, active: bool) -> StreamConsumer:
        return StreamConsumer("/", stream, connection, "u", 1, group, "all", active, "", 10, 5, 7, 3, 1.5)

    found = [
        consumer("b", "one", "crew", False),
        consumer("b", "two", "crew", True),
        consumer("a", "three", "crew", False),
        consumer("a", "four", "", True),
    ]
    assert streams.group_lines(found) == [
        streams.GroupLine("/", "a", "crew", "all", 1, "", 0, 0, 0),
        streams.GroupLine("/", "b", "crew", "all", 2, "two", 7, 3, 1.5),
    ]


def test_messages_are_read_from_any_place(leveretctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PAGE", 4)
    assert leveretctl("stream", "read", "s") == "stream 's' has no messages there\n"
    assert leveretctl.json("publish", "x", "--key", "s", "--header", "n=1", "--repeat", "15")["confirmed"] == 15
    assert [line.split()[0] for line in leveretctl("stream", "read", "s").splitlines()] == list(map(str, range(10)))
    assert leveretctl("stream", "read", "s", "--offset", "14") == "14 (default) k n=1 | x\n"
    everything = leveretctl("stream", "read", "s", "-n", "0", "--offset", "first").splitlines()
    assert [int(line.split()[0]) for line in everything] == list(range(15))
    five = leveretctl("stream", "read", "s", "--offset", "5", "--count", "5").splitlines()
    assert [int(line.split()[0]) for line in five] == [5, 6, 7, 8, 9]
    shown = leveretctl("stream", "read", "s", "--offset", "13", "--json").splitlines()
    assert [json.loads(line)["offset"] for line in shown] == [13, 14]
    assert json.loads(shown[0])["properties"]["headers"] == {"n": 1}
    assert json.loads(shown[0])["body"] == "x"
    followed = leveretctl("stream", "read", "s", "--follow", "--offset", "12", "-n", "3", "--filter", "eu")
    assert [int(line.split()[0]) for line in followed.splitlines()] == [12, 13, 14]
    assert leveretctl("stream", "read", "s", "--raw", "-n", "2") == "x\nx\n"


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--offset", "1", "--time", "2026-11-25"], exits.USAGE, "give either --offset or --time"),
        (["--time", "yesterday"], exits.USAGE, "'yesterday' is no moment as 2026-11-25T08:30:00Z"),
        (["--filter", "eu"], exits.USAGE, "--filter needs --follow"),
        (["--offset", "soon"], exits.DATA, "is no place"),
    ],
)
def test_what_is_no_place_is_told(leveretctl: Ctl, options: list[str], code: int, text: str) -> None:
    assert text in leveretctl("stream", "read", "s", *options, code=code)


def test_a_time_without_a_zone_is_utc() -> None:
    assert str(streams._place(None, "2026-11-25T08:30:00")) == "2026-11-25 08:30:00+00:00"
    assert str(streams._place(None, "2026-11-25T08:30:00+02:00")) == "2026-11-25 08:30:00+02:00"


def test_whoever_follows_what_is_not_there_is_told_so(leveretctl: Ctl) -> None:
    assert "no queue 'none'" in leveretctl("stream", "read", "none", "--follow", code=exits.DATA)


def test_a_reader_that_no_node_takes_is_given_up_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    nobody = Ctl("127.0.0.1:1", capsys)
    refused = nobody("stream", "read", "s", "--follow", "--timeout", "0.2", code=exits.UNAVAILABLE)
    assert "no connection to 127.0.0.1:1" in refused


def test_super_streams_are_created_shown_and_deleted(leveretctl: Ctl) -> None:
    created = leveretctl("stream", "add-super-stream", "orders", "--partitions", "2", "--max-age", "7D")
    assert created == "super stream 'orders' is created: orders-0, orders-1\n"
    assert leveretctl("stream", "partitions", "orders") == "orders-0\norders-1\n"
    assert leveretctl.json("stream", "partitions", "orders") == ["orders-0", "orders-1"]
    assert "is there already" in leveretctl(
        "stream", "add-super-stream", "orders", "--partitions", "2", code=exits.DATA
    )
    assert leveretctl("stream", "delete-super-stream", "orders") == "super stream 'orders' is deleted\n"
    assert "no super stream 'orders'" in leveretctl("stream", "partitions", "orders", code=exits.DATA)
    assert "either --partitions or --binding-key" in leveretctl(
        "stream", "add-super-stream", "orders", code=exits.USAGE
    )


def test_an_offset_that_a_reader_stores_is_shown_and_set(leveretctl: Ctl) -> None:
    assert leveretctl("stream", "stored-offset", "s", "mine") == "stream 's' has no offset stored under 'mine'\n"
    assert leveretctl("stream", "stored-offset", "s", "mine", "--set", "0") == (
        "stream 's' has offset 0 stored under 'mine'\n"
    )
    assert leveretctl.json("stream", "stored-offset", "s", "mine") == {"name": "s", "reference": "mine", "offset": 0}


def test_replicas_of_a_stream_are_administered_by_the_operations_of_every_replicated_queue(
    leveretctl: Ctl, node: Running
) -> None:
    node.members.asked.clear()
    assert "votes once it has caught up" in leveretctl("stream", "add-replica", "s", "n4")
    leveretctl("stream", "delete-replica", "s", "n3", "--anyway")
    assert leveretctl("stream", "transfer-leader", "s", "n2") == "queue 's' is led by 'n2'\n"
    assert "carry as much each" in leveretctl("stream", "rebalance", "--queue-pattern", "^s")
    assert node.members.asked == ["add / s n4", "delete / s n3 anyway", "transfer / s n2", "rebalance ^s stream"]
