"""The stored catalog: answers come when they are durable, commits are shared, and a restart finds what was promised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
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
from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceExhausted
from broker.pending import Pending
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    ParameterRecord,
    PolicyRecord,
    TopicPermissionRecord,
    VhostRecord,
)
from node.background import Inline, Threads
from node.metadata import ID_BLOCK, CatalogDamaged, LocalMetadata
from storage.errors import DiskFailed, DiskFull
from storage.lmdb_store import Change, LmdbStore, MemoryStore


class CountingStore(MemoryStore):
    """In memory; counts its commits and can fail."""

    def __init__(self, content: dict[bytes, bytes] | None = None) -> None:
        super().__init__()
        self.content = self._values = dict(content or {})
        self.commits: list[list[Change]] = []
        self.broken: Exception | None = None

    def commit(self, changes: Sequence[Change]) -> None:
        if self.broken is not None:
            raise self.broken
        self.commits.append(list(changes))
        super().commit(changes)


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


def opened(store: CountingStore, background: Any = None) -> LocalMetadata:
    return LocalMetadata(Catalog(), store, background or Inline())


def first_boot(store: CountingStore) -> LocalMetadata:
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
    store = CountingStore()
    metadata = first_boot(store)
    for command in MANY:
        assert not isinstance(answered(metadata.submit(command)), BrokerError)
    again = opened(CountingStore(store.content))
    assert described(again.catalog) == described(metadata.catalog)
    assert list(again.catalog.queues("v")) == list(metadata.catalog.queues("v"))
    assert again.catalog.effective(next(iter(again.catalog.queues("v")))).max_length == 4


def test_exclusive_and_transient_things_are_gone_after_a_restart_and_cost_no_commit() -> None:
    store = CountingStore()
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
    store = CountingStore()
    first_boot(store)
    before = set(store.content)
    metadata = opened(store)
    for command in MANY[:-3]:
        answered(metadata.submit(command))
    answered(metadata.submit(DeleteVhost("v")))
    assert set(store.content) == before


def test_commands_that_come_during_a_commit_share_the_next_one() -> None:
    store, held = CountingStore(), Held()
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
    store, held = CountingStore(), Held()
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
    store, held = CountingStore(), Held()
    first_boot(store)
    metadata = opened(store, held)
    refusal = answered(metadata.submit(Bind(BindingRecord("/", "nope", "q", "queue", ""))))
    assert isinstance(refusal, NotFound) and not held.waiting


def test_what_cannot_be_kept_is_not_applied() -> None:
    metadata = first_boot(CountingStore())
    before = described(metadata.catalog)
    for command in (
        PutPolicy(PolicyRecord("/", "p", ".*", "all", 0, {"max-length": 2**70})),
        DeclareQueue("/", "q\udcff"),
        SetParameter(ParameterRecord("", "c", "n", object())),
    ):
        assert isinstance(answered(metadata.submit(command)), PreconditionFailed)
    assert described(metadata.catalog) == before


def test_subscribers_hear_of_every_command_in_one_order_even_when_they_add_some() -> None:
    metadata = first_boot(CountingStore())
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
    store, held = CountingStore(), Held()
    first_boot(store)
    metadata = opened(store, held)
    metadata.submit(DeclareQueue("/", "q"))
    lost = metadata.catalog.queue("/", "q")
    assert lost is not None
    after_crash = opened(CountingStore(store.content))
    found = answered(after_crash.submit(DeclareQueue("/", "r")))
    assert found.id > lost.id


def test_ids_are_reserved_well_before_they_run_out() -> None:
    store = CountingStore()
    metadata = first_boot(store)
    start = metadata.catalog.next_queue_id
    metadata.catalog.next_queue_id += ID_BLOCK // 2
    answered(metadata.submit(DeclareQueue("/", "q")))
    reserved = int.from_bytes(store.content[b"ids"], "big")
    assert reserved >= start + ID_BLOCK + ID_BLOCK // 2
    metadata.catalog.next_queue_id = reserved
    assert isinstance(answered(metadata.submit(DeclareQueue("/", "r"))), ResourceExhausted)


def test_after_a_failed_commit_nothing_is_accepted() -> None:
    store, held = CountingStore(), Held()
    first_boot(store)
    metadata = opened(store, held)
    store.broken = DiskFailed("input/output error")
    pendings = [metadata.submit(DeclareQueue("/", name)) for name in "abc"]
    held.release()
    pendings.append(metadata.submit(DeclareQueue("/", "d")))
    for pending in pendings:
        refusal = answered(pending)
        assert isinstance(refusal, ResourceExhausted)
        assert refusal.text == "the metadata store failed and the node must be restarted: input/output error"
    assert not held.waiting


def test_a_full_disk_is_told_and_what_it_did_not_take_goes_with_the_next_commit() -> None:
    store, held = CountingStore(), Held()
    first_boot(store)
    metadata = opened(store, held)
    store.broken = DiskFull("no room")
    pendings = [metadata.submit(DeclareQueue("/", name)) for name in "ab"]
    for pending in pendings:
        held.release()
        refusal = answered(pending)
        assert isinstance(refusal, ResourceExhausted) and refusal.text.endswith("cannot be kept now: no room")
    again = metadata.submit(DeclareQueue("/", "a"))
    assert not again.answered
    store.broken = None
    held.release()
    assert answered(again).name == "a"
    assert [queue.name for queue in opened(CountingStore(store.content)).catalog.queues("/")] == ["a", "b"]


def test_flushed_comes_after_everything_before_it() -> None:
    store, held = CountingStore(), Held()
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
    store = CountingStore()
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


def test_on_lmdb_with_a_thread(tmp_path: Path) -> None:
    async def declared(count: int) -> list[int]:
        loop = asyncio.get_running_loop()
        metadata = LocalMetadata(Catalog(), LmdbStore(str(tmp_path)), Threads(loop, 1, "metadata"))

        async def submit(command: Command) -> Any:
            answer = loop.create_future()
            metadata.submit(command).then(answer.set_result, answer.set_exception)
            return await asyncio.wait_for(answer, 30)

        if not metadata.catalog.vhosts:
            await asyncio.gather(*map(submit, default_commands("hash")))
        there = len(list(metadata.catalog.queues("/")))
        names = [f"{'q' * 200}{number}" for number in range(there, there + count)]
        await asyncio.gather(*[submit(DeclareQueue("/", name)) for name in names])
        assert metadata.commits < count
        ids = [queue.id for queue in metadata.catalog.queues("/")]
        metadata.close()
        return ids

    first = asyncio.run(declared(200))
    second = asyncio.run(declared(200))
    assert second[:200] == first and len(second) == len(set(second)) == 400
