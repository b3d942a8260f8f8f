"""One classic queue of this node on its way to be a quorum queue. A core: it is told what time it is, and acts through ports.

    FOUNDING   the quorum queue has no leader yet, or its group is not of the version that this needs
    COPYING    the classic queue works; what it has is copied run by run, and copies of what has gone are let go
    FENCED     everything was copied for a moment: nothing comes in or goes out until the rest has copies on a majority
    SEALED     the copies are as the queue: what was handed out is marked, the rest is as if it had never been
    SWAPPING   one command of the catalog is to put the quorum queue in the classic one's place
    OVER       it is there, or the classic queue stays what it was

While copies wait for a majority of the group, the classic queue works and no fence is tried. After STANDSTILL_MAX_MS it is
ended: the classic queue has all it had, and lets others be converted. Shorter than that, a restart of some nodes say, what was
copied of a large queue is worth the wait. But where this node was cut off from its group for so long that the group took the
copies back, as from any consumer, no fence will do: after IN_VAIN_MAX of them it is ended, too.

Up to SWAPPING it can be cut short at any moment: the quorum queue is deleted, and the classic queue goes on with all it has.
Who does not know what became of the command waits behind the fence for the deletion, which the catalog carries out behind
it. Copies are held by a consumer of the quorum queue that nobody reads (quorum/held_copies.py), so the one does nothing while
the other lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Any

from broker.catalog.commands.catalog_commands import Command, ConvertQueue, DeleteQueue
from broker.messages.confirms import Receipt
from broker.pending import Pending, ignore
from broker.queues.queue_type import Outcome, Queue, Slice
from broker.queues.waiting_publishes import OnPublish
from classic.copying import CopiedPart, as_published, ready_parts
from classic.fence import Fence
from classic.queue import ClassicQueue
from classic.run_backing import ContentLost, ContentOutOfReach
from native.sequence_set import Range
from node.conversion.copied import Copied
from node.conversion.outstanding import Outstanding
from node.conversion.publishers_credit import PublishersCredit
from quorum.fifo.versions import UNSEEN_IN_PLACE
from quorum.held_copies import HeldCopies

STEP_BYTES = 512 << 10  # copied in one go: some milliseconds
WINDOW_BYTES = 4 << 20  # copied and not on a majority yet
FOUNDING_MAX_MS = (
    60_000  # in which a group gets a leader and learns of what all of its nodes know, or others are chosen
)
STANDSTILL_MAX_MS = 600_000  # that copies wait for a majority of the group
PAUSE_MAX_MS = 900  # behind the fence, before it is opened again to try later
IN_VAIN_MAX = 10  # fences one after the other, behind which all was copied and the group has not what it was given
SEALED_MAX_MS = 10_000  # behind which a group without a leader is given up
TRY_AGAIN_MS = 1_000


class Phase(IntEnum):
    FOUNDING = 0
    COPYING = 1
    FENCED = 2
    SEALED = 3
    SWAPPING = 4
    OVER = 5


class Conversion:
    """See the module. `held_by_clients`: what is out of a queue, as sessions and other nodes have it; `publish`: to the classic
    queue; `insist` submits a command and waits for a majority."""

    def __init__(
        self,
        source: ClassicQueue,
        copies: HeldCopies,
        *,
        held_by_clients: Callable[[Queue], Iterable[Slice]],
        publish: OnPublish,
        insist: Callable[[Command], Pending[Any]],
        soon: Callable[[], None],
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        on_phase: Callable[[Phase], None] = ignore,
    ) -> None:
        self.source = source
        self.copies = copies
        self.phase = Phase.FOUNDING
        self.fenced_ms = 0  # how long the last fence stood
        self._copied = Copied()
        self._credit = PublishersCredit(0)
        self._is_behind = False  # there was more to be copied than fits into a step
        self._held_by_clients = held_by_clients
        self._publish = publish
        self._insist = insist
        self._soon = soon
        self._wall_ms = wall_ms
        self._monotonic_ms = (
            monotonic_ms  # what lasts is counted by it: a fence that a wall clock keeps shut holds everybody
        )
        self._on_phase = on_phase
        self._began_at = monotonic_ms()
        self._goes_on = False  # soon
        self._outstanding = Outstanding()
        self._fence_at = 0  # not before
        self._fenced_at = 0
        self._in_vain = 0  # fences
        copies.begin(self._begun)

    @property
    def copied_count(self) -> int:
        return self._copied.held.count

    @property
    def waited_ms(self) -> int:
        """How long no copy has come to a majority of the group although some are on their way."""
        return self._outstanding.waited_ms(self._monotonic_ms()) if self.phase < Phase.SEALED else 0

    @property
    def holds_publishers(self) -> bool:
        """Whether they publish faster than copies can be made of it."""
        if self.phase is not Phase.COPYING:
            return False
        return self._is_behind and self._credit.is_spent(self._next_sequence(), self._monotonic_ms())

    def _next_sequence(self) -> int:
        return self.source.next_sequences[0]  # queues with priorities are not converted

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self._on_phase(phase)

    def _go_on(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            self._soon()

    def advance(self) -> None:
        """Called now and then, and when there is something to do."""
        now = self._wall_ms()
        self._goes_on = False
        try:
            match self.phase:
                case Phase.FOUNDING:
                    self._look_at_group()
                case Phase.COPYING if self.waited_ms >= STANDSTILL_MAX_MS or self._in_vain >= IN_VAIN_MAX:
                    self.give_up()
                case Phase.COPYING:
                    self._copy(now)
                case Phase.FENCED:
                    self._copy_rest(now)
                case Phase.SEALED if self._monotonic_ms() >= self._fenced_at + SEALED_MAX_MS:
                    self.give_up()
        except ContentOutOfReach:
            self._open_fence(now)  # no file can be opened now; the next tick tries again

    def _begun(self, _: Any) -> None:
        self._go_on()

    def _look_at_group(self) -> None:
        member = self.copies.queue.member
        if member is not None and member.machine.version >= UNSEEN_IN_PLACE and self.copies.are_as_expected:
            self._begin_copying()
            self._go_on()
        elif self._monotonic_ms() >= self._began_at + FOUNDING_MAX_MS:
            self.give_up()  # most of its nodes have gone since they were chosen

    # copying

    def _begin_copying(self) -> None:
        self._credit = PublishersCredit(self._next_sequence())
        self._enter(Phase.COPYING)

    def _copy(self, now: int) -> None:
        self._let_go()
        self._is_behind = not self._copy_some(now)
        if not self._is_behind:
            if self._monotonic_ms() >= self._fence_at and self.waited_ms < TRY_AGAIN_MS:
                self._fence(now)
        elif self._outstanding.bytes <= WINDOW_BYTES // 2:
            self._go_on()

    def _let_go(self) -> None:
        """Of copies whose messages have left."""
        for copy_id, count in self._copied.let_go(self.source.alive_in):
            self.copies.settle(copy_id, count, Outcome.ACKNOWLEDGED)
        self.copies.flush()

    def _copy_some(self, now: int) -> bool:
        """What is ready; whether that was all."""
        budget = min(STEP_BYTES, WINDOW_BYTES - self._outstanding.bytes)
        for part in self._uncopied():
            if budget <= 0:
                return False
            budget -= self._copy_part(part, now)
        return True

    def _uncopied(self) -> Iterator[CopiedPart]:
        missing = self._missing()
        if missing:
            yield from self._uncopied_from(missing[0][0], missing[-1][1])
        if self._missing():  # the rest of a run whose beginning was copied, and that the index has
            yield from self._uncopied_from(0, missing[-1][1])

    def _missing(self) -> list[Range]:
        return self._copied.missing(self.source.levels[0].ready.ranges())

    def _uncopied_from(self, start: int, end: int) -> Iterator[CopiedPart]:
        for part in ready_parts(self.source, start):
            if part.first >= end:
                return
            for first, stop in self._copied.missing([(part.first, part.end)]):
                yield CopiedPart(part.run, first, stop)

    def _copy_part(self, part: CopiedPart, now: int) -> int:
        """How many bytes that were."""
        try:
            run = as_published(self.source, part, now)
        except ContentLost:
            self._copied.lost.add(part.first, part.end)  # it has been reported, and goes when it comes to the head
            return 0
        self._outstanding.sent(len(run.content), self._monotonic_ms())
        copy_id = self.copies.add(run, Receipt(_Copy(self, len(run.content)), 0, run.count - 1, 1))
        self._copied.add(part.first, run.count, copy_id)
        self._credit.copied(run.count, self._monotonic_ms())
        return len(run.content)

    def copy_answered(self, size: int, taken: bool) -> None:
        self._outstanding.arrived(size, self._monotonic_ms())
        if not taken:
            self.give_up()
        elif self.phase is Phase.FENCED or self._outstanding.bytes <= WINDOW_BYTES // 2:
            self._go_on()

    # behind the fence

    def _fence(self, now: int) -> None:
        self.source.fence = Fence()
        self._enter(Phase.FENCED)
        self._fenced_at = self._monotonic_ms()
        self._copy_rest(now)

    def _copy_rest(self, now: int) -> None:
        """Also what clients hold and nobody has copied before it was handed out to them."""
        rest_is_there = self._copy_some(now) and self._copy_what_is_out(now) and not self._outstanding.bytes
        rest_is_there = rest_is_there and not self._missing()
        if rest_is_there and self.copies.are_as_expected:
            self._seal()
        elif self._monotonic_ms() >= self._fenced_at + PAUSE_MAX_MS:
            self._in_vain = self._in_vain + 1 if rest_is_there else 0
            self._open_fence(now)

    def _copy_what_is_out(self, now: int) -> bool:
        """Whether all of it has copies."""
        source = self.source
        if source.is_settling:
            return False
        if self._copied.missing(source.out.ranges()):
            for piece in self._held_by_clients(source):
                whole = (piece.sequence, piece.sequence + piece.count)
                for first, end in self._copied.missing([whole]):
                    self._copy_part(CopiedPart(piece.handle, first, end), now)
        return not self._copied.missing(source.out.ranges())

    def _open_fence(self, now: int) -> None:
        """The queue goes on, and so does copying."""
        if self.phase is Phase.FENCED:
            self._begin_copying()
            self._fence_at = self._monotonic_ms() + TRY_AGAIN_MS
            self._unfence(now)

    def _unfence(self, now: int) -> None:
        self.fenced_ms = self._monotonic_ms() - self._fenced_at
        self.source.unfence(self._publish, now)

    def _seal(self) -> None:
        source = self.source
        assert source.fence is not None, "a queue is sealed without a fence"
        source.fence.sealed = True
        self._enter(Phase.SEALED)
        self.copies.close()
        self._let_go()
        for first, end in self._seen_by_clients():
            for copy_id, count in self._copied.ids_of(first, end):
                self.copies.settle(copy_id, count, Outcome.RELEASED)
        self.copies.end(self._sealed)

    def _seen_by_clients(self) -> list[Range]:
        """What comes with the mark that it has been delivered before."""
        held = self._copied.held
        marked = [one for first, end in self.source.redelivered.ranges() for one in held.intersect(first, end)]
        return sorted(marked + self.source.out.ranges())

    def _sealed(self, _: Any) -> None:
        if self.phase is not Phase.SEALED:
            return
        if self.copies.queue.ready_count > self.copied_count:
            self.give_up()  # copies that were let go have come back: this node was taken for dead meanwhile
            return
        self._enter(Phase.SWAPPING)
        before, now = self.source.record, self.copies.queue.record
        swap = ConvertQueue(before.vhost, before.name, before.id, now.id)
        self._insist(swap).then(self._swapped, lambda error: self.give_up())

    def _swapped(self, result: Any) -> None:
        if result is None:  # somebody has deleted one of the two
            self.give_up()

    # the end

    def converted(self, publish: OnPublish) -> None:
        """The quorum queue has the place of the other one. `publish`: to it."""
        self._enter(Phase.OVER)
        fence = self.source.fence
        if fence is not None:
            self.fenced_ms = self._monotonic_ms() - self._fenced_at
            fence.open(self.copies.queue, publish)

    def give_up(self) -> None:
        """The classic queue stays what it is."""
        if self.phase is Phase.OVER:
            return
        if self.phase is not Phase.SWAPPING:
            self._unfence(self._wall_ms())
        self._enter(Phase.OVER)
        becoming = self.copies.queue.record
        delete = DeleteQueue(becoming.vhost, becoming.name, becoming.id)
        self._insist(delete).then(lambda _: self.stays(), ignore)

    def stays(self) -> None:
        """The quorum queue is deleted, so nothing takes the classic queue's place any more."""
        self._enter(Phase.OVER)
        self._unfence(self._wall_ms())

    def gone(self) -> None:
        """The classic queue is deleted."""
        self._enter(Phase.OVER)
        self.source.deleted_behind_fence()


class _Copy:
    """Tells of one that is on a majority. Fulfils AnswersTo."""

    __slots__ = ("_conversion", "_size")

    def __init__(self, conversion: Conversion, size: int) -> None:
        self._conversion = conversion
        self._size = size

    def answered(self, receipt: Receipt) -> None:
        self._conversion.copy_answered(self._size, receipt.taken)

    def given_up(self, receipt: Receipt) -> None:
        self._conversion.copy_answered(self._size, False)
