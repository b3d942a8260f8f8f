"""Classic queues of a simulated node: the real ones, looked at where they live, and what each has promised so far.

    stored          what a publisher is told to be safe is in the queue, or was given to a consumer at once
    in order        first deliveries of one publisher and level ascend, across crashes
    done with       what was acknowledged or rejected is not handed out again by the same process; nor by a later one, once
                    the log that says so was durable. Before that a crash may bring it back: docs/durability.md

    lost            what leaves otherwise than by acknowledgement has its reason in `gone`: all else must come to a client

A body is in a queue once, so it says which message it is. The target of dead letters promises neither order nor that a letter
comes once: its source may have to send it again after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker.actors import LogActor
from broker.catalog.policy import EffectiveArguments
from broker.history_level import HistoryLevel
from broker.messages.message import Run
from broker.queues.queue_type import DeathReason, Got, Outcome, Queue, QueueHost, Slice
from broker.records import QueueRecord
from broker.unlogged import UnloggedCounter
from classic.driver import ClassicQueues
from classic.queue import ClassicQueue
from classic.store.log_records import DoneReason
from classic.store.node_storage import ClassicLimits
from classic.stored_run import LEVEL_SHIFT, StoredRun
from classic.variable_queue import VariableQueue
from native.content import messages
from native.sequence_set import Range
from storage.disk import Disk
from storage.history.file_names import FileNames
from storage.wal.log_users import LogShare
from storage.wal.writer import LogWriter
from tests.sim.brokers import invariants
from tests.sim.brokers.dead_homes import bodies_on
from tests.sim.brokers.invariants import About
from tests.sim.brokers.ledger import UNACKNOWLEDGED, deaths_of
from tests.sim.disk import SimDisk
from tests.sim.process import Crash

if TYPE_CHECKING:
    from storage.beside_loop import Background
    from tests.sim.brokers.process import BrokerProcess

ON_DISK = "it is on the disk of its home, which stays away"
DONE_WITH = (Outcome.ACKNOWLEDGED, Outcome.REJECTED)


@dataclass
class ClassicBook:
    """One queue, over all lives of its node."""

    about: About
    home: int
    on_late: Callable[[bytes], None]  # told of what may come behind later ones: it came back unseen, or had left
    is_committed: Callable[[bytes], bool]  # whether the publisher of this body has published it for good
    is_target: bool = False  # of dead letters
    drops: bool = False  # what is too much for its limit of length
    stored: dict[bytes, bool] = field(default_factory=dict)  # and whether it is persistent
    bodies: dict[int, bytes] = field(default_factory=dict)  # by sequence: what was stored there last
    deaths: dict[tuple[bytes, str], bool] = field(default_factory=dict)  # bodies of a target, and where they died
    handed_out: dict[bytes, bool] = field(default_factory=dict)
    got: dict[bytes, bool] = field(default_factory=dict)  # handed out to a get
    has_careless_gets: bool = False  # clients asked for some that they do not acknowledge
    done_with: dict[bytes, bool] = field(default_factory=dict)  # durably
    gone: dict[bytes, str] = field(default_factory=dict)  # why no client may ever acknowledge it
    purged: list[int] = field(default_factory=list)  # messages of each purge that nobody has been told of
    lanes: dict[tuple[bytes, int], int] = field(default_factory=dict)
    may_come_late: dict[bytes, bool] = field(default_factory=dict)
    _died: dict[bytes, bool] = field(default_factory=dict)  # expired or were too many, in this process
    _queue: ClassicQueue | None = None  # of the newest process that has read what the disk holds

    def begins_again(self, queue: ClassicQueue) -> None:
        """In another process. What died in the one before may be back, for nobody waits for the log to say that it has gone,
        and may live on, for the clock was set back or the limit is another. Others behind it were handed out meanwhile."""
        self.comes_late(self._died)
        self._died = {}
        for body in self.alive():
            if not self.stored[body]:
                self.gone[body] = "transient"
        self._queue = queue

    def alive(self) -> list[bytes]:
        """What the newest process has, or had when it ended: ready, or out to a consumer."""
        queue = self._queue
        if queue is None:
            return []
        return [
            body for held in (queue.out, *(level.ready for level in queue.levels)) for body in self.at(held.ranges())
        ]

    def may_be_nowhere(self, disk: SimDisk | None, limits: ClassicLimits) -> dict[bytes, str]:
        """What no client may ever acknowledge, and why. `disk`: of its home, where that stays away. The home cannot tell gets
        of other nodes apart: one that acknowledges nothing is answered as any other, and its client's node acknowledges it."""
        gone = dict(self.gone)
        if self.has_careless_gets:
            gone.update(dict.fromkeys(self.got, UNACKNOWLEDGED))
        if disk is not None and self._queue is not None:
            gone.update({body: "transient" for body in self.alive() if not self.stored[body]})
            gone.update(dict.fromkeys(bodies_on(disk, self._queue, limits), ON_DISK))
        return gone

    def at(self, ranges: Sequence[Range]) -> list[bytes]:
        return [self.bodies[sequence] for first, end in ranges for sequence in range(first, end)]

    def takes(self, run: Run, first: int) -> None:
        for sequence, (props, found) in enumerate(messages(run.content, 0, run.count), first):
            body = bytes(found)
            if self.is_target:
                self.deaths.update({(body, queue): True for queue, _ in deaths_of(bytes(props))})
            else:
                invariants.uncommitted_is_nowhere(self.about, body, self.is_committed(body))
            self.stored[body] = run.persistent
            self.bodies[sequence] = body

    def comes_late(self, bodies: Iterable[bytes]) -> None:
        """After the next start, if at all."""
        for body in bodies:
            if body not in self.handed_out:
                self.may_come_late[body] = True
                self.on_late(body)

    def is_out_of_reach(self, ranges: Sequence[Range]) -> None:
        """A file gave nothing: this is there again after the next start, unless that drops it."""
        bodies = self.at(ranges)
        self.comes_late(bodies)
        self.gone.update({body: "transient" for body in bodies if not self.stored[body]})

    def dies(self, bodies: Sequence[bytes], reason: DeathReason) -> None:
        self._died.update(dict.fromkeys(bodies, True))
        if reason is DeathReason.EXPIRED or self.drops:
            self.gone.update(dict.fromkeys(bodies, reason.name.lower()))

    def ends_while_they_die(self, bodies: Sequence[bytes]) -> None:
        """The process. What is persistent comes back."""
        self.gone.update({body: "transient" for body in bodies if not self.stored[body]})

    def purges(self, bodies: Sequence[bytes]) -> None:
        self.purged.append(len(bodies))
        self.gone.update(dict.fromkeys(bodies, "purged"))

    def hands_out(self, level: int, bodies: Sequence[bytes], done_here: dict[bytes, bool]) -> None:
        """`done_here`: what this process knows to be done with."""
        if self.is_target:
            return
        for body in bodies:
            is_done = body in done_here or body in self.done_with
            invariants.what_is_done_with_stays_away(self.about, body, is_done)
            if body not in self.handed_out:
                self.handed_out[body] = True
                publisher, number, _ = body.split(b":", 2)
                before = self.lanes.get((publisher, level), 0)
                if body not in self.may_come_late:
                    invariants.first_deliveries_are_in_order(self.about, (publisher, level), before, int(number))
                self.lanes[publisher, level] = max(before, int(number))


class WatchedClassicQueues(ClassicQueues):
    """Those of one process."""

    def __init__(self, process: BrokerProcess, disk: Disk, limits: ClassicLimits, background: Background) -> None:
        super().__init__(disk, limits, background)
        self._process = process
        self._done: list[tuple[ClassicBook, bytes]] = []  # and not in the log yet
        self._logged: list[tuple[int, list[tuple[ClassicBook, bytes]]]] = []  # by the ticket that makes it durable

    def attach(
        self,
        host: QueueHost,
        log: LogWriter,
        log_files: LogShare | None = None,
        names: FileNames | None = None,
        history: HistoryLevel = HistoryLevel.BASIC,
        unlogged: UnloggedCounter | None = None,
    ) -> None:
        super().attach(host, log, log_files, names, history, unlogged)
        storage: Any = self._storage
        told = storage.told

        def told_and_note() -> int:
            done, self._done = self._done, []
            ticket: int = told()
            self._logged.append((ticket, done))
            return ticket

        storage.told = told_and_note
        watch, moved = self._process.site.world.watch, storage.store.moved

        def count_moved(*what: Any) -> None:
            moved(*what)
            watch.count("content moved by compaction")

        storage.store.moved = count_moved
        log.when_durable(self._is_durable)

    def _is_durable(self, ticket: int) -> None:
        while self._logged and self._logged[0][0] <= ticket:
            for book, body in self._logged.pop(0)[1]:
                book.done_with[body] = True

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> Queue:
        queue = super().open(record, effective, now)
        book = self._process.site.world.classic_book(record)
        if book is not None:
            assert isinstance(queue, ClassicQueue), f"{queue}"
            book.begins_again(queue)
            self._watch(queue, book)
        return queue

    def stop(self, now: int) -> None:
        """Clients of all nodes have given back what they held: else the next start has to read everything."""
        may_settle = self._storage.log.failed is None
        super().stop(now)
        for queue in self._queues.values():
            book = self._process.site.world.classic_book(queue.record)
            if book is not None and may_settle:
                invariants.nothing_is_out_at_a_stop(book.about, queue.out.count)

    def _watch(self, watched: ClassicQueue, book: ClassicBook) -> None:
        queue: Any = watched
        stored, take, handed_out, get = queue.stored, queue._take, queue._handed_out, queue._get
        deliver_at_once, settle, die, forget = (
            queue.deliver_at_once, queue.settle_now, queue._leaving._die, queue.forget,
        )  # fmt: skip
        release_ready = queue.backing.release_ready
        out: dict[int, bytes] = {}
        done: dict[bytes, bool] = {}
        dying: list[DeathReason] = []  # of what is dying at the moment

        def note_stored(run: Run, level: VariableQueue, now: int) -> StoredRun:
            book.takes(run, level.next_sequence)
            return stored(run, level, now)

        def note_taken(level: VariableQueue, count_max: int) -> tuple[Slice, bytes] | None:
            taken = take(level, count_max)
            if taken is not None:
                piece, content = taken
                bodies = bodies_of(content, piece.position, piece.count)
                book.hands_out(piece.sequence >> LEVEL_SHIFT, bodies, done)
                out.update(enumerate(bodies, piece.sequence))
            return taken

        def note_got(no_ack: bool, now: int, by: LogActor | None) -> Got | None:
            got: Got | None = get(no_ack, now, by)
            if got is not None:
                book.got[book.bodies[got.piece.sequence]] = True
            return got

        def note_handed_out(piece: Slice, reason: DoneReason | None) -> None:
            handed_out(piece, reason)
            if reason is not None:
                be_done_with(piece)

        def note_died(
            dies: ClassicQueue, level: VariableQueue, buries: bool, count_max: int, reason: DeathReason, now: int
        ) -> int:
            dying.append(reason)
            before = book.at(level.ready.ranges())
            try:
                count: int = die(dies, level, buries, count_max, reason, now)
            except Crash:  # what was taken was not forgotten yet
                left = dict.fromkeys(book.at(level.ready.ranges()))
                book.ends_while_they_die([body for body in before if body not in left])
                raise
            finally:
                dying.clear()
            return count

        def note_forgotten(
            run: StoredRun, first: int, count: int, reason: DoneReason, by: LogActor | None = None
        ) -> None:
            forget(run, first, count, reason, by)
            if dying:
                bodies = book.at([(first, first + count)])
                book.dies(bodies, dying[0])
                done.update(dict.fromkeys(bodies, True))
                self._done.extend([(book, body) for body in bodies])

        def note_released(whose: ClassicQueue) -> None:
            release_ready(whose)
            book.purges([body for level in whose.levels for body in book.at(level.ready.ranges())])

        def note_delivered_at_once(run: Run, now: int) -> bool:
            level = queue.level_of(run.priority)
            first = level.next_sequence
            is_gone: bool = deliver_at_once(run, now)
            if is_gone:
                bodies = book.at([(first, first + run.count)])
                book.hands_out(queue.levels.index(level), bodies, done)
                done.update(dict.fromkeys(bodies, True))
            return is_gone

        def note_settled(piece: Slice, outcome: Outcome, now: int) -> None:
            settle(piece, outcome, now)
            if outcome in DONE_WITH:
                be_done_with(piece)  # or with a part of it, when it goes on later
            elif outcome is Outcome.RETURNED:
                for sequence in range(piece.sequence, piece.sequence + piece.count):
                    if sequence in out:
                        book.on_late(out[sequence])

        def be_done_with(piece: Slice) -> None:
            for sequence in range(piece.sequence, piece.sequence + piece.count):
                body = out.pop(sequence, None) if sequence not in queue.out else None
                if body is not None:
                    done[body] = True
                    self._done.append((book, body))

        queue.stored, queue._take, queue._handed_out = note_stored, note_taken, note_handed_out
        queue.deliver_at_once, queue.settle_now, queue._leaving._die = note_delivered_at_once, note_settled, note_died
        queue._get, queue.forget, queue.backing.release_ready = note_got, note_forgotten, note_released
        self._watch_reading(queue, book)

    def _watch_reading(self, queue: Any, book: ClassicBook) -> None:
        """What no file gives: of a run that is known, and of what the index should know."""
        tell_lost = queue.backing.lost

        def note_lost(ranges: Sequence[Range]) -> None:
            tell_lost(ranges)
            book.is_out_of_reach(ranges)

        def noting(level: Any) -> Callable[[StoredRun], None]:
            lose = level._lose

            def note_run_lost(run: StoredRun) -> None:
                book.is_out_of_reach(level.ready.intersect(run.first, run.end))
                lose(run)

            return note_run_lost

        queue.backing.lost = note_lost
        for level in queue.levels:
            level._lose = noting(level)

    def left_in(self, queue_id: int) -> int:
        """Messages that wait or are out; none when the queue is not here."""
        queue = self._queues.get(queue_id)
        return queue.ready_count + queue.out.count if queue is not None else 0

    @property
    def gave_up(self) -> bool:
        """Its files are not written any more: somebody has to start the node again."""
        return self._housekeeping.failed


def bodies_of(content: bytes, position: int, count: int) -> list[bytes]:
    return [bytes(body) for _, body in messages(content, position, count)]
