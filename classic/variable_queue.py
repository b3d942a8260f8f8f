"""The variable queue: what waits, from all in memory to hardly anything, as RabbitMQ's five parts, of runs.

                 tail                                                        head
    publish ->    q1      ->     q2      ->     delta     ->      q3      ->     q4     -> take
                 alpha          beta           on disk           beta           alpha

A run is published to q4 while q3 is empty, else to q1, and taken from q4, then q3. When q3 runs out a portion of delta is
read into it; when delta is empty q2 joins q3, and when all three are empty q1 becomes q4. Too many contents in memory: the
oldest of q1, then the newest of q4, give theirs up. Too many positions: q2, then the tail of q3, go to delta. So what is
needed last leaves memory first.

Messages that are requeued go back to their old place. If others of their run are ready in memory, they join those. Otherwise it
depends on where their run begins:

    part      q1           q2              delta            q3                q4
    begins    never here   at the end of   inside delta     behind the head   before q3, or q3 is empty
                           delta, behind                    of q3

    q1        A run that was taken had been the head, so all of q1 is newer.
    delta     takes the run if the index knows it or has room for its entry. Otherwise delta is paged in until it begins behind
              the run, which then belongs to q3 or q4.
    q4        Its runs have their content in memory; so a run without becomes the head of q3 if q4 is empty. If q4 is not, the
              run may have to stand among the others there, and does so without its content.

What each part holds:

    ready     the sequences of all ready messages, wherever their runs are: what counts
    a run     is in one of the four queues as long as one of its messages is ready, or it is in delta
    delta     holds every ready message with start <= sequence < end, and none beside it

Invariants, asserted after every move:

    q1 is empty unless q3 holds something, q2 unless delta does, delta unless q3 does
    q1 + q2 + delta + q3 + q4 = ready

When no file descriptor is left, a portion of delta cannot be read now. Nothing is lost by that: the call raises
ContentOutOfReach and has changed nothing, and delta waits behind an empty q3, with q1 behind it, until the next attempt.

A core: all that it needs of the disk it asks of its `Backing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from classic.rates import Rates
from classic.run_backing import Backing, ContentLost, ContentOutOfReach
from classic.run_queue import RunQueue
from classic.stored_run import StoredRun
from native.content import take
from native.sequence_set import Range, SequenceSet

RAM_COUNT_MAX = 2_048  # messages whose content a fast queue keeps in memory
RAM_BYTES_KEPT = 2 * 1024 * 1024  # bodies of a queue that stay in memory together rather than be written,
RAM_COUNT_OF_KEPT = 8  # up to so many times as many messages
RUNS_MAX = 1_024  # runs without content whose position a queue keeps in memory
RUNS_UNDER_PRESSURE_MAX = 64
CONTENTS_IN_A_STEP = 32  # given up, perhaps written: 0.4 ms


def at_once() -> bool:
    return True


def in_one_step() -> Callable[[], bool]:
    """A turn with room for one step."""
    steps = iter((True,))
    return lambda: next(steps, False)


class VariableQueue:
    """One sequence of messages: a classic queue, or one priority of it."""

    def __init__(
        self,
        backing: Backing,
        base: int,
        now: int,
        runs_max: int = RUNS_MAX,
        ram_count_max: int = RAM_COUNT_MAX,
        ram_bytes_kept: int = 0,
    ) -> None:
        self.q1 = RunQueue()
        self.q2 = RunQueue()
        self.q3 = RunQueue()
        self.q4 = RunQueue()
        self.delta_start = self.delta_end = 0  # meaningful while delta_count is not 0
        self.delta_count = 0
        self.ready = SequenceSet()
        self.ready_bytes = 0  # bodies
        self.ram_count = 0  # ready messages whose content is in memory
        self.base = base  # the first sequence there can be
        self.next_sequence = base
        self.rates = Rates(now)
        self.target_ram_count = 1
        self._backing = backing
        self._runs_max = self._runs_limit = runs_max
        self._ram_count_max = ram_count_max
        self._ram_bytes_kept = ram_bytes_kept
        self._pressure = 0.0
        self._came = 0  # runs, since memory was looked at last
        self._no_room = False  # on disk, when it was asked for last; asked for again on the next tick
        self._out_of_reach = False  # delta, when it was asked for last

    def __len__(self) -> int:
        return self.ready.count

    # publish, requeue, recover

    def publish(self, run: StoredRun) -> None:
        """Append a run. Call `reduce` after it had its chance to be delivered."""
        assert run.first == self.next_sequence, f"run {run.first} is published, {self.next_sequence} is next"
        run.ready = run.count
        self.next_sequence = run.first + run.count
        self.ready.add(run.first, self.next_sequence)
        self.ready_bytes += run.body_bytes
        self.ram_count += run.count
        self._came += 1
        self.rates.ingress.count += run.count
        (self.q1 if self.q3.count or self.delta_count else self.q4).append(run)

    def requeue(self, run: StoredRun, first: int, count: int) -> None:
        """Messages that were taken are ready again, at their old place. Raises ContentOutOfReach, and they are not."""
        into_delta = self._lies_in_delta(run) and self._delta_takes(run)
        self._make_ready(run, first, count)
        if into_delta:
            self.delta_count += count
        elif not self._join_ready_part(run.first, count):
            self._put_back(run, count)
        self._check()

    def _lies_in_delta(self, run: StoredRun) -> bool:
        return self.delta_count > 0 and self.delta_start <= run.first < self.delta_end

    def _delta_takes(self, run: StoredRun) -> bool:
        """True when the index knows the run. Where there is no room for its entry, False: then delta begins behind it."""
        if run.indexed or self._backing.page_out([run]):
            return True
        while self.delta_count and self.delta_start <= run.first:
            self._page_in()
        self._advance()
        return False

    def _make_ready(self, run: StoredRun, first: int, count: int) -> None:
        added = self.ready.add(first, first + count)
        assert added == count, (
            f"of the messages {first} to {first + count - 1} that come back {count - added} are ready"
        )
        if count < run.count:
            self._learn_sizes(run)
        self.ready_bytes += run.bytes_of(first, first + count)

    def _join_ready_part(self, first: int, count: int) -> bool:
        """False when no other messages of the run that begins at `first` are ready in memory."""
        for part in (self.q4, self.q3, self.q2):
            run = part.find(first)
            if run is not None:
                run.ready += count
                part.count += count
                if run.content is not None:
                    self.ram_count += count
                return True
        return False

    def _put_back(self, run: StoredRun, count: int) -> None:
        run.ready = count
        if run.content is not None:
            self.ram_count += count
        self._part_of(run).insert(run)

    def _part_of(self, run: StoredRun) -> RunQueue:
        """The part that a run outside of delta belongs to: see the module."""
        if self.delta_count and run.first >= self.delta_end:
            return self.q2
        if not self.q3:
            return self.q4
        before_q3 = run.first < self.q3.head.first
        return self.q4 if before_q3 and (self.q4 or run.content is not None) else self.q3

    def restore(self, runs: Sequence[StoredRun]) -> None:
        """What a start found, behind what was restored before. Contents are on disk; `ready` and `ready_bytes` are set."""
        assert not (self.q1 or self.q4), "a queue that is in use is restored"
        for run in runs:
            run.ready = self._ready_in(run)
            if run.ready:
                (self.q2 if self.delta_count else self.q3).append(run)

    def restore_delta(self, start: int, end: int, count: int) -> None:
        """The same, for messages that the index knows."""
        assert not self.delta_count and not self.q2, "delta is restored twice"
        self.delta_start, self.delta_end, self.delta_count = start, end, count
        self._advance()

    # take, drop, purge

    def head(self) -> StoredRun | None:
        """The run whose message is the first to be taken; None also when it is out of reach."""
        return self.q4.first or self.q3.first

    def reach(self) -> StoredRun | None:
        """The head, which there is if anything is ready. Raises ContentOutOfReach."""
        run = self.head()
        if run is None and self.ready:
            self._advance()
            run = self.head()
            if run is None:
                raise ContentOutOfReach
        return run

    def browse(self, start: int = 0) -> Iterator[tuple[StoredRun, int, int]]:
        """Runs, and first and last but one of what is ready of them, in order, without runs that end before `start`; nothing
        moves. To be used up before anything else is done with the queue. Raises ContentOutOfReach."""
        for run in self._in_order(start):
            if run.end <= start:
                continue
            for first, end in self.ready.intersect(run.first, run.end):
                yield run, first, end

    def _in_order(self, start: int) -> Iterator[StoredRun]:
        yield from self.q4
        yield from self.q3
        at = max(start, self.delta_start)
        while self.delta_count and at < self.delta_end:
            runs, end = self._backing.page_in(at, self.delta_end, self._runs_max)
            yield from runs
            at = max(end, at + 1)
        yield from self.q2
        yield from self.q1

    def take(self, count_max: int, bytes_max: int) -> tuple[StoredRun, int, int, bytes, int]:
        """Consecutive messages of the head's run: the run, the first of them, how many, the content, and where in it they
        begin. Up to both limits, but at least one. Raises ContentLost, after dropping what is lost, and
        ContentOutOfReach."""
        run, first, available = self._head_range()
        content = run.content if run.content is not None else self._load(run)
        position = run.cursor_at if run.cursor == first else run.position_of(first, content)
        if available == run.count <= count_max and run.body_bytes <= bytes_max:
            count = available
        else:
            count, end_at, _ = take(content, position, min(count_max, available), bytes_max)
            run.cursor, run.cursor_at = first + count, end_at
            if run.sizes is None:
                run.learn_sizes(content)
        self.rates.egress.count += count
        self._remove(run, first, count)
        return run, first, count, content, position

    def drop(self, count_max: int) -> tuple[StoredRun, int, int]:
        """The same without asking for the content: messages that are not to be delivered. Raises ContentOutOfReach."""
        run, first, available = self._head_range()
        count = min(count_max, available)
        if count < run.count:
            self._learn_sizes(run)
        self._remove(run, first, count)
        return run, first, count

    def purge(self) -> list[Range]:
        """Drop everything that is ready; returns what it was."""
        gone = self.ready.ranges()
        self.ready.clear()
        for queue in (self.q1, self.q2, self.q3, self.q4):
            queue.take_all()
        self.delta_count = self.ready_bytes = self.ram_count = 0
        self._out_of_reach = False
        return gone

    def _head_range(self) -> tuple[StoredRun, int, int]:
        run = self.head() or self.reach()
        assert run is not None, "nothing is ready"
        first: int = self.ready.first()
        if run.ready == run.first + run.count - first:
            return run, first, run.ready
        found = self.ready.first_range(run.first, run.end)
        assert found is not None, f"of the run {run.first} at the head nothing is ready"
        return run, found[0], found[1] - found[0]

    def _load(self, run: StoredRun) -> bytes:
        try:
            self._backing.load(run)
        except ContentLost:
            self._lose(run)
            raise
        assert run.content is not None, f"the run {run.first} was loaded and has no content"
        self.ram_count += run.ready
        return run.content

    def _learn_sizes(self, run: StoredRun) -> None:
        """Figures are exact for parts of runs too; that may cost a look at a content on disk, once for a run."""
        if run.sizes is None and run.count > 1:
            content = run.content
            if content is None:
                try:
                    self._backing.load(run)
                except (ContentLost, ContentOutOfReach):
                    return
                content, run.content = run.content, None
            assert content is not None, f"the run {run.first} was loaded and has no content"
            run.learn_sizes(content)

    def _lose(self, run: StoredRun) -> None:
        for first, end in self.ready.intersect(run.first, run.end):
            self._remove(run, first, end - first)

    def _remove(self, run: StoredRun, first: int, count: int) -> None:
        """Messages at the head are not ready any more."""
        self.ready.remove(first, first + count)
        self.ready_bytes -= run.bytes_of(first, first + count)
        if run.content is not None:
            self.ram_count -= count
        queue = self.q4 if self.q4.count else self.q3
        run.ready -= count
        queue.count -= count
        if not run.ready:
            queue.pop_head()
            if run.where is not None:
                run.content = None  # consumers may hold the messages for long; it can be read again
        if not self.q3.count and (self.q1.count or self.delta_count):
            self._advance()
        if not self.ready:
            self.ready_bytes = 0  # what was recovered in part had been estimated
            self._came = 0
        self._check()

    def _advance(self) -> None:
        """Refill q3 from what is behind it, as far as that can be read, and let q1 take the place of q4 when nothing lies
        between them."""
        while self.delta_count and not self.q3:
            try:
                self._page_in()
            except ContentOutOfReach:
                return
        if not self.delta_count:
            for run in self.q2.take_all():
                self.q3.append(run)
        if not self.q3 and self.q1:
            if self.q4:
                for run in self.q1.take_all():
                    self.q4.append(run)
            else:
                self.q1, self.q4 = self.q4, self.q1

    def _page_in(self) -> None:
        assert self.delta_start < self.delta_end, (
            f"delta ends at {self.delta_end} and misses {self.delta_count} messages"
        )
        self._out_of_reach = True
        runs, end = self._backing.page_in(self.delta_start, self.delta_end, self._runs_max)
        self._out_of_reach = False
        end = min(max(end, self.delta_start + 1), self.delta_end)
        expected = sum(stop - start for start, stop in self.ready.intersect(self.delta_start, end))
        found = 0
        for run in runs:
            run.ready = self._ready_in(run)
            if run.ready:
                found += run.ready
                self.q3.append(run)
        if found != expected:
            self._lose_beside(runs, self.delta_start, end)
        self.delta_count -= expected
        self.delta_start = end

    def _lose_beside(self, runs: Sequence[StoredRun], start: int, end: int) -> None:
        """Ready messages that should be in delta and are in none of these runs are lost."""
        missing: list[Range] = []
        at = start
        for first, stop in [*((run.first, run.end) for run in runs), (end, end)]:
            if at < first:
                missing += self.ready.intersect(at, first)
            at = max(at, stop)
        for first, stop in missing:
            gone = self.ready.remove(first, stop)
            self.ready_bytes -= self.ready_bytes * gone // (self.ready.count + gone)
        self._backing.lost(missing)

    def _ready_in(self, run: StoredRun) -> int:
        return sum(end - start for start, end in self.ready.intersect(run.first, run.end))

    # memory

    def tick(self, now: int, pressure: float) -> None:
        """Measure how fast messages leave, and decide from that how many contents may stay in memory."""
        self._pressure = pressure
        self._no_room = False
        self._runs_limit = min(self._runs_max, RUNS_UNDER_PRESSURE_MAX) if pressure > 0 else self._runs_max
        if self.rates.maybe_measure(now):
            wanted = 1 + int(2 * self.rates.egress.per_second)
            self.target_ram_count = max(1, int(min(wanted, self._ram_count_max) * (1 - pressure)))

    def reduce(self, in_turn: Callable[[], bool] = at_once) -> bool:
        """Move to disk what exceeds the limits of memory. That is written, so where this turn has no more room (`in_turn`) it
        waits for another: but for twice as many contents as have come, and for positions where there are twice as many as may
        be. Whether something waits."""
        owed, self._came = 2 * self._came, 0
        many_runs = self.ready.count > self._runs_limit  # perhaps: there are not more of them than messages
        if self.ram_count <= self.target_ram_count and not many_runs:
            return False
        waits = self._contents_to_disk(in_turn, owed)
        if many_runs:
            # Each content in memory is at least one message.
            if self.q4.count > self._runs_limit and len(self.q4) - self.ram_count > self._runs_limit:
                self._shorten_q4()
            if self.q2.count + self.q3.count > self._runs_limit:
                waits = self._all_positions_to_disk(in_turn, owed) or waits
        self._check()
        return waits

    def _contents_to_disk(self, in_turn: Callable[[], bool], owed: int) -> bool:
        """Whether some wait for another turn."""
        while self.ram_count > self.target_ram_count and (self.q1.count or self.q4.count):
            if owed <= 0:  # what may stay takes no turn from others
                if not self._may_go(self.q1.head if self.q1.count else self.q4.tail):
                    break
                if not in_turn():
                    return True
            count_max = CONTENTS_IN_A_STEP if owed <= 0 or owed > CONTENTS_IN_A_STEP else owed
            given_up = self._give_up_of_q1(count_max) if self.q1.count else self._give_up_of_q4(count_max)
            if not given_up:
                break
            owed -= given_up
        return False

    def _give_up_of_q1(self, count_max: int) -> int:
        """The oldest contents; how many."""
        count, to = 0, self.q2 if self.delta_count else self.q3
        while (run := self.q1.first) is not None and count < count_max and self._leaves(run):
            self.q1.pop_head()
            to.append(run)
            self._give_up(run)
            count += 1
        return count

    def _give_up_of_q4(self, count_max: int) -> int:
        """The newest contents; how many."""
        runs: list[StoredRun] = []
        while self.q4.count and len(runs) < count_max and self._leaves(self.q4.tail):
            runs.append(self.q4.pop_tail())
            self._give_up(runs[-1])
        self.q3.prepend_all(runs[::-1])
        return len(runs)

    def _may_go(self, run: StoredRun) -> bool:
        """Where one content more has to leave memory: whether this one may."""
        return run.where is not None or (not self._no_room and self._must_spill())

    def _leaves(self, run: StoredRun) -> bool:
        """One content more has to leave memory, this one may, and it is on disk, from now on if need be."""
        if self.ram_count <= self.target_ram_count:
            return False
        if run.where is None and self._may_go(run):
            self._no_room = not self._backing.spill(run)
        return run.where is not None

    def _give_up(self, run: StoredRun) -> None:
        if run.content is not None:
            run.content = None
            self.ram_count -= run.ready

    def _must_spill(self) -> bool:
        """Whether contents that are not in the log have to leave memory too: these cost a write, others do not."""
        if self._pressure > 0 or self.ram_count > self._ram_count_max * RAM_COUNT_OF_KEPT:
            return True
        in_memory = self.ready_bytes * self.ram_count // self.ready.count  # were all of one size
        return self.ram_count > self._ram_count_max and in_memory > self._ram_bytes_kept

    def _shorten_q4(self) -> None:
        """Runs that were requeued before q3 are in q4 even without their content, and there may be many."""
        keep = max(1, self._runs_limit // 2)
        runs = [self.q4.pop_tail() for _ in range(len(self.q4) - keep)][::-1]
        for run in runs:
            if run.where is not None:
                self._give_up(run)
        self.q3.prepend_all(runs)

    def _all_positions_to_disk(self, in_turn: Callable[[], bool], owed: int) -> bool:
        """Whether some wait for another turn."""
        limit = self._runs_limit
        while (runs := len(self.q2) + len(self.q3)) > limit and not self._no_room:
            if not in_turn():
                if runs <= 2 * limit or not owed:
                    return True
                owed = 0
            self._no_room = not self._positions_to_disk(max(limit, owed))
        return False

    def _positions_to_disk(self, count_max: int) -> bool:
        """Some. False when there was no room."""
        if self.q2:
            runs = [self.q2.pop_head() for _ in range(min(len(self.q2), count_max))]
            if not self._to_delta(runs):
                self.q2.prepend_all(runs)
                return False
            count_max -= len(runs)
        if len(self.q3) > self._runs_limit:
            keep = max(1, self._runs_limit // 2)
            runs = [self.q3.pop_tail() for _ in range(min(len(self.q3) - keep, count_max))][::-1]
            if runs and not self._to_delta(runs):
                for run in runs:
                    self.q3.append(run)
                return False
        return True

    def _to_delta(self, runs: list[StoredRun]) -> bool:
        if not self._backing.page_out(runs):
            return False
        start, end = runs[0].first, runs[-1].end
        if self.delta_count:
            assert end <= self.delta_start or self.delta_end <= start, (
                f"{start} to {end} go into delta, which has {self.delta_start} to {self.delta_end}"
            )
            start, end = min(start, self.delta_start), max(end, self.delta_end)
        self.delta_start, self.delta_end = start, end
        for run in runs:
            self.delta_count += run.ready
            self._give_up(run)
        return True

    def _check(self) -> None:
        q1, q2, q3, q4 = self.q1.count, self.q2.count, self.q3.count, self.q4.count
        assert q1 + q2 + self.delta_count + q3 + q4 == self.ready.count, (
            f"q1 {q1} + q2 {q2} + delta {self.delta_count} + q3 {q3} + q4 {q4} is not {self.ready.count}"
        )
        assert q3 or not (q1 or self.delta_count) or (self.delta_count and self._out_of_reach), (
            f"q3 is empty, q1 has {q1} and delta {self.delta_count}"
        )
        assert self.delta_count or not q2, f"delta is empty, q2 has {q2}"
        assert 0 <= self.ram_count <= self.ready.count, f"{self.ram_count} of {self.ready.count} messages are in memory"

    def runs(self) -> list[StoredRun]:
        """All runs whose position is in memory, from the head on."""
        return [run for queue in (self.q4, self.q3, self.q2, self.q1) for run in queue]
