"""The stored catalog: a start finds what was kept, transactions are shared, and what a failing disk did not take is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.catalog.carrying_out import CommandOutcome, EntryFate
from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.catalog_state import CatalogDamaged, Position, encode_head
from broker.catalog.commands.catalog_commands import (
    AddNode,
    Bind,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    DeleteVhost,
    PutNode,
    PutPolicy,
    PutTopicPermission,
    PutVhost,
    Record,
    RemoveNode,
    SetParameter,
)
from broker.catalog.commands.metadata_entry import Origin
from broker.records import (
    BindingRecord,
    ExchangeRecord,
    NodeRecord,
    ParameterRecord,
    PolicyRecord,
    TopicPermissionRecord,
    VhostRecord,
)
from node.background import Inline, Threads
from node.catalog.catalog_store import HEAD_KEY, NothingKept, load
from node.catalog.keeper import Keeper
from storage.errors import DiskFailed, DiskFull
from storage.lmdb_store import Change, LmdbStore, MemoryStore, Store
from tests.unit.node.metadata_world import described


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


class Kept:
    """A catalog whose changes a keeper keeps: `submit` is one entry."""

    def __init__(self, store: Store, background: Any = None) -> None:
        self.catalog = Catalog()
        self.position = load(store, self.catalog)
        self.told: list[int] = []
        self.failures: list[str] = []
        self.keeper = Keeper(store, background or Inline(), self._kept, self.failures.append)
        self.catalog.observer = self.keeper.note

    def submit(self, command: Command) -> int:
        self.position.applied += 1
        result = self.catalog.apply(command)
        outcome = CommandOutcome(Origin(1, 1, self.position.applied, 0), EntryFate.DONE, command, result)
        self.keeper.keep([outcome], encode_head(self.position, self.catalog.head))
        return self.position.applied

    def replace(self, records: Sequence[Record]) -> None:
        self.keeper.keep_whole(records, [], encode_head(self.position, self.catalog.head))

    def _kept(self, outcomes: Sequence[CommandOutcome]) -> None:
        self.told += [outcome.origin.number for outcome in outcomes]


def first_boot(store: Store, background: Any = None) -> Kept:
    kept = Kept(store, background)
    for command in default_commands("hash"):
        kept.submit(command)
    return kept


MANY: list[Command] = [
    AddNode(NodeRecord("n", 0, 5, "127.0.0.1:5681")),
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
    DeclareQueue("v", "transient", durable=False),
    DeclareQueue("v", "exclusive", exclusive=True, owner="c1"),
]


def test_a_restart_finds_everything_in_the_order_of_declaring() -> None:
    store = CountingStore()
    kept = first_boot(store)
    for command in MANY:
        kept.submit(command)
    again = Kept(CountingStore(store.content))
    assert described(again.catalog) == described(kept.catalog)
    assert again.position == kept.position == Position(len(MANY) + 3)
    assert list(again.catalog.queues("v")) == list(kept.catalog.queues("v"))
    assert again.catalog.effective(next(iter(again.catalog.queues("v")))).max_length == 4


def test_a_deleted_vhost_leaves_nothing_behind() -> None:
    store = CountingStore()
    kept = first_boot(store)
    before = set(store.content)
    for command in MANY[1:-5]:
        kept.submit(command)
    kept.submit(DeleteVhost("v"))
    assert set(store.content) == before


def test_a_node_that_was_removed_belongs_to_the_cluster_no_more_behind_a_restart() -> None:
    """It would have been taken for one that is away, and been given its member of the catalog's group again."""
    store = CountingStore()
    kept = first_boot(store)
    for number in (1, 2):
        kept.submit(AddNode(NodeRecord(f"n{number}", 0, number, f"n{number}:5681")))
    kept.submit(PutNode(NodeRecord("n1", 0, 1, "elsewhere:5681")))
    kept.submit(RemoveNode("n2"))
    again = Kept(store).catalog
    assert [(one.name, one.number, one.address) for one in again.nodes.values()] == [("n1", 1, "elsewhere:5681")]
    assert again.next_node_number == 3


def test_entries_that_come_during_a_transaction_share_the_next_one() -> None:
    store, held = CountingStore(), Held()
    first_boot(store)
    kept = Kept(store, held)
    commits = len(store.commits)
    numbers = [kept.submit(DeclareQueue("/", f"q{number}")) for number in range(100)]
    assert len(held.waiting) == 1 and kept.told == [] and not kept.keeper.idle
    held.release()
    assert kept.told == numbers[:1]
    held.release()
    assert kept.told == numbers and not held.waiting and kept.keeper.idle
    assert [len(changes) for changes in store.commits[commits:]] == [1 + 1, 99 + 1]


def test_an_entry_that_changed_nothing_waits_for_what_it_rests_on() -> None:
    store, held = CountingStore(), Held()
    kept = first_boot(store)
    kept = Kept(store, held)
    kept.submit(DeclareQueue("/", "q"))
    kept.submit(DeclareQueue("/", "q"))
    held.release()
    assert len(kept.told) == 1
    held.release()
    assert len(kept.told) == 2


def test_after_a_failed_transaction_nobody_is_told_anything_but_the_node_which_must_stop() -> None:
    """It went on, and followed nothing any more of what the others declared (simulation of brokers, seed 30213)."""
    store, held = CountingStore(), Held()
    first_boot(store)
    kept = Kept(store, held)
    store.broken = DiskFailed("input/output error")
    for name in "abc":
        kept.submit(DeclareQueue("/", name))
    held.release()
    kept.submit(DeclareQueue("/", "d"))
    kept.keeper.tick()
    assert kept.keeper.failure == "the metadata store failed and the node must be restarted: input/output error"
    assert kept.failures == [kept.keeper.failure]
    assert kept.told == [] and not held.waiting


def test_a_full_disk_is_tried_again_and_who_waits_is_told_in_order(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "leveret")
    store, held = CountingStore(), Held()
    first_boot(store)
    kept = Kept(store, held)
    store.broken = DiskFull("no room")
    kept.submit(DeclareQueue("/", "a"))
    kept.submit(DeleteQueue("/", "a"))
    kept.submit(DeclareQueue("/", "b"))
    held.release()
    assert kept.keeper.full == "what was declared cannot be kept now: no room"
    kept.keeper.tick()
    held.release()
    assert kept.told == [] and kept.keeper.full is not None
    store.broken = None
    kept.keeper.tick()
    held.release()
    assert kept.told == [4, 5, 6] and kept.keeper.full is None
    assert [record.getMessage() for record in caplog.records] == [
        "what was declared cannot be kept now: no room. Who declares waits or is refused until it can",
        "what was declared is kept again",
    ], "once each, however often it was tried"
    assert [queue.name for queue in Kept(CountingStore(store.content)).catalog.queues("/")] == ["b"]


def replace_without_room(store: CountingStore, kept: Kept, held: Held, wanted: Kept, after: Command) -> None:
    """Another catalog comes, and one more command behind it, while the disk is full; then there is room again."""
    kept.position, kept.catalog = wanted.position, wanted.catalog
    kept.replace(list(wanted.catalog.records()))
    wanted.catalog.observer = kept.keeper.note
    kept.submit(after)
    held.release()
    store.broken = None
    kept.keeper.tick()
    while held.waiting:
        held.release()


def test_another_catalog_takes_the_place_of_all_that_is_stored_also_on_a_disk_that_was_full() -> None:
    store, other = CountingStore(), CountingStore()
    kept, wanted = first_boot(store), first_boot(other)
    for command in MANY:
        kept.submit(command)
    for command in (PutVhost(VhostRecord("w")), DeclareQueue("w", "q"), DeclareQueue("/", "r")):
        wanted.submit(command)
    held = Held()
    kept = Kept(store, held)
    store.broken = DiskFull("no room")
    kept.submit(DeclareQueue("v", "behind"))
    replace_without_room(store, kept, held, wanted, DeclareQueue("w", "after"))
    assert described(Kept(CountingStore(store.content)).catalog) == described(wanted.catalog)
    assert kept.keeper.idle and kept.told[-1] == kept.position.applied


def test_another_catalog_that_found_no_room_goes_to_the_disk_as_a_whole_though_more_was_decided_meanwhile() -> None:
    """What was declared only before it came back with the next start."""
    store, other = CountingStore(), CountingStore()
    kept, wanted = first_boot(store), first_boot(other)
    for command in MANY:
        kept.submit(command)
    wanted.submit(DeclareQueue("/", "r"))
    held = Held()
    kept = Kept(store, held)
    store.broken = DiskFull("no room")
    replace_without_room(store, kept, held, wanted, DeclareQueue("/", "after"))
    assert described(Kept(CountingStore(store.content)).catalog) == described(wanted.catalog)


def test_who_waits_until_nothing_is_on_its_way_is_told() -> None:
    store, held = CountingStore(), Held()
    first_boot(store)
    kept = Kept(store, held)
    told: list[bool] = []
    for name in "ab":
        kept.submit(DeclareQueue("/", name))
    kept.keeper.on_idle.append(lambda: told.append(True))
    held.release()
    assert not told
    held.release()
    assert told


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
        Kept(store)
    assert store.content == before


@pytest.mark.parametrize("head", [b"", b"\x93\x01", b"\x93\x01\xc4\x01\x09\x80"])
def test_a_damaged_head_is_told(head: bytes) -> None:
    store = CountingStore()
    first_boot(store)
    store.content[HEAD_KEY] = head
    with pytest.raises(CatalogDamaged, match="the head of the catalog cannot be read"):
        Kept(store)


def test_a_ram_node_keeps_nothing() -> None:
    store = NothingKept()
    kept = first_boot(store)
    assert kept.told == [1, 2, 3]
    assert Kept(store).position == Position()


def test_on_lmdb_with_a_thread(tmp_path: Path) -> None:
    async def declared(count: int) -> list[int]:
        loop = asyncio.get_running_loop()
        kept = Kept(LmdbStore(str(tmp_path)), Threads(loop, 1, "metadata"))
        if not kept.catalog.vhosts:
            for command in default_commands("hash"):
                kept.submit(command)
        there = len(list(kept.catalog.queues("/")))
        last = [kept.submit(DeclareQueue("/", f"{'q' * 200}{number}")) for number in range(there, there + count)][-1]
        idle = asyncio.Event()
        kept.keeper.on_idle.append(idle.set)
        await asyncio.wait_for(idle.wait(), 30)
        assert kept.told[-1] == last and kept.keeper.commits < count
        kept.keeper.close()
        return [queue.id for queue in kept.catalog.queues("/")]

    first = asyncio.run(declared(200))
    second = asyncio.run(declared(200))
    assert second[:200] == first and len(second) == len(set(second)) == 400


def test_what_gathered_before_the_catalog_became_another_one_is_not_written_over_it() -> None:
    store, other, held = CountingStore(), CountingStore(), Held()
    first_boot(store)
    wanted = first_boot(other)
    for name in "ab":
        wanted.submit(DeclareQueue("/", name))
    kept = Kept(store, held)
    kept.submit(DeclareQueue("/", "being kept"))
    kept.submit(DeclareQueue("/", "gathered"))
    kept.position, kept.catalog = wanted.position, wanted.catalog
    kept.replace(list(wanted.catalog.records()))
    while held.waiting:
        held.release()
    assert [queue.name for queue in Kept(CountingStore(store.content)).catalog.queues("/")] == ["a", "b"]
