"""broker/operations: what operators need, what they see, and whose change it is."""

from __future__ import annotations

from contextvars import copy_context
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from broker.catalog import catalog_commands as commands
from broker.catalog.catalog import Catalog, default_commands
from broker.errors import AccessRefused, BrokerError, NotFound, PreconditionFailed
from broker.login.audit import Actor, Audit, acting_for
from broker.login.client_address import ClientAddress
from broker.operations.operations import Operations
from broker.operations.operator import INCLUDED_TAGS, Operator, TagMissing
from broker.operations.users import PASSWORD_BYTES_MAX, UserChange
from broker.pending import Pending
from broker.records import PermissionRecord, PolicyRecord, UserRecord, VhostRecord

ROOT, NOBODY = Operator("root", ("administrator",)), Operator("nobody", ())
MANAGER, MONITOR = Operator("manager", ("management",)), Operator("monitor", ("monitoring",))
POLICYMAKER = Operator("maker", ("policymaker",))
CLIENT = ClientAddress("192.0.2.7", 4_000, False, "HTTP")


class World:
    """A catalog that answers later, when nobody is being served; and passwords that are hashed later still."""

    identity: ClassVar = {"product_name": "Leveret"}

    def __init__(self) -> None:
        self.catalog = Catalog()
        for command in default_commands("hash"):
            self.catalog.apply(command)
        self.lines: list[str] = []
        self.audit = Audit(note=self.lines.append, warn=self.lines.append)
        self.waiting: list[tuple[Pending[Any], commands.Command]] = []
        self.hashing: list[tuple[Pending[str], bytes]] = []
        broker: Any = SimpleNamespace(catalog=self.catalog, metadata=self, audit=self.audit)
        node: Any = self
        self.operations = Operations(broker, node)

    def submit(self, command: commands.Command) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        self.waiting.append((pending, command))
        return self.audit.watched(command, pending)

    def hash_password(self, password: bytes) -> Pending[str]:
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
    for tag, included in INCLUDED_TAGS.items():
        who = Operator("u", ("unknown", tag))
        assert {one for one in INCLUDED_TAGS if who.has_tag(one)} == included
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
