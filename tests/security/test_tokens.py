"""Tokens on a real node whose issuer publishes its keys on loopback: each front, what a token may and may not, floods of bad
ones, and an issuer that is away."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pika
import pika.exceptions
import pytest
import rstream

from leveret.v1.admin_pb2 import WhoAmIRequest
from leveret.v1.admin_pb2_grpc import AdminStub
from tests.running_node import RunningNode, running_node
from tests.token_issuer import RESOURCE_SERVER, JwksServer, TokenIssuer, encoded, forged, publishing

ISSUER = TokenIssuer()
WITHIN_S = 20.0
SECRET = b"of 32 bytes, and in a file of us"
CONFIG = """
[oauth2]
resource_server_id = "{resource}"
jwks_url = "{url}"
keys = {{ shared = "{secret}" }}
leeway_s = 0

[limits]
http_connections = 300

[amqp]
authentication_failure_delay_ms = 100
"""
FLOOD_S = 4.0
FLOODING_CONNECTIONS = 8
GROWTH_BYTES_MAX = 64 << 20
LONGEST_TURN_S_MAX = 0.5  # of a machine that has two cores and much else to do; 20 ms is the aim


@pytest.fixture(scope="module")
def jwks() -> Iterator[JwksServer]:
    with publishing([ISSUER.elliptic]) as server:
        yield server


@pytest.fixture(scope="module")
def node(jwks: JwksServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("tokens")
    secret = folder / "secret.json"
    secret.write_text(json.dumps({"kty": "oct", "k": encoded(SECRET)}))
    config = folder / "leveret.toml"
    config.write_text(CONFIG.format(resource=RESOURCE_SERVER, url=jwks.url, secret=secret))
    with running_node("--config", str(config), data_dir=folder / "data") as one:
        yield one


# ------------------------------------------------------------------------- the fronts


def ask(node: RunningNode, path: str, authorization: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(*node.http, timeout=WITHIN_S)
    try:
        connection.request("GET", path, headers={"Authorization": authorization})
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if body.startswith((b"{", b"[")) else body
    finally:
        connection.close()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def connect(node: RunningNode, token: str) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials("any name", token)
    return pika.BlockingConnection(pika.ConnectionParameters(*node.amqp, credentials=credentials))


def by_amqp(node: RunningNode, token: str) -> bool:
    try:
        connect(node, token).close()
    except (pika.exceptions.ProbableAuthenticationError, pika.exceptions.AMQPConnectionError):
        return False
    return True


def by_bearer(node: RunningNode, token: str) -> bool:
    return ask(node, "/api/whoami", f"Bearer {token}")[0] == 200


def by_basic(node: RunningNode, token: str) -> bool:
    return ask(node, "/api/whoami", basic("any name", token))[0] == 200


def by_grpc(node: RunningNode, token: str) -> bool:
    async def call() -> bool:
        async with grpc.aio.insecure_channel("{}:{}".format(*node.grpc)) as channel:
            try:
                await AdminStub(channel).WhoAmI(WhoAmIRequest(), metadata=(("authorization", f"Bearer {token}"),))
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED, error
                return False
            return True

    return asyncio.run(asyncio.wait_for(call(), WITHIN_S))


def by_stream(node: RunningNode, token: str) -> bool:
    async def log_in() -> bool:
        try:
            async with rstream.Producer(*node.addresses["stream"], username="any name", password=token):
                return True
        except rstream.exceptions.AuthenticationFailure:
            return False

    return asyncio.run(asyncio.wait_for(log_in(), WITHIN_S))


FRONTS: dict[str, Callable[[RunningNode, str], bool]] = {
    "AMQP": by_amqp, "Bearer": by_bearer, "Basic": by_basic, "gRPC": by_grpc, "stream": by_stream,
}  # fmt: skip


def everything(**more: Any) -> str:
    scopes = [f"{RESOURCE_SERVER}.{one}:*/*/*" for one in ("configure", "write", "read")]
    return ISSUER.token([*scopes, f"{RESOURCE_SERVER}.tag:management"], **more)


@pytest.mark.parametrize("front", FRONTS)
def test_a_token_lets_in_on_each_front_and_what_is_wrong_with_one_on_none(node: RunningNode, front: str) -> None:
    log_in, mine = FRONTS[front], TokenIssuer()
    assert log_in(node, everything())
    claims = {
        "sub": "mallory",
        "aud": RESOURCE_SERVER,
        "exp": int(time.time()) + 600,
        "scope": "leveret.tag:management",
    }
    bad = {
        "expired": everything(exp=int(time.time()) - 1),
        "for another": everything(aud="other"),
        "signed by somebody": mine.token(),
        "of no key": everything(header={"kid": "../../../etc/passwd"}),
        "with the key's own text": mine.token(header={"jwk": mine.elliptic.jwk, "alg": "ES256"}),
        "without a signature": forged({"alg": "none", "kid": "ec-1"}, claims),
        "with another's algorithm": forged({"alg": "HS256", "kid": "ec-1"}, claims, b"x" * 32),
        "deep": forged(b'{"alg":' + b"[" * 2_000, claims),  # type: ignore[arg-type]
        "of dots": "eyJh" + "." * 40,
    }
    let_in = [what for what, token in bad.items() if log_in(node, token)]
    assert let_in == []


def test_a_token_of_a_megabyte_is_refused_and_its_sender_alone_is_cut_off(node: RunningNode) -> None:
    huge = everything(padding="x" * (1 << 20))
    assert ask(node, "/api/whoami", f"Bearer {huge}")[0] == 431
    assert not by_amqp(node, huge)
    assert by_bearer(node, everything())


def test_whom_a_token_names_is_shown_and_not_stored(node: RunningNode) -> None:
    token = ISSUER.token([f"{RESOURCE_SERVER}.tag:administrator", f"{RESOURCE_SERVER}.read:*/*"], sub="carol")
    connection = connect(node, token)
    assert ask(node, "/api/whoami", f"Bearer {token}") == (
        200, {"name": "carol", "tags": ["administrator"], "is_internal_user": False}
    )  # fmt: skip
    users = {one["user"] for one in ask(node, "/api/connections", f"Bearer {token}")[1]}
    assert "carol" in users
    assert "carol" not in {one["name"] for one in ask(node, "/api/users", f"Bearer {token}")[1]}
    connection.close()


def test_tags_of_a_token_open_what_they_open_for_users(node: RunningNode) -> None:
    paths = {"/api/overview": "management", "/api/nodes": "monitoring", "/api/users": "administrator"}
    included = {
        "management": {"management"},
        "monitoring": {"management", "monitoring"},
        "administrator": set(paths.values()),
    }
    for tag, opens in included.items():
        authorization = "Bearer " + ISSUER.token([f"{RESOURCE_SERVER}.tag:{tag}"])
        found = {needed for path, needed in paths.items() if ask(node, path, authorization)[0] == 200}
        assert found == opens, tag
    assert ask(node, "/api/overview", "Bearer " + ISSUER.token([]))[0] == 401


# ------------------------------------------------------------------------- until when


def test_a_connection_ends_with_its_token_unless_it_is_renewed(node: RunningNode) -> None:
    soon = int(time.time()) + 3
    ended, renewed = connect(node, everything(exp=soon)), connect(node, everything(exp=soon))
    renewed.update_secret(everything(exp=soon + 600), "refreshed")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        ended.sleep(WITHIN_S)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - credential expired")
    assert time.time() >= soon
    renewed.channel().queue_declare("tokens.renewed", auto_delete=True)
    renewed.close()


def test_a_renewed_connection_may_what_its_new_token_says(node: RunningNode) -> None:
    connection = connect(node, everything())
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("tokens.less", exclusive=True)
    channel.basic_publish("", "tokens.less", b"")
    connection.update_secret(ISSUER.token([f"{RESOURCE_SERVER}.read:*/*"]), "less")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"write access to exchange 'amq\.default'"):
        channel.basic_publish("", "tokens.less", b"")
    connection.close()


@pytest.mark.parametrize("secret", ["a password", forged({"alg": "none"}, {"sub": "alice"})])
def test_a_secret_that_is_no_good_token_ends_the_connection(node: RunningNode, secret: str) -> None:
    connection = connect(node, everything())
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="New secret was refused"):
        connection.update_secret(secret, "refreshed")


# ------------------------------------------------------------------------- floods, and an issuer that is away


def longest_turn_s(node: RunningNode) -> float:
    text = ask(node, "/metrics", basic("guest", "guest"))[1].decode()
    found = re.search(r"^leveret_loop_longest_turn_seconds(?:\{.*\})? (\S+)$", text, re.M)
    assert found is not None
    return float(found[1])


def flood(node: RunningNode, until: float, counted: list[int], make: Callable[[int], str]) -> None:
    connection = http.client.HTTPConnection(*node.http, timeout=WITHIN_S, source_address=("127.0.0.2", 0))
    number = 0
    while time.monotonic() < until:
        connection.request("GET", "/api/whoami", headers={"Authorization": f"Bearer {make(number)}"})
        response = connection.getresponse()
        response.read()
        assert response.status in (401, 503), response.status
        number += 1
    connection.close()
    counted.append(number)


def test_floods_of_bad_tokens_do_not_hold_the_node_nor_fill_it(node: RunningNode) -> None:
    mine, good = TokenIssuer(), everything()
    head, payload, _ = mine.token().split(".")
    assert by_bearer(node, good)
    before, counted, until = node.resident_bytes(), [], time.monotonic() + FLOOD_S

    def made_up(number: int) -> str:
        return f"{head}.{payload}.{encoded(struct.pack('>QQ', threading.get_ident() & 0xFFFFFFFF, number) * 4)}"

    threads = [
        threading.Thread(target=flood, args=(node, until, counted, made_up)) for _ in range(FLOODING_CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    took = []
    while time.monotonic() < until:
        began = time.monotonic()
        assert ask(node, "/api/whoami", basic("guest", "guest"))[0] == 200
        assert by_bearer(node, good)
        assert by_bearer(node, everything(jti=str(began)))
        took.append(time.monotonic() - began)
    for thread in threads:
        thread.join()
    assert len(counted) == FLOODING_CONNECTIONS
    assert max(took) < 5.0, "a password and two tokens beside the flood"
    assert node.resident_bytes() - before < GROWTH_BYTES_MAX
    assert longest_turn_s(node) < LONGEST_TURN_S_MAX


def test_while_the_issuer_is_away_passwords_and_its_last_keys_let_in(node: RunningNode, jwks: JwksServer) -> None:
    jwks.status = 503
    try:
        assert not by_bearer(node, everything(key=ISSUER.edwards))
        for log_in in FRONTS.values():
            assert log_in(node, everything(jti="while it is away"))
        assert ask(node, "/api/whoami", basic("guest", "guest"))[0] == 200
    finally:
        jwks.status = 200


def test_a_node_starts_without_its_issuer_and_lets_passwords_in(tmp_path: Path) -> None:
    with publishing([ISSUER.elliptic]) as gone:
        url = gone.url
    config = tmp_path / "leveret.toml"
    config.write_text(f'[oauth2]\nresource_server_id = "{RESOURCE_SERVER}"\njwks_url = "{url}"\n')
    with running_node("--config", str(config), data_dir=tmp_path / "data") as node:
        assert ask(node, "/api/whoami", basic("guest", "guest"))[0] == 200
        assert not by_bearer(node, everything())
        assert "the provider's keys could not be read" in node.log.read_text()


def test_no_token_is_in_the_log(node: RunningNode) -> None:
    for front in FRONTS.values():
        front(node, everything())
        front(node, everything(aud="other"))
    text = node.log.read_text()
    assert "the token is refused: its audience (aud) does not name" in text
    assert everything().split(".")[0] not in text and "Traceback" not in text
