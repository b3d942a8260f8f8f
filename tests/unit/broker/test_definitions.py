"""Definitions: what goes out comes back in, RabbitMQ's documents are understood, and what cannot be is named."""

from __future__ import annotations

from typing import Any

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.definitions.definition_effects import KEPT, effect_of
from broker.catalog.definitions.definitions_reader import DefinitionsReader, DefinitionWish, Remark
from broker.catalog.definitions.definitions_writer import PasswordHashes, exported, exported_vhost
from broker.errors import NotFound, PreconditionFailed
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

# As a genuine RabbitMQ 4.3.6 exports it, users and vhosts of other tests left out.
FROM_RABBITMQ: dict[str, Any] = {
    "rabbit_version": "4.3.6",
    "product_name": "RabbitMQ",
    "rabbitmq_definition_format": "cluster",
    "explanation": "Definitions of cluster 'peer1@vm'",
    "users": [
        {
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "limits": {"max-channels": 5},
            "name": "ann",
            "password_hash": "O4P8IszedjZoZmMA3vMpT5wlPdaNaRWHlbi3GIb/6XEd0Dpq",
            "tags": ["management", "policymaker"],
        },
        {"limits": {}, "name": "nopass", "password_hash": "", "tags": []},
    ],
    "vhosts": [
        {
            "limits": {"max-queues": 50},
            "metadata": {"description": "a shop", "tags": ["production"], "default_queue_type": "classic"},
            "name": "shop",
        }
    ],
    "permissions": [{"configure": "^own", "read": ".*", "user": "ann", "vhost": "shop", "write": ".*"}],
    "topic_permissions": [],
    "global_parameters": [{"name": "color", "value": {"a": [1, 2]}}],
    "parameters": [
        {
            "component": "operator_policy",
            "name": "op",
            "value": {"apply-to": "queues", "definition": {"max-length": 100}, "pattern": ".*", "priority": 0},
            "vhost": "shop",
        },
        {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 50}, "vhost": "shop"},
    ],
    "policies": [
        {
            "apply-to": "queues",
            "definition": {"max-length": 10},
            "name": "short",
            "pattern": "^ord",
            "priority": 3,
            "vhost": "shop",
        }
    ],
    "exchanges": [
        {
            "arguments": {"alternate-exchange": "rest"},
            "auto_delete": False,
            "durable": True,
            "name": "events",
            "type": "topic",
            "vhost": "shop",
        },
    ],
    "queues": [
        {
            "arguments": {"x-message-ttl": 60000, "x-queue-type": "classic"},
            "auto_delete": False,
            "durable": True,
            "name": "orders",
            "type": "classic",
            "vhost": "shop",
        }
    ],
    "bindings": [
        {
            "arguments": {"n": 1},
            "destination": "orders",
            "destination_type": "queue",
            "routing_key": "a.#",
            "source": "events",
            "vhost": "shop",
        }
    ],
}

LENGTH = "x-recent-history-length"


class Hashes:
    """Marks what went out and what came in."""

    def exported(self, kept: str) -> tuple[str, str]:
        return "rabbit_kept", kept

    def imported(self, algorithm: str, password_hash: str) -> str:
        return password_hash if algorithm == "rabbit_kept" else f"{algorithm}: {password_hash}"


def reader(catalog: Catalog) -> DefinitionsReader:
    return DefinitionsReader(catalog, Hashes(), "n1")


def document_of(catalog: Catalog, hashes: PasswordHashes | None) -> dict[str, Any]:
    return {part: list(items) for part, items in exported(catalog, hashes).items()}


def vhost_document(catalog: Catalog, vhost: str) -> dict[str, Any]:
    return {part: list(items) for part, items in exported_vhost(catalog, vhost).items()}


def take_in(catalog: Catalog, document: dict[str, Any], vhost: str | None = None) -> None:
    for one in list(reader(catalog).read(document, vhost)):
        if isinstance(one, DefinitionWish) and effect_of(catalog, one.where, one.command).effect != KEPT:
            catalog.apply(one.command)


@pytest.fixture
def full() -> Catalog:
    """Something of each kind."""
    catalog = Catalog()
    for command in [
        *default_commands("argon2 of guest"),
        commands.PutVhost(VhostRecord("v", "a vhost", ("t",), protected_from_deletion=True)),
        commands.SetVhostLimits("v", {"max-queues": 9}),
        commands.PutUser(UserRecord("app", None, ("management",))),
        commands.SetUserLimits("app", {"max-channels": 3}),
        commands.PutPermission(PermissionRecord("app", "v", "a", "b", "c")),
        commands.PutTopicPermission(TopicPermissionRecord("app", "v", "x", "w", "r")),
        commands.SetParameter(ParameterRecord("v", "component", "name", {"k": [1]})),
        commands.SetParameter(ParameterRecord("", "", "global", "value")),
        commands.PutPolicy(PolicyRecord("v", "p", "^q", "queues", 2, {"max-length": 5})),
        commands.PutPolicy(PolicyRecord("v", "p", "^q", "queues", 0, {"max-length": 7}, operator=True)),
        commands.DeclareExchange(ExchangeRecord("v", "x", "topic", arguments={"alternate-exchange": "y"})),
        commands.DeclareExchange(ExchangeRecord("v", "y", "fanout", durable=False, auto_delete=True, internal=True)),
        commands.DeclareExchange(ExchangeRecord("v", "hash", "x-consistent-hash", arguments={"hash-header": "h"})),
        *[commands.DeclareExchange(ExchangeRecord("v", kind, kind)) for kind in ("x-modulus-hash", "x-random")],
        commands.DeclareExchange(ExchangeRecord("v", "recent", "x-recent-history", arguments={LENGTH: 7})),
        commands.DeclareQueue("v", "q", arguments={"x-max-length": 10}, home="n1"),
        commands.Bind(BindingRecord("v", "hash", "q", "queue", "10")),
        commands.DeclareQueue("v", "passing", durable=False, auto_delete=True, home="n1"),
        commands.DeclareQueue("v", "mine", exclusive=True, owner="c1", home="n1"),
        commands.Bind(BindingRecord("v", "x", "q", "queue", "a.#", {"n": 1})),
        commands.Bind(BindingRecord("v", "x", "y", "exchange", "b")),
        commands.Bind(BindingRecord("v", "amq.direct", "mine", "queue", "k"), "c1"),
    ]:
        catalog.apply(command)
    return catalog


def test_what_goes_out_comes_back_in(full: Catalog) -> None:
    document = document_of(full, Hashes())
    other = Catalog()
    take_in(other, document)
    assert document_of(other, Hashes()) == document
    assert other.users["guest"].password_hash == "argon2 of guest"
    assert other.users["app"].password_hash is None


def declared(catalog: Catalog) -> dict[str, Any]:
    """All that is no connection's own, as records: a document that leaves something out of everything is like itself."""
    vhosts = list(catalog.vhosts)
    queues = [one for vhost in vhosts for one in catalog.queues(vhost) if not one.exclusive]
    own = {"mine"}  # the exclusive queue
    return {
        "users": catalog.users,
        "vhosts": catalog.vhosts,
        "permissions": list(catalog.all_permissions()),
        "topic permissions": list(catalog.all_topic_permissions()),
        "parameters": sorted(catalog.parameters(), key=lambda one: (one.vhost, one.name)),
        "policies": [list(catalog.policies(vhost, operator)) for vhost in vhosts for operator in (False, True)],
        "exchanges": [list(catalog.exchanges(vhost)) for vhost in vhosts],
        "queues": [(one.vhost, one.name, one.kind, one.durable, one.auto_delete, one.arguments) for one in queues],
        "bindings": [one for vhost in vhosts for one in catalog.bindings(vhost) if one.destination not in own],
    }


def test_nothing_that_was_declared_is_lost_on_the_way(full: Catalog) -> None:
    other = Catalog()
    take_in(other, document_of(full, Hashes()))
    expected = declared(full)
    assert {part: found for part, found in declared(other).items() if found != expected[part]} == {}
    assert all(expected.values()), "there is something of each kind"


def test_of_what_is_there_as_it_should_be_nothing_is_told_to_change(full: Catalog) -> None:
    """Limits of users and vhosts come with commands of their own."""
    wishes = [one for one in reader(full).read(document_of(full, Hashes()), None) if isinstance(one, DefinitionWish)]
    told = [effect_of(full, one.where, one.command) for one in wishes]
    assert [one for one in told if one.effect != KEPT or one.text] == [] and len(told) > 20


def test_without_hashes_those_who_are_known_keep_their_password(full: Catalog) -> None:
    document = document_of(full, None)
    assert not any("password_hash" in user for user in document["users"])
    take_in(full, document)
    assert full.users["guest"].password_hash == "argon2 of guest"
    other = Catalog()
    take_in(other, document)
    assert other.users["guest"].password_hash is None


def test_bringing_it_in_twice_changes_nothing(full: Catalog) -> None:
    document = document_of(full, Hashes())
    take_in(full, document)
    assert document_of(full, Hashes()) == document


def test_what_belongs_to_a_connection_or_is_there_anyway_stays_behind(full: Catalog) -> None:
    document = document_of(full, Hashes())
    assert [queue["name"] for queue in document["queues"]] == ["q", "passing"]
    names = [exchange["name"] for exchange in document["exchanges"]]
    assert names == ["x", "y", "hash", "x-modulus-hash", "x-random", "recent"]
    assert [binding["destination"] for binding in document["bindings"]] == ["q", "q", "y"]


def test_one_vhost_goes_into_another(full: Catalog) -> None:
    document = vhost_document(full, "v")
    assert document.keys() == {"parameters", "policies", "exchanges", "queues", "bindings"}
    assert "vhost" not in document["queues"][0]
    full.apply(commands.PutVhost(VhostRecord("w")))
    take_in(full, document, "w")
    assert vhost_document(full, "w") == document
    with pytest.raises(NotFound):
        vhost_document(full, "nope")


def test_a_document_of_rabbitmq_is_understood() -> None:
    catalog = Catalog()
    take_in(catalog, FROM_RABBITMQ)
    hashed = "rabbit_password_hashing_sha256: O4P8IszedjZoZmMA3vMpT5wlPdaNaRWHlbi3GIb/6XEd0Dpq"
    assert catalog.users["ann"] == UserRecord("ann", hashed, ("management", "policymaker"), {"max-channels": 5})
    assert catalog.users["nopass"].password_hash is None
    assert catalog.vhosts["shop"] == VhostRecord("shop", "a shop", ("production",), limits={"max-queues": 50})
    queue = catalog.queue("shop", "orders")
    assert queue is not None
    effective = catalog.effective(queue)
    assert (effective.max_length, effective.message_ttl_ms) == (10, 60_000)
    assert catalog.policy("shop", "op", operator=True) is not None
    (binding,) = [one for one in catalog.bindings("shop") if one.source == "events"]
    assert (binding.destination, binding.routing_key, binding.arguments) == ("orders", "a.#", {"n": 1})
    again = document_of(catalog, Hashes())
    for part in (
        "vhosts",
        "permissions",
        "policies",
        "exchanges",
        "queues",
        "bindings",
        "global_parameters",
        "parameters",
    ):
        assert again[part] == FROM_RABBITMQ[part], part


def test_a_queue_that_is_there_stays_as_it_is() -> None:
    catalog = Catalog()
    take_in(catalog, FROM_RABBITMQ)
    other = {**FROM_RABBITMQ["queues"][0], "durable": False, "arguments": {}}
    take_in(catalog, {"queues": [other]})
    queue = catalog.queue("shop", "orders")
    assert queue is not None and queue.durable and queue.arguments["x-message-ttl"] == 60_000


def test_a_user_without_a_word_of_a_password_keeps_the_one_it_has() -> None:
    catalog = Catalog()
    for command in default_commands("kept"):
        catalog.apply(command)
    take_in(catalog, {"users": [{"name": "guest", "tags": "management, policymaker"}]})
    assert catalog.users["guest"] == UserRecord("guest", "kept", ("management", "policymaker"))


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"queues": [5]}, "queues[0] is a JSON int, an object is needed"),
        ({"queues": [{"vhost": "/"}]}, "queues[0]: 'name' is missing"),
        (
            {"queues": [{"vhost": "/", "name": "q", "durable": "yes"}]},
            "queues[0]: 'durable' is 'yes', true or false is needed",
        ),
        ({"queues": [{"name": "q"}]}, "queues[0]: 'vhost' is missing"),
        ({"users": [{"name": "u", "password": ["canary"]}]}, "users[0]: 'password' is a JSON list, a text is needed"),
        ({"users": [{"name": "u", "password_hash": 5}]}, "users[0]: 'password_hash' is a JSON int, a text is needed"),
        ({"users": [{"name": "u", "tags": 5}]}, "users[0]: 'tags' is 5: give a list of texts or one text with commas"),
        (
            {"policies": [{"vhost": "/", "name": "p", "pattern": ".", "priority": True}]},
            "policies[0]: 'priority' is True, a number is needed",
        ),
        (
            {"vhosts": [{"name": "v", "limits": {"max-queues": "many"}}]},
            "vhosts[0].limits: 'max-queues' is 'many', a number is needed",
        ),
        (
            {"vhosts": [{"name": "v", "limits": {"max-queues": 1 << 63}}]},
            "vhosts[0].limits: 'max-queues' is 9223372036854775808, a number from -2^63 to 2^63 - 1 is needed",
        ),
        (
            {"policies": [{"vhost": "/", "name": "p", "pattern": ".", "priority": -(1 << 64)}]},
            "policies[0]: 'priority' is -18446744073709551616, a number from -2^63 to 2^63 - 1 is needed",
        ),
        (
            {"bindings": [{"vhost": "/", "source": "x", "destination_type": "topic"}]},
            "bindings[0]: 'destination_type' is 'topic', queue or exchange is needed",
        ),
        ({"global_parameters": [{"name": "n"}]}, "global_parameters[0]: 'value' is missing"),
        # Global ones are kept without either, and have another list.
        (
            {"parameters": [{"vhost": "", "component": "shovel", "name": "n", "value": {}}]},
            "parameters[0]: a parameter needs a vhost and a component",
        ),
        (
            {"parameters": [{"vhost": "/", "component": "", "name": "n", "value": {}}]},
            "parameters[0]: a parameter needs a vhost and a component",
        ),
    ],
)
def test_what_cannot_be_read_is_named(document: dict[str, Any], text: str) -> None:
    *_, fault = reader(Catalog()).read(document)
    assert isinstance(fault, Remark) and fault.is_fault and fault.text == text


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"queues": {}}, "'queues' is a JSON dict, a list is needed"),
        ({"rabbitmq_definition_format": "single_virtual_host"}, "these are definitions of one virtual host"),
    ],
)
def test_what_is_no_document_is_refused_whole(document: dict[str, Any], text: str) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        list(reader(Catalog()).read(document))


def remarks(document: dict[str, Any]) -> list[tuple[str, str]]:
    found = [one for one in reader(Catalog()).read(document) if isinstance(one, Remark)]
    assert not any(one.is_fault for one in found)
    return [(one.where, one.text) for one in found]


def test_what_a_document_does_not_say_is_as_with_rabbitmq() -> None:
    catalog = Catalog()
    take_in(
        catalog,
        {
            "vhosts": [{"name": "v", "default_queue_type": "undefined"}, {"name": "w", "metadata": None}],
            "exchanges": [{"vhost": "v", "name": "x"}],
            "queues": [{"vhost": "v", "name": "q", "arguments": []}],
            "bindings": [{"vhost": "v", "source": "x", "destination": "q"}],
        },
    )
    assert catalog.exchange("v", "x") == ExchangeRecord("v", "x", "direct")
    queue = catalog.queue("v", "q")
    assert queue is not None and (queue.kind, queue.durable, queue.auto_delete) == ("classic", True, False)
    assert catalog.has_binding(BindingRecord("v", "x", "q", "queue", ""))


def test_what_a_document_does_not_say_of_who_is_known_stays() -> None:
    """RabbitMQ 3 exports vhosts by their names alone."""
    catalog = Catalog()
    user, vhost = UserRecord("u", "hash", ("monitoring",)), VhostRecord("v", "a shop", ("t",), "quorum", True)
    for command in (commands.PutUser(user), commands.PutVhost(vhost)):
        catalog.apply(command)
    take_in(catalog, {"vhosts": [{"name": "v"}], "users": [{"name": "u"}]})
    assert (catalog.users["u"], catalog.vhosts["v"]) == (user, vhost)


def test_the_kind_of_a_queue_is_its_arguments_or_its_types_or_its_vhosts() -> None:
    catalog = Catalog()
    quorum = {"x-queue-type": "quorum"}
    names = {"vhost": "v", "durable": True}
    take_in(
        catalog,
        {
            "vhosts": [{"name": "v", "metadata": {"default_queue_type": "rabbit_stream_queue"}}],
            "queues": [
                {**names, "name": "by-argument", "arguments": quorum},
                {**names, "name": "by-type", "type": "rabbit_quorum_queue"},
                {**names, "name": "by-vhost"},
            ],
        },
    )
    assert [record.kind for record in catalog.queues("v")] == ["quorum", "quorum", "stream"]


@pytest.mark.parametrize(
    ("version", "hashing"),
    [
        ("3.5.7", "rabbit_password_hashing_md5"),
        ("3.6.0", "rabbit_password_hashing_sha256"),
        (None, "rabbit_password_hashing_sha256"),
    ],
)
def test_a_hash_that_does_not_say_what_it_is_is_of_its_versions_time(version: str | None, hashing: str) -> None:
    users = [{"name": "u", "password_hash": "abc", "tags": "administrator"}]
    found = list(reader(Catalog()).read({"rabbit_version": version, "users": users}))
    assert isinstance(found[0], DefinitionWish)
    assert found[0].command == commands.PutUser(UserRecord("u", f"{hashing}: abc", ("administrator",)))
    assert len(found) == (2 if "md5" in hashing else 1), "of a weak one somebody is told"


def test_what_rabbitmq_knows_and_leveret_does_not_is_named() -> None:
    lazy = {"vhost": "/", "name": "p", "pattern": "", "definition": {"queue-mode": "lazy"}}
    logs = {"vhost": "/", "name": "amq.rabbitmq.log", "type": "topic"}
    assert remarks({"exchanges": [logs], "policies": [lazy]}) == [
        ("policies[0]", "policy 'p': 'queue-mode' is left out: all classic queues are lazy"),
        ("policies[0]", "policy 'p' is left out: there is nothing else in it"),
        ("exchanges[0]", "exchange 'amq.rabbitmq.log' is the broker's own to declare"),
    ]


@pytest.mark.parametrize(
    ("given", "kept", "said"),
    [
        ({"ha-mode": "all", "max-length": 5}, {"ha-mode": "all", "max-length": 5}, []),
        ({"ha-mode": "exactly", "ha-params": 2, "queue-mode": "lazy"}, {"ha-mode": "exactly", "ha-params": 2},
         ["'queue-mode' is left out"]),
        ({"ha-mode": "all", "ha-sync-mode": "automatic"}, {"ha-mode": "all", "ha-sync-mode": "automatic"},
         ["'ha-sync-mode' is kept without effect: members catch up by themselves"]),
        ({"ha-mode": "all", "ha-promote-on-failure": "always"}, {"ha-mode": "all", "ha-promote-on-failure": "always"},
         ["'ha-promote-on-failure' is kept without effect: no member leads that lacks what was confirmed"]),
        ({"ha-mode": "exactly", "ha-params": "two", "max-length": 5}, {"max-length": 5},
         ["'ha-mode' is left out: 'exactly' needs ha-params", "'ha-params' is left out: 'exactly' needs ha-params"]),
        ({"ha-mode": "all", "ha-params": 3}, {"ha-mode": "all"}, ["'ha-params' is left out: only the modes exactly and nodes"]),
        ({"ha-mode": "odd", "max-length": 5}, {"max-length": 5}, ["'ha-mode' is left out: it is one of all, exactly, nodes"]),
    ],
)  # fmt: skip
def test_mirroring_in_a_policy_is_kept_and_never_makes_an_import_fail(
    given: dict[str, Any], kept: dict[str, Any], said: list[str]
) -> None:
    policy = {"vhost": "/", "name": "p", "pattern": "", "definition": given}
    found = list(reader(Catalog()).read({"policies": [policy]}))
    (wanted,) = [one for one in found if isinstance(one, DefinitionWish)]
    assert wanted.command == commands.PutPolicy(PolicyRecord("/", "p", "", "all", 0, kept))
    told = [one.text for one in found if isinstance(one, Remark)]
    assert len(told) == len(said)
    assert all(part in text for part, text in zip(said, told, strict=True))


def test_a_hash_that_rabbitmq_does_not_know_stands_beside_and_comes_back() -> None:
    class Argon(Hashes):
        def exported(self, kept: str) -> tuple[str, str]:
            return "argon2id", kept

        def imported(self, algorithm: str, password_hash: str) -> str:
            assert algorithm == "argon2id"
            return password_hash

    catalog = Catalog()
    for command in default_commands("$argon2id$..."):
        catalog.apply(command)
    (user,) = document_of(catalog, Argon())["users"]
    assert (user["password_hash"], user["hashing_algorithm"]) == ("", "rabbit_password_hashing_sha256")
    (wanted,) = DefinitionsReader(Catalog(), Argon(), "n1").read({"users": [user]})
    assert isinstance(wanted, DefinitionWish) and wanted.command == commands.PutUser(catalog.users["guest"])


def test_a_document_says_what_was_declared_when_it_was_asked_for(full: Catalog) -> None:
    """Its items are made over several turns: a binding of a queue that came later could not be imported."""
    before = document_of(full, None)
    parts = exported(full, None)
    full.apply(commands.DeclareQueue("v", "later", kind="classic", durable=True, home="n1"))
    full.apply(commands.Bind(BindingRecord("v", "amq.fanout", "later", "queue", "")))
    assert {part: list(items) for part, items in parts.items()} == before
