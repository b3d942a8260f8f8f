"""Definitions as fronts take them: JSON, applied in order, many changes for one wait, and the entry that was refused."""

from __future__ import annotations

import asyncio
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.holding_queues import HoldingMetadata
from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceExhausted
from broker.operations import import_plan
from broker.operations.documents import Documents
from broker.operations.import_plan import ImportReport
from broker.operations.operator import ADMINISTRATOR, Operator
from broker.pending import Pending
from broker.records import ParameterRecord, QueueRecord
from front.definitions import (
    REMARKS_LOGGED,
    TOGETHER,
    check_definitions,
    export_definitions,
    import_definitions,
)
from node.logins.password_hashes import Hashes

ROOT = Operator("root", (ADMINISTRATOR,))


def hash_password(password: bytes, current: str | None) -> Pending[str]:
    hashed = f"hash of {password.decode()}"
    return Pending.of(hashed if current == hashed else f"new {hashed}" if current else hashed)


class Broker:
    """A catalog whose changes come at the end of a turn, when they are durable."""

    node = "n1"

    def __init__(self) -> None:
        self.catalog = Catalog()
        for command in default_commands("$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA"):
            self.catalog.apply(command)
        self.waiting: list[tuple[Pending[Any], commands.Command]] = []
        self.most_waiting = 0
        self.metadata = self

    def submit(self, command: commands.Command) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        self.waiting.append((pending, command))
        self.most_waiting = max(self.most_waiting, len(self.waiting))
        return pending

    def check_kind(self, record: QueueRecord) -> None:
        if record.kind != "classic":
            raise PreconditionFailed(f"no {record.kind} queues here")

    def end_turn(self) -> None:
        waiting, self.waiting = self.waiting, []
        for pending, command in waiting:
            try:
                pending.resolve(self.catalog.apply(command))
            except BrokerError as error:
                pending.fail(error)

    def subscribe(self, on_applied: Any) -> None: ...

    def fault_of_parameter(self, record: ParameterRecord) -> str | None:
        return "it is wrong" if record.value == "wrong" else None

    def documents(self, identity: dict[str, Any]) -> Documents:
        broker: Any = self
        node: Any = SimpleNamespace(identity=identity, password_hashes=Hashes(), hash_password=hash_password)
        return Documents(broker, node, self.fault_of_parameter)

    def document(self, identity: dict[str, Any]) -> bytes:
        return asyncio.run(export_definitions(self.documents(identity), ROOT, None, password_hashes=True))

    def told(self, document: dict[str, Any]) -> str:
        try:
            return f"{self.take(document)} changes"
        except PreconditionFailed as refused:
            return refused.text

    def take(self, document: dict[str, Any] | bytes, vhost: str | None = None) -> int:
        raw = document if isinstance(document, bytes) else json.dumps(document).encode()

        async def run() -> ImportReport:
            async with asyncio.timeout(10):
                return await import_definitions(self.documents({}), ROOT, raw, vhost, self.end_turn)

        return asyncio.run(run()).changes

    def check(self, document: dict[str, Any], vhost: str | None = None) -> list[tuple[str, str, str]]:
        """What would become of it: effect, what, text."""
        version = self.catalog.version
        report = asyncio.run(check_definitions(self.documents({}), ROOT, json.dumps(document).encode(), vhost))
        assert self.catalog.version == version and not self.waiting, "nothing is changed"
        return [(one.effect, one.what, one.text) for one in report.effects]


def queue(name: str, **more: Any) -> dict[str, Any]:
    return {"vhost": "/", "name": name, "durable": True, **more}


def test_a_whole_node_moves_to_another() -> None:
    one, other = Broker(), Broker()
    one.take({"queues": [queue("a"), queue("b", type="classic")], "users": [{"name": "u", "tags": []}]})
    raw = one.document({"product_name": "Leveret"})
    assert json.loads(raw)["product_name"] == "Leveret"
    other.take(raw)
    assert other.document({"product_name": "Leveret"}) == raw


def test_a_queue_in_a_new_vhost_is_of_the_kind_that_this_one_has_by_default() -> None:
    broker = Broker()
    vhost = {"name": "new", "default_queue_type": "classic"}
    document = {"vhosts": [vhost], "queues": [queue("a", vhost="new"), queue("b", vhost="new")]}
    assert broker.told(document) == "3 changes"
    assert [record.kind for record in broker.catalog.queues("new")] == ["classic", "classic"]
    with pytest.raises(PreconditionFailed, match=re.escape("queues[0]: no quorum queues here")):
        broker.take(
            {"vhosts": [{"name": "other", "default_queue_type": "quorum"}], "queues": [queue("a", vhost="other")]}
        )
    with pytest.raises(PreconditionFailed, match=re.escape("queues[0]: no vhost 'none'")):
        broker.take({"queues": [queue("a", vhost="none")]})


def test_many_changes_wait_for_the_disk_together_and_not_all_at_once() -> None:
    broker = Broker()
    assert broker.take({"queues": [queue(f"q{number}") for number in range(TOGETHER + 10)]}) == TOGETHER + 10
    assert broker.most_waiting == TOGETHER


def test_nothing_is_applied_where_an_entry_has_a_fault_and_all_faults_are_told() -> None:
    broker = Broker()
    queues = [queue("before"), queue("wrong", arguments={"x-max-length": -1}), queue("behind"), {"name": "nowhere"}]
    told = broker.told({"queues": queues, "bindings": [{"vhost": "/", "source": "none", "destination": "before"}]})
    assert "queues[1]: invalid arg 'x-max-length' for queue 'wrong'" in told
    assert "queues[3]: 'vhost' is missing" in told and "bindings[0]: no exchange 'none' in vhost '/'" in told
    assert list(broker.catalog.queues("/")) == [] and broker.waiting == []


def test_of_very_many_faults_the_first_ones_are_told() -> None:
    queues = [{"vhost": "none", "name": str(one)} for one in range(12)]
    assert Broker().told({"queues": queues}).endswith("queues[9]: no vhost 'none'; and 2 more")
    assert Broker().told({"queues": queues[:10]}).endswith("queues[9]: no vhost 'none'")


def test_what_is_refused_because_something_has_changed_meanwhile_is_named() -> None:
    broker = Broker()

    def refuse(command: commands.Command) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        pending.fail(PreconditionFailed("no room"))
        return pending

    broker.submit = refuse  # type: ignore[method-assign]
    assert broker.told({"queues": [queue("a")]}) == "queues[0]: no room"


def test_what_there_is_no_room_for_now_may_be_tried_again_later() -> None:
    broker = Broker()
    broker.submit = lambda _: Pending.failed(ResourceExhausted("the disk is full"))  # type: ignore[method-assign]
    with pytest.raises(ResourceExhausted, match=r"queues\[0\]: the disk is full"):
        broker.take({"queues": [queue("a")]})


def test_a_limit_counts_what_is_there_and_what_comes() -> None:
    broker = Broker()
    broker.take({"vhosts": [{"name": "/", "limits": {"max-queues": 2}}], "queues": [queue("a")]})
    assert "queue limit in vhost '/' (2) is reached" in broker.told({"queues": [queue("b"), queue("c")]})
    assert broker.told({"queues": [queue("a"), queue("b")]}) == "1 changes"


def test_a_dry_run_says_what_would_become_of_each_entry() -> None:
    broker = Broker()
    policy = {"vhost": "/", "name": "p", "pattern": "^a", "definition": {"max-length": 5}}
    broker.take({"queues": [queue("a"), queue("same")], "policies": [policy]})
    told = broker.check(
        {
            "queues": [queue("a", durable=False), queue("same"), queue("new"), queue("amq.gen-1")],
            "policies": [{**policy, "pattern": "^b"}],
            "users": [{"name": "guest", "tags": "monitoring"}],
            "bindings": [{"vhost": "/", "source": "amq.direct", "destination": "new"}],
        }
    )
    assert told == [
        ("skipped", "", "queue 'amq.gen-1' is the broker's own to declare"),
        ("overwritten", "user 'guest'", "tags ('administrator',), in the document ('monitoring',)"),
        ("overwritten", "policy 'p' in vhost '/'", "pattern '^a', in the document '^b'"),
        ("kept", "queue 'a' in vhost '/'", "it stays as it is: durable True, in the document False"),
        ("made", "queue 'new' in vhost '/'", ""),
        ("made", "binding of queue 'new' to exchange 'amq.direct' in vhost '/' with key ''", ""),
    ]


def test_what_is_overwritten_is_a_change_and_only_so_much_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_plan, "EFFECTS_TOLD", 2)
    broker = Broker()
    document = {"users": [{"name": "guest", "tags": ""}], "queues": [queue("a"), queue("b")]}
    assert len(broker.check(document)) == 2
    assert broker.take(document) == 3


def test_of_very_many_remarks_the_first_ones_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    Broker().take({"queues": [queue(f"amq.gen-{number}") for number in range(REMARKS_LOGGED + 1)]})
    assert [record.name for record in caplog.records] == ["leveret.definitions"] * REMARKS_LOGGED


def test_a_number_that_cannot_be_kept_is_found_before_anything_is_applied() -> None:
    broker = Broker()
    parameters = [{"name": "fits", "value": 1}, {"name": "too large", "value": 2**70}]
    assert broker.told({"global_parameters": parameters}).startswith(
        "global_parameters[1]: SetParameter cannot be kept"
    )
    assert list(broker.catalog.parameters()) == []


def test_a_dry_run_says_that_a_password_changes_and_not_to_what() -> None:
    broker = Broker()
    told = broker.check({"users": [{"name": "guest", "tags": "administrator", "password_hash": ""}]})
    assert told == [("overwritten", "user 'guest'", "password")]


def test_a_document_that_was_imported_changes_nothing_the_second_time() -> None:
    broker = Broker()
    document = json.loads(Broker().document({})) | {"queues": [queue("q")]}
    broker.take(document)
    before = broker.catalog.version
    assert broker.take(document) == 0 and broker.check(document) == [] and broker.catalog.version == before


def test_a_password_in_clear_is_hashed_unless_it_is_the_users_already() -> None:
    broker = Broker()
    users = [{"name": "u", "password": "right", "tags": ""}]
    assert broker.told({"users": users}) == "1 changes"
    assert broker.catalog.users["u"].password_hash == "hash of right"
    before = broker.catalog.version
    broker.take({"users": users})
    assert broker.catalog.version == before
    broker.take({"users": [{**users[0], "password": "other"}]})
    assert broker.catalog.users["u"].password_hash == "new hash of other"


def test_passwords_in_clear_are_bounded() -> None:
    users = [{"name": str(one), "password": "p", "tags": ""} for one in range(1_001)]
    assert Broker().told({"users": users}) == "1001 passwords are given in clear, and at most 1000 are hashed"
    assert Broker().told({"users": users[:1_000]}) == "1000 changes"
    long = [{"name": "u", "password": "\u00e9" * 513, "tags": ""}]
    assert Broker().told({"users": long}) == "users[0]: 'password' has more than 1024 bytes"


def test_a_queue_of_a_kind_that_is_not_here_is_refused_before_it_is_declared() -> None:
    broker = Broker()
    quorum = queue("q", type="quorum", arguments={"x-queue-type": "quorum"})
    many = [queue(f"q{number}") for number in range(TOGETHER + 1)]
    with pytest.raises(PreconditionFailed, match=rf"queues\[{len(many)}\]: no quorum queues here"):
        broker.take({"queues": [*many, quorum]})
    assert list(broker.catalog.queues("/")) == []


def test_nothing_is_applied_of_a_document_that_cannot_be_read() -> None:
    broker = Broker()
    with pytest.raises(PreconditionFailed, match=r"bindings\[0\]: 'source' is missing"):
        broker.take({"queues": [queue("q")], "bindings": [{}]})
    assert broker.catalog.queue("/", "q") is None


def test_a_vhost_has_to_be_there_before_things_are_put_into_it() -> None:
    broker = Broker()
    with pytest.raises(NotFound, match="no vhost 'nope'"):
        broker.take({"queues": [{"name": "q"}]}, "nope")
    with pytest.raises(PreconditionFailed, match=r"queues\[0\]: no vhost 'nope'"):
        broker.take({"queues": [{"name": "q", "vhost": "nope"}]})


def test_a_document_of_one_vhost_needs_to_be_told_where_to() -> None:
    broker = Broker()
    document = {"rabbitmq_definition_format": "single_virtual_host", "queues": [{"name": "q"}]}
    with pytest.raises(PreconditionFailed, match="definitions of one virtual host"):
        broker.take(document)
    assert broker.take(document, "/") == 1


@pytest.mark.parametrize("levels", [34, 600])
def test_what_is_nested_too_deeply_to_be_told_again_is_refused(levels: int) -> None:
    broker = Broker()
    deep = "[" * levels + "]" * levels
    for raw, where in (
        (f'{{"global_parameters": [{{"name": "x", "value": {deep}}}]}}', "global_parameters[0]"),
        (f'{{"queues": [{{"vhost": "/", "name": "q", "arguments": {{"k": {deep}}}}}]}}', "queues[0]"),
    ):
        with pytest.raises(PreconditionFailed, match=re.escape(where)):
            broker.take(raw.encode())
    broker.document({})


def test_a_policy_with_a_number_that_amqp_has_no_place_for_is_refused_before_anything_is_applied() -> None:
    broker = Broker()
    policy = {"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": 2**64}}
    with pytest.raises(PreconditionFailed, match=r"policies\[0\]: 'definition': integers have 64 bits"):
        broker.take({"queues": [queue("q")], "policies": [policy]})
    assert broker.catalog.queue("/", "q") is None


def test_an_exchange_that_delays_messages_waits_for_its_new_vhost() -> None:
    """Its queue is checked before either is submitted."""
    broker = Broker()
    broker.check_kind = lambda record: None  # type: ignore[method-assign]
    broker.metadata = HoldingMetadata(broker, broker.catalog, "n1")  # type: ignore[assignment]
    exchange = {"vhost": "new", "name": "later", "type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}}
    assert broker.told({"vhosts": [{"name": "new"}], "exchanges": [exchange]}) == "2 changes"
    assert broker.catalog.exchange("new", "later") is not None


EXPORTED_BINDINGS = [
    {"vhost": "/", "source": "amq.topic", "destination": "exclusive"},
    {"vhost": "/", "source": "internal", "destination": "there"},
    {"vhost": "/", "source": "amq.topic", "destination": "internal", "destination_type": "exchange"},
    {"vhost": "/", "source": "amq.topic", "destination": "there"},
]


def test_bindings_of_what_rabbitmq_does_not_export_are_left_out() -> None:
    """Of exclusive queues and internal exchanges, which its exports lack."""
    document = {"rabbit_version": "4.3.6", "queues": [queue("there")], "bindings": EXPORTED_BINDINGS}
    broker = Broker()
    left_out = [(one, text) for one, _, text in broker.check(document) if one == "skipped"]
    assert left_out == [
        ("skipped", f"{what} is not declared: a binding of it is left out")
        for what in ("queue 'exclusive'", "exchange 'internal'", "exchange 'internal'")
    ]
    assert broker.take(document) == 2


def test_a_binding_of_nothing_in_another_document_is_a_fault() -> None:
    document = {"rabbit_version": "3.13.7", "product_name": "Leveret", "queues": [queue("there")]}
    told = Broker().told({**document, "bindings": EXPORTED_BINDINGS})
    assert "bindings[0]: no queue 'exclusive' in vhost '/'; bindings[1]: no exchange 'internal'" in told


def test_bindings_of_queues_with_names_of_the_broker_s_own_are_left_out_as_these_are() -> None:
    names = queue("amq.gen-1"), {"vhost": "/", "source": "amq.topic", "destination": "amq.gen-1"}
    assert Broker().take({"queues": [names[0]], "bindings": [names[1]]}) == 0


def test_a_binding_in_a_vhost_that_is_not_there_is_a_fault() -> None:
    bound = {"vhost": "typo", "source": "amq.topic", "destination": "q"}
    for document in ({}, {"rabbit_version": "4.3.6"}):
        assert "bindings[0]: no vhost 'typo'" in Broker().told({**document, "bindings": [bound]})


def test_parameters_that_mean_nothing_are_told() -> None:
    parameters = [{"vhost": "/", "component": "shovel", "name": name, "value": name} for name in ("right", "wrong")]
    told = Broker().check({"parameters": parameters})
    assert ("skipped", "", "shovel 'wrong' in vhost '/' is kept, and nothing comes of it: it is wrong") in told
    assert len(told) == 3


@pytest.mark.parametrize("change", [{"tags": ""}, {"tags": "administrator", "password_hash": ""}])
def test_who_imports_does_not_shut_everybody_out(change: dict[str, str]) -> None:
    broker = Broker()
    broker.take({"users": [{"name": "root", "password": "p", "tags": "administrator"}, {"name": "guest", "tags": ""}]})
    before = broker.catalog.version
    users = [{"name": "root", **change}]
    assert broker.told({"users": users}).startswith("users: user 'root' is the last administrator with a password")
    assert broker.catalog.version == before
    twice = [{"name": "root", "password": "p", "tags": "administrator"}, *users]
    assert broker.told({"users": twice}).startswith("users: user 'root' is the last administrator with a password")
    successor = {"name": "next", "password": "p", "tags": "administrator"}
    assert broker.told({"users": [*users, successor]}) == "2 changes"


def test_the_node_itself_imports_what_its_file_has() -> None:
    broker = Broker()
    assert "root" not in broker.catalog.users
    assert broker.take({"users": [{"name": "guest", "tags": ""}]}) == 1
