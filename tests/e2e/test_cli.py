"""`leveretctl` and `leveret` as programs against a real node: what scripts rely on is JSON and exit codes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.running_node import RunningNode, start_node

ROOT = Path(__file__).parents[2]


def run(*command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")}
    return subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True, text=True, timeout=60, input=stdin, env=environment, cwd=ROOT,
    )  # fmt: skip


def ctl(node: RunningNode, *arguments: str, code: int = 0, stdin: str = "") -> str:
    """What it prints for people."""
    done = run("leveret.ctl", "--node", f"{node.grpc[0]}:{node.grpc[1]}", *arguments, stdin=stdin)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def ctl_json(node: RunningNode, *arguments: str, code: int = 0, stdin: str = "") -> Any:
    return json.loads(ctl(node, "--json", *arguments, code=code, stdin=stdin))


def test_a_queue_from_declare_to_delete(node: RunningNode) -> None:
    declared = ctl_json(node, "queue", "declare", "e2e.ctl", "--argument", "x-max-length=10")
    assert declared == {"name": "e2e.ctl", "ready": 0, "consumers": 0}
    assert ctl_json(node, "publish", "hello", "--key", "e2e.ctl")["confirmed"] == 1
    assert ctl_json(node, "queue", "get", "e2e.ctl")[0]["body"] == "hello"
    listed = {queue["name"]: queue for queue in ctl_json(node, "queue", "list")}
    assert (listed["e2e.ctl"]["ready"], listed["e2e.ctl"]["kind"]) == (1, "classic")
    status = ctl_json(node, "queue", "status", "e2e.ctl")
    assert (status["queue"]["ready"], status["published"]) == (1, 1)
    assert ctl_json(node, "queue", "purge", "e2e.ctl")["messages"] == 1
    assert ctl_json(node, "queue", "delete", "e2e.ctl") == {"name": "e2e.ctl", "messages": 0, "existed": True}
    assert "e2e.ctl" not in {queue["name"] for queue in ctl_json(node, "queue", "list")}


def test_a_node_alone_is_a_cluster_of_one(node: RunningNode) -> None:
    status = ctl_json(node, "cluster", "status")
    (only,) = status["nodes"]
    assert (only["kind"], only["up"], only["draining"], status["problems"]) == ("disk", True, False, [])
    assert status["metadata_leader"] == status["seen_by"] == only["name"]
    shown = ctl(node, "cluster", "status")
    assert f"led by {only['name']}, in term" in shown
    assert f"amqp {node.amqp[0]}:{node.amqp[1]}" in shown
    assert "is up: let it leave, or stop it first" in ctl(node, "cluster", "forget", only["name"], code=65)
    assert "alone in its cluster" in ctl(node, "cluster", "leave", code=65)
    assert "there are disk and ram" in ctl(node, "cluster", "change-type", "tape", code=64)


def test_people_read_a_table_and_a_sentence(node: RunningNode) -> None:
    assert "queue 'e2e.people' is declared" in ctl(node, "queue", "declare", "e2e.people")
    assert "e2e.people" in ctl(node, "queue", "list")
    assert "ready" in ctl(node, "queue", "status", "e2e.people")
    ctl(node, "queue", "delete", "e2e.people")
    assert "no alarms" in ctl(node, "alarm", "list")
    status = ctl(node, "status")
    assert f"amqp {node.amqp[0]}:{node.amqp[1]}" in status.replace("\n", " ")


def test_status_tells_the_node_as_it_is(node: RunningNode) -> None:
    status = ctl_json(node, "status")
    assert status["process_id"] == node.process.pid
    assert status["data_dir"] == str(node.data_dir)
    assert {listener["protocol"] for listener in status["listeners"]} == {"amqp", "stream", "grpc", "http"}


def test_a_user_added_here_logs_in_over_amqp(node: RunningNode) -> None:
    assert ctl_json(node, "user", "add", "e2e-ctl", "--tag", "monitoring", stdin="se cret\n")["name"] == "e2e-ctl"
    ctl(node, "permission", "set", "e2e-ctl", ".*", ".*", ".*")
    credentials = pika.PlainCredentials("e2e-ctl", "se cret")
    pika.BlockingConnection(pika.ConnectionParameters(*node.amqp, "/", credentials)).close()
    users = {user["name"]: user for user in ctl_json(node, "user", "list")}
    assert (users["e2e-ctl"]["tags"], users["e2e-ctl"]["has_password"]) == (["monitoring"], True)
    ctl(node, "user", "delete", "e2e-ctl")
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.ConnectionParameters(*node.amqp, "/", credentials))


def test_exit_codes_tell_what_to_do(node: RunningNode) -> None:
    missing = ctl_json(node, "queue", "status", "e2e.missing", code=65)
    assert (missing["error"], missing["exit_code"]) == ("NotFound", 65)
    assert "e2e.missing" in missing["text"]
    ctl(node, "queue", "declare", "e2e.codes")
    other = ("queue", "declare", "e2e.codes", "--argument", "x-max-length=1")
    assert ctl_json(node, *other, code=65)["error"] == "PreconditionFailed"
    ctl(node, "queue", "delete", "e2e.codes")
    assert ctl_json(node, "status", "--password", "wrong", code=67)["error"] == "Unauthenticated"
    assert ctl_json(node, "queue", "nonsense", code=64)["exit_code"] == 64
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = f"127.0.0.1:{unused.getsockname()[1]}"
    done = run("leveret.ctl", "--json", "--timeout", "2", "--node", nobody, "status")
    assert done.returncode in (69, 75), done.stderr
    ctl(node, "user", "add", "e2e-plain", stdin="pw\n")
    refused = ctl_json(node, "user", "list", "--user", "e2e-plain", "--password", "pw", code=77)
    assert refused["error"] in ("AccessRefused", "NotAllowed")
    ctl(node, "user", "delete", "e2e-plain")


def test_what_operators_change_is_in_the_log_with_who_and_from_where(node: RunningNode) -> None:
    named = pika.ConnectionParameters(*node.amqp, client_properties={"connection_name": "to be closed"})
    connection = pika.BlockingConnection(named)
    ctl(node, "log", "level", "error")
    (found,) = [one for one in ctl_json(node, "connection", "list") if "to be closed" in str(one["client_properties"])]
    ctl(node, "connection", "close", found["id"], "--reason", "maintenance")
    with pytest.raises(pika.exceptions.ConnectionClosed, match="maintenance"):
        connection.process_data_events(time_limit=10)
    ctl(node, "log", "level", "info")
    lines = [line for line in node.log.read_text().splitlines() if " leveret.audit: " in line]
    (quieter, close, louder) = [line.partition(" leveret.audit: ")[2] for line in lines[-3:]]
    who = r"user 'guest' from 127\.0\.0\.1:\d+ over gRPC: "
    assert re.fullmatch(who + "set the log level of node '.*' to error", quieter)
    assert re.fullmatch(who + f"close connection '{re.escape(found['name'])}' of user 'guest': maintenance", close)
    assert re.fullmatch(who + "set the log level of node '.*' to info", louder)


def test_the_doctor_refuses_a_running_node_and_finds_nothing_after_its_stop(tmp_path: Path) -> None:
    node = start_node(tmp_path / "data")
    connection = pika.BlockingConnection(pika.URLParameters(node.amqp_url))
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"kept", pika.BasicProperties(delivery_mode=2))
    done = run("node.main", "doctor", str(node.data_dir))
    assert done.returncode == 69
    assert "stop the node first" in done.stderr
    connection.close()
    assert node.stop() == 0
    done = run("node.main", "doctor", str(node.data_dir))
    assert (done.returncode, done.stdout) == (0, "nothing is wrong\n"), done.stderr
    dump = run("node.main", "doctor", "--dump", "--json", str(node.data_dir))
    rows = [json.loads(line) for line in dump.stdout.splitlines()]
    assert "q" in [row["name"] for row in rows if row.get("record") == "queue"]


def test_a_second_node_in_the_same_directory_is_refused(node: RunningNode) -> None:
    address = "127.0.0.1:0"
    options = [
        "--data-dir",
        str(node.data_dir),
        "--amqp",
        address,
        "--grpc",
        address,
        "--http",
        address,
        "--stream",
        address,
    ]
    done = run("node.main", "serve", *options)
    assert done.returncode == 69
    assert "in use by another process" in done.stderr


def test_an_address_in_use_is_69_and_named(node: RunningNode, tmp_path: Path) -> None:
    taken = f"{node.amqp[0]}:{node.amqp[1]}"
    done = run("node.main", "serve", "--data-dir", str(tmp_path / "data"), "--amqp", taken)
    assert done.returncode == 69
    assert "cannot start" in done.stderr
    assert str(node.amqp[1]) in done.stderr


def test_definitions_go_to_a_file_and_come_back(node: RunningNode, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    ctl(node, "queue", "declare", "e2e.kept", "--argument", "x-max-length=10")
    whole = {"vhosts": [{"name": "e2e.new"}], "queues": [{"vhost": "e2e.new", "name": "q", "durable": True}]}
    changes = ctl_json(node, "definitions", "import", "-", stdin=json.dumps(whole))["applied"]
    assert changes == 2, "a vhost, and the queue in it"
    ctl(node, "vhost", "delete", "e2e.new")
    ctl(node, "definitions", "export", str(file), "--no-password-hashes")
    assert "argon2" not in file.read_text()
    ctl(node, "definitions", "export", str(file))
    assert "argon2" in file.read_text() and file.stat().st_mode & 0o077 == 0
    ctl(node, "queue", "delete", "e2e.kept")
    tried = ctl(node, "definitions", "import", str(file), "--dry-run")
    assert "queue 'e2e.kept' in vhost '/'" in tried and "nothing was changed" in tried
    assert ctl_json(node, "definitions", "import", str(file))["applied"] > 0
    assert "e2e.kept" in {queue["name"] for queue in ctl_json(node, "queue", "list")}
    assert ctl(node, "definitions", "export", "--one-vhost").startswith("{")
    ctl(node, "queue", "delete", "e2e.kept")
    refused = ctl(node, "definitions", "import", "-", stdin='{"queues": [{"vhost": "/"}]}', code=65)
    assert "queues[0]: 'name' is missing" in refused
    assert "cannot be read" in ctl(node, "definitions", "import", str(tmp_path / "nothing"), code=64)
    assert "has more than 33554432 bytes" in ctl(node, "definitions", "import", "/dev/zero", code=64)


@pytest.mark.parametrize("given", ["inf", "nan", "0", "-1"])
def test_a_timeout_that_no_timer_has_is_refused(node: RunningNode, given: str) -> None:
    assert "Invalid value for '--timeout'" in ctl(node, "--timeout", given, "queue", "list", code=64)


def test_limits_are_set_and_lifted(node: RunningNode) -> None:
    ctl(node, "user", "add", "limited", "--new-password", "secret")
    ctl(node, "vhost", "add", "limited")
    assert ctl_json(node, "user", "limits", "limited", "max-channels=3")["limits"] == {"max-channels": 3}
    ctl(node, "vhost", "limits", "limited", "max-queues=1", "max-connections=0")

    def limits(noun: str) -> dict[str, int]:
        return next(one["limits"] for one in ctl_json(node, noun, "list") if one["name"] == "limited")

    assert (limits("user"), limits("vhost")) == ({"max-channels": 3}, {"max-queues": 1, "max-connections": 0})
    ctl(node, "queue", "declare", "one", "--vhost", "limited", code=77)
    assert "is no number" in ctl(node, "user", "limits", "limited", "max-channels=many", code=64)
    assert "max-channels, max-connections" in ctl(node, "user", "limits", "limited", "max-queues=1", code=65)
    assert "or --none to take all away" in ctl(node, "user", "limits", "limited", code=64)  # to look is not to lift
    assert "or --none to take all away" in ctl(node, "vhost", "limits", "limited", code=64)
    assert (limits("user"), limits("vhost")) == ({"max-channels": 3}, {"max-queues": 1, "max-connections": 0})
    ctl(node, "user", "limits", "limited", "--none")
    ctl(node, "vhost", "limits", "limited", "--none")
    assert (limits("user"), limits("vhost")) == ({}, {})
    ctl(node, "user", "delete", "limited")
    ctl(node, "vhost", "delete", "limited")


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (("queue", "delete", "no-such"), "queue 'no-such' in vhost '/'"),
        (("exchange", "delete", "no-such"), "exchange 'no-such' in vhost '/'"),
        (("binding", "delete", "amq.direct", "q", "--key", "k"), "such binding of 'q' to 'amq.direct' with key 'k'"),
        (("policy", "clear", "no-such"), "policy 'no-such' in vhost '/'"),
        (("policy", "clear", "no-such", "--operator"), "operator policy 'no-such' in vhost '/'"),
        (("topic-permission", "clear", "guest"), "topic permission of user 'guest' at any exchange in vhost '/'"),
        (("permission", "clear", "nothing-yet"), "permission of user 'nothing-yet' in vhost '/'"),
    ],
)
def test_what_does_not_exist_is_not_said_to_be_gone_by_this_command(
    node: RunningNode, command: tuple[str, ...], missing: str
) -> None:
    if "nothing-yet" in command:
        ctl(node, "user", "add", "nothing-yet", "--no-password")
    assert ctl(node, *command) == f"there is no {missing}: nothing was changed\n"
    assert ctl_json(node, *command)["existed"] is False


def test_what_is_taken_away_is_said_to_have_existed(node: RunningNode) -> None:
    ctl(node, "exchange", "declare", "e2e.gone", "--type", "topic")
    ctl(node, "queue", "declare", "e2e.gone")
    ctl(node, "binding", "create", "e2e.gone", "e2e.gone", "--key", "k", "--argument", "x=1")
    ctl(node, "policy", "set", "e2e.gone", "^none$", '{"max-length": 1}')
    ctl(node, "user", "add", "e2e.gone", "--no-password")
    ctl(node, "permission", "set", "e2e.gone", "", "", "")
    ctl(node, "topic-permission", "set", "e2e.gone", "e2e.gone", ".*", ".*")
    for command in (
        ("binding", "delete", "e2e.gone", "e2e.gone", "--key", "k", "--argument", "x=1"),
        ("queue", "delete", "e2e.gone"),
        ("topic-permission", "clear", "e2e.gone", "e2e.gone"),
        ("exchange", "delete", "e2e.gone"),
        ("policy", "clear", "e2e.gone"),
        ("permission", "clear", "e2e.gone"),
    ):
        assert ctl_json(node, *command)["existed"] is True, command
    ctl(node, "user", "delete", "e2e.gone")


def test_permissions_of_a_user_who_does_not_exist_are_not_said_to_be_taken_away(node: RunningNode) -> None:
    assert "no user 'e2e.mistyped'" in ctl(node, "permission", "clear", "e2e.mistyped", code=65)
    assert "no user 'e2e.mistyped'" in ctl(node, "topic-permission", "clear", "e2e.mistyped", code=65)


def test_who_may_not_list_bindings_removes_those_of_their_own(node: RunningNode) -> None:
    ctl(node, "user", "add", "e2e.unbinds", stdin="secret\n")
    ctl(node, "permission", "set", "e2e.unbinds", ".*", ".*", ".*")
    ctl(node, "queue", "declare", "e2e.bound")
    ctl(node, "binding", "create", "amq.direct", "e2e.bound", "--key", "k")
    done = run(
        "leveret.ctl", "--node", f"{node.grpc[0]}:{node.grpc[1]}", "--user", "e2e.unbinds", "--password", "secret",
        "binding", "delete", "amq.direct", "e2e.bound", "--key", "k",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert ctl_json(node, "binding", "delete", "amq.direct", "e2e.bound", "--key", "k")["existed"] is False
    ctl(node, "queue", "delete", "e2e.bound")
    ctl(node, "user", "delete", "e2e.unbinds")


def test_to_ask_for_tags_takes_none_away_and_the_last_administrator_stays_one(node: RunningNode) -> None:
    assert "or --none to take all away" in ctl(node, "user", "tags", "guest", code=64)
    for command in (("tags", "guest", "--none"), ("delete", "guest"), ("password", "guest", "--no-password")):
        assert "user 'guest' is the last administrator" in ctl(node, "user", *command, code=65)
    users = {one["name"]: one["tags"] for one in ctl_json(node, "user", "list")}
    assert users["guest"] == ["administrator"]


def test_an_answer_that_cannot_be_written_is_said_and_a_closed_output_is_none_of_our_business(
    node: RunningNode,
) -> None:
    command = [sys.executable, "-m", "leveret.ctl", "--node", f"{node.grpc[0]}:{node.grpc[1]}", "--json", "status"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    told = json.loads(done.stderr)
    assert (done.returncode, told["text"]) == (74, "the answer cannot be written: No space left on device")
    closed = ["sh", "-c", '"$@" >&-', "sh", *command]
    done = subprocess.run(closed, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_options_that_cannot_be_read_are_told_as_json_where_it_is_asked_for(node: RunningNode) -> None:
    assert ctl_json(node, "--timeout", "soon", "queue", "list", code=64)["error"] == "BadParameter"
    assert ctl_json(node, "--no-such", "queue", "list", code=64)["error"] == "NoSuchOption"
