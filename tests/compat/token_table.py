"""Which tokens let in, and what their scopes allow: a table that holds for Leveret and for RabbitMQ 4.3 alike.

    python -m tests.compat.token_table --key KEY.pem --amqp HOST:PORT --http HOST:PORT

writes the public key of the tokens' issuer to KEY.pem, waits for Enter, asks the broker there, and says where it differs.

The broker takes tokens for the resource server `leveret`, signed with that key under the id `ec-1`. RabbitMQ:

    auth_backends.1 = rabbit_auth_backend_oauth2
    auth_oauth2.resource_server_id = leveret
    auth_oauth2.signing_keys.ec-1 = KEY.pem
    auth_oauth2.scope_aliases.developer = leveret.tag:management leveret.read:*/*
    auth_oauth2.additional_scopes_key = realm_access.roles

What stands in docs/amqp-differences.md is not in it. `tests/security/test_token_table.py` asks a node of ours.
"""

from __future__ import annotations

import argparse
import http.client
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from tests.token_issuer import RESOURCE_SERVER, TokenIssuer, forged

Address = tuple[str, int]
QUEUE, TOPIC = "orders-eu", "amq.topic"
WITHIN_S = 30.0


class Row(NamedTuple):
    """What is tried with a token, and whether it is allowed."""

    what: str
    token: dict[str, Any]
    tried: str
    allowed: bool


def scoped(*scopes: str, **claims: Any) -> dict[str, Any]:
    return {"scopes": [f"{RESOURCE_SERVER}.{scope}" for scope in scopes], **claims}


EVERYTHING = ("configure:*/*/*", "write:*/*/*", "read:*/*/*")
NOW = int(time.time())


def rows() -> Iterator[Row]:
    """Each scope with what it allows and what it does not."""
    for tried in TRIES:
        yield Row("everything", scoped(*EVERYTHING, "tag:administrator"), tried, True)
        yield Row("no scopes", scoped(), tried, False)
        yield Row("scopes of another server", {"scopes": [f"other.{scope}" for scope in EVERYTHING]}, tried, False)
    for access, tried in (("configure", "declare"), ("write", "publish"), ("read", "get")):
        allowed = {"enter", tried}
        for one in ("enter", "declare", "publish", "get"):
            yield Row(f"{access}:*/*", scoped(f"{access}:*/*"), one, one in allowed)
            yield Row(f"{access}:%2F/*", scoped(f"{access}:%2F/*"), one, one in allowed)
            yield Row(f"{access}:other/*", scoped(f"{access}:other/*"), one, False)
    for pattern, allowed in {
        "orders-*": True, "*-eu": True, "orders-eu": True, "o*-*u": True, "orders%2Deu": True, "*": True, "Orders-*": False,
        "orders": False, "rders-eu": False, "orders-e": False, "orders+eu": False, "": False, "%": False, "orders.*": False,
    }.items():  # fmt: skip
        yield Row(f"read:*/{pattern}", scoped(f"read:*/{pattern}"), "get", allowed)
    for scope in ("read:*", "read:*/*/*/*", "READ:*/*", "read*/*", "read:"):
        yield Row(scope, scoped(scope), "get", False)
    for scope, allowed in {
        "write:*/*": False, "write:*/*/*": True, "write:*/amq.topic/eu.*": True, "write:*/amq.topic/us.*": False,
        "write:*/other/*": False, "read:*/*/*": False, "write:*/amq.topic/eu%2Eorders": True,
    }.items():  # fmt: skip
        yield Row(scope, scoped(scope), "publish to a topic", allowed)
    yield Row("read without a key", scoped("read:*/*", "write:*/*"), "bind to a topic", False)
    yield Row("read with a key", scoped("read:*/*/eu.*", "write:*/*"), "bind to a topic", True)
    yield Row("read with another key", scoped("read:*/*/us.*", "write:*/*"), "bind to a topic", False)
    for tag, opens in {"administrator": 3, "monitoring": 2, "management": 1, "policymaker": 1, "other": 0}.items():
        for number, path in enumerate(("overview", "nodes", "users"), 1):
            yield Row(f"tag:{tag}", scoped(f"tag:{tag}"), path, number <= opens)
    yield Row("an alias", {"scopes": ["developer"]}, "get", True)
    yield Row("an alias", {"scopes": ["developer"]}, "overview", True)
    yield Row("an alias", {"scopes": ["developer"]}, "publish", False)
    yield Row("roles", {"scopes": [], "realm_access": {"roles": [f"{RESOURCE_SERVER}.read:*/*"]}}, "get", True)
    permissions = {"permissions": [{"scopes": [f"{RESOURCE_SERVER}.read:*/*"]}]}
    yield Row("permissions of Keycloak", {"scopes": [], "authorization": permissions}, "get", True)
    yield Row("a list of scopes", {"scopes": [], "scope": [f"{RESOURCE_SERVER}.read:*/*"]}, "get", True)
    for what, claims, allowed in (
        ("aud is a text", {"aud": RESOURCE_SERVER}, True),
        ("aud is several", {"aud": ["other", RESOURCE_SERVER]}, True),
        ("aud is several words", {"aud": f"other {RESOURCE_SERVER}"}, True),
        ("aud is another", {"aud": ["other"]}, False),
        ("no aud", {"aud": None}, False),
        ("expired", {"exp": NOW - 60}, False),
        ("exp is a text", {"exp": str(NOW + 600)}, False),
        ("no sub", {"sub": None, "client_id": "app"}, True),
        ("no name", {"sub": None}, True),
        ("issued in the future", {"iat": NOW + 600}, True),
    ):
        yield Row(what, scoped(*EVERYTHING, **claims), "enter", allowed)


def table(issuer: TokenIssuer) -> Iterator[tuple[Row, str]]:
    """Rows with their tokens; also those that nobody of ours has signed."""
    for row in rows():
        yield row, issuer.token(**row.token)
    claims = {"sub": "eve", "aud": RESOURCE_SERVER, "exp": NOW + 600, "scope": f"{RESOURCE_SERVER}.read:*/*"}
    strange = {
        "signed by another": TokenIssuer().token(**scoped(*EVERYTHING)),
        "no signature": forged({"alg": "none", "kid": "ec-1"}, claims),
        "an empty signature": forged({"alg": "ES256", "kid": "ec-1"}, claims),
        "another key id": issuer.token(**scoped(*EVERYTHING), header={"kid": "other"}),
    }
    for what, token in strange.items():
        yield Row(what, {}, "enter", False), token


# ------------------------------------------------------------------------- what is tried


class Broker:
    """Where a broker listens."""

    def __init__(self, amqp: Address, http_address: Address) -> None:
        self._amqp = amqp
        self._http = http_address

    def allows(self, token: str, tried: str) -> bool:
        if tried in ("overview", "nodes", "users"):
            return self._answers(token, f"/api/{tried}")
        credentials = pika.PlainCredentials("", token)
        parameters = pika.ConnectionParameters(
            *self._amqp, credentials=credentials, blocked_connection_timeout=WITHIN_S
        )
        try:
            connection = pika.BlockingConnection(parameters)
        except pika.exceptions.AMQPConnectionError:
            return False
        try:
            channel = connection.channel()
            TRIES[tried](channel)
        except pika.exceptions.ChannelClosedByBroker as error:
            assert error.reply_code in (403, 404), error
            return error.reply_code == 404
        finally:
            connection.close()
        return True

    def _answers(self, token: str, path: str) -> bool:
        connection = http.client.HTTPConnection(*self._http, timeout=WITHIN_S)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            status = connection.getresponse().status
        finally:
            connection.close()
        assert status in (200, 401), status
        return status == http.client.OK


def _publish(channel: BlockingChannel, exchange: str, key: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish(exchange, key, b"")


TRIES: dict[str, Callable[[BlockingChannel], Any]] = {
    "enter": lambda channel: None,
    "declare": lambda channel: channel.queue_declare(QUEUE),
    "publish": lambda channel: _publish(channel, "", QUEUE),
    "publish to a topic": lambda channel: _publish(channel, TOPIC, "eu.orders"),
    "get": lambda channel: channel.basic_get(QUEUE, auto_ack=True),
    "bind to a topic": lambda channel: channel.queue_bind(QUEUE, TOPIC, "eu.orders"),
    "overview": lambda channel: None,
    "nodes": lambda channel: None,
    "users": lambda channel: None,
}


def differing(issuer: TokenIssuer, broker: Broker) -> tuple[int, list[str]]:
    """How many rows there are, and those for which the broker does something else."""
    wrong, count = [], 0
    for row, token in table(issuer):
        count += 1
        found = broker.allows(token, row.tried)
        if found is not row.allowed:
            wrong.append(f"{row.what}: {row.tried} is {'allowed' if found else 'refused'}")
    return count, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--key", type=Path, required=True)
    for name in ("amqp", "http"):
        parser.add_argument(f"--{name}", required=True, metavar="HOST:PORT")
    given = parser.parse_args()
    issuer = TokenIssuer()
    given.key.write_bytes(issuer.elliptic.pem)
    input(f"the issuer's public key is in {given.key}: start the broker with it, then press Enter ")
    amqp, http_address = [
        (host, int(port)) for host, _, port in (one.rpartition(":") for one in (given.amqp, given.http))
    ]
    count, wrong = differing(issuer, Broker(amqp, http_address))
    print("\n".join([*wrong, f"{count} rows, {len(wrong)} differ"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
