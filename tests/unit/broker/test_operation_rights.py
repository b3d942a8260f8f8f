"""broker/operations: each operation asks for its tag itself, whatever the front that it is called from has looked at."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.catalog.commands import catalog_commands as commands
from broker.errors import BrokerError, PreconditionFailed
from broker.operations.operations import Operations
from broker.operations.operator import Operator, TagMissing
from broker.operations.users import UserChange, Users
from broker.records import (
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)
from broker.redrive.order import RedriveOrder
from broker.replay.replay_order import ReplayOrder
from broker.vouched.scopes import ScopeRights
from tests.unit.broker.test_operations import World

TAGS = ("", "management", "policymaker", "monitoring", "administrator")
POLICY = PolicyRecord("/", "p", ".", "all", 0, {"max-length": 1})
REDRIVE = RedriveOrder("/", "q")
REPLAY = ReplayOrder("/", "q", "", "q")
Operation = Callable[[Operations, Operator], Any]
MANAGEMENT: list[Operation] = [
    lambda of, who: of.vhosts.listed(who),
    lambda of, who: of.vhosts.one(who, "/"),
    lambda of, who: of.policies.listed(who, None, operator=False),
    lambda of, who: of.policies.one(who, "/", "p", operator=True),
    lambda of, who: of.clients.connections(who),
    lambda of, who: of.clients.channels(who),
    lambda of, who: of.clients.consumers(who, None),
    lambda of, who: of.clients.close_connection(who, "c1"),
    lambda of, who: of.users.limits(who, who.name),
    lambda of, who: of.this_node.churn(who),
    lambda of, who: of.this_node.counters(who),
    lambda of, who: of.this_node.status(who),
    lambda of, who: of.this_node.identity(who),
    lambda of, who: of.this_node.alarms(who),
    lambda of, who: of.resources.queue_records(who, None),
    lambda of, who: of.resources.exchanges(who, None),
    lambda of, who: of.resources.exchanges_seen(who, []),
    lambda of, who: of.resources.views(who, []),
    lambda of, who: of.stream_users.publishers(who, None),
    lambda of, who: of.stream_users.subscriptions(who, None),
    lambda of, who: of.clients.connection(who, "c1"),
    lambda of, who: of.clients.cancel_consumer(who, "c1", 1, "t", 0),
    lambda of, who: of.this_node.certificate(who),
    lambda of, who: of.this_node.figures_of_queues(who),
    lambda of, who: of.resources.default_exchanges(who, None),
    lambda of, who: of.resources.exchange(who, "/", "e"),
    lambda of, who: of.resources.exchange_exists(who, "/", "e"),
    lambda of, who: of.resources.delete_exchange(who, "/", "e", if_unused=True),
    lambda of, who: of.resources.queues(who, None),
    lambda of, who: of.resources.queue(who, "/", "q"),
    lambda of, who: of.resources.queue_exists(who, "/", "q"),
    lambda of, who: of.resources.delete_queue(who, "/", "q", if_unused=True, if_empty=True, now=0),
    lambda of, who: of.resources.bindings(who, None),
    lambda of, who: of.resources.default_bindings(who, None),
    lambda of, who: of.resources.count_exchanges(who),
    lambda of, who: of.resources.count_queues(who),
    lambda of, who: of.redrives.all(who),
    lambda of, who: of.redrives.cancel(who, "none"),
    lambda of, who: of.redrives.forecast(who, REDRIVE),
    lambda of, who: of.redrives.admit(who, REDRIVE, 0),
    lambda of, who: of.replays.all(who),
    lambda of, who: of.replays.cancel(who, "none"),
    lambda of, who: of.stream_users.connections(who, None),
    lambda of, who: of.stream_users.connection(who, "/", "c1"),
    lambda of, who: of.conversions.plan(who, "/", "q"),
    lambda of, who: of.conversions.begin(who, "/", "q"),
    lambda of, who: of.conversions.cancel(who, "/", "q"),
    lambda of, who: of.conversions.progress(who, "/", "q"),
    lambda of, who: of.stream_admin.tracking(who, "/", "s"),
    lambda of, who: of.stream_admin.create_super_stream(who, "/", "s", ("k",), {}, 0),
]
MONITORING: list[Operation] = [
    lambda of, who: of.users.limits(who, "guest"),
    lambda of, who: of.this_node.logins(who),
]
POLICYMAKER: list[Operation] = [
    lambda of, who: of.policies.set(who, POLICY),
    lambda of, who: of.policies.clear(who, "/", "p", operator=False),
    lambda of, who: of.parameters.listed(who, None, None),
    lambda of, who: of.parameters.one(who, "shovel", "/", "p"),
    lambda of, who: of.parameters.set(who, ParameterRecord("/", "shovel", "p", {})),
    lambda of, who: of.parameters.clear(who, "shovel", "/", "p"),
    lambda of, who: of.parameters.listed_global(who),
    lambda of, who: of.parameters.one_global(who, "p"),
    lambda of, who: of.parameters.set_global(who, "p", 1),
    lambda of, who: of.parameters.clear_global(who, "p"),
]
ADMINISTRATOR: list[Operation] = [
    lambda of, who: of.users.listed(who),
    lambda of, who: of.users.one(who, "guest"),
    lambda of, who: of.users.put(who, UserChange("guest", tags=("administrator",))),
    lambda of, who: of.users.delete(who, "guest"),
    lambda of, who: of.users.set_limits(who, "guest", {}),
    lambda of, who: of.users.set_limit(who, "guest", "max-channels", 1),
    lambda of, who: of.vhosts.put(who, VhostRecord("/")),
    lambda of, who: of.vhosts.delete(who, "/"),
    lambda of, who: of.vhosts.protect(who, "/", protected=False),
    lambda of, who: of.vhosts.set_limits(who, "/", {}),
    lambda of, who: of.vhosts.set_limit(who, "/", "max-queues", 1),
    lambda of, who: of.vhosts.trace(who, "/", on=True),
    lambda of, who: of.rights.listed(who),
    lambda of, who: of.rights.access(who, "guest", "/", "q"),
    lambda of, who: of.rights.one(who, "/", "guest"),
    lambda of, who: of.rights.set(who, PermissionRecord(who.name, "/", ".*", ".*", ".*")),
    lambda of, who: of.rights.clear(who, "/", "guest"),
    lambda of, who: of.rights.listed_topics(who),
    lambda of, who: of.rights.set_topic(who, TopicPermissionRecord(who.name, "/", "e", ".*", ".*")),
    lambda of, who: of.rights.clear_topics(who, "/", "guest"),
    lambda of, who: of.policies.set(who, PolicyRecord("/", "p", ".", "all", 0, {"max-length": 1}, operator=True)),
    lambda of, who: of.policies.clear(who, "/", "p", operator=True),
    lambda of, who: of.documents.exported(who, None, password_hashes=True),
    lambda of, who: of.documents.exported(who, "/", password_hashes=False),
    lambda of, who: of.documents.plan(who, b"{}", None),
    lambda of, who: of.documents.plan(who, b"{}", "/"),
    lambda of, who: of.replays.forecast(who, REPLAY),
    lambda of, who: of.replays.admit(who, REPLAY, 0),
    lambda of, who: of.this_node.effective_config(who),
    lambda of, who: of.this_node.name_cluster(who, "c"),
    lambda of, who: of.this_node.forget_logins(who),
    lambda of, who: of.this_node.set_log_level(who, "debug"),
]
ALLOWED = {
    "management": (MANAGEMENT, TAGS[1:]),
    "monitoring": (MONITORING, ("monitoring", "administrator")),
    "policymaker": (POLICYMAKER, ("policymaker", "administrator")),
    "administrator": (ADMINISTRATOR, ("administrator",)),
}


# What says only whether somebody may do something, and what is called when that was asked already.
ASKS_FOR_NO_TAG = {"vhosts.may_use", "redrives.begun", "replays.begun"}


class Called:
    """Notes which operations are called, and does nothing."""

    def __init__(self, part: str = "", names: set[str] | None = None) -> None:
        self._part = part
        self.names = set() if names is None else names

    def __getattr__(self, name: str) -> Any:
        if not self._part:
            return Called(name, self.names)
        self.names.add(f"{self._part}.{name}")
        return lambda *_, **__: None


def test_every_operation_that_is_told_who_asks_is_in_the_tables_of_these_tests() -> None:
    called: Any = Called()
    for operations, _ in ALLOWED.values():
        for operation in operations:
            operation(called, Operator("someone", ()))
    told = {
        f"{part}.{name}"
        for part, of in vars(World().operations).items()
        for name, method in inspect.getmembers(of, inspect.ismethod)
        if not name.startswith("_") and "who" in inspect.signature(method).parameters
    }
    assert told - called.names == ASKS_FOR_NO_TAG


def lacks_a_tag(operation: Operation, who: Operator) -> bool:
    """Anything else that is wrong is another matter: the world of these tests has little in it."""
    try:
        found = operation(World().operations, who)
        if isinstance(found, Iterator):
            next(found, None)
    except TagMissing:
        return True
    except (BrokerError, AttributeError):
        return False
    return False


@pytest.mark.parametrize("needed", ALLOWED)
@pytest.mark.parametrize("tag", TAGS)
def test_an_operation_is_for_those_with_its_tag_or_one_that_includes_it(tag: str, needed: str) -> None:
    operations, allowed = ALLOWED[needed]
    who = Operator("someone", (tag,) if tag else ())
    refused = [place for place, operation in enumerate(operations) if lacks_a_tag(operation, who)]
    assert refused == ([] if tag in allowed else list(range(len(operations))))


@pytest.mark.parametrize(
    "shut_out",
    [
        lambda users, who: users.delete(who, "root"),
        lambda users, who: users.put(who, UserChange("root", tags=("monitoring",))),
        lambda users, who: users.put(who, UserChange("root", clear_password=True)),
    ],
    ids=["deleted", "untagged", "without a password"],
)
def test_nobody_shuts_themselves_out_as_the_last_administrator_with_a_password(
    shut_out: Callable[[Users, Operator], Any],
) -> None:
    world, root = World(), Operator("root", ("administrator",))
    for record in (UserRecord("root", "hash", root.tags), UserRecord("by certificate", None, root.tags)):
        world.catalog.apply(commands.PutUser(record))
    world.catalog.apply(commands.PutUser(UserRecord("guest", "hash", ("monitoring",))))
    with pytest.raises(PreconditionFailed, match="user 'root' is the last administrator with a password"):
        shut_out(world.operations.users, root)
    world.done(world.operations.users.put(root, UserChange("root", password="another")))  # takes nothing away
    world.catalog.apply(commands.PutUser(UserRecord("guest", "hash", root.tags)))
    world.done(shut_out(world.operations.users, root))


def test_who_came_with_a_token_or_as_another_administrator_stays_and_may_delete_the_last_one_with_a_password() -> None:
    for who in (Operator("root", ("administrator",), ScopeRights(())), Operator("by certificate", ("administrator",))):
        world = World()
        world.catalog.apply(commands.DeleteUser("guest"))
        world.catalog.apply(commands.PutUser(UserRecord("root", "hash", who.tags)))
        world.done(world.operations.users.delete(who, "root"))
        assert not world.catalog.users
