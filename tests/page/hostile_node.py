"""A node on which every kind of object has names that would do harm in a careless page, or look like something else."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pika

from tests.running_node import RunningNode

LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
NAMES = (
    "<img src=x onerror=alert(1)>",
    '"><script>alert(2)</script>',
    "'-alert(3)-'",
    "a/b%2Fc%?d=e&f#g",
    "javascript:alert(4)",
    "invoice\u202efdp.exe",
    "&lt;b&gt; ${alert(5)} {{alert(6)}}",
    "\u00fc\u4e2d\U0001f407 \u0645\u0631\u062d\u0628\u0627",
    " ~.^$*+?()[]{}| ",
    "long" * 63,
)


@dataclass(frozen=True)
class NodeApi:
    """The management API of a node, as guest."""

    origin: str

    def call(self, method: str, where: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": LOGIN, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.origin}/api/{where}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            raw = answer.read()
        return json.loads(raw) if raw else None

    def put(self, where: str, **body: Any) -> None:
        self.call("PUT", where, body)

    def post(self, where: str, **body: Any) -> Any:
        return self.call("POST", where, body)


def api_of(node: RunningNode) -> NodeApi:
    return NodeApi(f"http://{node.http[0]}:{node.http[1]}")


def parts(*names: str) -> str:
    """Names as they stand in a path."""
    return "/".join(quote(name, safe="") for name in names)


def declare_everything(api: NodeApi) -> None:
    """One of each kind for each name, each speaking of the others."""
    for number, name in enumerate(NAMES):
        declare(api, name, ("classic", "quorum", "stream")[number % 3])
    api.put("cluster-name", name=NAMES[0])


def nowhere(name: str) -> dict[str, Any]:
    """A shovel between a queue of this name and another one, of brokers that there are not."""
    uri = "amqp://u:p@127.0.0.1:1"
    return {
        "src-uri": uri, "src-queue": name, "dest-uri": uri, "dest-exchange": name, "dest-exchange-key": name,
        "reconnect-delay": 0,
    }  # fmt: skip


def declare(api: NodeApi, name: str, kind: str) -> None:
    api.put(f"vhosts/{parts(name)}", description=name, tags=[name])
    api.put(f"users/{parts(name)}", password="secret", tags=name.replace(",", ""))
    api.put(f"permissions/{parts('/', name)}", configure="", write="", read="")
    api.put(f"topic-permissions/{parts('/', name)}", exchange=name, write=".*", read=".*")
    api.put(f"vhost-limits/{parts(name, 'max-queues')}", value=10)
    api.put(f"user-limits/{parts(name, 'max-channels')}", value=10)
    api.put(f"global-parameters/{parts(name)}", value={name: name})
    api.put(f"parameters/shovel/{parts('/', name)}", value=nowhere(name))
    api.put(f"parameters/federation-upstream/{parts('/', name)}", value=far_away(name))
    api.put(f"exchanges/{parts('/', name)}", type="topic", durable=True, arguments={"alternate-exchange": name})
    api.put(f"queues/{parts('/', name)}", durable=True, arguments={"x-queue-type": kind})
    api.post(f"bindings/{parts('/', 'e', name, 'q', name)}", routing_key=name, arguments={name: name})
    for policies in ("policies", "operator-policies"):
        api.put(f"{policies}/{parts('/', name)}", pattern="^none$", definition={"max-length": 7}, priority=1)
    api.put(f"policies/{parts(name, name)}", pattern="^none$", definition={"dead-letter-exchange": name})
    federated = {"pattern": f"^{re.escape(name)}$", "apply-to": "queues", "definition": {"federation-upstream": name}}
    api.put(f"policies/{parts('/', f'federate {name}'[:100])}", **federated)
    declare_delayed(api, delayed(name))
    for _ in range(2):  # a consumer holds one of them
        publish(api, name)


def far_away(name: str) -> dict[str, Any]:
    """An upstream that there is not."""
    return {"uri": "amqp://u:p@127.0.0.1:1", "queue": name, "consumer-tag": name, "reconnect-delay": 60}


def delayed(name: str) -> str:
    """A name of an exchange of delayed messages, which is to be shorter than others."""
    return f"later {name}"[:100]


def declare_delayed(api: NodeApi, name: str) -> None:
    """With a message that waits an hour."""
    arguments = {"x-delayed-type": "topic"}
    api.put(f"exchanges/{parts('/', name)}", type="x-delayed-message", durable=True, arguments=arguments)
    publish_delayed(api, name, name, 3_600_000)


def publish_delayed(api: NodeApi, exchange: str, text: str, delay_ms: int) -> None:
    properties = {"headers": {text: text, "x-delay": delay_ms}, "message_id": text}
    body = {"routing_key": text, "properties": properties, "payload": text, "payload_encoding": "string"}
    api.call("POST", f"exchanges/{parts('/', exchange)}/publish", body)


def publish(api: NodeApi, name: str) -> None:
    death = {"reason": name, "queue": name, "exchange": name, "routing-keys": [name], "count": 1}
    properties = {"headers": {name: name, "x-death": [death]}, "message_id": name, "content_type": name}
    body = {"routing_key": name, "properties": properties, "payload": name, "payload_encoding": "string"}
    api.call("POST", f"exchanges/{parts('/', 'amq.default')}/publish", body)


@contextlib.contextmanager
def connected_clients(node: RunningNode) -> Iterator[None]:
    """One for each name, which consumes under it."""
    with contextlib.ExitStack() as clients:
        for number, name in enumerate(NAMES):
            connection = pika.BlockingConnection(connection_parameters(node, name))
            clients.callback(connection.close)
            channel = connection.channel()
            channel.basic_qos(prefetch_count=1)
            if number % 3 != 2:  # a stream gives messages to clients of its own protocol, or from an offset on
                channel.basic_consume(name, lambda *_: None, consumer_tag=name)
        yield


def connection_parameters(node: RunningNode, name: str) -> pika.ConnectionParameters:
    said = {"connection_name": name, "product": name, "version": name, "platform": name, name: name}
    return pika.ConnectionParameters(*node.amqp, client_properties=said, heartbeat=0)  # nobody would send them
