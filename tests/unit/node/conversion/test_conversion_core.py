"""node/conversion/conversion.py alone, between a classic queue and copies that the test answers for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker.catalog.commands.catalog_commands import Command, ConvertQueue, DeleteQueue
from broker.errors import ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.pending import Pending
from broker.queues.queue_type import Outcome
from broker.records import QueueRecord
from classic.fence import Fence
from classic.run_backing import ContentLost, ContentOutOfReach
from native.content import encode
from native.sequence_set import Range, SequenceSet
from node.conversion.conversion import (
    FOUNDING_MAX_MS,
    IN_VAIN_MAX,
    PAUSE_MAX_MS,
    SEALED_MAX_MS,
    STANDSTILL_MAX_MS,
    STEP_BYTES,
    TRY_AGAIN_MS,
    WINDOW_BYTES,
    Conversion,
    Phase,
)
from node.conversion.outstanding import Outstanding
from node.conversion.publishers_credit import STANDSTILL_MS
from quorum.fifo.commands import FIRST_ID
from quorum.fifo.versions import UNSEEN_IN_PLACE

CLASSIC = QueueRecord("/", "q", "classic", True, False, False, {}, 5, "n1")
QUORUM = replace(CLASSIC, name="amq.becoming.q", kind="quorum", id=6)
COUNT = 6
LARGE = STEP_BYTES // 8


class Source:
    """A classic queue with one stored run."""

    def __init__(self) -> None:
        self.record = CLASSIC
        self.ready, self.out, self.redelivered = SequenceSet(), SequenceSet(), SequenceSet()
        self.ready.add(0, COUNT)
        self.levels = [self]
        self.is_settling = False
        self.fence: Fence | None = None
        self.unfenced: list[int] = []
        self.trouble: Exception | None = None  # of who reads the content
        self.backing = self
        contents = [encode(b"\0\0", b"%d" % number) for number in range(COUNT)]
        self.run: Any = SimpleNamespace(
            content=b"".join(contents), content_first=0, exchange="",
            routing_key="q", persistent=True, priority=0, expires_at=None,
        )  # fmt: skip

    def browse(self, start: int) -> Iterator[tuple[Any, int, int]]:
        for first, end in self.ready.ranges():
            yield self.run, first, end

    def read(self, run: Any) -> tuple[bytes, int]:
        assert self.trouble is not None
        raise self.trouble

    def alive_in(self, first: int, end: int) -> list[Range]:
        return sorted(self.ready.intersect(first, end) + self.out.intersect(first, end))

    @property
    def next_sequences(self) -> list[int]:
        return [COUNT]

    def unfence(self, publish: Any, now: int) -> None:
        self.fence = None
        self.unfenced.append(now)

    def hand_out(self, first: int, end: int) -> None:
        self.ready.remove(first, end)
        self.out.add(first, end)


class Backlog(Source):
    """A classic queue with large messages, to which more are published."""

    def __init__(self) -> None:
        super().__init__()
        self.run.content = encode(b"\0\0", b"x" * LARGE)
        self.published = COUNT

    def publish(self, count: int) -> None:
        self.ready.add(self.published, self.published + count)
        self.published += count

    def browse(self, start: int) -> Iterator[tuple[Any, int, int]]:
        for first in range(start, self.published):
            yield SimpleNamespace(**vars(self.run) | {"content_first": first}), first, first + 1

    @property
    def next_sequences(self) -> list[int]:
        return [self.published]


class Indexed(Source):
    """Its one run is found by where it begins, as one whose content is on the disk; or not at all, for a moment."""

    out_of_sight = False

    def browse(self, start: int) -> Iterator[tuple[Any, int, int]]:
        if not start and not self.out_of_sight:
            yield from super().browse(start)


class Copies:
    """What was said to the quorum queue. Fulfils HeldCopies."""

    def __init__(self) -> None:
        machine = SimpleNamespace(version=UNSEEN_IN_PLACE)
        self.queue: Any = SimpleNamespace(record=QUORUM, member=SimpleNamespace(machine=machine), ready_count=0)
        self.are_as_expected = True
        self.next_id = FIRST_ID
        self.owed: list[Receipt] = []
        self.said: list[Any] = []
        self.ended: Callable[[Any], None] | None = None

    def begin(self, begun: Callable[[Any], None]) -> None:
        begun(None)

    def add(self, run: Run, receipt: Receipt) -> int:
        first, self.next_id = self.next_id, self.next_id + run.count
        self.owed.append(receipt)
        return first

    def settle(self, first: int, count: int, outcome: Outcome) -> None:
        self.said.append((first - FIRST_ID, count, outcome))

    def flush(self) -> None: ...

    def close(self) -> None:
        self.said.append("close")

    def end(self, ended: Callable[[Any], None]) -> None:
        self.said.append("end")
        self.ended = ended


class Changing:
    """One conversion."""

    def __init__(self, source: Source | None = None) -> None:
        self.source, self.copies, self.now = source or Source(), Copies(), 10_000_000
        self._set_by_ms = 0
        self.asked_to_go_on = 0
        self.held: list[Any] = []  # by clients
        self.wanted: list[tuple[Command, Pending[Any]]] = []
        self.conversion = Conversion(
            self.source,  # type: ignore[arg-type]
            self.copies,  # type: ignore[arg-type]
            held_by_clients=lambda queue: self.held,
            publish=lambda run, receipt: None,
            insist=self.insist,
            soon=self.soon,
            wall_ms=lambda: self.now,
            monotonic_ms=lambda: self.now - self._set_by_ms,
        )

    def soon(self) -> None:
        self.asked_to_go_on += 1

    def set_wall_clock(self, by_ms: int) -> None:
        self.now += by_ms
        self._set_by_ms += by_ms

    def insist(self, command: Command) -> Pending[Any]:
        answer: Pending[Any] = Pending()
        self.wanted.append((command, answer))
        return answer

    def kinds(self) -> list[type[Any]]:
        return [type(command) for command, _ in self.wanted]

    def go_on(self, ms: int = 0) -> Phase:
        self.now += ms
        self.conversion.advance()
        return self.conversion.phase

    def answer(self) -> None:
        owed, self.copies.owed = self.copies.owed, []
        for receipt in owed:
            receipt.accepted()

    def copied(self) -> Changing:
        """All that was ready, and it is fenced."""
        assert self.go_on() is Phase.COPYING
        assert self.go_on() is Phase.FENCED
        return self

    def sealed(self) -> Changing:
        self.copied()
        self.answer()
        assert self.go_on() is Phase.SEALED
        return self

    def swapping(self) -> Changing:
        self.sealed()
        assert self.copies.ended is not None
        self.copies.ended(None)
        assert self.conversion.phase is Phase.SWAPPING
        return self


def test_publishers_are_held_so_that_copying_catches_up_and_never_for_long() -> None:
    """Each turn some steps of 8 messages are copied, and 20 would be published: they were never caught up with."""
    backlog = Backlog()
    backlog.publish(500)
    changing = Changing(backlog)
    held_for, longest = 0, 0
    for _ in range(1_000):
        if changing.go_on(10) is Phase.FENCED:
            break
        changing.answer()
        held_for = held_for + 1 if changing.conversion.holds_publishers else 0
        longest = max(longest, held_for)
        if not held_for:
            backlog.publish(20)
    assert changing.conversion.phase is Phase.FENCED
    assert 506 < backlog.published < 1_200, "publishers went on at half of the pace of the copying"
    assert longest <= 6, "they are held for some turns, and not until all is copied"


def test_publishers_are_not_held_where_all_that_they_publish_is_copied_at_once() -> None:
    """Little has been copied since the fence was opened, so they have no credit, and need none."""
    backlog = Backlog()
    changing = Changing(backlog)
    while changing.go_on(1) is not Phase.FENCED:
        changing.answer()
    assert changing.go_on(PAUSE_MAX_MS) is Phase.COPYING
    for _ in range(5):
        changing.answer()
        backlog.publish(4)
        assert changing.go_on(10) is Phase.COPYING
        assert not changing.conversion.holds_publishers


def test_copying_goes_on_without_waiting_for_a_tick_and_asks_for_that_once() -> None:
    """Each step is some milliseconds, and ticks come ten times a second."""
    backlog = Backlog()
    backlog.publish(500)
    changing = Changing(backlog)
    asked = changing.asked_to_go_on
    assert asked == 1, "its consumer is there"
    changing.go_on()
    assert changing.asked_to_go_on == 2, "the group can take copies"
    changing.go_on()
    assert changing.asked_to_go_on == 3, "there is more, and room for it"
    changing.answer()
    assert changing.asked_to_go_on == 3, "it was asked already"
    while len(changing.copies.owed) < WINDOW_BYTES // LARGE:
        changing.go_on()
    asked = changing.asked_to_go_on
    changing.go_on()
    assert changing.asked_to_go_on == asked, "nothing more can be on its way"
    for _ in range(len(changing.copies.owed) // 2 + 1):
        changing.copies.owed.pop(0).accepted()
    assert changing.asked_to_go_on == asked + 1


def test_the_last_copy_on_a_majority_has_the_fence_looked_at_at_once(changing: Changing) -> None:
    changing.copied()
    asked = changing.asked_to_go_on
    changing.answer()
    assert changing.asked_to_go_on == asked + 1


JUMPS = pytest.mark.parametrize("jump_ms", [0, -3_600_000, 3_600_000])


@JUMPS
def test_publishers_are_not_held_for_copies_that_are_not_made(jump_ms: int) -> None:
    backlog = Backlog()
    backlog.publish(500)
    changing = Changing(backlog)
    while len(changing.copies.owed) < WINDOW_BYTES // LARGE:
        changing.go_on(1)
    backlog.publish(100)
    changing.set_wall_clock(jump_ms)
    assert changing.conversion.holds_publishers
    changing.go_on(STANDSTILL_MS)
    assert not changing.conversion.holds_publishers


@pytest.fixture
def changing() -> Changing:
    return Changing()


def test_copies_are_as_the_queue_when_it_is_replaced(changing: Changing) -> None:
    """0 was handed out before and came back; 2 and 3 are out; 5 has left when the fence is there."""
    changing.source.redelivered.add(0, 1)
    changing.go_on()
    changing.go_on()
    changing.source.hand_out(2, 4)
    changing.source.ready.remove(5, 6)
    changing.answer()
    assert changing.go_on() is Phase.SEALED
    assert changing.source.fence is not None and changing.source.fence.sealed
    assert changing.copies.said == [
        "close", (5, 1, Outcome.ACKNOWLEDGED), (0, 1, Outcome.RELEASED), (2, 2, Outcome.RELEASED), "end",
    ]  # fmt: skip
    assert changing.wanted == []
    assert changing.copies.ended is not None
    changing.copies.ended(None)
    assert [command for command, _ in changing.wanted] == [ConvertQueue("/", "q", 5, 6)]


def test_what_a_client_holds_and_nobody_copied_before_is_copied_behind_the_fence(changing: Changing) -> None:
    changing.source.hand_out(4, 6)
    changing.held = [SimpleNamespace(sequence=4, count=2, handle=changing.source.run)]
    changing.sealed()
    assert (changing.copies.next_id - FIRST_ID, changing.conversion.copied_count) == (COUNT, COUNT)
    assert (4, 2, Outcome.RELEASED) in changing.copies.said


def test_who_holds_a_message_that_is_not_told_of_keeps_it_from_being_sealed(changing: Changing) -> None:
    changing.source.hand_out(4, 6)
    changing.copied()
    changing.answer()
    assert changing.go_on() is Phase.FENCED


def test_nothing_is_sealed_before_all_copies_are_on_a_majority(changing: Changing) -> None:
    changing.copied()
    assert changing.go_on() is Phase.FENCED
    changing.answer()
    assert changing.go_on() is Phase.SEALED


@JUMPS
@pytest.mark.parametrize("why", ["the member has not seen them", "settlements are under way"])
def test_a_fence_that_stands_too_long_is_opened_and_tried_again_later(
    changing: Changing, why: str, jump_ms: int
) -> None:
    changing.copied()
    changing.set_wall_clock(jump_ms)
    changing.answer()
    changing.source.is_settling = why.startswith("settlements")
    changing.copies.are_as_expected = changing.source.is_settling
    assert changing.go_on(PAUSE_MAX_MS - 1) is Phase.FENCED
    assert changing.go_on(1) is Phase.COPYING
    assert changing.source.unfenced == [changing.now]
    assert changing.conversion.fenced_ms == PAUSE_MAX_MS
    changing.set_wall_clock(-jump_ms)
    changing.copies.are_as_expected, changing.source.is_settling = True, False
    assert changing.go_on(TRY_AGAIN_MS - 1) is Phase.COPYING
    assert changing.go_on(1) is Phase.SEALED


def test_copies_that_the_group_has_taken_back_end_it_and_it_is_not_fenced_again_and_again(changing: Changing) -> None:
    """For ever, and nine tenths of every other second."""
    changing.copied()
    changing.answer()
    changing.copies.are_as_expected = False
    for _ in range(IN_VAIN_MAX - 1):
        assert changing.go_on(PAUSE_MAX_MS) is Phase.COPYING
        assert changing.go_on(TRY_AGAIN_MS) is Phase.FENCED
    assert changing.go_on(PAUSE_MAX_MS) is Phase.COPYING
    assert changing.go_on() is Phase.OVER
    assert (changing.kinds(), changing.source.fence) == ([DeleteQueue], None)


def test_fences_that_were_opened_for_another_reason_do_not_end_it(changing: Changing) -> None:
    changing.copied()
    changing.answer()
    for _ in range(2 * IN_VAIN_MAX):
        changing.source.is_settling = not changing.source.is_settling
        changing.copies.are_as_expected = False
        assert changing.go_on(PAUSE_MAX_MS) is Phase.COPYING
        assert changing.go_on(TRY_AGAIN_MS) is Phase.FENCED
    changing.source.is_settling, changing.copies.are_as_expected = False, True
    assert changing.go_on() is Phase.SEALED


def test_copies_that_have_come_back_are_not_put_in_the_place_of_the_queue(changing: Changing) -> None:
    """They were let go, so their messages have left: who got them would get them twice."""
    changing.sealed()
    changing.copies.queue.ready_count = COUNT + 1
    assert changing.copies.ended is not None
    changing.copies.ended(None)
    assert (changing.conversion.phase, changing.kinds()) == (Phase.OVER, [DeleteQueue])
    assert changing.source.unfenced


def test_a_copy_that_is_refused_ends_it(changing: Changing) -> None:
    changing.copied()
    changing.copies.owed.pop().refused()
    assert (changing.conversion.phase, changing.kinds()) == (Phase.OVER, [DeleteQueue])
    assert changing.source.unfenced == [changing.now]


@JUMPS
def test_a_group_without_a_leader_is_given_up_and_what_it_says_later_means_nothing(
    changing: Changing, jump_ms: int
) -> None:
    changing.sealed()
    changing.set_wall_clock(jump_ms)
    assert changing.go_on(SEALED_MAX_MS - 1) is Phase.SEALED
    assert changing.go_on(1) is Phase.OVER
    assert changing.copies.ended is not None
    changing.copies.ended(None)
    assert (changing.conversion.phase, changing.kinds()) == (Phase.OVER, [DeleteQueue])


@JUMPS
def test_a_group_that_gets_no_leader_ends_it_before_the_first_copy(changing: Changing, jump_ms: int) -> None:
    """Most of its nodes had died for good when it was founded. Two such queues kept a policy from converting any other one."""
    changing.copies.queue.member = None
    changing.set_wall_clock(jump_ms)
    assert changing.go_on(FOUNDING_MAX_MS - 1) is Phase.FOUNDING
    assert changing.go_on(1) is Phase.OVER
    assert changing.kinds() == [DeleteQueue]


def test_who_does_not_know_what_became_of_the_command_waits_behind_the_fence(changing: Changing) -> None:
    changing.swapping()
    changing.wanted[0][1].fail(ResourceExhausted("no majority"))
    assert changing.kinds() == [ConvertQueue, DeleteQueue]
    assert changing.source.unfenced == [] and changing.source.fence is not None
    changing.wanted[1][1].resolve(None)
    assert changing.source.unfenced == [changing.now]


def test_a_command_that_found_one_of_the_two_gone_ends_it(changing: Changing) -> None:
    changing.swapping()
    changing.wanted[0][1].resolve(None)
    assert (changing.conversion.phase, changing.kinds()) == (Phase.OVER, [ConvertQueue, DeleteQueue])


def test_what_cannot_be_read_any_more_gets_no_copy_and_holds_nothing_up(changing: Changing) -> None:
    changing.source.run.content = b""
    changing.source.trouble = ContentLost(changing.source.run)
    changing.go_on()
    assert changing.go_on() is Phase.SEALED
    assert changing.copies.next_id == FIRST_ID


def test_a_file_that_cannot_be_opened_while_nothing_is_fenced_is_tried_again(changing: Changing) -> None:
    content, changing.source.run.content = changing.source.run.content, b""
    changing.source.trouble = ContentOutOfReach("no descriptor is left")
    assert changing.go_on() is Phase.COPYING
    assert changing.go_on() is Phase.COPYING
    assert changing.source.unfenced == []
    changing.source.run.content = content
    assert changing.go_on() is Phase.FENCED, "at once, and not as behind a fence that stood too long"


def test_nothing_is_copied_before_all_nodes_of_its_group_can_take_it(changing: Changing) -> None:
    changing.copies.are_as_expected = False
    assert changing.go_on() is Phase.FOUNDING
    changing.copies.are_as_expected = True
    changing.copies.queue.member.machine.version = UNSEEN_IN_PLACE - 1
    assert changing.go_on() is Phase.FOUNDING
    changing.copies.queue.member.machine.version = UNSEEN_IN_PLACE
    assert changing.go_on() is Phase.COPYING


def test_copies_of_what_has_left_are_let_go_while_the_rest_is_copied() -> None:
    """A queue of which much is copied and consumed would be in both until it is sealed."""
    backlog = Backlog()
    backlog.publish(100)
    changing = Changing(backlog)
    changing.go_on()
    changing.go_on()
    backlog.ready.remove(0, 2)
    assert changing.go_on() is Phase.COPYING
    assert changing.copies.said == [(0, 2, Outcome.ACKNOWLEDGED)]


def test_the_rest_of_a_run_is_copied_whose_beginning_has_copies_already() -> None:
    """It was out when the beginning was copied, and has come back. The conversion hung, for a run is found by its beginning."""
    source = Indexed()
    source.hand_out(3, COUNT)
    changing = Changing(source)
    changing.go_on()
    assert changing.go_on() is Phase.FENCED
    source.out.remove(3, COUNT)
    source.ready.add(3, COUNT)
    changing.answer()
    changing.go_on()
    changing.answer()
    assert changing.go_on() is Phase.SEALED
    assert changing.conversion.copied_count == COUNT


def test_nothing_is_sealed_as_long_as_a_message_that_is_ready_has_no_copy() -> None:
    """Also where nothing is found to be copied: it would be gone with the classic queue."""
    source = Indexed()
    source.out_of_sight = True
    changing = Changing(source).copied()
    assert changing.go_on() is Phase.FENCED
    assert changing.go_on(PAUSE_MAX_MS) is Phase.COPYING
    source.out_of_sight = False
    changing.now += TRY_AGAIN_MS
    changing.go_on()
    changing.answer()
    assert changing.go_on() is Phase.SEALED


@pytest.mark.parametrize("how", ["refused", "give_up"])
def test_a_conversion_ends_once_though_several_copies_did_not_come_there(how: str) -> None:
    """The fence that stands when the last of them is answered may be that of the next conversion."""
    backlog = Backlog()
    backlog.publish(100)
    changing = Changing(backlog)
    changing.go_on()
    changing.go_on()
    getattr(changing.copies.owed.pop(), how)()
    assert changing.conversion.phase is Phase.OVER
    unfenced, backlog.fence = len(backlog.unfenced), Fence()
    getattr(changing.copies.owed.pop(), how)()
    changing.answer()
    assert (changing.kinds(), len(backlog.unfenced)) == ([DeleteQueue], unfenced)
    assert backlog.fence is not None


def test_how_long_copies_wait_is_not_hidden_by_those_that_are_sent_meanwhile() -> None:
    outstanding = Outstanding()
    outstanding.sent(10, 1_000)
    outstanding.sent(10, 5_000)
    assert outstanding.waited_ms(9_000) == 8_000
    outstanding.arrived(10, 9_000)
    assert outstanding.waited_ms(9_500) == 500
    outstanding.arrived(10, 10_000)
    assert outstanding.waited_ms(20_000) == 0


def test_publishers_are_held_by_copying_and_by_nothing_else() -> None:
    """Whoever publishes to any queue of the node would wait."""
    backlog = Backlog()
    backlog.publish(500)
    changing = Changing(backlog)
    assert not changing.conversion.holds_publishers, "it is being founded"
    while len(changing.copies.owed) < WINDOW_BYTES // LARGE:
        changing.go_on(1)
    backlog.publish(100)
    assert changing.conversion.holds_publishers
    changing.copies.owed.pop().refused()
    assert changing.conversion.phase is Phase.OVER
    assert not changing.conversion.holds_publishers


def test_a_file_that_cannot_be_opened_now_opens_the_fence(changing: Changing) -> None:
    changing.copied()
    changing.answer()
    changing.source.hand_out(0, 1)
    changing.source.ready.add(COUNT, COUNT + 1)
    changing.source.run.content = b""
    changing.source.trouble = ContentOutOfReach("no descriptor is left")
    assert changing.go_on() is Phase.COPYING
    assert changing.source.unfenced == [changing.now]


@JUMPS
def test_while_copies_wait_for_a_majority_nobody_is_held_and_in_the_end_the_queue_stays_what_it_was(
    changing: Changing, jump_ms: int
) -> None:
    """Each second the fence stood for nine tenths of the next one, for copies that did not come; and it went on for ever."""
    changing.copied()
    changing.set_wall_clock(jump_ms)
    assert changing.go_on(PAUSE_MAX_MS) is Phase.COPYING
    while changing.conversion.waited_ms < STANDSTILL_MAX_MS - 1_000:
        assert changing.go_on(1_000) is Phase.COPYING
        assert changing.source.fence is None and not changing.conversion.holds_publishers
    assert changing.go_on(1_000) is Phase.OVER
    assert (changing.kinds(), changing.conversion.waited_ms) == ([DeleteQueue], 0)
    assert changing.source.fence is None and changing.source.ready.count == COUNT


def test_copies_that_have_waited_for_long_and_come_at_last_go_on(changing: Changing) -> None:
    changing.copied()
    assert changing.go_on(PAUSE_MAX_MS) is Phase.COPYING
    assert changing.go_on(STANDSTILL_MAX_MS // 2) is Phase.COPYING
    changing.answer()
    assert changing.conversion.waited_ms == 0
    assert changing.go_on() is Phase.SEALED
