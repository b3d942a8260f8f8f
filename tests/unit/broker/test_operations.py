"""broker/operations: what operators need, what they see, and whose change it is."""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands import catalog_commands as commands
from broker.errors import AccessRefused, BrokerError, InvalidRequest, NotFound, PreconditionFailed
from broker.login.audit import Actor, Audit, acting_for
from broker.login.client_address import ClientAddress
from broker.names import DIRECT_REPLY_TO, becoming_queue
from broker.operations.operations import Operations
from broker.operations.operator import Operator, TagMissing
from broker.operations.this_node import LoginCounts, QueueTotals
from broker.operations.users import PASSWORD_BYTES_MAX, UserChange, UserView
from broker.pending import Pending
from broker.queues.queue_type import QueueStatistics
from broker.records import (
    BindingRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)
from node.logins.password_hashes import Hashes
from tests.unit.broker.vouched.bearers import bearer

ROOT, NOBODY = Operator("root", ("administrator",)), Operator("nobody", ())
MANAGER, MONITOR = Operator("manager", ("management",)), Operator("monitor", ("monitoring",))
POLICYMAKER = Operator("maker", ("policymaker",))
CLIENT = ClientAddress("192.0.2.7", 4_000, False, "HTTP")


class World:
    """A catalog that answers later, when nobody is being served; and passwords that are hashed later still."""

    identity: ClassVar = {"product_name": "Leveret"}
    password_hashes = Hashes()

    def __init__(self) -> None:
        self.catalog = Catalog()
        for command in default_commands("hash"):
            self.catalog.apply(command)
        self.lines: list[str] = []
        self.audit = Audit(note=self.lines.append, warn=self.lines.append)
        self.waiting: list[tuple[Pending[Any], commands.Command]] = []
        self.hashing: list[tuple[Pending[str], bytes]] = []
        self.closed: list[tuple[str, str]] = []  # connections, and why
        self.connections = [self.connection(1, "manager"), self.connection(2, "monitor"), self.connection(3, "root")]
        self.sessions = [
            SimpleNamespace(connection=one, user=one.user, vhost=one.vhost, number=7) for one in self.connections
        ]
        self.consumers = [self.consumer(vhost, sink) for vhost in ("/", "v") for sink in self.sessions]
        broker: Any = SimpleNamespace(
            catalog=self.catalog,
            metadata=self,
            audit=self.audit,
            connections=lambda: self.connections,
            sessions=lambda: self.sessions,
            consumers=lambda: self.consumers,
        )
        node: Any = self
        self.operations = Operations(broker, node)

    def connection(self, number: int, user: str) -> Any:
        name = f"c{number}"
        return SimpleNamespace(
            id=str(number),
            name=name,
            user=user,
            login=UserRecord(user, None),
            vhost="/",
            statistics=dict,
            close=lambda why: self.closed.append((name, why.text)),
        )

    def consumer(self, vhost: str, sink: Any) -> Any:
        record = SimpleNamespace(vhost=vhost, name="q")
        figures = {"no_ack": False, "exclusive": False, "prefetch": 10, "outstanding": 3, "priority": 0, "active": True}
        return SimpleNamespace(
            queue=SimpleNamespace(record=record),
            sink=sink,
            tag=f"of {sink.user}",
            timeout_ms=None,
            arguments={},
            **figures,
        )

    def submit(self, command: commands.Command) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        self.waiting.append((pending, command))
        return self.audit.watched(command, pending)

    def hash_password(self, password: bytes, current: str | None = None) -> Pending[str]:
        pending: Pending[str] = Pending()
        self.hashing.append((pending, password))
        return pending

    def go_on(self) -> None:
        """Until nothing waits, in a context in which nobody is served."""
        while self.hashing or self.waiting:
            for hashing, password in [self.hashing.pop() for _ in list(self.hashing)]:
                hashing.resolve(f"hash of {password.decode()}")
            for pending, command in [self.waiting.pop() for _ in list(self.waiting)]:
                try:
                    pending.resolve(self.catalog.apply(command))
                except BrokerError as error:
                    pending.fail(error)

    def done(self, change: Pending[Any]) -> Any:
        found: list[Any] = []
        change.then(found.append, found.append)
        assert not found
        self.go_on()
        return found[0]


@pytest.fixture
def world() -> World:
    return World()


def test_a_tag_includes_others_and_who_lacks_one_is_told_which() -> None:
    included = {
        "management": {"management"},
        "policymaker": {"policymaker", "management"},
        "monitoring": {"monitoring", "management"},
        "administrator": {"administrator", "monitoring", "policymaker", "management"},
        "impersonator": set(),
    }
    for tag, others in included.items():
        who = Operator("u", ("unknown", tag))
        assert {one for one in included if who.has_tag(one)} == others
    with pytest.raises(TagMissing, match="user 'nobody' needs the tag 'management' for this; its tags are: none"):
        NOBODY.require_tag("management")


def test_who_may_not_see_a_vhost_does_not_learn_whether_it_exists(world: World) -> None:
    resources = world.operations.resources
    for vhost in ("/", "missing"):
        for asked in (resources.queues, resources.exchanges, resources.bindings):
            with pytest.raises(AccessRefused, match=f"user 'manager' has no access to vhost '{vhost}'"):
                asked(MANAGER, vhost)
            with pytest.raises(TagMissing):
                asked(NOBODY, vhost)
    with pytest.raises(NotFound, match="no vhost 'missing'"):
        resources.queues(MONITOR, "missing")
    assert list(resources.exchanges(MANAGER, None)) == []
    assert len(list(resources.exchanges(MONITOR, None))) == len(list(world.catalog.exchanges("/")))


def test_a_vhost_is_its_makers_and_all_of_it_is_the_makers_change(world: World) -> None:
    def ask() -> Pending[bool]:
        acting_for(Actor("root", CLIENT))
        return world.operations.vhosts.put(ROOT, VhostRecord("v"), {"max-queues": 1})

    world.catalog.apply(commands.PutUser(UserRecord("root", "hash")))
    assert world.done(copy_context().run(ask)) is False
    assert world.catalog.permissions("root", "v") == PermissionRecord("root", "v", ".*", ".*", ".*")
    assert world.catalog.vhosts["v"].limits == {"max-queues": 1}
    who = "user 'root' from 192.0.2.7:4000 over HTTP: "
    assert [line.removeprefix(who).partition(" of ")[0] for line in world.lines] == [
        "put vhost 'v'", "put permission", "set limits",
    ]  # fmt: skip
    world.catalog.apply(commands.DeletePermission("root", "v"))
    assert world.done(world.operations.vhosts.put(ROOT, VhostRecord("v", "described"))) is True
    assert world.catalog.permissions("root", "v") is None, "the vhost was there before"


def test_a_user_is_changed_by_who_has_asked_when_the_password_is_hashed(world: World) -> None:
    def ask() -> Pending[bool]:
        acting_for(Actor("root", CLIENT))
        return world.operations.users.put(ROOT, UserChange("u", tags=("management",), password="secret"))

    assert world.done(copy_context().run(ask)) is False
    assert world.catalog.users["u"] == UserRecord("u", "hash of secret", ("management",))
    assert world.lines == ["user 'root' from 192.0.2.7:4000 over HTTP: put user 'u' with a password, tags: management"]


def test_what_a_change_of_a_user_does_not_name_stays(world: World) -> None:
    users, put = world.catalog.users, world.operations.users.put
    world.catalog.apply(commands.PutUser(UserRecord("u", "hash", ("management",))))
    world.done(put(ROOT, UserChange("u", tags=("monitoring",))))
    assert users["u"] == UserRecord("u", "hash", ("monitoring",))
    world.done(put(ROOT, UserChange("u", password="p")))
    assert users["u"] == UserRecord("u", "hash of p", ("monitoring",))
    world.done(put(ROOT, UserChange("u", clear_password=True)))
    assert users["u"] == UserRecord("u", None, ("monitoring",))
    assert [view.has_password for view in world.operations.users.listed(ROOT) if view.name == "u"] == [False]


@pytest.mark.parametrize("password", ["", "x" * (PASSWORD_BYTES_MAX + 1), "\u00e9" * (PASSWORD_BYTES_MAX // 2 + 1)])
def test_a_password_of_no_or_too_many_bytes_is_refused(world: World, password: str) -> None:
    with pytest.raises(PreconditionFailed, match="a password has 1 to 1024 bytes"):
        world.operations.users.put(ROOT, UserChange("u", password=password))


def test_policies_are_made_where_their_maker_may_go(world: World) -> None:
    policy = PolicyRecord("/", "p", ".", "all", 0, {"max-length": 1})
    policies = world.operations.policies
    with pytest.raises(AccessRefused, match="user 'maker' has no access to vhost '/'"):
        policies.set(POLICYMAKER, policy)
    world.catalog.apply(commands.PutUser(UserRecord("maker", "hash")))
    world.catalog.apply(commands.PutPermission(PermissionRecord("maker", "/", "", "", "")))
    world.done(policies.set(POLICYMAKER, policy))
    assert policies.listed(POLICYMAKER, "/", operator=False) == [policy]
    with pytest.raises(TagMissing):
        policies.clear(POLICYMAKER, "/", "p", operator=True)
    world.done(policies.clear(ROOT, "/", "p", operator=False))
    assert policies.listed(ROOT, None, operator=False) == []


@pytest.mark.parametrize("who", [MANAGER, POLICYMAKER, MONITOR, ROOT], ids=lambda who: str(who.name))
def test_who_does_not_monitor_sees_only_clients_of_their_own(world: World, who: Operator) -> None:
    world.catalog.apply(commands.PutVhost(VhostRecord("v")))
    for name in ("manager", "maker"):
        world.catalog.apply(commands.PutUser(UserRecord(name, "hash")))
        world.catalog.apply(commands.PutPermission(PermissionRecord(name, "/", "", "", "")))
    clients = world.operations.clients
    seen = {one.user for one in world.connections if who in (MONITOR, ROOT) or one.user == who.name}
    assert {one.user for one in clients.connections(who)} == seen
    assert {one.user for one in clients.channels(who)} == seen
    vhosts = ["/", "v"] if who in (MONITOR, ROOT) else ["/"]
    expected = {(vhost, f"of {user}") for vhost in vhosts for user in seen}
    assert {(one.vhost, one.consumer_tag) for one in clients.consumers(who, None)} == expected
    assert {one.vhost for one in clients.consumers(ROOT, "v")} == {"v"}


def test_a_connection_is_closed_for_its_user_or_an_administrator_and_for_nobody_else(world: World) -> None:
    clients = world.operations.clients
    for who, other in ((MONITOR, "3"), (MONITOR, "c1"), (MANAGER, "2"), (ROOT, "c9")):
        with pytest.raises(NotFound, match=f"no connection '{other}' that user '{who.name}' may close"):
            clients.close_connection(who, other)
    with pytest.raises(TagMissing):
        clients.close_connection(NOBODY, "1")
    assert world.closed == []
    assert [line.partition(": ")[2].partition(":")[0] for line in world.lines] == [
        f"close connection '{other}'" for other in ("3", "c1", "2", "c9")
    ], "who tried to is in the audit"
    world.lines.clear()
    clients.close_connection(MANAGER, "1")
    clients.close_connection(ROOT, "c2", "maintenance")
    assert world.closed == [("c1", "closed by user 'manager'"), ("c2", "maintenance")]
    assert [line.partition(": ")[2] for line in world.lines] == [
        "close connection 'c1' of user 'manager': closed by user 'manager'",
        "close connection 'c2' of user 'monitor': maintenance",
    ]


def test_clients_of_one_vhost_are_those_in_it(world: World) -> None:
    world.catalog.apply(commands.PutVhost(VhostRecord("v")))
    for one in (world.connections[2], world.sessions[2]):
        one.vhost = "v"
    clients = world.operations.clients
    for vhost, users in (("/", ["manager", "monitor"]), ("v", ["root"]), (None, ["manager", "monitor", "root"])):
        assert [one.user for one in clients.connections(ROOT, vhost)] == users
        assert [one.user for one in clients.channels(ROOT, vhost)] == users


def test_a_consumer_is_cancelled_for_its_user_or_an_administrator_and_for_nobody_else(world: World) -> None:
    cancelled: list[tuple[str, str]] = []

    def cancel(user: str, tag: str, now: int) -> bool:
        """Each session has the consumer `t`."""
        cancelled.append((user, tag))
        return tag == "t"

    for session in world.sessions:
        session.cancel_for_operator = partial(cancel, session.user)
    clients = world.operations.clients
    for who, connection, channel in ((MONITOR, "c1", 7), (MANAGER, "c2", 7), (MANAGER, "c1", 8), (ROOT, "c9", 7)):
        with pytest.raises(NotFound, match="may cancel"):
            clients.cancel_consumer(who, connection, channel, "t", 0)
    assert cancelled == []
    with pytest.raises(NotFound):
        clients.cancel_consumer(ROOT, "c1", 7, "another", 0)
    cancelled.clear()
    clients.cancel_consumer(MANAGER, "c1", 7, "t", 0)
    clients.cancel_consumer(ROOT, "c2", 7, "t", 0)
    assert cancelled == [("manager", "t"), ("monitor", "t")]
    assert len(world.lines) == 7, "also who only tried to is in the audit"


def test_who_is_vouched_for_is_nobody_else_of_the_same_name(world: World) -> None:
    """A token could close the connections of a user with a password whose name it bears."""
    clients, bearing = world.operations.clients, Operator.of(bearer("manager", "tag:management", "read:%2F/*"))
    assert list(clients.connections(bearing)) == list(clients.channels(bearing)) == []
    assert list(clients.consumers(bearing, "/")) == []
    with pytest.raises(NotFound):
        clients.close_connection(bearing, "1")
    world.connections[0].login = bearer("manager")
    assert [one.id for one in clients.connections(bearing)] == ["1"]
    assert list(clients.connections(MANAGER)) == []


def test_nobody_is_shown_the_name_that_a_requesters_replies_are_published_to(world: World) -> None:
    """Whoever knows it may answer in place of the one who was asked."""
    world.consumers[0].queue.record.name = f"{DIRECT_REPLY_TO}.secret"
    queues = [one.queue for one in world.operations.clients.consumers(ROOT, "/")]
    assert queues == [DIRECT_REPLY_TO, "q", "q"]


def test_a_user_is_only_made_or_only_changed_where_that_is_asked_for(world: World) -> None:
    put = world.operations.users.put
    with pytest.raises(NotFound):
        put(ROOT, UserChange("u", tags=(), change_only=True))
    world.done(put(ROOT, UserChange("u", tags=(), create_only=True)))
    with pytest.raises(PreconditionFailed, match="user 'u' exists already"):
        put(ROOT, UserChange("u", tags=("administrator",), create_only=True))
    assert world.done(put(ROOT, UserChange("u", tags=("management",), change_only=True))) is True


def test_one_limit_is_set_and_lifted_and_the_others_stay(world: World) -> None:
    vhosts, users = world.operations.vhosts, world.operations.users
    limits = {"max-connections": 1, "max-queues": 2}
    for name, value in limits.items():
        world.done(vhosts.set_limit(ROOT, "/", name, value))
    world.done(users.set_limits(ROOT, "guest", {"max-connections": 1, "max-channels": 3}))
    assert world.catalog.vhosts["/"].limits == limits
    world.done(vhosts.set_limit(ROOT, "/", "max-connections", None))
    world.done(users.set_limit(ROOT, "guest", "max-connections", None))
    assert world.catalog.vhosts["/"].limits == {"max-queues": 2}
    assert world.catalog.users["guest"].limits == {"max-channels": 3}


def test_limits_of_others_are_shown_to_who_monitors(world: World) -> None:
    world.catalog.apply(commands.PutUser(UserRecord("manager", "hash")))
    limits = world.operations.users.limits
    assert limits(MANAGER, "manager") == limits(MONITOR, "guest") == {}
    with pytest.raises(TagMissing, match="needs the tag 'monitoring'"):
        limits(MANAGER, "guest")


def test_a_policy_without_a_name_is_refused(world: World) -> None:
    with pytest.raises(InvalidRequest, match="the name of the policy is missing"):
        world.operations.policies.set(ROOT, PolicyRecord("/", "", ".", "all", 0, {"max-length": 1}))
    assert world.waiting == []


def test_bindings_are_those_from_the_exchange_and_to_the_queue_that_are_asked_for(world: World) -> None:
    for name in ("q", "r"):
        world.catalog.apply(commands.DeclareQueue("/", name, durable=True))
        for exchange in ("amq.direct", "amq.fanout"):
            world.catalog.apply(commands.Bind(BindingRecord("/", exchange, name, "queue", "k")))
    bindings = world.operations.resources.bindings
    found = [(one.source, one.destination) for one in bindings(ROOT, "/", source="amq.fanout", queue="q")]
    assert found == [("amq.fanout", "q")]
    assert {one.destination for one in bindings(ROOT, None, source="amq.direct")} == {"q", "r"}


def test_lists_have_no_copy_of_a_queue_that_is_being_converted(world: World) -> None:
    for name in ("orders", becoming_queue("orders")):
        world.catalog.apply(commands.DeclareQueue("/", name, home="n1"))
    resources = world.operations.resources
    assert [record.name for record in resources.queue_records(ROOT, "/")] == ["orders"]
    assert [binding.destination for binding in resources.default_bindings(ROOT, "/")] == ["orders"]
    assert resources.record("/", becoming_queue("orders")).name == becoming_queue("orders"), "who looks for it finds it"


def test_a_queue_says_that_it_is_being_converted_as_long_as_it_is_a_classic_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversions, catalog = world.operations.conversions, world.catalog
    figures = {"orders": QueueStatistics(ready=5, unacknowledged=1), becoming_queue("orders"): QueueStatistics(ready=2)}
    led = figures[becoming_queue("orders")].details = {"leader": 1, "members": [1, 2]}
    waited_ms = [0]

    def queue(vhost: str, name: str) -> SimpleNamespace:
        return SimpleNamespace(statistics=lambda: figures[name])

    queues = SimpleNamespace(
        queue=queue,
        find_queue=lambda vhost, name: SimpleNamespace(queue=queue(vhost, name)),
        copies_wait_ms=lambda queue_id: waited_ms[0],
    )
    monkeypatch.setattr(conversions, "_broker", queues)
    catalog.apply(commands.DeclareQueue("/", "orders", durable=True, home="n1"))
    orders = world.operations.resources.record("/", "orders")
    assert conversions.under_way(orders) is None
    arguments = {"x-queue-type": "quorum"}
    catalog.apply(commands.DeclareQueue("/", becoming_queue("orders"), arguments=arguments, home="n1", durable=True))
    found = conversions.under_way(orders)
    assert found is not None and (found.queue, found.state, found.arguments) == ("orders", "converting", arguments)
    assert (found.messages, found.copied, found.waits_for) == (6, 2, "")
    what = "start these nodes, or cancel it and lose nothing"
    led["leader"] = 0
    found = conversions.under_way(orders)
    assert found is not None and found.waits_for == f"a majority of its group on node 1, node 2: {what}"
    led["leader"], waited_ms[0] = 1, 65_000
    found = conversions.under_way(orders)
    assert found is not None and found.waits_for == f"a majority of its group on node 1, node 2, for 65 s: {what}"
    quorum = world.operations.resources.record("/", becoming_queue("orders"))
    assert conversions.under_way(quorum) is None


def test_rights_are_listed_of_one_user_in_one_vhost_or_of_all(world: World) -> None:
    rights = world.operations.rights
    for name in ("a", "b"):
        world.catalog.apply(commands.PutUser(UserRecord(name, "hash")))
        world.catalog.apply(commands.PutPermission(PermissionRecord(name, "/", name, "", "")))
    assert [one.configure for one in rights.listed(ROOT, user="a")] == ["a"]
    assert {one.user for one in rights.listed(ROOT, vhost="/")} >= {"a", "b"}
    assert [one.user for one in rights.listed(ROOT, "/", "b")] == ["b"]


def test_topic_permissions_are_cleared_on_one_exchange_or_on_all(world: World) -> None:
    rights = world.operations.rights
    world.catalog.apply(commands.PutUser(UserRecord("u", "hash")))
    for exchange in ("a", "b", "c"):
        world.done(rights.set_topic(ROOT, TopicPermissionRecord("u", "/", exchange, ".*", ".*")))
    world.done(rights.clear_topics(ROOT, "/", "u", "a"))
    assert [one.exchange for one in rights.listed_topics(ROOT, user="u")] == ["b", "c"]
    world.done(rights.clear_topics(ROOT, "/", "u"))
    assert rights.listed_topics(ROOT, user="u") == []


def test_totals_add_up_what_each_queue_has() -> None:
    totals = QueueTotals()
    for figures in (QueueStatistics(ready=2, unacknowledged=3), QueueStatistics(ready=5, unacknowledged=7)):
        totals.add(figures)
    assert totals == QueueTotals(queues=2, ready=7, unacknowledged=10)


def test_the_longest_password_is_taken(world: World) -> None:
    world.done(world.operations.users.put(ROOT, UserChange("u", password="x" * PASSWORD_BYTES_MAX)))
    assert world.catalog.users["u"].password_hash == "hash of " + "x" * PASSWORD_BYTES_MAX


def test_limits_are_set_of_a_vhost_that_was_there_before_too(world: World) -> None:
    world.catalog.apply(commands.PutUser(UserRecord("root", "hash")))
    world.done(world.operations.vhosts.put(ROOT, VhostRecord("v"), {"max-queues": 1}))
    world.done(world.operations.vhosts.put(ROOT, VhostRecord("v"), {"max-queues": 2}))
    assert world.catalog.vhosts["v"].limits == {"max-queues": 2}
    world.done(world.operations.vhosts.put(ROOT, VhostRecord("v", "described")))
    assert world.catalog.vhosts["v"].limits == {"max-queues": 2}, "without limits those that it has stay"


def test_logins_are_counted_anew_once_they_were_forgotten(world: World) -> None:
    node, counted = world.operations.this_node, world.audit.logins
    counted["HTTP", True], counted["HTTP", False] = 3, 2
    with pytest.raises(TagMissing):
        node.forget_logins(MONITOR)
    assert node.logins(MONITOR)["HTTP"] == LoginCounts(succeeded=3, failed=2)
    node.forget_logins(ROOT)
    counted["HTTP", True] += 1
    assert node.logins(MONITOR)["HTTP"] == LoginCounts(succeeded=1, failed=0)
    assert counted["HTTP", True] == 4, "what /metrics counts never goes back"


def test_parameters_are_set_where_their_maker_may_look(world: World) -> None:
    record = ParameterRecord("/", "shovel", "s", {})
    with pytest.raises(AccessRefused, match="user 'maker' has no access to vhost '/'"):
        world.operations.parameters.set(POLICYMAKER, record)
    assert world.waiting == []


def test_queues_and_exchanges_that_are_asked_for_by_name_are_shown_to_who_may_see_their_vhost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = SimpleNamespace(vhost="/", name="q")
    monkeypatch.setattr(world.catalog, "queue", lambda vhost, name: record)
    monkeypatch.setattr(world.operations.resources, "view", lambda record: record.name)
    assert list(world.operations.resources.views(MONITOR, [("/", "q")])) == ["q"]
    assert list(world.operations.resources.views(MANAGER, [("/", "q")])) == []
    assert list(world.operations.resources.exchanges_seen(MONITOR, [("/", "e")])) == [("/", "e")]
    assert list(world.operations.resources.exchanges_seen(MANAGER, [("/", "e")])) == []


def test_a_user_that_is_written_down_somewhere_does_not_have_its_hash_there() -> None:
    assert "kept secret" not in repr(UserView("ann", (), True, {}, "sha256", "kept secret"))
