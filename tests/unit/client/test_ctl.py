"""leveretctl against a node: what it prints, what it exits with, and what it tells when something is wrong."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from front.node_ports import GroupView, MemberMoveView, MemberView
from leveret import errors
from leveret.ctl import __main__ as ctl
from leveret.ctl import top
from leveret.ctl.terminal import exits, render
from leveret.ctl.terminal.arguments import pairs
from leveret.ctl.terminal.run import connected, options
from leveret.records import Queue
from tests.unit.front.grpc.fakes import Running, running


class Node:
    """A node in a thread of its own, because a command runs its own event loop."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10), "the node did not start"

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        async with running() as self.server:
            self._ready.set()
            await self._stop.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive(), "the node did not stop"
        self._loop.close()


@pytest.fixture(scope="module")
def node() -> Iterator[Running]:
    started = Node()
    yield started.server
    started.stop()


class Ctl:
    def __init__(self, target: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._target = target
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = exits.OK) -> str:
        """What is printed; on standard error when the command is to fail."""
        assert ctl.run(["--node", self._target, *arguments]) == code, self._capsys.readouterr().err
        printed = self._capsys.readouterr()
        return printed.out if code == exits.OK else printed.err

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


@pytest.fixture
def leveretctl(node: Running, capsys: pytest.CaptureFixture[str]) -> Ctl:
    return Ctl(node.target, capsys)


def test_a_queue_from_declaring_to_deleting(leveretctl: Ctl) -> None:
    declared = leveretctl("queue", "declare", "orders", "--argument", "x-max-length=1000")
    assert declared == "queue 'orders' is declared: 0 ready, 0 consumers\n"
    assert leveretctl.json("publish", "hello", "--key", "orders", "--header", "n=1", "--repeat", "3")["confirmed"] == 3
    (queue,) = leveretctl.json("queue", "list")
    assert (queue["name"], queue["kind"], queue["ready"]) == ("orders", "classic", 3)
    assert queue["arguments"]["x-max-length"] == 1000
    assert "orders" in leveretctl("queue", "list")
    assert leveretctl("queue", "browse", "orders", "--limit", "1") == "(default) orders n=1 | hello\n"
    assert len(leveretctl.json("queue", "browse", "orders", "--skip", "1", "--limit", "5")) == 2
    assert leveretctl("queue", "browse", "orders", "--skip", "3") == "queue 'orders' has no ready messages\n"
    (looked,) = leveretctl.json("queue", "get", "orders")
    assert (looked["body"], looked["properties"]["headers"], looked["redelivered"]) == ("hello", {"n": 1}, False)
    assert leveretctl("queue", "get", "orders", "--take") == "(default) orders redelivered n=1 | hello\n"
    assert leveretctl("tail", "orders", "--count", "1", "--raw") == "hello\n"
    assert leveretctl.json("queue", "purge", "orders")["messages"] == 2
    assert leveretctl("queue", "delete", "orders") == "queue 'orders' is deleted, with 0 messages\n"
    assert leveretctl("queue", "list") == "no queues in vhost '/'\n"


def test_a_queue_is_deleted_on_the_condition_that_is_given_and_on_no_other(leveretctl: Ctl) -> None:
    leveretctl("queue", "declare", "kept")
    leveretctl("publish", "hello", "--key", "kept")
    leveretctl("queue", "delete", "kept", "--if-empty", code=exits.DATA)
    assert leveretctl("queue", "delete", "kept", "--if-unused") == "queue 'kept' is deleted, with 1 messages\n"


def test_a_queue_that_cannot_be_mirrored_says_why(leveretctl: Ctl) -> None:
    leveretctl("queue", "declare", "plain")
    assert "mirroring" not in leveretctl("queue", "list") + leveretctl("queue", "status", "plain")
    leveretctl("policy", "set", "mirrored", "^short", '{"ha-mode": "all"}')
    leveretctl("queue", "declare", "short", "--transient")
    why = "mirroring wanted, not active: it is not durable"
    notices = {one["name"]: one["mirroring_notice"] for one in leveretctl.json("queue", "list")}
    assert notices == {"plain": "", "short": why}
    assert why in leveretctl("queue", "list") and why in leveretctl("queue", "status", "short")


def test_queue_status_shows_the_five_lengths_in_their_order(leveretctl: Ctl) -> None:
    leveretctl("queue", "declare", "five")
    printed = leveretctl("queue", "status", "five")
    names = [line.split()[0] for line in printed.splitlines()]
    start = names.index("q1")
    assert names[start : start + 6] == ["q1", "q2", "delta", "q3", "q4", "target"]
    assert leveretctl.json("queue", "status", "five")["details"]["delta"] == 0
    leveretctl("queue", "delete", "five")


def test_members_of_quorum_queues_are_named_moved_and_shown(leveretctl: Ctl, node: Running) -> None:
    leveretctl("queue", "declare", "q")
    node.members.group_of = GroupView(
        "n1", 4, 90, 2, 300, False, 2,
        [
            MemberView("n1", "1.7", "leader", "voter", term=4, last=92, commit=90, applied=90),
            MemberView("n2", "2.9", "learner", "promotable", term=4, last=60, commit=60, applied=60, lag=32),
            MemberView("n3", "3.7", "down", "voter", away_since_ms=1_700_000_000_000, lag=40),
        ],
    )  # fmt: skip
    shown = leveretctl("queue", "status", "q")
    assert "2 voters, 1 learners" in shown and "2 entries, 300 B" in shown
    assert [line.split()[0] for line in shown.splitlines()[-3:]] == ["n1", "n2", "n3"]
    assert "down" in shown and "2023-11-14 22:13:20Z" in shown and "promotable" in shown
    group = leveretctl.json("queue", "status", "q")["group"]
    assert [(one["node"], one["state"], one["lag"]) for one in group["members"]] == [
        ("n1", "leader", 0), ("n2", "learner", 32), ("n3", "down", 40),
    ]  # fmt: skip
    node.members.group_of = None
    assert "votes once it has caught up" in leveretctl("queue", "add-member", "q", "n4")
    leveretctl("queue", "delete-member", "q", "n3", "--anyway")
    leveretctl("queue", "transfer", "q", "n2", "--vhost", "/")
    assert leveretctl("queue", "shrink", "n3", "--queue-pattern", "^q") == (
        "queue 'q' in vhost '/': the member on n3 was removed\n"
    )
    assert leveretctl("queue", "rebalance") == ("the nodes carry as much each as the members allow already\n")
    assert leveretctl("queue", "rebalance", "--members", "--dry-run") == "the nodes keep about as much each already\n"
    node.members.moves = [
        MemberMoveView("/", "q", "n1", "n4", 7, 40, 0, 1, 2, "moved"),
        MemberMoveView("/", "r", "n2", "", 7, 40, 0, 2, 2, "moved"),
    ]
    assert leveretctl("queue", "rebalance", "--members", "--by", "bytes") == (
        "1 of 2: a member of queue 'q' in vhost '/' from n1 to n4 (n1 keeps 40 bytes, n4 0): moved\n"
        "2 of 2: a member of queue 'r' in vhost '/' away from n2 (it has one member too many): moved\n"
    )
    node.members.moves = [MemberMoveView("/", "q", "n1", "n4", 7, 40, 0, 1, 2, "failed", "n4 is down")]
    leveretctl("queue", "rebalance", "--members", code=exits.TEMPORARY)
    assert "n2, n3 were added" in leveretctl("queue", "grow-to", "3", "--queue-pattern", "^p")
    leveretctl("queue", "grow", "n4", "even", "--errors-only", code=exits.TEMPORARY)
    assert node.members.asked == [
        "add / q n4", "delete / q n3 anyway", "transfer / q n2", "shrink n3 ^q", "rebalance ",
        "move   by queues dry", "move   by bytes", "move   by queues", "grow to 3 ^p", "grow n4   even",
    ]  # fmt: skip
    assert "there are all and even" in leveretctl("queue", "grow", "n4", "odd", code=exits.USAGE)
    leveretctl("queue", "delete", "q")


def test_whether_a_node_may_be_stopped_is_in_the_exit_code(leveretctl: Ctl) -> None:
    assert "node 'n2' may be stopped" in leveretctl("node", "check", "n2")
    leveretctl("node", "check", code=exits.TEMPORARY)


def test_a_node_is_forgotten_anyway_only_when_that_is_said(leveretctl: Ctl, node: Running) -> None:
    leveretctl("cluster", "forget", "n2")
    leveretctl("cluster", "forget", "n2", "--anyway")
    assert node.cluster.asked[-2:] == ["forget n2", "forget n2 anyway"]


def test_a_node_leaves_with_its_classic_queues_only_when_that_is_said(leveretctl: Ctl, node: Running) -> None:
    leveretctl("cluster", "leave")
    leveretctl("cluster", "leave", "--lose-queues")
    assert node.cluster.asked[-2:] == ["leave", "leave and lose queues"]


def test_users_and_permissions(leveretctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    leveretctl("user", "add", "app", "--new-password", "secret", "--tag", "management")
    assert {user["name"]: user["tags"] for user in leveretctl.json("user", "list")}["app"] == ["management"]
    leveretctl("permission", "set", "app", "^app", ".*", "^$")
    leveretctl("topic-permission", "set", "app", "amq.topic", "^app", ".*")
    assert leveretctl.json("permission", "list", "--of", "app") == [
        {"user": "app", "vhost": "/", "configure": "^app", "write": ".*", "read": "^$"}
    ]
    monkeypatch.setenv("LEVERET_PASSWORD", "secret")
    assert "needs the tag 'administrator'" in leveretctl("--user", "app", "user", "list", code=exits.NO_PERMISSION)
    monkeypatch.delenv("LEVERET_PASSWORD")
    monkeypatch.setattr("sys.stdin", io.StringIO("piped\n"))
    leveretctl("user", "password", "app")
    assert "invalid credentials" in leveretctl(
        "vhost", "list", "--user", "app", "--password", "secret", code=exits.NO_USER
    )
    assert leveretctl.json("vhost", "list", "--user", "app", "--password", "piped")[0]["name"] == "/"
    leveretctl("topic-permission", "clear", "app")
    leveretctl("permission", "clear", "app")
    leveretctl("user", "delete", "app")


def test_policies_exchanges_vhosts_and_what_is_running(leveretctl: Ctl) -> None:
    leveretctl("policy", "set", "short", "^q", '{"max-length": 10}', "--operator")
    assert leveretctl.json("policy", "list", "--operator")[0]["definition"] == {"max-length": 10}
    leveretctl("policy", "clear", "short", "--operator")
    leveretctl("vhost", "add", "v2", "--description", "second")
    assert [vhost["name"] for vhost in leveretctl.json("vhost", "list")] == ["/", "v2"]
    assert {"amq.topic", "amq.direct"} <= {
        item["name"] for item in leveretctl.json("exchange", "list", "--vhost", "v2")
    }
    leveretctl("vhost", "delete", "v2")
    for noun in ("connection", "channel", "consumer", "binding"):
        assert leveretctl.json(noun, "list") == []
    assert leveretctl.json("alarm", "list")[0]["kind"] == "memory"
    assert "n1" in leveretctl("status")
    assert leveretctl.json("status")["kernels"] == "compiled"
    leveretctl("log", "level", "debug")


def test_the_life_of_a_message_is_shown_and_a_node_that_was_not_read_is_told_by_the_code(leveretctl: Ctl) -> None:
    leveretctl("queue", "declare", "orders")
    shown = leveretctl("life", "orders", "--message-id", "4711")
    for said in (
        "n1: 2 files, from a to b",
        "orders, 7: 4 bytes, message id '4711'",
        "2026-03-01T04:09:37.263  rejected, consumer 't' of ann (10.0.0.1:5)",
        "3 steps more",
        "became dead, 0",
        "dead-lettered (rejected in orders, 7) with key 'orders'",
        "these are the first of more",
    ):
        assert said in shown, said
    found = leveretctl.json("life", "orders", "--message-id", "4711")
    assert found["lives"][0]["steps"][0]["event"] == "rejected"
    leveretctl("life", "orders", "--message-id", "4712", code=exits.TEMPORARY)
    assert "give one of --message-id" in leveretctl("life", "orders", code=exits.USAGE)


def test_shovels_are_added_shown_restarted_and_deleted(leveretctl: Ctl) -> None:
    ends = ("--source-uri", "amqp://u:p@old", "--source-queue", "q", "--dest-uri", "amqp://u:p@/")
    add = ("shovel", "add", "s", *ends, "--delete-after", "12", "-k", "reconnect-delay=7")
    assert "shovel 's' is declared in vhost '/'" in leveretctl(*add)
    assert "there is a shovel 's'" in leveretctl(*add, code=exits.DATA)
    leveretctl(*add, "--replace", "--dest-queue", "r")
    listed = {one["name"]: one for one in leveretctl.json("shovel", "list")}
    assert (listed["s"]["state"], listed["s"]["source"]["queue"]) == ("running", "orders")
    shown = leveretctl("shovel", "list")
    assert "queue 'orders' of amqp://old" in shown
    assert "exchange 'events' with key 'new' of amqp://" in shown
    assert "queue 'orders' of amqp://old" in leveretctl("shovel", "status", "s")
    assert leveretctl.json("shovel", "status", "s")["forwarded"] == 30
    leveretctl("shovel", "restart", "s")
    assert "is deleted" in leveretctl("shovel", "delete", "s")
    leveretctl("shovel", "delete", "s", code=exits.DATA)


def test_federation_links_are_shown_and_restarted(leveretctl: Ctl) -> None:
    (found,) = leveretctl.json("federation", "status")
    assert (found["upstream"], found["status"], found["passed_on"]) == ("origin", "running", 30)
    assert "0a1b2c3d" in leveretctl("federation", "status")
    assert leveretctl.json("federation", "status", "--down") == []
    assert "no federation links are down" in leveretctl("federation", "status", "--down")
    assert "begins again" in leveretctl("federation", "restart", "0a1b2c3d", "n1")
    leveretctl("federation", "restart", "0a1b2c3d", "n2", code=exits.DATA)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["queue", "nix"], exits.USAGE, "No such command 'nix'"),
        (["queue", "declare"], exits.USAGE, "Missing argument"),
        (["queue", "declare", "q", "-a", "novalue"], exits.USAGE, "'novalue' is not KEY=VALUE"),
        (["policy", "set", "p", ".", "[1]"], exits.USAGE, "is to be a JSON object"),
        (["queue", "status", "missing"], exits.DATA, "no queue 'missing' in vhost '/'"),
        (["publish", "x", "--key", "nowhere"], exits.DATA, "there is no queue 'nowhere'"),
        (["publish", "x", "--key", "full"], exits.DATA, "there is no queue 'full'"),
        (["publish", "--file", "/does/not/exist"], exits.CONFIG, "cannot be read: No such file"),
        (["status", "--tls-ca", "/does/not/exist"], exits.CONFIG, "--tls-ca /does/not/exist cannot be read"),
        (["status", "--tls-certificate", "c", "--tls-key", "/no"], exits.CONFIG, "--tls-certificate c cannot be read"),
        (["status", "--tls-key", "k"], exits.USAGE, "--tls-certificate and --tls-key go together"),
        (["status", "--node", "host:http"], exits.USAGE, "'host:http' has no port between 1 and 65535"),
        (["status", "--node", "127.0.0.1:1"], exits.UNAVAILABLE, "no connection to 127.0.0.1:1"),
        (["status", "--user", "nobody"], exits.NO_USER, "user 'nobody' refused"),
        (["queue", "list", "--vhost", "missing"], exits.DATA, "no vhost 'missing'"),
        (["shovel", "status", "nix"], exits.DATA, "no shovel 'nix' runs in vhost '/'"),
        (["shovel", "delete", "nix"], exits.DATA, "no parameter 'nix' of component 'shovel'"),
        (["shovel", "add", "s", "--source-uri", "amqp://", "--dest-uri", "amqp://"], exits.USAGE, "has one source"),
        (["queue", "declare", "a\udcff"], exits.USAGE, "is not UTF-8"),
        (["policy", "set", "p", "x", f'{{"max-length":{10**20}}}'], exits.USAGE, "a value that no node can keep"),
        (["policy", "set", "p", "x", '{"expires":"\\ud800"}'], exits.USAGE, "a value that no node can keep"),
        (["policy", "set", "p", "x", "[" * 100_000], exits.USAGE, "the definition is JSON nested too deeply"),
        (["policy", "set", "p", "x", "{}", "--priority", str(10**20)], exits.USAGE, "--priority"),
        (["queue", "declare", "q", "--argument", f"x={10**20}"], exits.USAGE, "--argument x has a value that no node"),
    ],
)
def test_what_is_wrong_is_said_and_is_the_exit_code(
    leveretctl: Ctl, arguments: list[str], code: int, text: str
) -> None:
    assert text in leveretctl(*arguments, code=code)
    if code != exits.USAGE:
        complaint = json.loads(leveretctl(*arguments, "--json", code=code))
        assert (complaint["exit_code"], text in complaint["text"]) == (code, True)


@pytest.mark.parametrize(
    ("given", "hoisted"),
    [
        (["queue", "list", "--json"], ["--json", "queue", "list"]),
        (["queue", "list", "--node", "n:1"], ["--node", "n:1", "queue", "list"]),
        (["queue", "list", "--node=n:1", "--timeout=3"], ["--node=n:1", "--timeout=3", "queue", "list"]),
        (["publish", "--", "--json"], ["publish", "--", "--json"]),
        (["status", "--node"], ["--node", "status"]),
    ],
)
def test_common_options_may_stand_anywhere(given: list[str], hoisted: list[str]) -> None:
    assert ctl.hoisted(given) == hoisted


def test_every_error_of_the_client_has_an_exit_code() -> None:
    def below(kind: type[errors.LeveretError]) -> list[type[errors.LeveretError]]:
        return [kind] + [lower for direct in kind.__subclasses__() for lower in below(direct)]

    codes = {kind.__name__: exits.code_of(kind("text")) for kind in below(errors.LeveretError)[1:]}
    assert {name for name, code in codes.items() if code == exits.SOFTWARE} == {"NodeFailed"}


def test_values_are_json_where_they_are_json_and_text_elsewhere() -> None:
    assert pairs("-a", ["n=1", "t=true", "s=text", "l=[1]", "e=a=b"]) == {
        "n": 1, "t": True, "s": "text", "l": [1], "e": "a=b",
    }  # fmt: skip


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert render.cell("name", "a\x1b[31mb\nc") == "a\\x1b[31mb\\nc"
    assert [render.size(value) for value in (0, 1023, 1024, 3 * 1024**3)] == ["0 B", "1023 B", "1.0 KiB", "3.0 GiB"]


def test_publish_says_what_it_waits_for_and_gives_up_when_its_time_is_up(
    leveretctl: Ctl, node: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leveret.ctl.messages.publish.TELL_AFTER_S", 0.05)
    leveretctl("queue", "declare", "held")
    node.broker.held = True
    try:
        told = leveretctl("publish", "x", "--key", "held", "--repeat", "2", "--timeout", "0.2", code=exits.TEMPORARY)
    finally:
        node.broker.held = False
        leveretctl("queue", "delete", "held")
    waiting, gave_up, *_ = told.splitlines()
    assert waiting == "leveretctl: waiting for 2 of 2 confirms of queue 'held'"
    assert gave_up.startswith("leveretctl: waited 0.2 s for 2 of 2 confirms of queue 'held'; they may still be stored.")


def test_publish_waits_longer_while_confirms_come(leveretctl: Ctl, node: Running) -> None:
    """What the time limits is silence, not how much there is to publish."""
    leveretctl("queue", "declare", "many")
    assert leveretctl.json("publish", "x", "--key", "many", "--repeat", "5000", "--timeout", "5")["confirmed"] == 5000
    leveretctl("queue", "delete", "many")


def test_the_exit_codes_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert ctl.run(["--help"]) == exits.OK
    said = " ".join(capsys.readouterr().out.split())
    for code, meaning in exits.MEANINGS.items():
        assert f"{code} {meaning}" in said
    codes = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert codes == exits.MEANINGS.keys()


def test_a_certificate_says_who_asks_unless_a_user_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pem = tmp_path / "pem"
    pem.write_bytes(b"pem")
    monkeypatch.setattr(options, "tls_certificate", pem)
    monkeypatch.setattr(options, "tls_key", pem)
    monkeypatch.setattr(options, "tls_server_name", "broker")
    monkeypatch.setattr(options, "user", None)
    assert connected().metadata == ()
    monkeypatch.setattr(options, "user", "app")
    assert dict(connected().metadata).keys() == {"authorization"}


@dataclass(frozen=True)
class Thing:
    name: str
    ready: int
    ready_bytes: int = 0


THINGS = [Thing("two", 2, 2_048), Thing("ten", 10), Thing("One", 1)]


def listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, **wanted: Any) -> list[list[str]]:
    for name, value in wanted.items():
        monkeypatch.setattr(options, name, value)
    render.records(THINGS, ("name", "ready"), empty="none")
    return [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"sort": "ready"}, ["One", "two", "ten"]),
        ({"sort": "ready", "reverse": True}, ["ten", "two", "One"]),
        ({"reverse": True}, ["One", "ten", "two"]),
        ({"where": ["T"]}, ["two", "ten"]),
        ({"where": ["ready=1"]}, ["One"]),
        ({"where": ["t", "ready_bytes=2.0 KiB"]}, ["two"]),
    ],
)
def test_a_list_is_of_what_is_wanted_in_the_order_that_is_wanted(
    wanted: dict[str, Any], names: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [row[0] for row in listed(capsys, monkeypatch, **wanted)[1:]] == names


def test_a_list_has_the_columns_that_are_wanted_and_says_which_there_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listed(capsys, monkeypatch, columns=["ready", "name"])[:2] == [["ready", "name"], ["2", "two"]]
    monkeypatch.setattr(options, "json", True)
    render.records(THINGS[:1], ("name",), empty="none")
    assert json.loads(capsys.readouterr().out) == [{"ready": 2, "name": "two"}]
    monkeypatch.setattr(options, "sort", "size")
    with pytest.raises(exits.UsageError, match="there is no column 'size': there are name, ready, ready_bytes"):
        render.records(THINGS, ("name",), empty="none")


def test_a_command_that_is_watched_is_done_again_until_it_is_interrupted(
    node: Running, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", pause)
    assert ctl.run(["--node", node.target, "vhost", "list", "--watch", "2", "--json"]) == exits.INTERRUPTED
    assert pauses == [2.0, 2.0, 2.0]
    assert capsys.readouterr().out.count('"name": "/"') == 3


def test_top_shows_the_node_and_the_queues_with_most_messages(leveretctl: Ctl) -> None:
    for name, count in (("few", 1), ("most", 3), ("more", 2)):
        leveretctl("queue", "declare", name)
        leveretctl("publish", "hello", "--key", name, "--repeat", str(count))
    out = leveretctl("top", "--count", "2", "--interval", "0.1", "--queues", "2")
    assert out.count("alarms: ") == 2
    rows = [line.split() for line in out.splitlines()]
    assert [row[1] for row in rows if row[0] == "/"] == ["most", "more"] * 2
    shown = leveretctl.json("top", "--count", "1", "--sort", "ready")
    assert [one["ready"] for one in shown if one["name"] in ("few", "most", "more")] == [1, 2, 3]
    for name in ("few", "most", "more"):
        leveretctl("queue", "delete", name)


def test_growth_is_what_came_since_the_last_look() -> None:
    queue = Queue("/", "q", "classic", "running", 10, 2, 1, True, False, False, 0, 0, 0, "n1", "", "")
    assert [top._busy(queue, before, 2.0).growth for before in (None, {}, {("/", "q"): 20})] == [0.0, 6.0, -4.0]


def completed(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What bash is told for this line, whose last word is to be completed."""
    monkeypatch.setenv("COMP_WORDS", f"leveretctl {command}")
    monkeypatch.setenv("COMP_CWORD", str(len(command.split())))
    monkeypatch.setenv("_LEVERETCTL_COMPLETE", "complete_bash")
    with pytest.raises(SystemExit):
        ctl.run([])
    return capsys.readouterr().out.split()


def test_the_shell_completes_names_of_the_node(
    node: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ctl.run(["--node", node.target, "queue", "declare", "completed.one"]) == exits.OK
    assert ctl.run(["--node", node.target, "queue", "declare", "completed.two"]) == exits.OK
    capsys.readouterr()
    asked = f"--node {node.target} queue status"
    assert completed(f"{asked} completed.", monkeypatch, capsys) == ["completed.one", "completed.two"]
    assert completed(f"{asked} completed.t", monkeypatch, capsys) == ["completed.two"]
    assert completed(f"--node {node.target} stream status completed.", monkeypatch, capsys) == [], "they are no streams"
    assert completed("--node 127.0.0.1:1 queue status completed.", monkeypatch, capsys) == [], "no node, no names"
