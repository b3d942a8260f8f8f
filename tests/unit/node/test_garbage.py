"""What the collector looks through again, and when."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from node.watching.garbage import ENDED_MAX, LastingObjects


@dataclass
class Totals:
    ended: int = 0


class Ring:
    """Ends as a cycle."""

    def __init__(self) -> None:
        self.self = self


@pytest.fixture
def totals() -> Iterator[Totals]:
    totals = Totals(7)
    lasting = LastingObjects(lambda: totals.ended)
    lasting.start()
    yield totals
    lasting.stop()
    gc.unfreeze()


def test_what_outlived_a_full_collection_is_not_looked_through_again(totals: Totals) -> None:
    lasting = Ring()
    gc.collect()
    assert gc.get_freeze_count() > 0
    ended, lasting = weakref.ref(lasting), Ring()
    gc.collect()
    assert ended() is not None


def test_everything_is_looked_through_once_much_has_ended(totals: Totals) -> None:
    lasting = Ring()
    gc.collect()
    ended, lasting = weakref.ref(lasting), Ring()
    totals.ended += ENDED_MAX - 1
    gc.collect()
    assert ended() is not None
    totals.ended += 1
    gc.collect()
    assert ended() is None
    assert gc.get_freeze_count() > 0, "what is left lasts again"


def test_what_has_ended_is_counted_anew_once_everything_was_looked_through(totals: Totals) -> None:
    totals.ended += ENDED_MAX
    gc.collect()
    lasting = Ring()
    gc.collect()
    ended, lasting = weakref.ref(lasting), Ring()
    totals.ended += ENDED_MAX - 1
    gc.collect()
    assert ended() is not None
    totals.ended += 1
    gc.collect()
    assert ended() is None


def test_what_is_young_is_still_collected(totals: Totals) -> None:
    ended = weakref.ref(Ring())
    gc.collect(0)
    assert ended() is None


def test_a_smaller_collection_sets_nothing_aside(totals: Totals) -> None:
    gc.unfreeze()
    gc.collect(1)
    assert gc.get_freeze_count() == 0


def test_it_can_be_stopped_without_a_start() -> None:
    LastingObjects(lambda: 0).stop()
