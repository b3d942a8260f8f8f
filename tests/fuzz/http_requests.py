"""Sends mutated requests of the management API to a node.

    python -m tests.fuzz.http_requests --requests 1000000 --seed 1

Requests are those of the table of all routes (tests/unit/front/web/route_rights.py), with paths, queries, headers and bodies
of a small grammar, most of them mutated: names that nobody has and names that hurt, values of other types, bytes of the head
and of the body. They come as an administrator, as others and as nobody, with passwords and with cookies.

What must hold: no answer is 500, every request has an answer, and the node goes on; its log has no traceback.

The node is started for it. A failure prints the request; the same seed sends the same requests, though on several connections
at once, so in another order.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.running_node import RunningNode, start_node
from tests.unit.front.web.route_rights import ROUTES

CONNECTIONS = 8
ANSWER_S_MAX = 30.0
READ_BYTES = 65_536
LOG_SHOWN = 20_000  # characters of its end
PASSWORD = "fuzz"
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
COOKIE = re.compile(rb"\r\nset-cookie: *(leveret_session_[0-9a-f]+=[^;\r]+)", re.IGNORECASE)
ROUTE_LIST = sorted(ROUTES)

# What is there, or may be: so few that requests meet each other's doings.
NAMES = ["fuzz", "a", "b", "q", "x", "%2F", "amq.direct", "amq.default", "max-queues", "max-channels", "1", "~"]
HOSTILE = [
    "%00", "%ff", "%ed%a0%80", "..", ".", "", "%2e%2e", "%", "%zz", "%0d%0a", "x" * 256, "%F0%9F%90%87", "<script>",
    "' or 1=1",
    "*", "+", "%20", "~x", "a~b~c", "-1", "99999999999999999999", "1e5", "null", "[]", "{vhost}",
]  # fmt: skip
QUERIES = {
    "page": ["1", "0", "-1", "2", "99999999999999999999", "x", ""], "page_size": ["1", "500", "501", "0", "x"],
    "name": ["q", "", "(", "(a+)+$", "%00", "x" * 2000], "use_regex": ["true", "false", "x"],
    "sort": ["name", "a.b.c", "", "arguments", "%ff"], "sort_reverse": ["true", "x"], "columns": ["name", "a.b,,c", "", ","],
    "lengths_age": ["60", "x", "-1"], "lengths_incr": ["5", "0"], "msg_rates_age": ["60"], "if-unused": ["true"],
    "if-empty": ["true"], "download": ["x", "%0d%0a"], "dry-run": ["true"], "password-hashes": ["false"],
    "disable_stats": ["true"],
    "enable_queue_totals": ["true"], "memory": ["true"], "pagination": ["true"],
}  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**63, 2**64, -(2**70), 1.5, 1e308, "", "x", "true", "5", "\x00", "ü", "x" * 300,
    [], {}, [None], {"": 1},
    {"a": {"b": [1, {"c": None}]}}, ["a", 1, {}], "Not UTF-8, base64 is: /w==",
]  # fmt: skip
ARGUMENTS: dict[str, Any] = {
    "x-max-length": 5, "x-queue-type": "classic", "x-message-ttl": 60_000, "x-overflow": "drop-head", "x-match": "any",
    "alternate-exchange": "x", "x-dead-letter-exchange": "", "x-expires": 60_000,
}  # fmt: skip
BODY: dict[str, Any] = {
    "name": "fuzz", "value": 5, "pattern": "^a", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues",
    "type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": ARGUMENTS, "routing_key": "k",
    "properties": {"delivery_mode": 2, "headers": {"a": 1}}, "payload": "x", "payload_encoding": "string", "count": 2,
    "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 10, "configure": ".*", "write": ".*", "read": ".*",
    "tags": "management", "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "exchange": "x",
    "users": ["a", "b"], "place": "0",
    "node": "nobody", "membership": "voter", "vhost_pattern": ".*", "queue_pattern": "^q", "strategy": "all",
    "default_queue_type": "classic", "description": "d", "action": "sync", "partitions": 2, "username": "a", "password": "x",
    "vhosts": [{"name": "fuzz"}], "queues": [{"vhost": "fuzz", "name": "q", "arguments": ARGUMENTS}],
    "exchanges": [{"vhost": "fuzz", "name": "x"}], "bindings": [{"vhost": "fuzz", "source": "x", "destination": "q"}],
    "policies": [{"vhost": "fuzz", "name": "p", "pattern": "^q", "definition": {"max-length": 5}}],
    "parameters": [{"vhost": "fuzz", "component": "c", "name": "n", "value": {}}],
    "global_parameters": [{"name": "n", "value": 1}],
    "permissions": [{"user": "a", "vhost": "fuzz", "configure": "", "write": "", "read": ""}],
}  # fmt: skip
WORDS = list(BODY)
DEEP = [
    opening * levels + "1" + closing * levels
    for opening, closing in (("[", "]"), ('{"a":', "}"))
    for levels in (60, 400, 900)
]
HEADERS = {
    "Content-Type": ["application/json", "text/plain", "multipart/form-data; boundary=x", "multipart/form-data", "", "\xff"],
    "X-Vhost": ["fuzz", "nope", "\xff", ""], "Origin": ["http://evil.example", "null", "", "http://["],
    "X-Reason": ["why", "\xff"],
    "Accept-Encoding": ["gzip", "gzip;q=0", "*", ";", "br"], "If-None-Match": ["*", '"x"'],
    "Sec-Fetch-Site": ["cross-site", "none", "x"],
    "Sec-Fetch-Dest": ["empty"], "Cookie": ["leveret_session_00000000=x", "a=b; ;=", "\xff=\xff"],
    "User-Agent": ["Mozilla/5.0", "curl"],
    "Expect": ["100-continue", "x"], "X-Requested-With": ["x"], "Access-Control-Request-Method": ["PUT"],
}  # fmt: skip


def basic(user: str, password: str = PASSWORD) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


ADMINISTRATOR = basic("fuzzer")
LOGINS = [
    basic("watcher"),
    basic("nobody"),
    "Basic",
    "Basic !",
    "Basic " + base64.b64encode(b"\xff:\xff").decode(),
    "Bearer x",
    "\xff",
    "",
]


class Requests:
    """Of one seed."""

    def __init__(self, seed: int, cookie: str) -> None:
        self._random = random.Random(seed)
        self._cookie = cookie

    def next(self) -> tuple[str, bytes, bool]:
        """Method, the request, and whether its head was mutated: then only the beginning of the answer is looked at."""
        chance = self._random
        method, pattern = chance.choice(ROUTE_LIST)
        if chance.random() < 0.02:
            method = chance.choice(["HEAD", "OPTIONS", "PATCH", "TRACE", "GETS", "POST"])
        target = self._path(pattern) + self._query()
        body = self._body(method)
        head = self._head(method, target, body)
        is_mutated = chance.random() < 0.05
        return method, (self._mutated(head) if is_mutated else head) + body, is_mutated

    def _path(self, pattern: str) -> str:
        parts = [self._name() if part.startswith("{") else part for part in pattern.split("/")]
        if self._random.random() < 0.03:
            parts.insert(self._random.randrange(len(parts) + 1), self._random.choice(HOSTILE + NAMES))
        return "/".join(parts) or "/"

    def _name(self) -> str:
        chance = self._random
        return chance.choice(HOSTILE) if chance.random() < 0.15 else chance.choice(NAMES)

    def _query(self) -> str:
        chance = self._random
        if chance.random() < 0.6:
            return ""
        asked = chance.sample(sorted(QUERIES), chance.randint(1, 4))
        return "?" + "&".join(f"{name}={chance.choice(QUERIES[name])}" for name in asked)

    def _body(self, method: str) -> bytes:
        chance = self._random
        if method in ("GET", "DELETE", "HEAD") and chance.random() < 0.9:
            return b""
        body = {name: BODY[name] for name in WORDS if chance.random() < 0.7}
        for name in chance.sample(WORDS, chance.randint(0, 4)):
            body[name] = chance.choice(VALUES)
        if chance.random() < 0.2:
            body = self._changed_within(body)
        raw = json.dumps(body).encode()
        if chance.random() < 0.02:
            raw = raw[:-1] + f', "{chance.choice(WORDS)}": {chance.choice(DEEP)}}}'.encode()
        if chance.random() < 0.1:
            raw = self._mutated(raw)
        return chance.choice([b"", b"null", b"[]", b"{", b"[" * 5_000, b'"x"']) if chance.random() < 0.03 else raw

    def _changed_within(self, body: dict[str, Any]) -> dict[str, Any]:
        """One value somewhere in a list of definitions, arguments or properties."""
        copy: dict[str, Any] = json.loads(json.dumps(body))
        places = [
            one
            for value in copy.values()
            for one in (value if isinstance(value, list) else [value])
            if isinstance(one, dict)
        ]
        place = self._random.choice(places) if places else copy
        if place:
            place[self._random.choice(sorted(place))] = self._random.choice(VALUES)
        return copy

    def _head(self, method: str, target: str, body: bytes) -> bytes:
        chance = self._random
        headers = {"Host": "fuzz", "Content-Length": str(len(body)), "Authorization": self._login()}
        if chance.random() < 0.05:
            headers |= {
                "Authorization": "",
                "Cookie": self._cookie,
                "Origin": chance.choice(["http://fuzz", "http://other"]),
            }
        for name in chance.sample(sorted(HEADERS), chance.choice([0, 0, 1, 1, 2, 3])):
            headers.setdefault(name, chance.choice(HEADERS[name]))
        lines = [
            f"{method} {target.replace(' ', '%20')} HTTP/1.1",
            *(f"{name}: {value}" for name, value in headers.items() if value),
        ]
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"

    def _login(self) -> str:
        chance = self._random
        return chance.choice(LOGINS) if chance.random() < 0.02 else ADMINISTRATOR

    def _mutated(self, raw: bytes) -> bytes:
        chance, changed = self._random, bytearray(raw)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(changed)) if changed else 0
            match chance.randrange(4):
                case 0:
                    changed[at : at + 1] = bytes((chance.randrange(256),))
                case 1:
                    del changed[at : at + chance.randint(1, 8)]
                case 2:
                    changed[at:at] = chance.randbytes(chance.randint(1, 4))
                case _:
                    changed[at:at] = changed[at : at + chance.randint(1, 16)]
        return bytes(changed)


class Client:
    """One connection, made anew when the node closes it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, request: bytes, is_mutated: bool) -> int | None:
        """The status; None: a head that was mutated may leave the node waiting for more, or have it close at once."""
        if self._writer is None or self._reader is None:
            self._reader, self._writer = await asyncio.open_connection(*self._address)
        self._writer.write(request)
        if is_mutated:
            self._writer.write_eof()
            status = await self._first_status(self._reader)
            self.close()
            return status
        head = await self._reader.readuntil(b"\r\n\r\n")
        while head.startswith(b"HTTP/1.1 100"):
            head = await self._reader.readuntil(b"\r\n\r\n")
        status, length = STATUS.match(head), LENGTH.search(head)
        assert status is not None, f"no status in {head[:200]!r}"
        size = 0 if length is None or method == "HEAD" or status[1] in (b"204", b"304") else int(length[1])
        await self._reader.readexactly(size)
        if b"\r\nconnection: close" in head.lower():
            self.close()
        return int(status[1])

    @staticmethod
    async def _first_status(reader: asyncio.StreamReader) -> int | None:
        found = STATUS.match(await reader.read(READ_BYTES))
        return None if found is None else int(found[1])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def exchange(client: Client, method: str, request: bytes, is_mutated: bool) -> int | None:
    """Once more where the connection was closed before the answer: it may have been idle, or closed by the answer before."""
    for attempt in range(2):
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                return await client.ask(method, request, is_mutated)
        except TimeoutError:
            raise
        except (OSError, asyncio.IncompleteReadError):
            client.close()
            if is_mutated:
                return None
            if attempt:
                raise
    return None


async def run(node: RunningNode, count: int, seed: int) -> Counter[int | None]:
    """Raises AssertionError with the request that the node has answered wrongly, or not at all."""
    requests, statuses, left = Requests(seed, await prepare(node)), Counter[int | None](), iter(range(count))

    async def worker() -> None:
        client = Client(node.http)
        for _ in left:
            method, request, is_mutated = requests.next()
            try:
                status = await exchange(client, method, request, is_mutated)
            except (OSError, asyncio.IncompleteReadError) as error:
                raise AssertionError(f"no answer ({error!r}) to {request!r}") from error
            assert status != 500, f"500 for {request!r}"
            statuses[status] += 1
        client.close()

    await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))
    return statuses


async def prepare(node: RunningNode) -> str:
    """Users, a vhost with something in it, and a login by cookie."""
    users = [
        {"name": "fuzzer", "password": PASSWORD, "tags": "administrator"},
        {"name": "watcher", "password": PASSWORD, "tags": "monitoring"},
    ]
    permissions = [
        {"user": user["name"], "vhost": "fuzz", "configure": ".*", "write": ".*", "read": ".*"} for user in users
    ]
    document = {name: BODY[name] for name in ("vhosts", "queues", "exchanges", "bindings")} | {
        "users": users,
        "permissions": permissions,
    }
    await _said(node, "POST /api/definitions", basic("guest", "guest"), document)
    head = await _said(node, "POST /api/login", "", {"username": "fuzzer", "password": PASSWORD})
    found = COOKIE.search(head)
    assert found is not None, f"no cookie in {head!r}"
    return found[1].decode()


async def _said(node: RunningNode, what: str, login: str, body: Any) -> bytes:
    """The head of the answer."""
    raw = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(*node.http)
    authorization = f"Authorization: {login}\r\n" if login else ""
    writer.write(f"{what} HTTP/1.1\r\nHost: fuzz\r\nContent-Length: {len(raw)}\r\n{authorization}\r\n".encode() + raw)
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    assert STATUS.match(head) and head[9:10] == b"2", f"{what}: {head!r}"
    return head


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        node = start_node(Path(directory) / "data")
        try:
            began = time.perf_counter()
            statuses = asyncio.run(run(node, given.requests, given.seed))
            rate = given.requests / (time.perf_counter() - began)
            assert "Traceback" not in node.log.read_text()
        except AssertionError as error:
            print(
                f"{error}\nthe node, which has {'ended' if node.process.poll() is not None else 'gone on'}, has said:"
            )
            print(node.log.read_text()[-LOG_SHOWN:])
            return 1
        finally:
            code = node.stop()
    assert code == 0, f"the node has ended with {code}"
    shown = ", ".join(
        f"{status or 'closed'}: {count}" for status, count in sorted(statuses.items(), key=lambda one: one[0] or 0)
    )
    print(f"{given.requests} requests, {rate:.0f} a second; {shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
