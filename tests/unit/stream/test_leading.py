"""What only the leader's node does for a stream, alone: when it seals, cuts and forgets."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from raft.core.errors import Unknown
from stream.chunks.chunk import message_item
from stream.chunks.entries import RetentionCut, WriterPosition, decode
from stream.chunks.publish_ops import publish_head
from stream.chunks.published_parts import PublishedPart
from stream.chunks.store_ops import Storing, encode_storing
from stream.group.leading import FORGET_MS, StreamLeading
from stream.group.machine import StreamMachine
from stream.group.rules import StreamRules
from stream.group.tail import NAMES_KEPT_MS, StreamTail
from tests.unit.stream.test_tail import said, sealed

OnResults = Callable[[Any, Any], None]


class Leader:
    """Of a stream whose log has so many entries of earlier leaders."""

    def __init__(self, machine: StreamMachine, last: int = 0) -> None:
        self.machine = machine
        self.proposed: list[tuple[bytes, OnResults]] = []
        self.driver: Any = SimpleNamespace(
            applied=machine.applied, core=SimpleNamespace(status=lambda: SimpleNamespace(last=last, term=2))
        )
        self.queue: Any = SimpleNamespace(
            group=1, record=SimpleNamespace(name="s"), rules=StreamRules(), route=SimpleNamespace(driver=self.driver)
        )
        groups = SimpleNamespace(propose=lambda group, entries, told: self.proposed.append((entries[0], told)))
        ports: Any = SimpleNamespace(groups=groups, wall_ms=lambda: 0)
        member: Any = SimpleNamespace(machine=machine)
        self.leading = StreamLeading(self.queue, member, ports, SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
        self.leading.group.check = lambda now: None  # type: ignore[method-assign]


def publishing(sequence: int) -> list[bytes]:
    part = PublishedPart(1, 1, message_item(b"body"))
    return [publish_head(WriterPosition(1, 1, sequence), 1, 1, b"", [part]), part.items]


def segments(count: int) -> StreamMachine:
    """Each of one chunk."""
    machine = StreamMachine()
    entries = sealed(StreamTail(machine, 1), *(said(number) for number in range(1, count + 1)), segment=1)
    for index, entry in enumerate(entries, 1):
        machine.apply(index, entry)
    return machine


def test_nothing_is_sealed_before_all_of_earlier_leaders_is_applied() -> None:
    """A reference that is stored again was compared with what it had been before, and went back."""
    machine, before = StreamMachine(), StreamTail(StreamMachine(), 1)
    entry = before.seal_stored([Storing("r", 50)], 0)
    leader = Leader(machine, last=1)
    again = [encode_storing([Storing("r", 10, again=True)])]
    assert leader.leading.seal(again, 0) is None and leader.leading.seal(publishing(1), 0) is None
    assert not leader.leading.knows_end()
    machine.apply(1, entry)
    leader.driver.applied = 1
    assert leader.leading.knows_end()
    stored = leader.leading.seal(again, 0)
    assert stored is not None
    machine.apply(2, stored)
    assert machine.state.stored["r"].offset == 50


def test_after_an_entry_out_of_place_nothing_is_sealed_before_all_that_was_on_its_way_is_applied() -> None:
    """What of that counts is not known before: a reference that is stored again could go back behind it."""
    leader = Leader(StreamMachine())
    first = leader.leading.seal([encode_storing([Storing("r", 50)])], 0)
    assert first is not None
    leader.driver.core = SimpleNamespace(status=lambda: SimpleNamespace(last=2, term=2))
    leader.leading.out_of_place()
    again = [encode_storing([Storing("r", 10, again=True)])]
    assert leader.leading.seal(again, 0) is None and not leader.leading.knows_end()
    leader.machine.apply(2, first)
    leader.driver.applied = 2
    stored = leader.leading.seal(again, 0)
    assert stored is not None
    leader.machine.apply(3, stored)
    assert leader.machine.state.stored["r"].offset == 50


def test_retention_cuts_once_at_a_time_and_again_whatever_became_of_it() -> None:
    leader = Leader(segments(5), last=5)
    leader.queue.rules = StreamRules(max_length_bytes=3 * leader.machine.state.segments[0].size)
    leader.leading.check(0)
    leader.leading.check(1)
    ((entry, told),) = leader.proposed
    cut = decode(entry)
    assert isinstance(cut, RetentionCut) and cut.first_offset == 2
    told(None, Unknown("the leadership changed"))
    leader.leading.check(2)
    assert len(leader.proposed) == 2
    leader.machine.apply(6, entry)
    leader.proposed.pop()[1]([], None)
    leader.leading.check(3)
    assert len(leader.proposed) == 1, "nothing is too much any more"


def test_names_that_nobody_has_used_for_long_are_forgotten_by_an_entry() -> None:
    leader = Leader(StreamMachine())
    stored = leader.leading.seal([encode_storing([Storing("r", 0)])], 0)
    published = leader.leading.seal(publishing(1), 0)
    assert stored is not None and published is not None
    for index, entry in enumerate((stored, published), 1):
        leader.machine.apply(index, entry)
    leader.machine.state.first_offset = 1
    leader.leading.check(NAMES_KEPT_MS)
    assert leader.proposed == []
    leader.leading.check(NAMES_KEPT_MS + FORGET_MS)
    ((entry, _),) = leader.proposed
    leader.machine.apply(3, entry)
    assert leader.machine.state.stored == {}


def test_an_offset_is_not_forgotten_while_the_stream_has_its_message() -> None:
    leader = Leader(segments(3))
    stored = leader.leading.seal([encode_storing([Storing("r", 1)])], 0)
    assert stored is not None
    leader.machine.apply(4, stored)
    leader.leading.check(NAMES_KEPT_MS + FORGET_MS)
    assert leader.proposed == []
    leader.machine.state.first_offset = 2
    leader.leading.check(NAMES_KEPT_MS + 2 * FORGET_MS)
    assert len(leader.proposed) == 1


def test_names_are_looked_for_once_an_hour_also_when_the_clock_was_set_back() -> None:
    leader = Leader(StreamMachine())
    assert leader.leading.knows_end()
    tail, looks = leader.leading._tail, list[int]()
    assert tail is not None

    def noted(now: int, first_offset: int) -> None:
        looks.append(now)

    tail.seal_forgotten = noted  # type: ignore[method-assign]
    for now in (FORGET_MS, FORGET_MS + 1, 2 * FORGET_MS - 1, 2 * FORGET_MS, 2 * FORGET_MS - 1, 2 * FORGET_MS):
        leader.leading.check(now)
    assert looks == [FORGET_MS, 2 * FORGET_MS, 2 * FORGET_MS - 1]
