"""Files of the shared message store: which of them may go, or are worth compacting."""

from __future__ import annotations

import pytest

from classic.store.compaction import plan
from classic.store.open_files import OpenFiles
from classic.store.store import MessageStore, Stored
from classic.stored_run import InStore
from storage import names
from storage.record import HEADER_BYTES
from tests.sim.disk import SimDisk

CONTENT = bytes(100)
RECORD_BYTES = HEADER_BYTES + len(CONTENT)
EACH = 4  # contents of a file


@pytest.fixture
def store() -> MessageStore:
    return MessageStore(OpenFiles(SimDisk()), names.STORE_PERSISTENT, EACH * RECORD_BYTES)


def test_a_file_may_go_when_nothing_lives_in_it_and_it_takes_no_more(store: MessageStore) -> None:
    for index in range(EACH):
        store.put(InStore(1, index), CONTENT, 1)
        store.release(InStore(1, index))
    assert store.dead_files() == [], "it may still be written to"
    store.put(InStore(1, EACH), CONTENT, 1)
    assert (store.dead_files(), store.sparse_files()) == ([1], [])


def test_a_copy_of_contents_that_went_while_they_were_copied_is_garbage_at_once(store: MessageStore) -> None:
    """Nothing is ever taken out of it again: it was kept until the next start."""
    ids = [InStore(1, index) for index in range(EACH)]
    for one in ids:
        store.put(one, CONTENT, 1)
    store.put(InStore(2, 0), CONTENT, 1)
    for one in ids[:-1]:
        store.release(one)
    copy = store.next_number()
    store.adopt(copy, EACH * RECORD_BYTES, EACH * RECORD_BYTES, ids)
    for at, one in enumerate(ids):
        store.moved(one, 1, copy, at * RECORD_BYTES + HEADER_BYTES)
    assert store.files[copy].living == RECORD_BYTES
    assert (store.dead_files(), store.sparse_files()) == ([1], [copy])
    store.release(ids[-1])
    assert sorted(store.dead_files()) == [1, copy]


def test_garbage_that_a_stop_left_is_found_after_the_start(store: MessageStore) -> None:
    """Files of which nothing more was settled were never looked at again."""
    sizes = dict.fromkeys((1, 2, 3), EACH * RECORD_BYTES)
    living = {InStore(1, 0): 1, **{InStore(3, index): 3 for index in range(EACH)}}
    store.restore(sizes, {one: Stored(file, HEADER_BYTES, len(CONTENT), 1) for one, file in living.items()})
    assert (store.dead_files(), store.sparse_files()) == ([2], [1])


def test_a_copy_of_what_was_stored_anew_meanwhile_does_not_count(store: MessageStore) -> None:
    """A log file that is walked twice, as on a full disk, stores again what went in between."""
    once = InStore(1, 0)
    for index in range(EACH):
        store.put(InStore(1, index), CONTENT, 1)
    copy = store.next_number()
    store.release(once)
    store.put(once, CONTENT, 1)
    place = store.contents[once].file, store.contents[once].offset
    assert place[0] != 1
    store.adopt(copy, EACH * RECORD_BYTES, EACH * RECORD_BYTES, [once])
    store.moved(once, 1, copy, HEADER_BYTES)
    assert (store.contents[once].file, store.contents[once].offset) == place
    assert store.files[copy].living == 0


def test_a_file_that_is_being_copied_is_neither_deleted_nor_copied_again(store: MessageStore) -> None:
    for index in range(2 * EACH + 1):
        store.put(InStore(1, index), CONTENT, 1)
    for index in range(2 * EACH - 1):
        store.release(InStore(1, index))
    assert (store.dead_files(), store.sparse_files()) == ([1], [2])
    for number in (1, 2):
        store.files[number].held = True
    assert (store.dead_files(), store.sparse_files()) == ([], [])


@pytest.mark.parametrize("after", ["a clean stop", "a crash"])
def test_what_lives_in_a_file_of_an_earlier_life_is_known_to_who_compacts_it(after: str) -> None:
    """It was taken for empty, and deleted with all that lived in it."""
    disk = SimDisk()
    store = MessageStore(OpenFiles(disk), names.STORE_PERSISTENT, EACH * RECORD_BYTES)
    ids = [InStore(1, index) for index in range(EACH)]
    for one in ids:
        store.put(one, CONTENT, 1)
    sizes, contents = {1: store.files[1].size}, dict(store.contents)
    again = MessageStore(OpenFiles(disk), names.STORE_PERSISTENT, EACH * RECORD_BYTES)
    if after == "a clean stop":
        again.restore(sizes, contents)
    else:
        again.scan(sizes, lambda *damage: pytest.fail(f"{damage}"))
        assert all(again.refer(one) for one in ids)
    assert [one for one, _ in again.living_in(1)] == ids


def test_a_new_file_has_no_number_of_one_that_is_there() -> None:
    """Those in between were deleted: their count is less than the highest number."""
    disk = SimDisk()
    disk.make_dir(names.STORE_PERSISTENT)
    store = MessageStore(OpenFiles(disk), names.STORE_PERSISTENT, EACH * RECORD_BYTES)
    store.restore({7: RECORD_BYTES}, {InStore(1, 0): Stored(7, HEADER_BYTES, len(CONTENT), 1)})
    store.put(InStore(1, 1), CONTENT, 1)
    assert (store.contents[InStore(1, 1)].file, sorted(store.files)) == (8, [7, 8])


def test_a_content_that_is_stored_once_more_only_gets_references(store: MessageStore) -> None:
    """A flush that a crash ended is repeated."""
    once = InStore(1, 0)
    store.put(once, CONTENT, 1)
    store.put(once, CONTENT, 2)
    assert (store.files[1].size, store.files[1].living) == (RECORD_BYTES, RECORD_BYTES)
    store.release(once)
    store.release(once)
    assert store.read(once) == CONTENT
    store.release(once)
    assert (store.contents, store.files[1].living) == ({}, 0)


def test_a_content_that_queues_share_lives_once(store: MessageStore) -> None:
    """Counted for each of them, its file would never be taken for garbage."""
    for index in range(EACH + 1):
        store.put(InStore(1, index), CONTENT, 1)
    assert store.refer(InStore(1, 0))
    assert store.files[1].living == EACH * RECORD_BYTES
    for index in (0, 0, 1, 2, 3):
        store.release(InStore(1, index))
    assert store.dead_files() == [1]


def test_what_has_a_copy_elsewhere_does_not_live_where_it_was(store: MessageStore) -> None:
    ids = [InStore(1, index) for index in range(EACH)]
    for one in ids:
        store.put(one, CONTENT, 1)
    copy = store.next_number()
    store.adopt(copy, RECORD_BYTES, RECORD_BYTES, ids[:1])
    store.moved(ids[0], 1, copy, HEADER_BYTES)
    assert [one for one, _ in store.living_in(1)] == ids[1:]
    assert [one for one, _ in store.living_in(copy)] == ids[:1]


def test_what_is_compacted_together_fits_into_one_file(store: MessageStore) -> None:
    """Sixteen sources made a file eight times too large: all of it had to be copied again when half of it was garbage."""
    for index in range(10 * EACH + 1):
        store.put(InStore(1, index), CONTENT, 1)
    for index in range(10 * EACH):
        if index % EACH:
            store.release(InStore(1, index))
    assert len(store.sparse_files()) == 10
    planned = plan(store, 1)
    assert planned is not None and len(planned.sources) == EACH
