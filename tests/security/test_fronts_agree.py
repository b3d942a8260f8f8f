"""AMQP, gRPC and HTTP of one real node decide alike: a slice of the matrix, vhosts of others, and administration."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from leveret.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    consume_pb2,
    consume_pb2_grpc,
    message_pb2,
    publish_pb2,
    publish_pb2_grpc,
    topology_pb2,
    topology_pb2_grpc,
)
from tests.running_node import RunningNode
from tests.security import wire
from tests.security.guarded_node import CANARY, Http
from tests.security.permission_oracle import ACCESSES
from tests.security.requests import frames_of
from tests.security.wire import Peer

VHOST, USER = "agree", "agent"
GRANTS = [
    dict.fromkeys(ACCESSES, "^$"),
    dict.fromkeys(ACCESSES, ".*"),
    *({one: ".*" if one == only else "^$" for one in ACCESSES} for only in ACCESSES),
    *({one: "^$" if one == without else ".*" for one in ACCESSES} for without in ACCESSES),
]
CODE_OF_STATUS = {
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.FAILED_PRECONDITION: 406,
}
CODE_OF_ERROR = {
    "AccessRefused": 403,
    "NotFound": 404,
    "PreconditionFailed": 406,
    "InvalidRequest": 406,
    "MalformedTable": 406,
}
Answer = tuple[str, str]  # ok or a reply code, and the text


class Grpc:
    """The node's services as one user."""

    def __init__(self, node: RunningNode, user: str, password: str) -> None:
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._metadata = (("authorization", f"Basic {token}"),) if user else ()
        self.channel = grpc.insecure_channel(f"{node.grpc[0]}:{node.grpc[1]}")

    def call(self, service: str, method: str, request: Any) -> Answer:
        begun = self.begin(service, method, request)
        if begun.code() is grpc.StatusCode.OK:
            return "ok", ""
        return str(CODE_OF_STATUS.get(begun.code(), begun.code())), str(begun.details())

    def begin(self, service: str, method: str, request: Any) -> Any:
        """The call, which is on its way. Its code is known when it has ended."""
        stub = {
            "Topology": topology_pb2_grpc.TopologyStub,
            "Admin": admin_pb2_grpc.AdminStub,
            "Consumer": consume_pb2_grpc.ConsumerStub,
        }[service](self.channel)
        called = getattr(stub, method)
        begin = getattr(called, "future", called)  # a call with a stream of answers does not wait for them anyway
        return begin(request, metadata=self._metadata, timeout=wire.TIMEOUT_S)

    def publish(self, exchange: str, routing_key: str, **properties: Any) -> Answer:
        message = message_pb2.Message(body=b"m", properties=message_pb2.Properties(**properties))
        batch = publish_pb2.PublishBatch(
            exchange=exchange, routing_key=routing_key, messages=[message], first_sequence=1
        )
        requests = iter(
            [
                publish_pb2.PublishRequest(open=message_pb2.Open(vhost=VHOST)),
                publish_pb2.PublishRequest(batch=batch),
            ]
        )
        stub = publish_pb2_grpc.PublisherStub(self.channel)
        for response in stub.Publish(requests, metadata=self._metadata, timeout=wire.TIMEOUT_S):
            for refusal in response.confirms.refused:
                return str(CODE_OF_ERROR[refusal.error]), refusal.text
        return "ok", ""

    def subscribe(self, queue: str) -> Answer:
        requests = iter(
            [
                consume_pb2.ConsumeRequest(open=message_pb2.Open(vhost=VHOST)),
                consume_pb2.ConsumeRequest(subscribe=consume_pb2.Subscribe(queue=queue, prefetch=1)),
            ]
        )
        stub = consume_pb2_grpc.ConsumerStub(self.channel)
        try:
            responses = stub.Consume(requests, metadata=self._metadata, timeout=wire.TIMEOUT_S)
            for response in responses:
                if response.WhichOneof("kind") == "subscribed":
                    responses.cancel()
                    break
        except grpc.RpcError as error:
            return str(CODE_OF_STATUS.get(error.code(), error.code())), str(error.details())
        return "ok", ""


def binding(destination: str, source: str, kind: str = "QUEUE") -> topology_pb2.Binding:
    number = getattr(topology_pb2, f"DESTINATION_KIND_{kind}")
    return topology_pb2.Binding(
        vhost=VHOST, destination=destination, source=source, routing_key="k", destination_kind=number
    )


QUEUE = {"vhost": VHOST, "name": "q"}
EXCHANGE = {"vhost": VHOST, "name": "x", "transient": True}
# What AMQP is asked, and the same of gRPC.
SLICE: list[tuple[str, str, str, Any]] = [
    ("queue.declare queue=q", "Topology", "DeclareQueue", topology_pb2.DeclareQueueRequest(**QUEUE, transient=True)),
    ("queue.declare queue=q passive", "Topology", "DeclareQueue", topology_pb2.DeclareQueueRequest(**QUEUE, passive=True)),
    ("queue.declare queue=amq.mine", "Topology", "DeclareQueue",
     topology_pb2.DeclareQueueRequest(vhost=VHOST, name="amq.mine")),
    ("queue.purge queue=q", "Topology", "PurgeQueue", topology_pb2.PurgeQueueRequest(**QUEUE)),
    ("queue.delete queue=q", "Topology", "DeleteQueue", topology_pb2.DeleteQueueRequest(**QUEUE)),
    ("queue.bind queue=q exchange=x routing_key=k", "Topology", "Bind", topology_pb2.BindRequest(binding=binding("q", "x"))),
    ("queue.unbind queue=q exchange=x routing_key=k", "Topology", "Unbind",
     topology_pb2.UnbindRequest(binding=binding("q", "x"))),
    ("exchange.declare exchange=x type=direct", "Topology", "DeclareExchange", topology_pb2.DeclareExchangeRequest(**EXCHANGE)),
    ("exchange.declare exchange=x type=direct passive", "Topology", "DeclareExchange",
     topology_pb2.DeclareExchangeRequest(**EXCHANGE, passive=True)),
    ("exchange.delete exchange=x", "Topology", "DeleteExchange", topology_pb2.DeleteExchangeRequest(vhost=VHOST, name="x")),
    ("exchange.delete exchange=amq.direct", "Topology", "DeleteExchange",
     topology_pb2.DeleteExchangeRequest(vhost=VHOST, name="amq.direct")),
    ("exchange.bind destination=amq.fanout source=x routing_key=k", "Topology", "Bind",
     topology_pb2.BindRequest(binding=binding("amq.fanout", "x", "EXCHANGE"))),
    ("basic.get queue=q", "Consumer", "Get", consume_pb2.GetRequest(vhost=VHOST, queue="q")),
    ("basic.publish exchange=x routing_key=k", "", "publish", ("x", "k")),
    ("basic.publish exchange= routing_key=q", "", "publish", ("", "q")),
    ("basic.publish exchange=amq.fanout routing_key=k", "", "publish", ("amq.fanout", "k")),
    ("basic.consume queue=q", "", "subscribe", ("q",)),
]  # fmt: skip


class Amqp:
    """One connection that opens a channel for each request."""

    def __init__(self, node: RunningNode, user: str, password: str) -> None:
        self.peer = Peer(node.amqp)
        self.peer.log_in(user, password, VHOST)

    def ask(self, request: str) -> Answer:
        peer = self.peer
        peer.send(wire.method(1, "channel.open"), frames_of(1, request), wire.method(1, "basic.qos"))
        while True:
            said = peer.next()
            assert said is not None, f"the node hung up on {request}"
            if said.name == "channel.close":
                peer.send(wire.method(1, "channel.close-ok"))
                return str(said.code), said.text.partition(" - ")[2]
            if said.name == "basic.qos-ok":
                peer.send(wire.method(1, "channel.close"))
                peer.expect("channel.close-ok")
                return "ok", ""


@pytest.fixture(scope="module")
def agreed(node: RunningNode) -> Iterator[tuple[Http, Amqp, Amqp, Grpc]]:
    """HTTP and AMQP of an administrator, AMQP and gRPC of the user in question."""
    http = Http(node)
    http.put(f"/api/vhosts/{VHOST}", {})
    http.put_user(USER, CANARY)
    http.permit(USER, VHOST, "^$", "^$", "^$")
    guest, agent = Amqp(node, "guest", "guest"), Amqp(node, USER, CANARY)
    yield http, guest, agent, Grpc(node, USER, CANARY)
    guest.peer.socket.close()
    agent.peer.socket.close()
    http.ask("DELETE", f"/api/vhosts/{VHOST}")


def arrange(guest: Amqp, there: bool) -> None:
    verb = "declare" if there else "delete"
    queue = guest.ask(f"queue.{verb} queue=q")
    assert queue[0] == "ok", queue
    kind = " type=direct" if there else ""
    exchange = guest.ask(f"exchange.{verb} exchange=x{kind}")
    assert exchange[0] == "ok", exchange


@pytest.mark.parametrize(
    "grants", GRANTS, ids=lambda grants: "".join(f"{name[0]}{len(grants[name])}" for name in ACCESSES)
)
def test_amqp_and_grpc_allow_and_refuse_the_same_in_the_same_words(
    agreed: tuple[Http, Amqp, Amqp, Grpc], grants: dict[str, str]
) -> None:
    http, guest, agent, grpc_agent = agreed
    http.permit(USER, VHOST, **grants)
    for request, service, method, asked in SLICE:
        for there in (True, False):
            arrange(guest, there)
            by_amqp = agent.ask(request)
            arrange(guest, there)
            by_grpc = grpc_agent.call(service, method, asked) if service else getattr(grpc_agent, method)(*asked)
            assert by_amqp == by_grpc, f"{request} with {grants}, {'there' if there else 'missing'}"


@pytest.mark.parametrize(
    ("key", "properties"),
    [
        ("k" * 256, {}),
        ("ü" * 128, {}),
        *(
            ("k", {name: "x" * 256})
            for name in ("content_type", "correlation_id", "message_id", "reply_to", "type", "app_id")
        ),
        ("k", {"headers": message_pb2.Table(entries={"n" * 256: message_pb2.Value(text="v")})}),
        ("k", {"headers": message_pb2.Table(entries={"n": message_pb2.Value(text="v" * 131_072)})}),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_amqp_could_not_say_is_refused_over_grpc(
    agreed: tuple[Http, Amqp, Amqp, Grpc], key: str, properties: dict[str, Any]
) -> None:
    """Or else it would break every AMQP client that receives it."""
    http, guest, agent, grpc_agent = agreed
    http.permit(USER, VHOST, ".*", ".*", ".*")
    arrange(guest, there=True)
    assert guest.ask("queue.bind queue=q exchange=amq.fanout")[0] == "ok"
    code, text = grpc_agent.publish("amq.fanout", key, **properties)
    assert code == "406", f"{code} {text}"
    assert agent.ask("basic.get queue=q") == ("ok", "")


def test_a_vhost_of_others_is_as_closed_as_one_that_does_not_exist(node: RunningNode) -> None:
    """By AMQP, gRPC and HTTP alike, for a user who may look at its own vhosts."""
    http = Http(node)
    http.put("/api/vhosts/hidden", {})
    http.put_user("visitor", CANARY, tags="management")
    http.permit("visitor", "/", ".*", ".*", ".*")
    visitor, by_grpc = Http(node, "visitor", CANARY), Grpc(node, "visitor", CANARY)
    heard: list[list[Answer]] = []
    for vhost in ("hidden", "absent"):
        answers: list[Answer] = []
        for path in ("queues/{}", "queues/{}/q", "exchanges/{}", "bindings/{}", "vhosts/{}", "vhosts/{}/permissions"):
            status, text = visitor.ask("GET", "/api/" + path.format(vhost))
            answers.append((str(status), text))
        for listing in ("Queues", "Exchanges", "Bindings"):
            request = getattr(topology_pb2, f"List{listing}Request")(vhost=vhost)
            answers.append(by_grpc.call("Topology", f"List{listing}", request))
        answers.append(by_grpc.call("Topology", "PurgeQueue", topology_pb2.PurgeQueueRequest(vhost=vhost, name="q")))
        answers.append(by_grpc.call("Admin", "GetQueueStatus", admin_pb2.GetQueueStatusRequest(vhost=vhost, name="q")))
        with Peer(node.amqp) as peer:
            peer.start()
            peer.send(wire.start_ok("visitor", CANARY), wire.tune_ok())
            peer.expect("connection.tune")
            peer.send(wire.method(0, "connection.open", virtual_host=vhost))
            said = peer.expect("connection.close")
            answers.append((str(said.code), said.text))
        assert all(code != "ok" and code[0] != "2" for code, _ in answers), answers
        heard.append([(code, text.replace(vhost, "<vhost>")) for code, text in answers])
    assert heard[0] == heard[1]
    assert "hidden" not in str(visitor.get("/api/vhosts")), "nor is it listed"


def test_administration_is_for_administrators(node: RunningNode) -> None:
    """Every call of the Admin service but WhoAmI, by somebody with all permissions and no tag."""
    by_grpc = Grpc(node, "canary", CANARY)
    methods = [method.name for method in admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods]
    assert len(methods) >= 20
    for method in methods:
        request = getattr(admin_pb2, f"{method}Request")()
        code, text = by_grpc.call("Admin", method, request)
        assert code == ("ok" if method == "WhoAmI" else "403"), f"{method}: {code} {text}"


@pytest.mark.parametrize(("user", "password"), [("", ""), ("canary", "wrong"), ("nobody", CANARY), ("guest", "")])
def test_nothing_is_answered_to_strangers(node: RunningNode, user: str, password: str) -> None:
    """All calls are under way together, for a node takes its time with wrong passwords, and checks equal ones once."""
    by_grpc = Grpc(node, user, password)
    calls = {
        f"{service}.{method.name}": by_grpc.begin(service, method.name, getattr(module, f"{method.name}Request")())
        for module, service in ((admin_pb2, "Admin"), (topology_pb2, "Topology"), (consume_pb2, "Consumer"))
        for method in module.DESCRIPTOR.services_by_name[service].methods
        if not method.client_streaming
    }
    assert len(calls) >= 30
    for name, call in calls.items():
        assert call.code() is grpc.StatusCode.UNAUTHENTICATED, f"{name}: {call.code()}"
    status, _ = Http(node, user, password).ask("GET", "/api/overview")
    assert status == 401


@pytest.mark.parametrize("change", ["password", "permissions", "user"])
def test_what_is_taken_away_ends_streams_of_every_protocol(node: RunningNode, change: str) -> None:
    http, user = Http(node), f"leaver-{change}"
    http.put_user(user, CANARY)
    http.permit(user, "/", ".*", ".*", ".*")
    amqp = Peer(node.amqp)
    amqp.log_in(user, CANARY)
    token = base64.b64encode(f"{user}:{CANARY}".encode()).decode()
    channel = grpc.insecure_channel(f"{node.grpc[0]}:{node.grpc[1]}")
    never_ends = iter(HeldOpen([consume_pb2.ConsumeRequest(open=message_pb2.Open())]))
    stream = consume_pb2_grpc.ConsumerStub(channel).Consume(
        never_ends, metadata=(("authorization", f"Basic {token}"),), timeout=wire.TIMEOUT_S
    )
    assert next(stream).WhichOneof("kind") == "opened"
    if change == "password":
        http.put_user(user, CANARY + "2")
    elif change == "permissions":
        assert http.ask("DELETE", f"/api/permissions/%2F/{user}")[0] == 204
    else:
        assert http.ask("DELETE", f"/api/users/{user}")[0] == 204
    said = amqp.expect("connection.close")
    assert said.code == 320, said.text
    with pytest.raises(grpc.RpcError) as ended:
        next(stream)
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
    amqp.socket.close()
    channel.close()


class HeldOpen:
    """Requests of a stream whose client never says that it is done."""

    def __init__(self, requests: list[Any]) -> None:
        self._requests = requests

    def __iter__(self) -> Iterator[Any]:
        yield from self._requests
        threading.Event().wait(wire.TIMEOUT_S)
