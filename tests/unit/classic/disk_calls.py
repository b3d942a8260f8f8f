"""A life of a node in which housekeeping of classic queues does all it can do, to be disturbed at any call of the disk.

`Life.prepare` fills queues and files, `Life.work` is what is disturbed: moving out, releasing, a segment's roll, compaction of
both stores, a dead file, a queue that is deleted, a purge, a save of the manifest at each. Both do the same at every run, so a
run without faults tells which calls there are (`calls_of`), and others can be disturbed at each of them in turn.

`Life.check` is what must hold after the next start: whatever was confirmed and not acknowledged is there once, with its
content, and nothing is there that was not published. A life that goes on after a fault is `watched`: each time that files were
deleted, it is looked whether the power could go now, on a copy of the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

from broker.errors import ResourceExhausted
from broker.queues.queue_type import Outcome
from classic.store.housekeeping import RETRY_MS
from native.content import messages
from storage.beside_loop import AtOnce, Background
from storage.names import TEMPORARY_SUFFIX
from tests.sim.disk import Call, Fault, Faults, no_faults
from tests.unit.classic.classic_world import TINY, World, record_of

QUEUES = ("a", "b", "short", "purged", "passing", "late")
LOG_FILE_BYTES_MAX = 1_500
TICKS_TO_TRY_AGAIN = 15  # for all that was put off while there was no room


class PowerCut(BaseException):
    """The machine is off."""


class Stopped(Exception):
    """The life has had as many ticks as it should have."""


class NextTick:
    """A background whose work is done one tick after it was asked for, and told of one tick after that."""

    def __init__(self) -> None:
        self._asked: list[Callable[[], None]] = []
        self._ended: list[Callable[[], None]] = []

    def run(self, work: Callable[[], None], done: Callable[[None, Exception | None], None]) -> None:
        self._asked.append(lambda: self._work(work, done))

    def _work(self, work: Callable[[], None], done: Callable[[None, Exception | None], None]) -> None:
        error: Exception | None = None
        try:
            work()
        except Exception as raised:
            error = raised
        self._ended.append(lambda: done(None, error))

    def step(self) -> None:
        steps = self._ended or self._asked
        if steps:
            steps.pop(0)()

    def close(self) -> None:
        """What was asked for is done, and its end is not told."""
        for work in self._asked:
            work()
        self._asked, self._ended = [], []


class Life:
    """See the module. With `beside` what housekeeping does in the background is done between the steps."""

    def __init__(self, beside: bool = False) -> None:
        self.beside = beside
        self.background: Background = AtOnce()
        records = [record_of(name, number) for number, name in enumerate(QUEUES, 1)]
        self.world = World(records, limits=TINY, log_file_bytes_max=LOG_FILE_BYTES_MAX, background=self._new_background)
        self.published: dict[str, set[int]] = {name: set() for name in QUEUES}
        self.done_with: dict[str, set[int]] = {name: set() for name in QUEUES}
        self.next = 0
        self.said = ""  # what this life is about, for messages
        self.ticks_left: int | None = None  # until the node is to be stopped
        self._deleted = False

    def _new_background(self) -> Background:
        self.background = NextTick() if self.beside else AtOnce()
        return self.background

    # what is done

    def prepare(self) -> None:
        """Small and large messages of three queues, moved out of the log."""
        for number in range(8):
            self.publish(["a"], 100)
            if number % 3 == 0:
                self.publish(["a", "b", "purged"], 120)
            self.publish(["a", "short"], 10)
        self.roll(3)
        self.acknowledge("short", lambda number: number % 2 == 0)

    def work(self) -> None:
        self.acknowledge("a", lambda number: number % 3 > 0)  # the files of the store are mostly garbage
        self.acknowledge("b", lambda number: True)
        self.publish(["a", "b"], 110)
        for _ in range(2):
            self.publish(["late"], 20)  # its directory is begun here
        self.ticks(2)
        for _ in range(9):
            self.publish(["b"], 90, persistent=False)  # more than it keeps in memory
        for _ in range(8):
            self.publish(["a"], 15)
        self.acknowledge("b", lambda number: number % 4 > 0)
        self.world.queues["purged"].purge(self.world.now)
        self.done_with["purged"] |= self.published["purged"]
        self.roll(2)
        self.delete("short")
        self.acknowledge("a", lambda number: number % 2 == 0)
        self.roll(1)
        self.wait_for_room()
        self.publish(["a"], 90)
        self.ticks(2)

    def publish(self, names: list[str], size: int, persistent: bool = True) -> None:
        number, self.next = self.next, self.next + 1
        for name in names:
            self.published[name].add(number)
        self.world.publish(names, [body(number, size)], persistent, number if persistent else None)
        self.world.loop.run_soon()

    def roll(self, files: int) -> None:
        """Until the log has begun so many files, with messages that are consumed at once."""
        last = self.world.log.files().stop + files
        for _ in range(100):
            if self.world.log.files().stop >= last or self.world.log.failed is not None:
                return
            self.publish(["passing"], 150)
            self.acknowledge("passing", lambda number: True)
            self.ticks(1)
        raise AssertionError("the log does not roll")

    def acknowledge(self, name: str, wanted: Callable[[int], bool]) -> None:
        """Take all that waits, acknowledge some, give back the others."""
        queue, taken = self.world.queues[name], []
        while (got := self.world.get(name)) is not None:
            taken.append((number_in(messages(got.content[got.piece.position :], 0, 1)[0][1]), got.piece))
        for number, piece in taken:
            if wanted(number):
                self.done_with[name].add(number)
                queue.settle(piece, Outcome.ACKNOWLEDGED, self.world.now)
            else:
                queue.settle(piece, Outcome.REQUEUED, self.world.now)

    def delete(self, name: str) -> None:
        self.world.records = [record for record in self.world.records if record.name != name]
        del self.published[name]
        self.world.kind.delete(self.world.queues.pop(name), self.world.now)

    def ticks(self, count: int) -> None:
        for _ in range(count):
            if self.ticks_left is not None:
                if not self.ticks_left:
                    raise Stopped
                self.ticks_left -= 1
            if isinstance(self.background, NextTick):
                self.background.step()
            self.world.tick()
            if self._deleted:
                self._deleted = False
                self._check_twin()

    def wait_for_room(self) -> None:
        """As long as housekeeping waits when there was none, and until it has done what it had put off."""
        self.world.now += RETRY_MS
        self.ticks(TICKS_TO_TRY_AGAIN)

    # ends, and what must hold then

    def disturbed(self, faults: Faults) -> bool:
        """Work with these faults. False when the power went, or the log failed, which ends a node."""
        self.world.disk.faults = faults
        try:
            self.work()
        except PowerCut:
            return False
        except ResourceExhausted:
            assert self.world.log.failed is not None, "the log works, and takes nothing"
            return False
        finally:
            self.world.disk.faults = no_faults
        return self.world.log.failed is None

    def go_on(self) -> None:
        """What another life does, for damage that comes later: a file that goes, with something in it."""
        self.roll(2)
        self.ticks(3)

    def stop(self) -> None:
        """In order. What is under way in the background ends with it, and nobody is told how."""
        self.world.disk.on_delete = None
        self.world.stop()

    def cut(self, chance: Random | None) -> None:
        """The power goes, or without `chance` only the process is killed."""
        if chance is None:
            self.world.disk.kill()
        else:
            self.world.disk.crash(chance)

    def watch(self) -> None:
        """From now on, with each deletion, see that nothing goes that is needed."""

        def deleted(name: str) -> None:
            self._deleted = self._deleted or not name.endswith(TEMPORARY_SUFFIX)

        self.world.disk.on_delete = deleted

    def _check_twin(self) -> None:
        disk = self.world.disk.twin()
        disk.crash(Random(disk.calls))
        twin = World(self.world.records, disk, TINY, LOG_FILE_BYTES_MAX)
        self._check(twin, f"{self.said}, after a deletion")

    def check(self, said: str = "") -> None:
        """Start, and look."""
        self.world.disk.on_delete = None
        self.world.start()
        self._check(self.world, f"{self.said}{said}")

    def check_now(self) -> None:
        """Look, in the same life."""
        self._check(self.world, f"{self.said}, in the same life")

    def _check(self, world: World, said: str) -> None:
        for name, published in self.published.items():
            found = [number_in(one) for one, _ in world.waiting(name)]
            must = (published & self.world.confirmed.accepted) - self.done_with[name]
            assert must <= set(found), f"{said}: {name} lost {sorted(must - set(found))}; {world.kind.findings}"
            assert len(set(found)) == len(found) and set(found) <= published, f"{said}: {name} has {found}"
        # Of a queue whose deletion was cut short files may be left, which is said, and a lack of descriptors is; nothing else.
        said_of = ("which is not declared", "no file descriptor is left to read")
        wrong = [finding for finding in world.kind.findings if not any(what in finding for what in said_of)]
        assert not wrong, f"{said}: {wrong}"


@cache
def body(number: int, size: int) -> bytes:
    return b"%d|" % number + bytes((number * 7 + at) % 256 for at in range(size))


def number_in(found: bytes) -> int:
    """Which message it is, and its content is right."""
    number = int(found.partition(b"|")[0])
    assert found == body(number, len(found) - len(b"%d|" % number)), f"message {number} has another content"
    return number


def calls_of(beside: bool) -> list[Call]:
    """The calls of the disk while nothing is wrong, numbered from 1."""
    life = Life(beside)
    life.prepare()
    before, calls = life.world.disk.calls, list[Call]()

    def note(call: Call) -> Fault | None:
        calls.append(Call(call.number - before, call.operation, call.name))
        return None

    assert life.disturbed(note)
    return calls
