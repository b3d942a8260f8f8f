"""Who may do what, in RabbitMQ's words where it is refused, and patterns that cannot harm."""

from itertools import product
from time import perf_counter
from typing import Any

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import (
    DeclareExchange,
    DeletePermission,
    PutPermission,
    PutTopicPermission,
    PutUser,
)
from broker.catalog.patterns import matches, permits, quoted
from broker.catalog.permissions import Access, ResourceKind, check, check_topic, may_enter
from broker.errors import AccessRefused, PreconditionFailed
from broker.records import ExchangeRecord, PermissionRecord, TopicPermissionRecord, UserRecord
from tests.unit.broker.vouched.bearers import bearer

OBS = UserRecord("obs", None)


def catalog_with_user(configure: str = "", write: str = "", read: str = "", user: str = "obs") -> Catalog:
    catalog = Catalog()
    for command in default_commands("hash"):
        catalog.apply(command)
    catalog.apply(PutUser(UserRecord(user, None)))
    catalog.apply(PutPermission(PermissionRecord(user, "/", configure, write, read)))
    return catalog


ACCESSES: tuple[Access, ...] = ("configure", "write", "read")
KINDS: tuple[ResourceKind, ...] = ("queue", "exchange")


@pytest.mark.parametrize(("granted", "asked", "kind"), list(product(ACCESSES, ACCESSES, KINDS)))
def test_each_access_is_asked_of_its_own_pattern(granted: Access, asked: Access, kind: ResourceKind) -> None:
    catalog = catalog_with_user(**{granted: "^orders-"})
    if granted == asked:
        check(catalog, OBS, "/", asked, kind, "orders-1")
    for name in ("my-orders-1",) if granted == asked else ("orders-1", "my-orders-1"):
        with pytest.raises(AccessRefused) as refused:
            check(catalog, OBS, "/", asked, kind, name)
        assert refused.value.text == f"{asked} access to {kind} '{name}' in vhost '/' refused for user 'obs'"


def test_the_default_exchange_has_a_name_here() -> None:
    with pytest.raises(AccessRefused) as refused:
        check(catalog_with_user(), OBS, "/", "write", "exchange", "")
    assert refused.value.text == "write access to exchange 'amq.default' in vhost '/' refused for user 'obs'"
    check(catalog_with_user(write="^amq\\.default$"), OBS, "/", "write", "exchange", "")


def test_without_a_record_nothing_is_allowed_and_a_change_holds_at_once() -> None:
    catalog = catalog_with_user(".*", ".*", ".*")
    check(catalog, OBS, "/", "read", "queue", "q")
    assert may_enter(catalog, OBS, "/") and not may_enter(catalog, OBS, "other")
    catalog.apply(PutPermission(PermissionRecord("obs", "/", ".*", ".*", "^$")))
    with pytest.raises(AccessRefused):
        check(catalog, OBS, "/", "read", "queue", "q")
    catalog.apply(DeletePermission("obs", "/"))
    assert not may_enter(catalog, OBS, "/")
    with pytest.raises(AccessRefused):
        check(catalog, OBS, "/", "write", "queue", "q")


def test_the_empty_pattern_permits_nothing_not_even_the_empty_name() -> None:
    assert not permits("", "") and not permits("", "a")
    assert permits("^$", "") and not permits("^$", "a")
    nothing = catalog_with_user("", "", "")
    nothing.apply(PutTopicPermission(TopicPermissionRecord("obs", "/", TOPIC, "", "")))
    with pytest.raises(AccessRefused):
        check(nothing, OBS, "/", "read", "queue", "q")
    with pytest.raises(AccessRefused):
        check_topic(nothing, OBS, "/", "write", TOPIC, "b.c")


TOPIC = "amq.topic"


def test_topic_permissions_restrict_only_where_they_are_set() -> None:
    catalog = catalog_with_user(".*", ".*", ".*")
    check_topic(catalog, OBS, "/", "write", TOPIC, "b.c")
    catalog.apply(PutTopicPermission(TopicPermissionRecord("obs", "/", TOPIC, "^a", "^b")))
    check_topic(catalog, OBS, "/", "write", TOPIC, "a.c")
    check_topic(catalog, OBS, "/", "read", TOPIC, "b.#")
    check_topic(catalog, OBS, "/", "write", "amq.direct", "b.c")
    check_topic(catalog, UserRecord("guest", None), "/", "write", TOPIC, "b.c")
    with pytest.raises(AccessRefused) as refused:
        check_topic(catalog, OBS, "/", "write", TOPIC, "b.c")
    assert refused.value.text == (
        "write access to topic 'b.c' in exchange 'amq.topic' in vhost '/' refused for user 'obs'"
    )
    with pytest.raises(AccessRefused) as refused:
        check_topic(catalog, OBS, "/", "read", TOPIC, "a.c")
    assert (
        refused.value.text == "read access to topic 'a.c' in exchange 'amq.topic' in vhost '/' refused for user 'obs'"
    )


def test_topic_permissions_mean_nothing_for_other_kinds_of_exchange() -> None:
    catalog = catalog_with_user(".*", ".*", ".*")
    catalog.apply(DeclareExchange(ExchangeRecord("/", "x", "direct")))
    catalog.apply(PutTopicPermission(TopicPermissionRecord("obs", "/", "x", "^$", "^$")))
    check_topic(catalog, OBS, "/", "write", "x", "anything")


def may_publish(user: str, pattern: str, key: str, **variables: str) -> bool:
    catalog = catalog_with_user(".*", ".*", ".*", user=user)
    catalog.apply(PutTopicPermission(TopicPermissionRecord(user, "/", TOPIC, pattern, pattern)))
    try:
        check_topic(catalog, UserRecord(user, None), "/", "write", TOPIC, key, variables)
    except AccessRefused:
        return False
    return True


def test_variables_stand_for_the_text_itself() -> None:
    assert may_publish("ann", "^{username}\\.", "ann.1") and not may_publish("ann", "^{username}\\.", "bob.1")
    assert may_publish("ann", "^{client_id}$", "c7", client_id="c7")
    for user in (".*", "a|b", "[^x]", "a-z", "]", "^", "$", "\\E", "{vhost}", "(?i)ann", "a{1,9}"):
        assert may_publish(user, "^{username}$", user), user
        for other in ("ann", "a", "b", "", "/", "z"):
            assert not may_publish(user, "^{username}$", other), user
        # Within a class too, the name gives its characters and nothing else.
        assert not may_publish(user, "^[{username}]$", "q") and not may_publish(user, "^[{username}]$", "\n")


def test_quoting_covers_every_printable_character() -> None:
    for code in range(32, 127):
        text = f"a{chr(code)}b"
        assert matches(f"^{quoted(text)}$", text), text
        assert not matches(f"^{quoted(text)}$", "ab"), text


@pytest.mark.parametrize("pattern", ["(", "a(?!b)", r"(a)\1", "[z-a]", "a" * 1025])
def test_patterns_that_cannot_be_used_are_refused_when_they_are_set(pattern: str) -> None:
    catalog = catalog_with_user()
    with pytest.raises(PreconditionFailed, match="write permission of user 'obs': "):
        catalog.apply(PutPermission(PermissionRecord("obs", "/", ".*", pattern, ".*")))
    with pytest.raises(PreconditionFailed, match="read permission of user 'obs': "):
        catalog.apply(PutTopicPermission(TopicPermissionRecord("obs", "/", TOPIC, "a", pattern)))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*b", "(a|a)*c", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_no_pattern_takes_long(pattern: str) -> None:
    started = perf_counter()
    matches(pattern, "a" * 255 + "!")
    assert perf_counter() - started < 0.5  # a backtracking engine would need years


def test_names_that_are_not_utf8() -> None:
    stray: Any = b"\xff".decode("utf-8", "surrogateescape")
    assert matches(".*", stray) and not matches("^a", stray)


def test_who_has_a_token_may_do_what_it_says_and_nothing_that_the_catalog_says_of_the_name() -> None:
    catalog = catalog_with_user(".*", ".*", ".*")
    obs = bearer("obs", "read:*/orders-*")
    assert may_enter(catalog, obs, "/")
    check(catalog, obs, "/", "read", "queue", "orders-1")
    for access, name in (("write", "orders-1"), ("configure", "orders-1"), ("read", "invoices")):
        with pytest.raises(AccessRefused):
            check(catalog, obs, "/", access, "queue", name)  # type: ignore[arg-type]
    check(catalog, bearer("nobody", "write:*/amq.default"), "/", "write", "exchange", "")
    assert not may_enter(catalog, bearer("obs", "tag:administrator"), "/")


def test_topic_permissions_of_a_token_grant_and_those_of_the_catalog_do_not_count() -> None:
    catalog = catalog_with_user(".*", ".*", ".*")
    catalog.apply(PutTopicPermission(TopicPermissionRecord("obs", "/", TOPIC, ".*", ".*")))
    obs = bearer("obs", "write:*/*/eu.*")
    check_topic(catalog, obs, "/", "write", TOPIC, "eu.a")
    with pytest.raises(AccessRefused, match=r"topic 'us\.a'"):
        check_topic(catalog, obs, "/", "write", TOPIC, "us.a")
    with pytest.raises(AccessRefused):
        check_topic(catalog, bearer("obs", "write:*/*"), "/", "write", TOPIC, "eu.a")
    check_topic(catalog, bearer("obs", "write:*/*"), "/", "write", "amq.direct", "any")
