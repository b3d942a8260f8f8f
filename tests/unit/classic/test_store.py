"""Files of the shared message store: which of them may go, or are worth compacting."""

from __future__ import annotations

import pytest

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
