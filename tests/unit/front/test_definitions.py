"""Definitions as fronts take them: JSON, applied in order, many changes for one wait, and the entry that was refused."""

from __future__ import annotations

import asyncio
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from broker.catalog import catalog_commands as commands
from broker.catalog.catalog import Catalog, default_commands
from broker.errors import BrokerError, NotFound, PreconditionFailed
from broker.operations.documents import Documents, parsed
from broker.operations.operator import ADMINISTRATOR, Operator
from broker.pending import Pending
from broker.records import QueueRecord
from front.definitions import TOGETHER, export_definitions, import_definitions
from node.auth import Hashes

ROOT = Operator("root", (ADMINISTRATOR,))


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

    def documents(self, identity: dict[str, Any]) -> Documents:
        broker: Any = self
        node: Any = SimpleNamespace(identity=identity, password_hashes=Hashes())
        return Documents(broker, node)

    def document(self, identity: dict[str, Any]) -> bytes:
        return asyncio.run(export_definitions(self.documents(identity), ROOT, None, password_hashes=True))

    def told(self, document: dict[str, Any]) -> str:
        try:
            return f"{self.take(document)} changes"
        except PreconditionFailed as refused:
            return refused.text

    def take(self, document: dict[str, Any] | bytes, vhost: str | None = None) -> int:
        raw = document if isinstance(document, bytes) else json.dumps(document).encode()

        async def run() -> int:
            async with asyncio.timeout(10):
                return await import_definitions(self.documents({}), ROOT, raw, vhost, self.end_turn)

        return asyncio.run(run())


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


def test_the_entry_that_is_refused_is_named_and_what_stands_before_it_is_there() -> None:
    broker = Broker()
    queues = [queue("before"), queue("wrong", arguments={"x-max-length": -1}), queue("behind")]
    with pytest.raises(PreconditionFailed, match=r"queues\[1\]: invalid arg 'x-max-length' for queue 'wrong'"):
        broker.take({"queues": queues})
    assert {record.name for record in broker.catalog.queues("/")} == {"before", "behind"}, "they wait together"
    assert broker.waiting == []


def test_a_queue_of_a_kind_that_is_not_here_is_refused_before_it_is_declared() -> None:
    broker = Broker()
    with pytest.raises(PreconditionFailed, match=r"queues\[0\]: no quorum queues here"):
        broker.take({"queues": [queue("q", type="quorum", arguments={"x-queue-type": "quorum"})]})
    assert broker.catalog.queue("/", "q") is None


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


@pytest.mark.parametrize("raw", [b"", b"nonsense", b"[]", b"[" * 100_000, b'"\xff"'])
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(PreconditionFailed):
        parsed(raw)


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
