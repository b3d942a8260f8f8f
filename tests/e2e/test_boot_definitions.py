"""Definitions that a node imports at each start."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.running_node import RunningNode, start_node

USER = {"name": "ann", "tags": "administrator", "password": "geheim"}
OWN = {"user": "ann", "vhost": "shop", "configure": ".*", "write": ".*", "read": ".*"}
SHOP = {
    "vhosts": [{"name": "shop", "default_queue_type": "quorum"}],
    "users": [USER],
    "permissions": [OWN],
    "queues": [{"vhost": "shop", "name": "orders"}],
}
BINDING = {"vhost": "shop", "source": "amq.topic", "destination": "orders", "routing_key": "a.#"}


def ask(node: RunningNode, path: str, login: str = "ann:geheim") -> tuple[int, Any]:
    connection = http.client.HTTPConnection(*node.http, timeout=30)
    headers = {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
    connection.request("GET", f"/api/{path}", headers=headers)
    answer = connection.getresponse()
    status, body = answer.status, answer.read()
    connection.close()
    return status, json.loads(body)


def test_a_folder_is_imported_before_clients_come_in_and_again_at_each_start(tmp_path: Path) -> None:
    folder = tmp_path / "definitions"
    folder.mkdir()
    (folder / "2-bindings.json").write_text(json.dumps({"bindings": [BINDING]}))
    (folder / "1-shop.json").write_text(json.dumps(SHOP))
    (folder / "notes.txt").write_text("not read")
    node = start_node(tmp_path / "data", "--definitions", str(folder))
    try:
        status, queue = ask(node, "queues/shop/orders")
        assert (status, queue["type"], queue["durable"]) == (200, "quorum", True)
        assert [one["routing_key"] for one in ask(node, "queues/shop/orders/bindings")[1]] == ["orders", "a.#"]
        assert ask(node, "whoami", "guest:guest")[0] == 401, "guest is made where there are no definitions"
        hashed = ask(node, "users/ann")[1]["password_hash"]
    finally:
        node.stop()
    (folder / "3-limits.json").write_text(json.dumps({"users": [{**USER, "tags": "management"}]}))
    node = start_node(tmp_path / "data", "--definitions", str(folder))
    try:
        assert ask(node, "whoami")[1]["tags"] == ["management"], "later files have the last word"
        assert "definitions of" in node.log.read_text()
    finally:
        node.stop()
    assert hashed.startswith("$argon2id$") and "geheim" not in node.log.read_text()


def test_without_a_user_in_them_there_is_guest(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [{"vhost": "/", "name": "q"}]}))
    node = start_node(tmp_path / "data", "--definitions", str(file))
    try:
        assert ask(node, "queues/%2F/q", "guest:guest")[0] == 200
    finally:
        node.stop()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "definitions are a JSON object, and these are not"),
        ('{"queues": [{"name": "q"}]}', "queues[0]: 'vhost' is missing"),
    ],
)
def test_definitions_that_cannot_be_imported_stop_the_start(tmp_path: Path, content: str | None, said: str) -> None:
    file = tmp_path / "definitions.json"
    if content is not None:
        file.write_text(content)
    ports = [part for name in ("amqp", "stream", "grpc", "http") for part in (f"--{name}", "127.0.0.1:0")]
    command = [sys.executable, "-m", "node.main", "serve", "--data-dir", str(tmp_path / "data"), *ports]
    done = subprocess.run(
        [*command, "--definitions", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 78
    assert f"definitions.path: {file}" in done.stderr and said in done.stderr
