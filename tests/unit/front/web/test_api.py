"""The management API over a real catalog: who may call what, which status, and what JSON comes back."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from broker.actors import LogActor
from broker.background_work import Unsliced
from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands import catalog_commands as commands
from broker.client_connection import Connection
from broker.counting.counters import Counters
from broker.counting.ended_traffic import EndedTraffic
from broker.errors import TEXT_BYTES_MAX, AccessRefused, BrokerError, PreconditionFailed, ResourceExhausted
from broker.limits import Limits
from broker.login.audit import Audit
from broker.login.client_address import ClientAddress
from broker.names import not_found
from broker.node_queues import Totals
from broker.operations.node_facts import AlarmFacts, NodeFacts
from broker.operations.operations import Operations
from broker.operations.resources import QueueView
from broker.pending import Pending
from broker.queues.queue_type import QueueStatistics
from broker.queues.stream_contract import StreamTracking
from broker.records import BindingRecord, ExchangeRecord, PermissionRecord, PolicyRecord, QueueRecord, UserRecord
from front.cluster_federation import ClusterFederation
from front.cluster_shovels import ClusterShovels
from front.member_moves import MemberMoves
from front.slices import SLICE_S
from front.web.api import Api, WebPorts
from front.web.everywhere import Everywhere
from front.web.http.request import HttpError, Request, Response, error_response
from front.web.lists.listing import SENT_AT_ONCE
from front.web.resources.messages.messages_api import publication
from front.web.samples.figures import SampledFigures
from front.web.security.access import Right
from front.web.views.declared_views import queue_view
from tests.unit.front.web.route_rights import ROUTES, TAGS_INCLUDED

NOW = 1_700_000_000_000
HOME = "leveret@test"
TAGS = ("", "management", "policymaker", "monitoring", "administrator")


class Applied:
    """Metadata that is durable at once, or refuses when it is told to."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.refusal: BrokerError | None = None

    def submit(self, command: commands.Command) -> Pending[Any]:
        if self.refusal is not None:
            return Pending.failed(self.refusal)
        try:
            return Pending.of(self._catalog.apply(command))
        except BrokerError as error:
            return Pending.failed(error)

    def subscribe(self, on_applied: Callable[[commands.Command, Any], None]) -> None:
        """Nobody asks to be told here."""


def client(user: str, **more: Any) -> Connection:
    """A connection of theirs."""
    given = {
        "name": "one", "vhost": "v", "protocol": "AMQP 0-9-1", "client_properties": {}, "statistics": dict, **more,
    }  # fmt: skip
    return Connection(
        id=f"id-{user}",
        user=user,
        connected_at=NOW,
        close=lambda error: None,
        set_blocked=lambda reason: None,
        login=UserRecord(user, None),
        **given,
    )


class StreamClient:
    """Has one publisher and no subscription."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.counters = connection, Counters()
        record = SimpleNamespace(vhost="v", name="s")
        figures = {"published": 3, "confirmed": 2, "refused": 1}
        self.publishers = {
            7: SimpleNamespace(queue=SimpleNamespace(record=record), number=7, reference="ship", **figures)
        }
        self.subscriptions: dict[int, Any] = {}


LOCAL = ClientAddress("127.0.0.1", 40_000, True, "HTTP")


class FakeBroker:
    """The catalog's users with the password `pw`; queues with three messages, one of them out."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.metadata = Applied(self.catalog)
        self.node = HOME
        self.loopback_seen: list[bool] = []
        self.at_home = {"ready_count": 2, "consumer_count": 1}
        self.busy = False
        self.alarms = SimpleNamespace(blocked_reason=None)
        self.opening = ""  # a queue that is declared and not there yet
        self.clients = [client(f"user-{tag}") for tag in TAGS]  # each has one connection, named `one`
        self.streams = [StreamClient(one) for one in self.clients]
        self.closed: list[tuple[str, BrokerError]] = []
        self.limits, self.work = Limits(), Unsliced()
        self.ended, self.totals = EndedTraffic(self.catalog), Totals()
        self.audit = Audit(lambda _: None, lambda _: None)

    def connections(self) -> list[Connection]:
        def close(user: str, error: BrokerError) -> None:
            self.closed.append((user, error))

        for one in self.clients:
            one.close = partial(close, one.user)
        return self.clients

    def authenticate(self, user: str, password: bytes, client: ClientAddress) -> Pending[UserRecord]:
        self.loopback_seen.append(client.loopback)
        if self.busy:
            return Pending.failed(ResourceExhausted("too many logins are waiting"))
        record = self.catalog.users.get(user)
        if record is None or password != b"pw":
            return Pending.failed(AccessRefused("Login was refused"))
        return Pending.of(record)

    def queue(self, vhost: str, name: str) -> Any:
        """What this node knows is old: its home tells one message and one consumer more when it is asked."""
        record = self.catalog.queue(vhost, name)
        if record is None or name == self.opening:
            raise not_found("queue", name, vhost)
        queue = SimpleNamespace(
            record=record,
            accounted_here=True,
            counts=lambda: QueueStatistics(ready=2, unacknowledged=1),
            statistics=lambda: QueueStatistics(ready=2, unacknowledged=1, consumers=1, details={"q4": 2}),
            ready_count=0,
            consumer_count=0,
        )

        def used(now: int) -> Pending[None]:
            return Pending.of(None).map(lambda _: queue.__dict__.update(self.at_home))

        queue.used = used
        return queue

    def consumers(self) -> list[Any]:
        return []

    def queues(self) -> list[Any]:
        return [
            self.queue(record.vhost, record.name)
            for vhost in self.catalog.vhosts
            for record in self.catalog.queues(vhost)
        ]

    def sessions(self) -> list[Any]:
        return []

    def find_queue(self, vhost: str, name: str) -> Any:
        """There is a stream `s`."""
        stream = SimpleNamespace(tracking=lambda: StreamTracking({}, {}))
        return SimpleNamespace(kind=SimpleNamespace(name="stream"), queue=stream) if name == "s" else None

    def replay_history(self, binding: BindingRecord) -> None:
        """No exchange keeps any."""

    def owner_of(self, connection: Connection) -> str:
        return connection.id

    def deliver_from(self, queue: Any, now: int) -> None:
        """Consumers have what they can take."""

    def submit(self, command: commands.Command, now: int, by: LogActor | None = None) -> Pending[Any]:
        return self.metadata.submit(command)

    def check_kind(self, record: QueueRecord) -> None:
        if record.kind == "quorum":
            raise PreconditionFailed(f"no {record.kind} queues here")

    def end_turn(self) -> None:
        """Nothing waits for it."""


class Hashes:
    def exported(self, kept: str) -> tuple[str, str]:
        return "rabbit_kept", kept

    def imported(self, algorithm: str, password_hash: str) -> str:
        if algorithm not in ("", "rabbit_kept", "rabbit_password_hashing_sha256"):
            raise PreconditionFailed(f"hashing_algorithm {algorithm!r} is not known: rabbit_password_hashing_sha256")
        if password_hash == "x":
            raise PreconditionFailed("'x' is no hash")
        return password_hash if algorithm == "rabbit_kept" else f"imported {password_hash}"


class Node:
    """What the process knows of itself; passwords are hashed at once."""

    node_name = HOME
    identity: ClassVar = {"product_name": "Leveret", "node": HOME, "cluster_name": "c"}
    password_hashes = Hashes()

    @staticmethod
    def facts() -> NodeFacts:
        return NodeFacts("c", "1", "3", "plain", 1, NOW, "/data", 1, 2, 3, 4, "info")

    @staticmethod
    def alarms() -> list[AlarmFacts]:
        return []

    @staticmethod
    def hash_password(password: bytes, current: str | None = None) -> Pending[str]:
        return Pending.of(f"hash of {password.decode()}")


class Figured:
    """Metrics that say what they were asked for."""

    async def text(self) -> bytes:
        return b"figures 1\n"

    async def per_object(self) -> list[bytes]:
        return [b"one 1\n", b"two 2\n"]

    async def detailed(
        self, families: Sequence[str], has_vhost: Callable[[str], bool], has_queue: Callable[[str], bool]
    ) -> list[bytes]:
        found = [name for name in ("/", "v") if has_vhost(name)] + [name for name in ("a1", "b2") if has_queue(name)]
        return [f"{family} {' '.join(found)}\n".encode() for family in families]


class World:
    """The API with its broker, asked as a client would."""

    def __init__(self, broker: FakeBroker, *, metrics_login: bool = False, **more: Any) -> None:
        """`more`: other ports, which most tests do without."""
        self.broker = broker
        self.node = Node()
        node_broker: Any = broker
        node: Any = self.node
        operations = Operations(node_broker, node)
        versions = {"rabbitmq_version": "3.13.7"}
        everywhere = Everywhere(None)
        shovels = ClusterShovels("n1", node_broker.catalog, operations.parameters, everywhere, None)
        federation = ClusterFederation("n1", node_broker.catalog, everywhere, None)
        moves = MemberMoves("n1", everywhere, lambda: NOW)
        ports = WebPorts(
            operations, Figured(), lambda: NOW, metrics_login, versions, everywhere, shovels, federation, moves
        )
        self.api = Api(node_broker, replace(ports, **more))

    def request(
        self, method: str, path: str, body: Any = None, user: str | None = "root", raw: bytes = b"", **headers: str
    ) -> Response:
        return asyncio.run(self.answer(method, path, body, user, raw, **headers))

    async def answer(
        self, method: str, path: str, body: Any = None, user: str | None = "root", raw: bytes = b"", **headers: str
    ) -> Response:
        """The answer to one request; `user` None sends no credentials."""
        given = {"content_type": "application/json", **headers}
        sent = {name.replace("_", "-").encode(): value.encode() for name, value in given.items() if value}
        if user is not None:
            sent[b"authorization"] = b"Basic " + base64.b64encode(f"{user}:pw".encode())
        data = json.dumps(body).encode() if body is not None else raw
        response = await self.api.answer(Request(method, path, sent, data, client=LOCAL, now=NOW))
        said = json.loads(response.body) if response.status >= 400 and response.body else {}
        if "error" in said:
            raise HttpError(response.status, said["error"], said["reason"], response.headers)
        return response

    def status(self, method: str, path: str, body: Any = None, **headers: str) -> int:
        """Of a request without credentials but those in its headers."""
        try:
            return self.request(method, path, body, user=None, **headers).status
        except HttpError as error:
            return error.status

    def get(self, path: str, user: str = "root") -> Any:
        response = self.request("GET", path, user=user)
        assert (response.status, response.content_type) == (200, "application/json")
        return json.loads(response.body)

    def refused(
        self,
        method: str,
        path: str,
        body: Any = None,
        user: str | None = "root",
        raw: bytes = b"",
        **headers: str,
    ) -> HttpError:
        with pytest.raises(HttpError) as caught:
            self.request(method, path, body, user, raw, **headers)
        return caught.value


@pytest.fixture
def world() -> World:
    return World(broker_with_users())


def broker_with_users() -> FakeBroker:
    """Vhosts / and v, a queue `orders` in v; users root (administrator), app (may use v) and one for each tag."""
    broker = FakeBroker()
    apply = broker.catalog.apply
    for command in default_commands("hash"):
        apply(command)
    apply(commands.PutVhost(commands.VhostRecord("v", description="for tests", tags=("a", "b"))))
    apply(commands.PutUser(UserRecord("root", "hash", ("administrator",))))
    apply(commands.PutUser(UserRecord("app", "secret hash", ())))
    for tag in TAGS:
        apply(commands.PutUser(UserRecord(f"user-{tag}", "hash", (tag,) if tag else ())))
        apply(commands.PutPermission(PermissionRecord(f"user-{tag}", "v", ".*", ".*", ".*")))
    apply(commands.PutPermission(PermissionRecord("app", "v", "^c", "^w", "^r")))
    apply(commands.DeclareQueue("v", "orders", home=HOME, arguments={"x-max-length": 5}))
    apply(commands.DeclareExchange(ExchangeRecord("v", "shop", "direct")))
    return broker


# Who may call what.


async def reached(request: Request, **named: str) -> Response:
    """Behind every route."""
    return Response(299)


def status_of(world: World, method: str, path: str, user: str | None) -> int:
    """Of a path with its named parts filled in, whatever lies behind it."""
    world.api.router._routes = [replace(route, handler=reached) for route in world.api.router._routes]
    filled = path.replace("{vhost}", "v").replace("{", "").replace("}", "")
    try:
        return world.request(method, filled, user=user).status
    except HttpError as error:
        return error.status


def test_the_table_of_rights_has_every_route(world: World) -> None:
    found = {(one.method, "/" + "/".join(one.pattern)): one.right for one in world.api.router._routes}
    assert found == ROUTES
    assert len(found) == len(world.api.router._routes), "a route is added twice"


@pytest.mark.parametrize("enters", [True, False])
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_caller_needs_the_routes_right(world: World, method: str, path: str, tag: str, enters: bool) -> None:
    """The tag or one that includes it, and where a vhost is named permissions in it; administrators need none."""
    if not enters:
        world.broker.catalog.apply(commands.DeletePermission(f"user-{tag}", "v"))
    right = ROUTES[method, path]
    allowed = right is Right.NONE or right.tag in TAGS_INCLUDED.get(tag, ())
    hidden = right.of_vhost and not enters and tag != "administrator"
    assert status_of(world, method, path, f"user-{tag}") == (401 if not allowed else 404 if hidden else 299)


@pytest.mark.parametrize(("method", "path"), [route for route, right in ROUTES.items() if right is not Right.NONE])
def test_without_a_login_nothing_is_shown_or_changed(world: World, method: str, path: str) -> None:
    assert status_of(world, method, path, None) == 401
    assert status_of(world, method, path, "nobody") == 401


@pytest.mark.parametrize(
    ("path", "user", "reason"),
    [
        ("/api/whoami", "user-", "Not management user"),
        ("/api/users", "user-", "Not management user"),  # whoever may not come in learns no more
        ("/api/nodes", "user-policymaker", "Not monitor user"),
        ("/api/parameters", "user-monitoring", "User not authorised to access object"),
        ("/api/users", "user-monitoring", "Not administrator user"),
    ],
)
def test_a_refusal_says_what_the_caller_is_not(world: World, path: str, user: str, reason: str) -> None:
    assert world.refused("GET", path, user=user).reason == reason


def test_what_is_done_is_done_as_the_user_who_asks(world: World) -> None:
    noted: list[str] = []
    world.broker.audit = Audit(noted.append, noted.append)
    assert world.request("DELETE", "/api/connections/one", user="user-management").status == 204
    assert noted[0].startswith("user 'user-management' from 127.0.0.1:40000 over HTTP: close connection 'one'")


def test_metrics_need_no_login(world: World) -> None:
    response = world.request("GET", "/metrics", user=None)
    assert (response.status, response.body) == (200, b"figures 1\n")
    assert response.content_type.startswith("text/plain; version=0.0.4")


def test_the_broker_is_told_where_the_peer_is(world: World) -> None:
    world.get("/api/whoami")
    assert world.broker.loopback_seen == [True]


# Wrong requests.


@pytest.mark.parametrize("path", ["/page", "/api", "/api/nothing", "/api/vhosts/v/x/y", "/api/queues/v/orders/x"])
def test_a_path_that_is_none_is_404(world: World, path: str) -> None:
    error = world.refused("GET", path)
    assert (error.status, error.error) == (404, "Object Not Found")


@pytest.mark.parametrize(
    ("method", "path", "possible"),
    [("POST", "/api/vhosts/v", "GET, PUT, DELETE"), ("DELETE", "/api/overview", "GET"), ("PUT", "/api/queues", "GET")],
)
def test_a_method_that_is_not_there_is_405_with_those_that_are(
    world: World, method: str, path: str, possible: str
) -> None:
    error = world.refused(method, path)
    assert error.status == 405
    assert error.reason == f"{method} is not possible here, {possible} is"
    assert ("Allow", possible) in error_response(error).headers


@pytest.mark.parametrize(
    "path",
    [
        "/api/vhosts/none",
        "/api/vhosts/none/permissions",
        "/api/users/none",
        "/api/users/none/permissions",
        "/api/permissions/v/root",
        "/api/permissions/none/app",
        "/api/topic-permissions/none/app",
        "/api/topic-permissions/v/none",
        "/api/exchanges/none",
        "/api/bindings/none",
        "/api/queues/none",
        "/api/queues/none/orders",
        "/api/queues/v/none",
    ],
)
def test_what_is_not_there_is_404_and_named(world: World, path: str) -> None:
    error = world.refused("GET", path)
    assert error.status == 404
    assert "none" in error.reason or "root" in error.reason


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/api/users/new", {}, "'tags' is missing"),
        ("/api/users/new", {"tags": 5}, "'tags' is 5"),
        ("/api/users/new", {"tags": [1]}, r"'tags' is \[1\]"),
        ("/api/users/new", {"tags": "", "password": 7}, "'password' is a JSON int"),
        ("/api/users/new", {"tags": "", "password": ""}, "a password has 1 to 1024 bytes, not 0"),
        ("/api/users/new", {"tags": "", "password": "x" * 1025}, "a password has 1 to 1024 bytes, not 1025"),
        ("/api/users/new", {"tags": "", "password_hash": "x", "hashing_algorithm": "md5"}, "'md5' is not known"),
        ("/api/users/new", {"tags": "", "password_hash": "x"}, "no hash"),
        ("/api/vhosts/new", {"description": []}, "'description'"),
        ("/api/vhosts/new", {"default_queue_type": "fast"}, "'fast'"),
        ("/api/permissions/v/app", {"configure": "", "write": ""}, "'read' is missing"),
        ("/api/permissions/v/app", {"configure": "(", "write": "", "read": ""}, r"\("),
        ("/api/topic-permissions/v/app", {"write": "", "read": ""}, "'exchange' is missing"),
    ],
)
def test_a_body_that_does_not_fit_is_400_and_says_what(
    world: World, path: str, body: dict[str, Any], named: str
) -> None:
    version = world.broker.catalog.version
    error = world.refused("PUT", path, body)
    assert error.status == 400
    assert re.search(named, error.reason), error.reason
    assert world.broker.catalog.version == version


def test_a_body_that_is_no_object_is_400(world: World) -> None:
    for raw in (b"{", b"[]", b"5", b"\xff"):
        assert world.refused("PUT", "/api/users/new", raw=raw).status == 400


@pytest.mark.parametrize(("path", "body"), [("/api/permissions/none/app", {}), ("/api/permissions/v/none", {})])
def test_permissions_for_nobody_or_nowhere_are_400_as_with_rabbitmq(
    world: World, path: str, body: dict[str, Any]
) -> None:
    assert world.refused("PUT", path, {"configure": "", "write": "", "read": "", **body}).status == 400


def test_a_password_that_cannot_be_checked_now_is_not_called_wrong(world: World) -> None:
    world.broker.busy = True
    error = world.refused("GET", "/api/whoami")
    assert (error.status, error.reason) == (503, "too many logins are waiting")
    assert dict(error.headers)["Retry-After"] == "2"


def test_a_node_that_can_keep_nothing_says_503(world: World) -> None:
    world.broker.metadata.refusal = ResourceExhausted("the disk is full")
    error = world.refused("PUT", "/api/vhosts/new")
    assert (error.status, error.reason) == (503, "the disk is full")


# Vhosts.


def test_a_vhost_from_put_to_delete(world: World) -> None:
    body = {"description": "d", "tags": "x, y", "default_queue_type": "classic"}
    assert world.request("PUT", "/api/vhosts/a%2Fb", body).status == 201
    assert world.request("PUT", "/api/vhosts/a%2Fb", {"description": "d2"}).status == 204
    view = world.get("/api/vhosts/a%2Fb")
    assert (view["name"], view["description"], view["default_queue_type"]) == ("a/b", "d2", "classic")
    assert view in world.get("/api/vhosts")
    # Whoever makes a vhost may use it at once.
    own = {"user": "root", "vhost": "a/b", "configure": ".*", "write": ".*", "read": ".*"}
    assert world.get("/api/vhosts/a%2Fb/permissions") == [own]
    assert world.request("DELETE", "/api/vhosts/a%2Fb").status == 204
    assert world.refused("DELETE", "/api/vhosts/a%2Fb").status == 404
    assert world.refused("GET", "/api/vhosts/a%2Fb").status == 404


def test_a_vhost_protected_from_deletion_stays(world: World) -> None:
    world.request("PUT", "/api/vhosts/kept", {"protected_from_deletion": True})
    assert world.refused("DELETE", "/api/vhosts/kept").status == 412
    assert world.get("/api/vhosts/kept")["protected_from_deletion"] is True


def test_only_who_has_permissions_or_monitors_sees_a_vhost(world: World) -> None:
    assert [vhost["name"] for vhost in world.get("/api/vhosts", "user-management")] == ["v"]
    assert {vhost["name"] for vhost in world.get("/api/vhosts", "user-monitoring")} == {"/", "v"}
    for vhost in ("%2F", "missing"):  # alike, so that nobody learns which there are
        for path in (f"/api/exchanges/{vhost}", f"/api/queues/{vhost}", f"/api/queues/{vhost}/orders"):
            error = world.refused("GET", path, user="user-management")
            assert (error.status, error.error, error.reason) == (404, "not_found", "Not Found")
    world.broker.catalog.apply(commands.DeletePermission("user-management", "v"))
    assert world.get("/api/queues", "user-management") == []


# Users and permissions.


def test_a_user_from_put_to_delete(world: World) -> None:
    assert world.request("PUT", "/api/users/new", {"password": "p", "tags": "monitoring,management"}).status == 201
    assert world.broker.catalog.users["new"].password_hash == "hash of p"
    shown = world.get("/api/users/new")
    assert (shown["name"], shown["tags"], shown["limits"]) == ("new", ["monitoring", "management"], {})
    assert world.request("PUT", "/api/users/new", {"tags": []}).status == 204
    assert world.broker.catalog.users["new"].password_hash is None
    assert world.request("DELETE", "/api/users/new").status == 204
    assert world.refused("DELETE", "/api/users/new").status == 404


def test_a_hash_of_rabbitmq_is_kept_as_one(world: World) -> None:
    world.request("PUT", "/api/users/new", {"password_hash": "c2FsdA==", "tags": ""})
    assert world.broker.catalog.users["new"].password_hash == "imported c2FsdA=="


def test_who_puts_back_what_was_shown_of_a_user_changes_nothing(world: World) -> None:
    for user in world.get("/api/users"):
        before = world.broker.catalog.users[user["name"]]
        assert world.request("PUT", f"/api/users/{user['name']}", user).status == 204
        assert world.broker.catalog.users[user["name"]] == before


@pytest.mark.parametrize("tag", TAGS)
def test_hashes_of_passwords_are_shown_to_administrators_only(world: World, tag: str) -> None:
    for path in ("/api/users", "/api/users/app", "/api/whoami", "/api/permissions", "/api/definitions"):
        try:
            body = world.request("GET", path, user=f"user-{tag}").body
        except HttpError as error:
            assert error.status == 401
        else:
            assert b"secret hash" not in body or tag == "administrator"


def test_permissions_from_put_to_delete(world: World) -> None:
    body = {"configure": "^a", "write": "^b", "read": "^c"}
    assert world.request("PUT", "/api/permissions/%2F/app", body).status == 201
    assert world.request("PUT", "/api/permissions/%2F/app", body).status == 204
    view = {"user": "app", "vhost": "/", **body}
    assert world.get("/api/permissions/%2F/app") == view
    assert view in world.get("/api/permissions")
    assert view in world.get("/api/users/app/permissions")
    assert world.request("DELETE", "/api/permissions/%2F/app").status == 204
    assert world.refused("GET", "/api/permissions/%2F/app").status == 404
    assert world.refused("DELETE", "/api/permissions/%2F/app").status == 404


def test_topic_permissions_from_put_to_delete(world: World) -> None:
    body = {"exchange": "amq.topic", "write": "^a", "read": "^b"}
    assert world.request("PUT", "/api/topic-permissions/v/app", body).status == 201
    assert world.get("/api/topic-permissions/v/app") == [{"user": "app", "vhost": "v", **body}]
    assert world.request("DELETE", "/api/topic-permissions/v/app").status == 204
    assert world.refused("GET", "/api/topic-permissions/v/app").status == 404


# Looking.


def test_queues_show_counts_and_what_their_kind_tells(world: World) -> None:
    view = world.get("/api/queues/v/orders")
    assert (view["name"], view["vhost"], view["node"], view["type"]) == ("orders", "v", HOME, "classic")
    assert (view["messages"], view["messages_ready"], view["messages_unacknowledged"]) == (3, 2, 1)
    assert view["arguments"]["x-max-length"] == 5
    assert (view["consumer_utilisation"], view["memory"], view["messages_details"]) == (0.0, 0, {"rate": 0.0})
    assert view["backing_queue_status"] == {"q4": 2}
    assert (view["policy"], view["operator_policy"]) == (None, None)
    assert world.get("/api/queues/v") == world.get("/api/queues") == [listed_of(view)]


def listed_of(view: dict[str, Any]) -> dict[str, Any]:
    """Of a queue that is shown alone: as it is listed."""
    return {name: value for name, value in view.items() if name not in ("consumer_details", "incoming", "deliveries")}


def test_a_stream_shows_its_offsets_beside_its_other_figures() -> None:
    record = QueueRecord("/", "s", "stream", True, False, False, {"x-queue-type": "stream"}, 1)
    details = {"first_offset": 3, "committed_offset": 9, "segments": 2, "readers": [{"offset": 4, "offset_lag": 6}]}
    view = queue_view(
        QueueView(record, None, None, QueueStatistics(ready=7, details=details)),
        SampledFigures({"messages": 7}, {}, {}),
    )
    assert (view["type"], view["messages"], view["first_offset"], view["committed_offset"]) == ("stream", 7, 3, 9)
    assert (view["segments"], view["reader_details"]) == (2, [{"offset": 4, "offset_lag": 6}])
    assert "backing_queue_status" not in view
    assert "segments" not in queue_view(QueueView(record, None, None, None), SampledFigures()), "it is being opened"


def test_a_queue_that_is_being_opened_is_listed_without_its_figures(world: World) -> None:
    world.broker.opening = "orders"
    (view,) = world.get("/api/queues/v")
    assert (view["name"], view["policy"]) == ("orders", None)
    assert (view["state"], view["messages"]) == ("starting", 0)
    assert world.refused("GET", "/api/queues/v/orders").status == 404


def test_a_queue_shows_the_policies_that_it_goes_by(world: World) -> None:
    for operator in (False, True):
        policy = PolicyRecord("v", f"p-{operator}", "^orders", "queues", 0, {"max-length": 1}, operator)
        world.broker.catalog.apply(commands.PutPolicy(policy))
    view = world.get("/api/queues/v/orders")
    assert (view["policy"], view["operator_policy"]) == ("p-False", "p-True")


MANY = 50


@pytest.mark.parametrize(
    "path",
    [f"/api/{what}" for what in ("queues", "queues/v", "exchanges/v", "bindings/v", "definitions", "definitions/v")],
)
def test_others_are_served_while_very_much_is_listed(world: World, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """10,000 queues were listed in one turn, which took a third of a second. A queue that goes meanwhile is left out of a list
    that says how it is; what is declared is told as it was when it was asked for."""
    catalog = world.broker.catalog
    for number in range(MANY):
        catalog.apply(commands.DeclareQueue("v", f"q{number}", kind="classic", durable=True, home=HOME))
        catalog.apply(commands.DeclareExchange(ExchangeRecord("v", f"e{number}", "fanout")))
        catalog.apply(commands.Bind(BindingRecord("v", f"e{number}", f"q{number}", "queue", "")))
    before = world.get(path)
    ticks = itertools.count()
    monkeypatch.setattr("front.slices.perf_counter", lambda: next(ticks) * SLICE_S / 10)  # ten take a slice
    turns = 0

    going = [f"q{number}" for number in range(MANY - 10, MANY)]

    async def meanwhile(asked: asyncio.Task[Response]) -> None:
        nonlocal turns
        while not asked.done():
            if turns == 1:
                for name in going:
                    catalog.apply(commands.DeleteQueue("v", name))
            turns += 1
            await asyncio.sleep(0)

    async def run() -> Response:
        asked = asyncio.ensure_future(world.answer("GET", path))
        await meanwhile(asked)
        return await asked

    found = json.loads(asyncio.run(run()).body)
    assert turns >= MANY / 10
    if "queues" in path:
        assert found == [one for one in before if one["name"] not in going]
    else:
        assert found == before


# Deleting queues and exchanges.


@pytest.mark.parametrize("path", ["/api/queues/v/orders", "/api/exchanges/v/shop"])
def test_a_queue_or_exchange_is_deleted_once(world: World, path: str) -> None:
    assert world.request("DELETE", path, user="user-management").status == 204
    error = world.refused("DELETE", path, user="user-management")
    assert (error.status, error.error) == (404, "Object Not Found")
    assert world.broker.catalog.queue("v", "orders") is None or "queues" not in path
    assert world.broker.catalog.exchange("v", "shop") is None or "exchanges" not in path


@pytest.mark.parametrize("path", ["/api/queues/v/orders", "/api/exchanges/v/shop"])
def test_deleting_needs_the_configure_permission_and_not_only_the_tag(world: World, path: str) -> None:
    world.broker.catalog.apply(commands.PutPermission(PermissionRecord("user-management", "v", "^mine", ".*", ".*")))
    version = world.broker.catalog.version
    error = world.refused("DELETE", path, user="user-management")
    assert (error.status, error.error) == (401, "not_authorised")
    assert "configure access" in error.reason
    assert world.refused("DELETE", path, user="root").status == 401, "a tag is no permission"
    world.broker.catalog.apply(commands.DeletePermission("user-management", "v"))
    assert world.refused("DELETE", path, user="user-management").status == 404, "it does not even see the vhost"
    assert world.broker.catalog.version == version + 1


def test_a_queue_in_use_or_with_messages_is_deleted_only_without_asking(world: World) -> None:
    for condition, said in (("if-empty", "not empty"), ("if-unused", "in use")):
        error = world.refused("DELETE", f"/api/queues/v/orders?{condition}=true", user="user-management")
        assert (error.status, error.reason) == (400, f"queue 'orders' in vhost 'v' {said}")
    path = "/api/queues/v/orders?if-empty=false&if-unused=false"
    assert world.request("DELETE", path, user="user-management").status == 204


def test_the_queues_own_node_says_whether_it_is_empty_or_used(world: World) -> None:
    """The statistics of another node are old: they said two messages and a consumer of a queue that has neither."""
    world.broker.at_home = {"ready_count": 0, "consumer_count": 0}
    path = "/api/queues/v/orders?if-empty=true&if-unused=true"
    assert world.request("DELETE", path, user="user-management").status == 204


def test_an_exchange_with_bindings_is_deleted_only_without_asking(world: World) -> None:
    world.broker.catalog.apply(commands.Bind(commands.BindingRecord("v", "shop", "orders", "queue", "k")))
    error = world.refused("DELETE", "/api/exchanges/v/shop?if-unused=true", user="user-management")
    assert (error.status, error.reason) == (400, "exchange 'shop' in vhost 'v' in use")
    assert world.request("DELETE", "/api/exchanges/v/shop", user="user-management").status == 204


def test_an_exclusive_queue_is_its_connections_own(world: World) -> None:
    wish = commands.DeclareQueue("v", "private", home=HOME, exclusive=True, owner="amqp-1")
    world.broker.catalog.apply(wish)
    error = world.refused("DELETE", "/api/queues/v/private", user="user-management")
    assert (error.status, error.error) == (400, "bad_request")


def test_a_predeclared_exchange_stays(world: World) -> None:
    error = world.refused("DELETE", "/api/exchanges/v/amq.topic", user="user-management")
    assert (error.status, error.error) == (401, "not_authorised")


def test_exchanges_and_bindings_are_listed(world: World) -> None:
    world.broker.catalog.apply(commands.Bind(commands.BindingRecord("v", "amq.topic", "orders", "queue", "a.*")))
    names = {exchange["name"]: exchange["type"] for exchange in world.get("/api/exchanges/v")}
    assert names["amq.topic"] == "topic"
    bindings = [binding for binding in world.get("/api/bindings/v") if binding["source"] == "amq.topic"]
    assert [(one["destination"], one["destination_type"], one["routing_key"]) for one in bindings] == [
        ("orders", "queue", "a.*")
    ]


def test_who_asks_is_told_their_tags(world: World) -> None:
    assert world.get("/api/whoami") == {"name": "root", "tags": ["administrator"], "is_internal_user": True}


# Definitions.


def test_definitions_come_out_and_go_in_again(world: World) -> None:
    assert "password_hash" not in world.get("/api/definitions?password-hashes=false")["users"][0]
    document = world.get("/api/definitions")
    assert (document["product_name"], document["rabbitmq_definition_format"]) == ("Leveret", "cluster")
    hashes = {user["name"]: (user["hashing_algorithm"], user["password_hash"]) for user in document["users"]}
    assert hashes["app"] == ("rabbit_kept", "secret hash")
    assert world.request("POST", "/api/definitions", document).status == 204
    assert world.get("/api/definitions") == document


def test_the_definitions_of_one_vhost_name_no_vhost(world: World) -> None:
    document = world.get("/api/definitions/v")
    assert [queue["name"] for queue in document["queues"]] == ["orders"]
    assert "users" not in document and "vhost" not in document["queues"][0]
    assert world.request("POST", "/api/definitions/%2F", document).status == 204
    assert world.broker.catalog.queue("/", "orders") is not None
    assert world.refused("GET", "/api/definitions/nope").status == 404


def test_definitions_that_are_refused_say_where(world: World) -> None:
    refused = world.refused("POST", "/api/definitions", {"queues": [{"vhost": "v", "name": ""}]})
    assert (refused.status, refused.reason) == (400, "queues[0]: a queue needs a name")
    assert world.refused("POST", "/api/definitions", raw=b'{"queues": "\xff"}').status == 400


LISTS = b'{"value":[' + b"[]," * 100_000 + b"1]}"


@pytest.mark.parametrize("path", ["global-parameters/p", "users/u", "queues/v/q", "policies/v/p"])
def test_a_large_body_is_refused_before_it_is_read(world: World, path: str) -> None:
    """Ten megabytes of little lists held the node for four seconds, and took 600 MB."""
    refused = world.refused("PUT", f"/api/{path}", raw=LISTS)
    assert (refused.status, "at most 262144" in refused.reason) == (400, True)


def test_a_table_that_nothing_takes_is_refused_before_it_is_looked_at(world: World) -> None:
    body = {"pattern": "x", "definition": {"x-list": [[]] * 30_000}}
    refused = world.refused("PUT", "/api/policies/v/p", body)
    assert (refused.status, "'definition' has more than 65536 bytes" in refused.reason) == (400, True)


def test_the_payload_of_a_message_may_be_long_and_nothing_else() -> None:
    rest = {"routing_key": "k", "properties": {"priority": 1}, "payload_encoding": "string", "other": 1}
    assert publication(posted({"payload": "\u00e9" * 1_000_000, **rest})) == {
        "payload": "\u00e9" * 1_000_000,
        **{name: value for name, value in rest.items() if name != "other"},
    }
    for body in ({"payload": [[]] * 200_000}, {"payload": "x", "properties": {"headers": ["x"] * 200_000}}):
        with pytest.raises(HttpError, match="only the payload may have more than 262144 bytes"):
            publication(posted(body))
    for raw in (b"[" * 300_000, b'"' + b"x" * 300_000 + b'"', b'{"payload":"' + b"x" * 300_000):
        with pytest.raises(HttpError, match="the body is not JSON, or no object"):
            publication(Request("POST", "/", {}, raw, client=LOCAL, now=NOW))


def posted(body: Any) -> Request:
    return Request("POST", "/", {}, json.dumps(body).encode(), client=LOCAL, now=NOW)


@pytest.mark.parametrize(("levels", "status"), [(33, 201), (34, 400), (900, 400)])
def test_definitions_come_out_and_go_in_again_whatever_a_parameter_holds(
    world: World, levels: int, status: int
) -> None:
    """One that was nested as deep as Python's stack was kept, and then every export was a 500."""
    raw = b'{"value":' + b"[" * levels + b"]" * levels + b"}"
    try:
        found = world.request("PUT", "/api/global-parameters/deep", raw=raw).status
    except HttpError as error:
        found = error.status
    assert found == status
    document = world.get("/api/definitions")
    assert world.request("POST", "/api/definitions", document).status == 204


def test_definitions_are_tried_before_they_are_imported(world: World) -> None:
    document = {"queues": [{"vhost": "v", "name": "new", "type": "classic"}, {"vhost": "v", "name": "orders"}]}
    for query, is_there in (("dry-run=true", False), ("report=true", True)):
        response = world.request("POST", f"/api/definitions?{query}", document)
        told = json.loads(response.body)
        assert (response.status, told["counts"]) == (200, {"made": 1, "kept": 1})
        assert told["effects"][0] == {
            "where": "queues[0]",
            "what": "queue 'new' in vhost 'v'",
            "effect": "made",
            "text": "",
        }
        assert (world.broker.catalog.queue("v", "new") is not None) == is_there


def test_definitions_are_a_file_for_browsers(world: World) -> None:
    response = world.request("GET", "/api/definitions?download=my%22%0d%0aset-cookie: x.json")
    headers = dict(response.headers)
    assert headers["Content-Disposition"] == 'attachment; filename="my_set-cookie_x.json"'
    same = world.request("GET", "/api/definitions", if_none_match=headers["ETag"])
    assert (same.status, same.body) == (304, b"")


def test_definitions_of_very_much_come_in_pieces_and_are_one_document(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To join and to hash what 100,000 queues need was one turn of the loop."""
    for number in range(MANY):
        world.broker.catalog.apply(commands.DeclareExchange(ExchangeRecord("v", f"e{number}", "fanout")))
    whole = world.request("GET", "/api/definitions")
    monkeypatch.setattr("front.definitions.ENTRIES_IN_A_PIECE", 10)
    cut = world.request("GET", "/api/definitions")
    assert not whole.pieces and len(cut.pieces) > MANY // 10 and not cut.body
    assert b"".join(cut.pieces) == whole.body
    assert dict(cut.headers)["ETag"] == dict(whole.headers)["ETag"]


FORM = (
    b'--xyz\r\nContent-Disposition: form-data; name="redirect"\r\n\r\nx\r\n'
    b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\nContent-Type: application/json\r\n\r\n'
    b'\xef\xbb\xbf{"vhosts": [{"name": "w"}]}\r\n--xyz--\r\n'
)


def test_definitions_come_as_a_file_of_a_form(world: World) -> None:
    form = {"content_type": "multipart/form-data; boundary=xyz"}
    assert world.request("POST", "/api/definitions", raw=FORM, **form).status == 204
    assert "w" in world.broker.catalog.vhosts
    for raw, content_type in (
        (FORM.replace(b'"file"', b'"other"'), "multipart/form-data; boundary=xyz"),
        (FORM[:120], "multipart/form-data; boundary=xyz"),
        (FORM, "multipart/form-data"),
    ):
        assert world.refused("POST", "/api/definitions", raw=raw, content_type=content_type).status == 400


def test_only_an_operator_may_send_a_large_body(world: World) -> None:
    def allowed(user: str | None, length: int = 1_000_000) -> int:
        headers = {b"content-length": str(length).encode()}
        if user is not None:
            headers[b"authorization"] = b"Basic " + base64.b64encode(f"{user}:pw".encode())
        return allowed_with(headers)

    def allowed_with(headers: dict[bytes, bytes]) -> int:
        request = Request("POST", "/api/definitions", headers, b"", client=LOCAL, now=NOW)
        return asyncio.run(world.api.body_bytes_max(request))

    assert allowed("root") == allowed("user-management") == 10_485_760
    root = {b"authorization": b"Basic " + base64.b64encode(b"root:pw")}
    assert allowed_with({**root, b"transfer-encoding": b"chunked"}) == 10_485_760
    assert allowed_with(root) == allowed_with({b"transfer-encoding": b"chunked"}) == 65_536
    assert allowed("root", 10) == allowed(None) == allowed("user-") == 65_536
    with pytest.raises(HttpError) as refused:
        allowed("nobody")
    assert refused.value.status == 401


# What a browser may be made to ask.

OLD_BROWSER = "Mozilla/5.0 (Windows NT 6.1; Trident/7.0)"  # says nothing of the page that asks


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content_type": "text/plain", "user_agent": OLD_BROWSER}, 415),
        ({"content_type": "", "user_agent": OLD_BROWSER}, 415),
        ({"content_type": "application/x-www-form-urlencoded", "user_agent": OLD_BROWSER}, 415),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"origin": "http://evil.example", "host": "broker:15672"}, 403),
        ({"origin": "null", "host": "broker:15672"}, 403),
        ({"origin": "http://[", "host": "broker:15672"}, 403),
        ({"origin": "http://broker:15672", "host": "broker"}, 403),
    ],
)
def test_a_page_of_another_site_changes_nothing(world: World, headers: dict[str, str], status: int) -> None:
    version = world.broker.catalog.version
    body = {"users": [{"name": "evil", "password_hash": "y", "tags": "administrator"}]}
    assert world.refused("POST", "/api/definitions", body, **headers).status == status
    if status == 403:  # what an old browser sends from another site is POST only
        assert world.refused("PUT", "/api/vhosts/new", {}, **headers).status == status
        assert world.refused("DELETE", "/api/vhosts/v", **headers).status == status
    assert world.broker.catalog.version == version


@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": "application/json; charset=utf-8"},
        {"content_type": "application/json", "user_agent": OLD_BROWSER},
        {"content_type": "application/x-www-form-urlencoded", "user_agent": "curl/8.0"},
        {"content_type": ""},
        {"sec_fetch_site": "same-origin", "origin": "https://outside.example", "host": "inside:15672"},
        {"sec_fetch_site": "none"},
        {"origin": "http://broker:15672", "host": "Broker:15672"},
        {"origin": "http://Broker:15672", "host": "broker:15672"},
    ],
)
def test_the_nodes_own_page_and_programs_change_things(world: World, headers: dict[str, str]) -> None:
    assert world.request("POST", "/api/definitions", {"queues": []}, **headers).status == 204


def test_a_page_of_another_site_may_look_for_it_is_shown_nothing(world: World) -> None:
    assert world.request("GET", "/api/whoami", sec_fetch_site="cross-site").status == 200


def test_metrics_of_objects_are_told_in_pieces_and_by_what_is_asked_for(world: World) -> None:
    assert world.request("GET", "/metrics/per-object", user=None).pieces == [b"one 1\n", b"two 2\n"]
    found = world.request("GET", "/metrics/detailed?family=a&family=b&vhost=v&queue=^a", user=None)
    assert found.pieces == [b"a v a1\n", b"b v a1\n"]
    assert world.request("GET", "/metrics/detailed?family=a", user=None).pieces == [b"a / v a1 b2\n"]
    assert world.refused("GET", "/metrics/detailed?family=a&queue=(", user=None).status == 400


def test_metrics_ask_for_a_login_if_they_are_told_to(world: World) -> None:
    guarded = World(world.broker, metrics_login=True)
    for path in ("/metrics", "/metrics/per-object", "/metrics/detailed"):
        assert guarded.refused("GET", path, user=None).status == 401
    assert guarded.refused("GET", "/metrics", user="user-management").status == 401
    assert guarded.request("GET", "/metrics", user="user-monitoring").status == 200


def test_a_reason_is_bounded_whatever_it_names(world: World) -> None:
    error = world.refused("PUT", "/api/users/x", {"tags": {"z" * 20_000: 1}})
    assert len(error.reason) <= TEXT_BYTES_MAX
    assert error.reason.endswith("bytes)")


# Connections.


def test_more_connections_than_are_sent_at_once_are_all_listed(world: World) -> None:
    """Nothing of them was: of a list in pieces the body was sent, which it does not have."""
    world.broker.clients = [client("root", name=f"c{number:04}") for number in range(SENT_AT_ONCE + 1)]
    response = world.request("GET", "/api/connections")
    assert len(json.loads(b"".join(response.pieces))) == SENT_AT_ONCE + 1


def test_a_connection_is_shown_under_the_names_that_tools_know(world: World) -> None:
    figures = {"state": "running", "bytes_in": 7, "bytes_out": 8, "peer_host": "::1", "peer_port": 9, "tls": False}
    properties = {"connection_name": "a ship", "capabilities": {"basic.nack": True}, "odd": b"\xff"}
    world.broker.clients = [client("root", client_properties=properties, statistics=lambda: figures)]
    (shown,) = world.get("/api/connections")
    assert shown == world.get("/api/connections/one")
    assert shown["client_properties"]["connection_name"] == shown["user_provided_name"] == "a ship"
    assert shown["client_properties"]["capabilities"] == {"basic.nack": True}
    names = ("name", "node", "user", "vhost", "protocol", "connected_at", "state", "recv_oct", "send_oct", "peer_port")
    assert [shown[name] for name in names] == ["one", HOME, "root", "v", "AMQP 0-9-1", NOW, "running", 7, 8, 9]
    assert shown["ssl"] is False


def test_connections_are_ones_own_or_with_monitoring_all(world: World) -> None:
    assert [one["user"] for one in world.get("/api/connections", "user-management")] == ["user-management"]
    assert len(world.get("/api/connections", "user-monitoring")) == len(TAGS)
    assert world.get("/api/vhosts/%2F/connections") == []
    assert len(world.get("/api/vhosts/v/connections")) == len(TAGS)
    assert world.refused("GET", "/api/vhosts/none/connections").status == 404
    assert world.refused("GET", "/api/connections/two").status == 404


def test_a_connection_is_closed_for_the_reason_that_the_request_has(world: World) -> None:
    assert world.request("DELETE", "/api/connections/id-user-", x_reason="maintenance").status == 204
    assert world.request("DELETE", "/api/connections/one", user="user-management").status == 204
    closed = [(user, error.text.partition(" - ")[2] or error.text) for user, error in world.broker.closed]
    assert [user for user, _ in closed] == ["user-", "user-management"]
    assert "maintenance" in closed[0][1]
    assert "Closed via management plugin" in closed[1][1]
    assert world.refused("DELETE", "/api/connections/two").status == 404


def test_one_connection_of_a_stream_client_is_shown_with_its_publishers_and_closed(world: World) -> None:
    path = "/api/stream/connections/v/one"
    assert len(world.get("/api/stream/connections")) == len(TAGS)
    assert world.get(path, "user-management")["user"] == "user-management"
    (published,) = world.get(f"{path}/publishers", "user-management")
    assert published["connection_details"]["user"] == "user-management"
    assert [published[name] for name in ("reference", "published", "confirmed", "errored")] == ["ship", 3, 2, 1]
    assert len(world.get("/api/stream/publishers/v/s")) == len(TAGS)
    assert world.get("/api/stream/publishers/v/another") == world.get(f"{path}/consumers") == []
    for wrong in ("/api/stream/connections/v/two", "/api/stream/connections/%2F/one"):
        assert world.refused("GET", wrong).status == world.refused("DELETE", wrong).status == 404
    assert world.request("DELETE", path, user="user-management").status == 204
    assert [user for user, _ in world.broker.closed] == ["user-management"]
