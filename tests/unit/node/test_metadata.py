"""The stored catalog: answers come when they are durable, commits are shared, and a restart finds what was promised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from broker.catalog import Catalog, default_commands
from broker.catalog_commands import (
    Bind,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    DeleteVhost,
    PutPolicy,
    PutTopicPermission,
    PutVhost,
    SetParameter,
)
from broker.errors import BrokerError, NotFound, ResourceExhausted
from broker.pending import Pending
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    ParameterRecord,
    PolicyRecord,
    TopicPermissionRecord,
    VhostRecord,
)
from node.background import Inline
from node.metadata import ID_BLOCK, CatalogDamaged, LocalMetadata


class Store:
    """A dictionary that counts its commits and can fail."""

    def __init__(self, content: dict[bytes, bytes] | None = None) -> None:
        self.content = dict(content or {})
        self.commits: list[list[tuple[bytes, bytes | None]]] = []
        self.broken: Exception | None = None

    def get(self, key: bytes) -> bytes | None:
        return self.content.get(key)

    def items(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        return [(key, value) for key, value in sorted(self.content.items()) if key.startswith(prefix)]

    def commit(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        if self.broken is not None:
            raise self.broken
        self.commits.append(list(changes))
        for key, value in changes:
            if value is None:
                self.content.pop(key, None)
            else:
                self.content[key] = value

    def close(self) -> None:
        pass


class Held:
    """Commits wait until the test lets them run."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Any]] = []

    def run(self, work: Callable[[], Any], done: Any) -> None:
        self.waiting.append((work, done))

    def release(self) -> None:
        work, done = self.waiting.pop(0)
        Inline().run(work, done)

    def close(self) -> None:
        pass


def opened(store: Store, background: Any = None) -> LocalMetadata:
    return LocalMetadata(Catalog(), store, background or Inline())


def first_boot(store: Store) -> LocalMetadata:
    metadata = opened(store)
    for command in default_commands("hash"):
        answered(metadata.submit(command))
    return metadata


def answered(pending: Pending[Any]) -> Any:
    answers: list[Any] = []
    pending.then(answers.append, answers.append)
    assert len(answers) == 1, "no answer yet"
    return answers[0]


def described(catalog: Catalog) -> dict[str, Any]:
    """All that a catalog holds, without order."""
    found: dict[str, Any] = {
        "vhosts": catalog.vhosts,
        "users": catalog.users,
        "permissions": list(catalog.all_permissions()),
        "topic permissions": list(catalog.all_topic_permissions()),
        "parameters": list(catalog.parameters()),
    }
    for vhost in catalog.vhosts:
        for what in (catalog.exchanges, catalog.queues, catalog.bindings, catalog.policies):
            found[f"{what.__name__} of {vhost}"] = sorted(map(repr, what(vhost)))
    return found


MANY: list[Command] = [
    PutVhost(VhostRecord("v", tags=("a",))),
    DeclareExchange(ExchangeRecord("v", "x" * 255, "topic", arguments={"alternate-exchange": "y" * 255})),
    *[DeclareQueue("v", f"{'q' * 250}{number}", arguments={"x-expires": 5}) for number in range(12)],
    *[Bind(BindingRecord("v", "x" * 255, f"{'q' * 250}{number}", "queue", "k" * 255)) for number in range(12)],
    Bind(BindingRecord("v", "x" * 255, "amq.headers", "exchange", "", {"x-match": "any", "n": None, "b": b"\xff"})),
    PutTopicPermission(TopicPermissionRecord("guest", "v", "x", "a", "b")),
    PutPolicy(PolicyRecord("v", "p", ".*", "all", 0, {"max-length": 5})),
    PutPolicy(PolicyRecord("v", "p", ".*", "all", 0, {"max-length": 4}, operator=True)),
    SetParameter(ParameterRecord("", "global", "cluster_name", "c")),
    DeleteQueue("v", "q" * 250 + "3"),
]


def test_a_restart_finds_everything_in_the_order_of_declaring() -> None:
    store = Store()
    metadata = first_boot(store)
    for command in MANY:
        assert not isinstance(answered(metadata.submit(command)), BrokerError)
    again = opened(Store(store.content))
    assert described(again.catalog) == described(metadata.catalog)
    assert list(again.catalog.queues("v")) == list(metadata.catalog.queues("v"))
    assert again.catalog.effective(next(iter(again.catalog.queues("v")))).max_length == 4


def test_exclusive_and_transient_things_are_gone_after_a_restart_and_cost_no_commit() -> None:
    store = Store()
    metadata = first_boot(store)
    answered(metadata.submit(DeclareQueue("/", "kept")))
    before = described(metadata.catalog)
    commits = len(store.commits)
    commands: list[Command] = [
        DeclareQueue("/", "exclusive", exclusive=True, owner="c1"),
        DeclareQueue("/", "transient", durable=False),
        DeclareExchange(ExchangeRecord("/", "x", "fanout", durable=False)),
        Bind(BindingRecord("/", "x", "kept", "queue", "")),
        Bind(BindingRecord("/", "amq.fanout", "exclusive", "queue", ""), owner="c1"),
        DeclareQueue("/", "gone", exclusive=True, owner="c1"),
        Bind(BindingRecord("/", "amq.fanout", "gone", "queue", ""), owner="c1"),
        DeleteQueue("/", "gone"),
    ]
    for command in commands:
        answered(metadata.submit(command))
    assert len(store.commits) == commits
    assert described(opened(store).catalog) == before


def test_a_deleted_vhost_leaves_nothing_behind() -> None:
    store = Store()
    first_boot(store)
    before = set(store.content)
    metadata = opened(store)
    for command in MANY[:-3]:
        answered(metadata.submit(command))
    answered(metadata.submit(DeleteVhost("v")))
    assert set(store.content) == before


def test_commands_that_come_during_a_commit_share_the_next_one() -> None:
    store, held = Store(), Held()
    first_boot(store)
    metadata = opened(store, held)
    commits = len(store.commits)
    pendings = [metadata.submit(DeclareQueue("/", f"q{number}")) for number in range(100)]
    assert len(held.waiting) == 1 and not any(pending.answered for pending in pendings)
    held.release()
    assert [pending.answered for pending in pendings] == [True] + [False] * 99
    held.release()
    assert all(pending.answered for pending in pendings) and not held.waiting
    assert [len(changes) for changes in store.commits[commits:]] == [1, 99]


def test_an_answer_waits_for_what_it_rests_on() -> None:
    store, held = Store(), Held()
    first_boot(store)
    metadata = opened(store, held)
    first = metadata.submit(DeclareQueue("/", "q"))
    again = metadata.submit(DeclareQueue("/", "q"))
    assert not first.answered and not again.answered
    held.release()
    assert first.answered and not again.answered
    held.release()
    assert answered(again) is answered(first)
    assert metadata.submit(DeclareQueue("/", "q")).answered  # nothing is on its way now


def test_a_refusal_comes_at_once() -> None:
    store, held = Store(), Held()
    first_boot(store)
    metadata = opened(store, held)
    refusal = answered(metadata.submit(Bind(BindingRecord("/", "nope", "q", "queue", ""))))
    assert isinstance(refusal, NotFound) and not held.waiting


def test_subscribers_hear_of_every_command_in_one_order_even_when_they_add_some() -> None:
    metadata = first_boot(Store())
    heard: list[list[str]] = [[], []]

    def first(command: Command, result: Any) -> None:
        heard[0].append(type(command).__name__)
        if isinstance(command, DeclareQueue):
            metadata.submit(DeleteQueue("/", result.name, id=result.id))

    metadata.subscribe(first)
    metadata.subscribe(lambda command, result: heard[1].append(type(command).__name__))
    answered(metadata.submit(DeclareQueue("/", "q")))
    answered(metadata.submit(PutVhost(VhostRecord("v"))))
    assert heard[0] == heard[1] == ["DeclareQueue", "DeleteQueue", "PutVhost"]


def test_ids_are_not_used_again_even_if_their_queues_never_became_durable() -> None:
    store, held = Store(), Held()
    first_boot(store)
    metadata = opened(store, held)
    metadata.submit(DeclareQueue("/", "q"))
    lost = metadata.catalog.queue("/", "q")
    assert lost is not None
    after_crash = opened(Store(store.content))
    found = answered(after_crash.submit(DeclareQueue("/", "r")))
    assert found.id > lost.id


def test_ids_are_reserved_well_before_they_run_out() -> None:
    store = Store()
    metadata = first_boot(store)
    start = metadata.catalog.next_queue_id
    metadata.catalog.next_queue_id += ID_BLOCK // 2
    answered(metadata.submit(DeclareQueue("/", "q")))
    reserved = int.from_bytes(store.content[b"ids"], "big")
    assert reserved >= start + ID_BLOCK + ID_BLOCK // 2
    metadata.catalog.next_queue_id = reserved
    assert isinstance(answered(metadata.submit(DeclareQueue("/", "r"))), ResourceExhausted)


def test_after_a_failed_commit_nothing_is_accepted() -> None:
    store, held = Store(), Held()
    first_boot(store)
    metadata = opened(store, held)
    store.broken = OSError("no space left")
    pendings = [metadata.submit(DeclareQueue("/", name)) for name in "abc"]
    held.release()
    pendings.append(metadata.submit(DeclareQueue("/", "d")))
    for pending in pendings:
        refusal = answered(pending)
        assert isinstance(refusal, ResourceExhausted)
        assert refusal.text == "the metadata store failed and the node must be restarted: no space left"
    assert not held.waiting


def test_flushed_comes_after_everything_before_it() -> None:
    store, held = Store(), Held()
    first_boot(store)
    metadata = opened(store, held)
    assert metadata.flushed().answered
    pendings = [metadata.submit(DeclareQueue("/", name)) for name in "ab"]
    flushed = metadata.flushed()
    held.release()
    assert not flushed.answered
    held.release()
    assert flushed.answered and all(pending.answered for pending in pendings)


@pytest.mark.parametrize("damage", ["cut", "version", "moved"])
def test_a_damaged_record_is_named_and_nothing_is_changed(damage: str) -> None:
    store = Store()
    first_boot(store)
    key = next(key for key in store.content if key.startswith(b"X"))
    value = store.content.pop(key)
    if damage == "cut":
        store.content[key] = value[:-1]
    elif damage == "version":
        store.content[key] = b"\x7f" + value[1:]
    else:
        store.content[b"X" + bytes(16)] = value
    before = dict(store.content)
    with pytest.raises(CatalogDamaged, match="the ExchangeRecord under key "):
        opened(store)
    assert store.content == before
