"""Definitions of a genuine RabbitMQ go to a node, and those of the node back to RabbitMQ; users log in on both.

    python -m tests.compat.definitions_round_trip --node 127.0.0.1:15672 --rabbitmq 127.0.0.1:25672

Both brokers have the user guest with the password guest. What is declared for this lies in vhosts and has names that begin with
`trip`, and is deleted again. What differs is printed; docs/amqp-differences.md says what may. Exit codes: 0 nothing else does.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import http.client
import json
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

Json = dict[str, Any]
OURS = "trip"
VHOST, QUORUM = "trip/shop", "trip-quorum"
PARTS = (
    "users", "vhosts", "permissions", "topic_permissions", "global_parameters", "parameters", "policies", "exchanges",
    "queues", "bindings",
)  # fmt: skip
ODD_NAME = "naïve / queue"
PASSWORD = "trip-pässword"
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
TIMEOUT_S = 60


class Api:
    """The management API of a broker."""

    def __init__(self, address: str, login: str = "guest:guest") -> None:
        host, _, port = address.rpartition(":")
        self.host, self.port = host, int(port)
        self.login = login

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        headers = {
            "Authorization": "Basic " + base64.b64encode(self.login.encode()).decode(),
            "Content-Type": "application/json",
        }
        connection.request(method, f"/api/{path}", None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        status, content = answer.status, answer.read()
        connection.close()
        return status, content

    def do(self, method: str, path: str, body: Any = None) -> bytes:
        status, content = self.ask(method, path, body)
        assert status < 300, f"{method} {path}: {status} {content.decode()}"
        return content


def salted(digest: str) -> Json:
    salt = b"salt"
    raw = salt + hashlib.new(digest, salt + PASSWORD.encode()).digest()
    algorithm = f"rabbit_password_hashing_{digest}"
    return {"password_hash": base64.b64encode(raw).decode(), "hashing_algorithm": algorithm}


USERS: dict[str, Json] = {
    "trip-clear": {"password": PASSWORD},
    "trip-sha256": salted("sha256"),
    "trip-sha512": salted("sha512"),
    "trip-md5": salted("md5"),
    "trip-nobody": {"password_hash": ""},
}


def requests() -> Iterator[tuple[str, str, Any]]:
    """Something of each kind."""
    vhost, quorum = quote(VHOST, safe=""), QUORUM
    metadata = {"description": "a shop", "tags": ["production", "blue"], "default_queue_type": "classic"}
    yield "PUT", f"vhosts/{vhost}", metadata
    yield "PUT", f"vhosts/{quorum}", {"default_queue_type": "quorum"}
    for name, password in USERS.items():
        yield "PUT", f"users/{name}", {"tags": "management,policymaker", **password}
        yield "PUT", f"permissions/{vhost}/{name}", {**EVERYTHING, "configure": "^own"}
    yield "PUT", f"permissions/{quorum}/trip-clear", EVERYTHING
    yield "PUT", "user-limits/trip-clear/max-channels", {"value": 5}
    yield "PUT", f"vhost-limits/{vhost}/max-queues", {"value": 50}
    yield "PUT", "global-parameters/trip", {"value": {"a": [1, 2.5, None, "ü"]}}
    upstream = {"value": {"uri": "amqp://guest:guest@127.0.0.1:1"}}
    yield "PUT", f"parameters/federation-upstream/{vhost}/up", upstream
    policy = {"pattern": "^ord", "definition": {"max-length": 10}, "priority": 3, "apply-to": "queues"}
    yield "PUT", f"policies/{vhost}/short", policy
    federated = {"pattern": "^fed", "definition": {"federation-upstream-set": "all"}, "apply-to": "exchanges"}
    yield "PUT", f"policies/{vhost}/federated", federated
    yield (
        "PUT",
        f"operator-policies/{vhost}/op",
        {"pattern": ".*", "definition": {"max-length": 100}, "apply-to": "queues"},
    )
    for kind in ("direct", "fanout", "topic", "headers"):
        yield "PUT", f"exchanges/{vhost}/{kind}", {"type": kind}
    yield "PUT", f"exchanges/{vhost}/events", {
        "type": "topic", "durable": True, "auto_delete": True,
        "arguments": {"alternate-exchange": "fanout"},
    }  # fmt: skip
    yield "PUT", f"topic-permissions/{vhost}/trip-clear", {"exchange": "events", "write": "^a", "read": ".*"}
    yield "PUT", f"queues/{vhost}/orders", {"durable": True, "arguments": {"x-message-ttl": 60000, "x-max-priority": 5}}
    yield (
        "PUT",
        f"queues/{vhost}/quorum",
        {"durable": True, "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 7}},
    )
    yield "PUT", f"queues/{vhost}/stream", {"durable": True, "arguments": {"x-queue-type": "stream", "x-max-age": "1D"}}
    yield "PUT", f"queues/{quorum}/by-default", {"durable": True}
    yield "PUT", f"queues/{vhost}/{quote(ODD_NAME, safe='')}", {"durable": True, "auto_delete": True}
    yield "POST", f"bindings/{vhost}/e/topic/q/orders", {"routing_key": "a.#", "arguments": {}}
    yield "POST", f"bindings/{vhost}/e/headers/q/orders", {"routing_key": "", "arguments": {"x-match": "any", "n": 1}}
    yield "POST", f"bindings/{vhost}/e/direct/e/fanout", {"routing_key": "k", "arguments": {}}
    yield "POST", f"bindings/{vhost}/e/amq.topic/q/quorum", {"routing_key": "z", "arguments": {}}


def clean(api: Api) -> None:
    for vhost in (VHOST, QUORUM):
        api.ask("DELETE", f"vhosts/{quote(vhost, safe='')}")
    for user in USERS:
        api.ask("DELETE", f"users/{user}")
    api.ask("DELETE", "global-parameters/trip")


def exported(api: Api) -> Json:
    return dict(json.loads(api.do("GET", "definitions")))


def ours(document: Json) -> dict[str, dict[str, Json]]:
    """What is of this test, each thing by what names it."""
    return {part: {_name(item): item for item in document[part] if _is_ours(item)} for part in PARTS}


def _is_ours(item: Json) -> bool:
    names = [str(item.get(field, "")) for field in ("vhost", "name", "user")]
    return any(name.startswith(OURS) for name in names) and not names[1].startswith("amq.")


def _name(item: Json) -> str:
    fields = ("vhost", "component", "name", "user", "exchange", "source", "destination", "routing_key", "arguments")
    return " ".join(
        str(item[field]) for field in fields if field in item and ("name" not in item or field != "arguments")
    )


def differences(one: Json, other: Json) -> Iterator[str]:
    mine, theirs = ours(one), ours(other)
    for part in PARTS:
        for name in sorted(mine[part].keys() | theirs[part].keys()):
            here, there = mine[part].get(name), theirs[part].get(name)
            if here != there:
                before, after = (json.dumps(one, sort_keys=True, ensure_ascii=False) for one in (here, there))
                yield f"{part}: {name}\n    before {before}\n    after  {after}"


def logins(address: str, where: str) -> Iterator[str]:
    for name, given in USERS.items():
        for password in (PASSWORD, "wrong"):
            status, _ = Api(address, f"{name}:{password}").ask("GET", "whoami")
            is_right = password == PASSWORD and given != {"password_hash": ""}
            if status != (200 if is_right else 401):
                yield f"{name} with a {'right' if is_right else 'wrong'} password on {where}: {status}"


def round_trip(node: str, rabbitmq: str) -> Iterator[str]:
    ours, theirs = Api(node), Api(rabbitmq)
    for api in (ours, theirs):
        clean(api)
    for method, path, body in requests():
        theirs.do(method, path, body)
    first = exported(theirs)
    yield from logins(rabbitmq, "RabbitMQ, before")
    ours.do("POST", "definitions", first)
    second = exported(ours)
    yield from differences(first, second)
    yield from logins(node, "the node")
    clean(theirs)
    theirs.do("POST", "definitions", second)
    yield from differences(first, exported(theirs))
    yield from logins(rabbitmq, "RabbitMQ, after")
    for api in (ours, theirs):
        clean(api)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--node", default="127.0.0.1:15672", help="HTTP of a node of Leveret")
    parser.add_argument("--rabbitmq", required=True, help="HTTP of a RabbitMQ")
    given = parser.parse_args()
    found = list(round_trip(given.node, given.rabbitmq))
    print("\n".join(found))
    print(f"{len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
