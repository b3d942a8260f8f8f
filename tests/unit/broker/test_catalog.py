"""The catalog: what may be declared and declared again, what goes with what, and that a refusal leaves no trace."""

from dataclasses import replace
from typing import Any

import pytest

from broker.catalog.catalog import Catalog, check_exclusive_access, default_commands
from broker.catalog.commands.catalog_commands import (
    Bind,
    ClearParameter,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeletePermission,
    DeletePolicy,
    DeleteQueue,
    DeleteTopicPermission,
    DeleteUser,
    DeleteVhost,
    PutPermission,
    PutPolicy,
    PutTopicPermission,
    PutUser,
    PutVhost,
    Record,
    SetParameter,
    SetUserLimits,
    SetVhostLimits,
    Unbind,
)
from broker.catalog.parts.catalog_limits import CatalogLimits
from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceLocked
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)


def first_boot(limits: CatalogLimits | None = None) -> Catalog:
    catalog = Catalog(limits)
    for command in default_commands("hash"):
        catalog.apply(command)
    return catalog


def binding(source: str, destination: str, key: str = "k", kind: str = "queue", **arguments: Any) -> BindingRecord:
    return BindingRecord("/", source, destination, kind, key, arguments)


def refused(catalog: Catalog, command: Command, error: type[BrokerError], text: str) -> None:
    version, next_id = catalog.version, catalog.next_queue_id
    with pytest.raises(error) as raised:
        catalog.apply(command)
    assert raised.value.text == text
    assert (catalog.version, catalog.next_queue_id) == (version, next_id)


def test_a_new_cluster_has_one_vhost_one_user_and_the_predeclared_exchanges() -> None:
    catalog = first_boot()
    assert list(catalog.vhosts) == ["/"] and list(catalog.users) == ["guest"]
    assert catalog.users["guest"].tags == ("administrator",)
    assert catalog.permissions("guest", "/") == PermissionRecord("guest", "/", ".*", ".*", ".*")
    assert [(exchange.name, exchange.kind) for exchange in catalog.exchanges("/")] == [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
        ("amq.rabbitmq.trace", "topic"),
    ]


# ----------------------------------------------------------------------------- exchanges


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"kind": "topic"}, "'type' for exchange 'x' in vhost '/': received 'topic' but current is 'direct'"),
        ({"durable": False}, "'durable' for exchange 'x' in vhost '/': received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete' for exchange 'x' in vhost '/': received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' for exchange 'x' in vhost '/': received 'true' but current is 'false'"),
        (
            {"arguments": {"alternate-exchange": "amq.fanout"}},
            "'alternate-exchange' for exchange 'x' in vhost '/': "
            "received the value 'amq.fanout' of type 'longstr' but current is none",
        ),
    ],
)
def test_an_exchange_is_declared_again_only_as_it_is(change: dict[str, Any], text: str) -> None:
    catalog = first_boot()
    record = ExchangeRecord("/", "x", "direct")
    catalog.apply(DeclareExchange(record))
    version = catalog.version
    assert catalog.apply(DeclareExchange(record)) == record
    assert catalog.apply(DeclareExchange(replace(record, arguments={"note": 1}))) == record
    assert catalog.version == version
    refused(catalog, DeclareExchange(replace(record, **change)), PreconditionFailed, f"inequivalent arg {text}")


def test_unknown_types_of_exchange() -> None:
    catalog = first_boot()
    for kind, text in (("foo", "invalid exchange type 'foo'"), ("x-late", "unknown exchange type 'x-late'")):
        refused(catalog, DeclareExchange(ExchangeRecord("/", "x", kind)), PreconditionFailed, text)


def test_an_exchange_in_use_is_kept_if_asked() -> None:
    catalog = first_boot()
    catalog.apply(DeclareExchange(ExchangeRecord("/", "x", "direct")))
    catalog.apply(DeclareQueue("/", "q"))
    catalog.apply(Bind(binding("x", "q")))
    text = "exchange 'x' in vhost '/' in use"
    refused(catalog, DeleteExchange("/", "x", if_unused=True), PreconditionFailed, text)
    catalog.apply(Bind(binding("amq.direct", "x", kind="exchange")))
    catalog.apply(Unbind(binding("x", "q")))
    assert catalog.apply(DeleteExchange("/", "x", if_unused=True)) is not None  # bound as a destination only
    assert list(catalog.bindings("/")) == []
    assert catalog.apply(DeleteExchange("/", "x", if_unused=True)) is None


def test_auto_delete_exchanges_go_with_their_last_binding_as_a_source_and_so_on_up_the_chain() -> None:
    catalog = first_boot()
    catalog.apply(DeclareQueue("/", "q"))
    length = 3000  # longer than Python's stack
    for number in range(length):
        catalog.apply(DeclareExchange(ExchangeRecord("/", f"x{number}", "fanout", auto_delete=True)))
    for number in range(length - 1):
        catalog.apply(Bind(binding(f"x{number}", f"x{number + 1}", kind="exchange")))
    catalog.apply(Bind(binding(f"x{length - 1}", "q")))
    catalog.apply(DeleteQueue("/", "q"))
    assert all(exchange.name.startswith("amq.") for exchange in catalog.exchanges("/"))
    assert list(catalog.bindings("/")) == []


def test_an_auto_delete_exchange_that_was_never_bound_stays() -> None:
    catalog = first_boot()
    catalog.apply(DeclareExchange(ExchangeRecord("/", "x", "fanout", auto_delete=True)))
    catalog.apply(Unbind(binding("x", "q")))
    assert catalog.exchange("/", "x") is not None


# ----------------------------------------------------------------------------- queues


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"durable": False}, "'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"),
        (
            {"arguments": {"x-message-ttl": 1000, "x-queue-type": "quorum"}},
            "'x-queue-type' for queue 'q' in vhost '/': received 'quorum' but current is 'classic'",
        ),
        (
            {"arguments": {"x-message-ttl": 2000}},
            "'x-message-ttl' for queue 'q' in vhost '/': received '2000' but current is '1000'",
        ),
        (
            {"arguments": {}},
            "'x-message-ttl' for queue 'q' in vhost '/': "
            "received none but current is the value '1000' of type 'signedint'",
        ),
        (
            {"arguments": {"x-message-ttl": 1000, "x-dead-letter-exchange": "amq.fanout"}},
            "'x-dead-letter-exchange' for queue 'q' in vhost '/': "
            "received the value 'amq.fanout' of type 'longstr' but current is none",
        ),
    ],
)  # fmt: skip
def test_a_queue_is_declared_again_only_as_it_is(change: dict[str, Any], text: str) -> None:
    catalog = first_boot()
    wish = DeclareQueue("/", "q", arguments={"x-message-ttl": 1000})
    record = catalog.apply(wish)
    version = catalog.version
    assert catalog.apply(wish) is record
    for arguments in ({"x-queue-type": "classic"}, {"x-foo": 1, "note": "mine"}):
        assert catalog.apply(replace(wish, arguments={"x-message-ttl": 1000, **arguments})) is record
    assert catalog.version == version
    refused(catalog, replace(wish, **change), PreconditionFailed, f"inequivalent arg {text}")


LOCKED = (
    "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared on another connection "
    "or the exclusive property value does not match that of the original declaration."
)


def test_an_exclusive_queue_belongs_to_its_connection() -> None:
    catalog = first_boot()
    wish = DeclareQueue("/", "q", exclusive=True, owner="c1")
    record = catalog.apply(wish)
    assert catalog.apply(wish) is record
    refused(catalog, replace(wish, owner="c2"), ResourceLocked, LOCKED)
    refused(catalog, DeclareQueue("/", "q", owner="c1"), ResourceLocked, LOCKED)
    refused(catalog, Bind(binding("amq.direct", "q"), owner="c2"), ResourceLocked, LOCKED)
    catalog.apply(Bind(binding("amq.direct", "q"), owner="c1"))
    check_exclusive_access(record, "c1")
    with pytest.raises(ResourceLocked):
        check_exclusive_access(record, "c2")


def test_a_queue_of_all_is_not_declared_exclusively() -> None:
    catalog = first_boot()
    catalog.apply(DeclareQueue("/", "q"))
    refused(catalog, DeclareQueue("/", "q", exclusive=True, owner="c1"), ResourceLocked, LOCKED)
    check_exclusive_access(catalog.queue("/", "q"), "anybody")  # type: ignore[arg-type]


def test_ids_of_queues_are_never_used_again() -> None:
    catalog = first_boot()
    ids = []
    for _ in range(3):
        ids.append(catalog.apply(DeclareQueue("/", "q")).id)
        catalog.apply(DeleteQueue("/", "q"))
    assert ids == [1, 2, 3]


def test_a_late_deletion_by_id_does_not_hit_the_successor() -> None:
    catalog = first_boot()
    first = catalog.apply(DeclareQueue("/", "q"))
    catalog.apply(DeleteQueue("/", "q"))
    second = catalog.apply(DeclareQueue("/", "q"))
    assert catalog.apply(DeleteQueue("/", "q", id=first.id)) is None
    assert catalog.apply(DeleteQueue("/", "q", id=second.id)) is second


def test_the_vhost_says_what_kind_a_queue_is_by_default() -> None:
    catalog = first_boot()
    catalog.apply(PutVhost(VhostRecord("v", default_queue_type="quorum")))
    record = catalog.apply(DeclareQueue("v", "q"))
    assert (record.kind, record.arguments) == ("quorum", {"x-queue-type": "quorum"})
    refused(
        catalog, DeclareQueue("v", "q2", durable=False), PreconditionFailed,
        "invalid property 'non-durable' for queue 'q2' in vhost 'v'",
    )  # fmt: skip


def test_names_have_a_length_and_no_line_breaks() -> None:
    catalog = first_boot()
    catalog.apply(DeclareQueue("/", "ä" * 127 + "b"))
    for name, text in (
        ("ä" * 128, f"queue name of 256 bytes is longer than 255: '{'ä' * 40}...'"),
        ("a\nb", r"queue name 'a\nb' contains a line break"),
        ("", "a queue needs a name"),
    ):
        refused(catalog, DeclareQueue("/", name), PreconditionFailed, text)


# ----------------------------------------------------------------------------- bindings


def test_both_ends_of_a_binding_must_be_there_and_the_source_is_missed_first() -> None:
    catalog = first_boot()
    no_source = "no exchange 'nope.x' in vhost '/'"
    refused(catalog, Bind(binding("nope.x", "nope.q")), NotFound, no_source)
    refused(catalog, Bind(binding("nope.x", "nope.y", kind="exchange")), NotFound, no_source)
    refused(catalog, Bind(binding("amq.direct", "nope.q")), NotFound, "no queue 'nope.q' in vhost '/'")
    refused(
        catalog, Bind(binding("amq.direct", "nope.y", kind="exchange")), NotFound, "no exchange 'nope.y' in vhost '/'"
    )
    assert catalog.apply(Unbind(binding("nope.x", "nope.q"))) is False


def test_a_binding_is_there_once_and_arguments_make_a_difference() -> None:
    catalog = first_boot()
    catalog.apply(DeclareQueue("/", "q"))
    catalog.apply(Bind(binding("amq.direct", "q", a=1, b=2)))
    version = catalog.version
    catalog.apply(Bind(binding("amq.direct", "q", b=2, a=1)))
    assert catalog.version == version
    catalog.apply(Bind(binding("amq.direct", "q", a=2)))
    assert len(list(catalog.bindings("/"))) == 2
    assert catalog.apply(Unbind(binding("amq.direct", "q"))) is False
    assert catalog.apply(Unbind(binding("amq.direct", "q", b=2, a=1))) is True
    assert [record.arguments for record in catalog.bindings_of_destination("/", "queue", "q")] == [{"a": 2}]


def test_a_binding_key_with_too_many_hashes() -> None:
    catalog = first_boot()
    catalog.apply(DeclareQueue("/", "q"))
    refused(
        catalog, Bind(binding("amq.topic", "q", "#.a.#.#")), PreconditionFailed,
        "invalid binding key '#.a.#.#': it has 3 wildcards '#', and at most 2 are allowed",
    )  # fmt: skip
    catalog.apply(Bind(binding("amq.direct", "q", "#.a.#.#")))


# ----------------------------------------------------------------------------- vhosts, users, permissions


def test_a_vhost_goes_with_everything_in_it() -> None:
    catalog = first_boot()
    catalog.apply(PutVhost(VhostRecord("v")))
    before = (dict(catalog.vhosts), list(catalog.exchanges("/")), list(catalog.all_permissions()))
    queue = catalog.apply(DeclareQueue("v", "q"))
    catalog.apply(Bind(BindingRecord("v", "amq.topic", "q", "queue", "#")))
    catalog.apply(PutPermission(PermissionRecord("guest", "v", "", "", "")))
    catalog.apply(PutTopicPermission(TopicPermissionRecord("guest", "v", "amq.topic", ".*", ".*")))
    catalog.apply(PutPolicy(PolicyRecord("v", "p", ".*", "all", 0, {"expires": 1})))
    catalog.apply(SetParameter(ParameterRecord("v", "shovel", "s", {"a": 1})))
    present: dict[str, Record] = {}
    gone: list[Record] = []
    catalog.observer = lambda record, is_present: gone.append(record) if not is_present else present.update(x=record)
    assert catalog.apply(DeleteVhost("v")) == [queue]
    assert (dict(catalog.vhosts), list(catalog.exchanges("/")), list(catalog.all_permissions())) != before
    assert "v" not in catalog.vhosts and not present
    assert len(gone) == 1 + 6 + 1 + 1 + 2 + 1 + 1  # vhost, exchanges, queue, binding, permissions, policy, parameter
    refused(catalog, DeleteVhost("v"), NotFound, "no vhost 'v'")
    refused(catalog, DeclareQueue("v", "q"), NotFound, "no vhost 'v'")
    catalog.apply(PutVhost(VhostRecord("v")))
    assert not list(catalog.queues("v")) and not list(catalog.bindings("v")) and not list(catalog.policies("v"))
    assert catalog.permissions("guest", "v") is None and not catalog.topic_permissions("guest", "v")


def test_a_protected_vhost_stays() -> None:
    catalog = first_boot()
    catalog.apply(PutVhost(VhostRecord("v", protected_from_deletion=True)))
    refused(catalog, DeleteVhost("v"), PreconditionFailed, "vhost 'v' is protected from deletion")
    catalog.apply(PutVhost(VhostRecord("v")))
    catalog.apply(DeleteVhost("v"))


def test_a_user_goes_with_its_permissions() -> None:
    catalog = first_boot()
    catalog.apply(PutUser(UserRecord("u", None)))
    catalog.apply(PutPermission(PermissionRecord("u", "/", "a", "b", "c")))
    catalog.apply(PutTopicPermission(TopicPermissionRecord("u", "/", "amq.topic", "a", "b")))
    catalog.apply(DeleteUser("u"))
    assert list(catalog.users) == ["guest"]
    assert catalog.permissions("u", "/") is None and list(catalog.all_topic_permissions()) == []
    refused(catalog, DeleteUser("u"), NotFound, "no user 'u'")
    refused(catalog, PutPermission(PermissionRecord("u", "/", "", "", "")), NotFound, "no user 'u'")
    refused(catalog, PutPermission(PermissionRecord("guest", "v", "", "", "")), NotFound, "no vhost 'v'")


def test_permissions_are_taken_away() -> None:
    catalog = first_boot()
    assert catalog.apply(DeletePermission("guest", "/")) is not None
    assert catalog.apply(DeletePermission("guest", "/")) is None
    for exchange in ("a", "b", "c"):
        catalog.apply(PutTopicPermission(TopicPermissionRecord("guest", "/", exchange, "", "")))
    assert len(catalog.apply(DeleteTopicPermission("guest", "/", "b"))) == 1
    assert len(catalog.apply(DeleteTopicPermission("guest", "/"))) == 2
    assert catalog.apply(DeleteTopicPermission("guest", "/")) == []


def test_limits_survive_a_change_of_properties_and_minus_one_takes_them_away() -> None:
    catalog = first_boot()
    catalog.apply(SetVhostLimits("/", {"max-queues": 1, "max-connections": -1}))
    catalog.apply(SetUserLimits("guest", {"max-channels": 0}))
    catalog.apply(PutVhost(VhostRecord("/", description="changed")))
    catalog.apply(PutUser(UserRecord("guest", "other")))
    assert (catalog.vhosts["/"].limits, catalog.vhosts["/"].description) == ({"max-queues": 1}, "changed")
    assert catalog.users["guest"].limits == {"max-channels": 0}
    catalog.apply(DeclareQueue("/", "a"))
    refused(
        catalog, DeclareQueue("/", "b"), PreconditionFailed,
        "cannot declare queue 'b': queue limit in vhost '/' (1) is reached",
    )  # fmt: skip
    catalog.apply(DeclareQueue("/", "a"))
    catalog.apply(SetVhostLimits("/", {}))
    catalog.apply(DeclareQueue("/", "b"))
    refused(
        catalog, SetVhostLimits("/", {"max-fun": 1}), PreconditionFailed,
        "'max-fun' is not a limit; there are max-byte-rate, max-connections, max-message-rate, max-queues",
    )  # fmt: skip


def test_everything_has_a_limit() -> None:
    catalog = first_boot(CatalogLimits(1, 1, 7, 1, 1, 1, 1))
    first: list[Command] = [
        DeclareExchange(ExchangeRecord("/", "x", "direct")),
        DeclareQueue("/", "q"),
        Bind(binding("x", "q")),
        PutPolicy(PolicyRecord("/", "p", ".*", "all", 0, {"expires": 1})),
        SetParameter(ParameterRecord("", "c", "a", 1)),
    ]
    for command in first + first[:2] + first[3:]:  # what is there already may be said again
        catalog.apply(command)
    beyond: list[tuple[Command, str]] = [
        (PutVhost(VhostRecord("v")), "the limit of 1 vhosts is reached"),
        (PutUser(UserRecord("u", None)), "the limit of 1 users is reached"),
        (DeclareExchange(ExchangeRecord("/", "y", "direct")), "the limit of 7 exchanges is reached"),
        (DeclareQueue("/", "r"), "the limit of 1 queues is reached"),
        (Bind(binding("x", "q", "other")), "the limit of 1 bindings is reached"),
        (PutPolicy(PolicyRecord("/", "q", ".*", "all", 0, {"expires": 1})), "the limit of 1 policies is reached"),
        (SetParameter(ParameterRecord("", "c", "b", 1)), "the limit of 1 parameters is reached"),
    ]
    for command, text in beyond:
        refused(catalog, command, PreconditionFailed, text)


def test_parameters_and_policies_come_and_go() -> None:
    catalog = first_boot()
    catalog.apply(SetParameter(ParameterRecord("", "", "cluster_name", "c")))
    assert catalog.parameter("", "", "cluster_name") == ParameterRecord("", "", "cluster_name", "c")
    assert catalog.apply(ClearParameter("", "", "cluster_name")) is not None
    assert catalog.apply(ClearParameter("", "", "cluster_name")) is None
    for operator in (False, True):
        catalog.apply(PutPolicy(PolicyRecord("/", "p", ".*", "all", 0, {"expires": 1}, operator)))
    assert [policy.operator for policy in catalog.policies("/")] == [False]
    assert catalog.apply(DeletePolicy("/", "p", operator=True)) == catalog.apply(
        PutPolicy(PolicyRecord("/", "p", ".*", "all", 0, {"expires": 1}, True))
    )
    assert catalog.apply(DeletePolicy("/", "nope")) is None
    assert catalog.policy("/", "p") is not None


def test_a_policy_holds_from_the_moment_it_is_there_until_it_is_gone() -> None:
    catalog = first_boot()
    record = catalog.apply(DeclareQueue("/", "q", arguments={"x-max-length": 50}))
    assert catalog.effective(record).max_length == 50
    catalog.apply(PutPolicy(PolicyRecord("/", "p", "^q$", "queues", 0, {"max-length": 10})))
    assert (catalog.effective(record).max_length, catalog.effective(record).policy) == (10, "p")
    catalog.apply(DeletePolicy("/", "p"))
    assert catalog.effective(record).max_length == 50
