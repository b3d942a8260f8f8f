"""The fold of a quorum queue comes to the state that its member came to: behind each entry, and from each snapshot on."""

from __future__ import annotations

import pytest

from analytics.fold.quorum_queue import QueueFold
from analytics.inputs import log_files, snapshot_files
from analytics.past.past_events import past_of
from analytics.queue_events import QueueEvent
from analytics.read_snapshots import snapshot_said
from native.entry_rows import whole_entry
from quorum.fifo.versions import VERSION_NEWEST
from tests.unit.analytics.past_world import GROUP, PastWorld, QuorumBook

FILES = 12


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> PastWorld:
    made = PastWorld(tmp_path_factory.mktemp("folded") / "n1", seed=2)
    made.live(FILES)
    return made


@pytest.fixture(scope="module")
def entries(world: PastWorld) -> list[QueueEvent]:
    files = log_files([str(world.directory)])
    return [event for file in files for event in past_of(file, GROUP, range(1 << 63), tail=False).events]


def digests(fold: QueueFold, entries: list[QueueEvent]) -> dict[int, int]:
    found = {}
    for event in entries:
        fold.take(event.place, whole_entry(event.data, event.size))
        found[event.place] = fold.machine.digest
    return found


def member(world: PastWorld) -> QuorumBook:
    book = world.books[GROUP]
    assert isinstance(book, QuorumBook)
    return book


def test_behind_each_entry_it_has_the_digest_of_the_member(world: PastWorld, entries: list[QueueEvent]) -> None:
    assert len(entries) > 50
    assert digests(QueueFold(), entries) == member(world).digests


def test_from_each_snapshot_on_it_comes_to_the_same(world: PastWorld, entries: list[QueueEvent]) -> None:
    snapshots = snapshot_files([str(world.directory)])
    assert snapshots
    for file in snapshots:
        said = snapshot_said(file)
        assert said is not None
        state = said[1]
        fold = QueueFold((state.data[state.first :], VERSION_NEWEST))
        assert fold.machine.digest == member(world).digests[state.place]
        behind = [event for event in entries if event.place > state.place]
        assert digests(fold, behind).items() <= member(world).digests.items()


def test_an_entry_that_is_left_out_gives_another_digest(world: PastWorld, entries: list[QueueEvent]) -> None:
    """What the two above are worth."""
    found = digests(QueueFold(), [*entries[:20], *entries[21:]])
    assert found[entries[-1].place] != member(world).digests[entries[-1].place]
