"""A password and a token go everywhere a client can send them, and come back nowhere: not in an answer, not in the log."""

from __future__ import annotations

import base64
import json

import pytest

from tests.running_node import RunningNode
from tests.security import wire
from tests.security.guarded_node import CANARY, Http
from tests.security.wire import Peer
from wire.amqp.tables import encode_table

ENCODED = base64.b64encode(f"canary:{CANARY}".encode()).decode()
PATHS = [
    "overview", "whoami", "users/canary/permissions", "permissions", "permissions/%2F/canary",
    "topic-permissions/%2F/canary", "vhosts", "vhosts/%2F", "vhosts/%2F/permissions", "exchanges/%2F", "bindings/%2F",
    "queues", "queues/%2F", "health/checks/alarms",
    "definitions?password-hashes=false", "connections", "channels", "consumers", "nodes",
]  # fmt: skip


def assert_clean(node: RunningNode, *answers: str) -> None:
    for secret in (CANARY, ENCODED, "$argon2", "new-" + CANARY):
        for answer in answers:
            assert secret not in answer, f"an answer holds {secret[:8]}...: {answer[:500]}"
        assert secret not in node.log.read_text(), f"the log holds {secret[:8]}..."


def test_no_listing_shows_a_password_or_its_hash(node: RunningNode) -> None:
    with Peer(node.amqp) as peer:
        peer.log_in("canary", CANARY)
        answers = [Http(node).ask("GET", f"/api/{path}")[1] for path in PATHS]
        answers.append(Http(node).ask("GET", "/metrics")[1])
    assert_clean(node, *answers)


@pytest.mark.parametrize(
    "body",
    [
        {"password": [CANARY], "tags": ""},
        {"password": {"is": CANARY}, "tags": ""},
        {"password": CANARY},
        {"password": CANARY, "tags": {"no": "list"}},
        {"password": CANARY, "password_hash": CANARY, "hashing_algorithm": "none", "tags": ""},
        {"password_hash": CANARY, "hashing_algorithm": "unknown", "tags": ""},
        {"password_hash": CANARY, "tags": ""},
        {"password_hash": [CANARY], "tags": ""},
        {"password": CANARY * 100, "tags": ""},
        {"password": CANARY, "tags": ["t"] * 100},
    ],
    ids=lambda body: json.dumps(body)[:30].replace(CANARY, "..."),
)
def test_a_refused_change_of_a_user_does_not_repeat_the_password(node: RunningNode, body: dict[str, object]) -> None:
    _, text = Http(node).ask("PUT", "/api/users/clumsy", body)
    assert_clean(node, text)


def test_broken_requests_over_http_do_not_repeat_the_password(node: RunningNode) -> None:
    answers = [
        Http(node, "canary", CANARY).ask("GET", "/api/users")[1],
        Http(node, CANARY, "wrong").ask("GET", "/api/whoami")[1].replace(CANARY, "the name, not a secret"),
        Http(node, "canary", CANARY + "x").ask("GET", "/api/whoami")[1],
        Http(node, "canary", CANARY).ask("PATCH", "/api/whoami")[1],
    ]
    assert_clean(node, *answers)


def login_answers(node: RunningNode, *frames: bytes) -> str:
    with Peer(node.amqp) as peer:
        peer.start()
        peer.send(*frames)
        said = peer.closed_with()
        return "" if said is None else said.text


def test_broken_logins_over_amqp_do_not_repeat_the_password(node: RunningNode) -> None:
    response = f"\0canary\0{CANARY}".encode()
    amqplain = encode_table({"LOGIN": "canary", "PASSWORD": CANARY})[4:]
    broken = wire.method(0, "connection.start-ok", mechanism="PLAIN", response=response)
    answers = [
        login_answers(node, wire.start_ok("canary", CANARY + "x")),
        login_answers(node, wire.start_ok("", "", response=response + b"\0more")),
        login_answers(node, wire.start_ok("", "", response=response[1:])),
        login_answers(node, wire.start_ok("", "", mechanism="AMQPLAIN", response=amqplain[:-3])),
        login_answers(node, wire.start_ok("", "", mechanism="AMQPLAIN", response=amqplain + b"\x01")),
        login_answers(node, wire.start_ok("", "", mechanism=CANARY[:6], response=response)),
        login_answers(node, broken[:-1] + b"\x00"),
        login_answers(node, wire.frame(wire.METHOD, 0, broken[7:-1] + b"more than there is")),
        login_answers(node, wire.frame(wire.METHOD, 0, broken[7:-4])),
        login_answers(node, wire.frame(wire.HEADER, 0, broken[7:-1])),
        login_answers(node, wire.frame(wire.METHOD, 1, broken[7:-1])),
    ]
    assert_clean(node, *answers)


def test_the_answer_to_amqplain_is_as_to_plain(node: RunningNode) -> None:
    """So that the canary above is known to be a right password, and its refusals to be those of broken requests."""
    amqplain = encode_table({"LOGIN": "canary", "PASSWORD": CANARY})[4:]
    with Peer(node.amqp) as peer:
        peer.start()
        peer.send(wire.start_ok("", "", mechanism="AMQPLAIN", response=amqplain))
        peer.expect("connection.tune")


@pytest.mark.parametrize("right", [True, False])
def test_a_new_secret_is_not_repeated(node: RunningNode, right: bool) -> None:
    secret = CANARY if right else "new-" + CANARY
    with Peer(node.amqp) as peer:
        peer.log_in("canary", CANARY)
        said = peer.call(0, "connection.update-secret", new_secret=secret.encode(), reason="rotation")
        assert said.name == "connection.update-secret-ok"
    assert_clean(node, said.text)


def test_the_address_for_replies_is_known_to_its_requester_alone(node: RunningNode) -> None:
    """It is a token: whoever has it may answer. It is in no listing and no line of the log."""
    with Peer(node.amqp) as peer:
        peer.log_in("canary", CANARY)
        peer.open_channel()
        peer.call(1, "queue.declare", queue="requests")
        peer.call(1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True)
        properties = b"\x02\x00" + bytes((len("amq.rabbitmq.reply-to"),)) + b"amq.rabbitmq.reply-to"
        header = wire.frame(wire.HEADER, 1, bytes((0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)) + properties)
        start = wire.method(1, "basic.publish", exchange="", routing_key="requests")
        peer.send(start, header, wire.frame(wire.BODY, 1, b"?"))
        peer.send(wire.method(1, "basic.get", queue="requests", no_ack=True))
        while peer.expect("basic.get-ok", "basic.get-empty").name == "basic.get-empty":
            peer.send(wire.method(1, "basic.get", queue="requests", no_ack=True))
        payload = peer.expect("header").payload
        peer.expect("body")
        token = payload[payload.index(b"amq.rabbitmq.reply-to.") + 22 :].decode()
        assert len(token) >= 20, f"a token of {len(token)} characters can be guessed"
        answers = [Http(node).ask("GET", f"/api/{path}")[1] for path in PATHS]
        assert not any(token in answer for answer in answers)
        peer.call(1, "queue.delete", queue="requests")
    assert token not in node.log.read_text()
