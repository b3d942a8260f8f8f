"""Every prefix and every flipped bit of the log, as queues come back from it.

What must hold at each start: no message comes back that was not published, or out of order; what is missing, and what was
acknowledged and is back, stood in bytes that the start reports as damaged, or behind damage of the last commits, where
nothing tells it from a write that the crash cut off. A second start finds the same, and the queues go on to work.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from broker.queues.queue_type import Outcome
from classic.store.node_storage import ClassicLimits
from native.content import messages
from storage import names
from tests.sim.disk import SimDisk
from tests.unit.classic.classic_world import World, record_of
from tests.unit.classic.small_files import IMITATION, bodies
from tests.unit.classic.test_every_damage import WAYS, Damaged

RECORDS = [record_of("q", 1), record_of("r", 2)]
LIMITS = ClassicLimits(log_files_kept=100)  # everything stays in the log
LOG_FILE_BYTES_MAX = 400
ROUNDS = 2
NEW = b"1000|after the start"


@dataclass(frozen=True)
class Place:
    """Where in the log one operation was written."""

    file_number: int
    begin: int
    end: int

    def meets(self, file_number: int, begin: int, end: int) -> bool:
        return self.file_number == file_number and self.begin < end and begin < self.end


@dataclass
class LoggedQueues:
    """The disk after a crash, and what was written where."""

    disk: SimDisk
    published: dict[str, dict[bytes, Place]] = field(default_factory=lambda: {"q": {}, "r": {}})
    acknowledged: dict[str, dict[bytes, Place]] = field(default_factory=lambda: {"q": {}, "r": {}})
    last_file: int = 0

    def used(self) -> dict[int, bytes]:
        """What stands in each file of the log, without the zeros that it was allocated with."""
        contents = {number: self.disk.content(names.log_file(number)) for number in range(1, self.last_file + 1)}
        return {number: content.rstrip(b"\0") for number, content in contents.items()}


class Builder:
    """Publishes and acknowledges, commit by commit, and notes where the log has it."""

    def __init__(self) -> None:
        self.world = World(RECORDS, limits=LIMITS, log_file_bytes_max=LOG_FILE_BYTES_MAX)
        self.logged = LoggedQueues(self.world.disk)

    def build(self) -> LoggedQueues:
        for number in range(0, ROUNDS * 10, 10):
            self.publish(["q", "r"], [b"%d|both" % number, b"%d|" % (number + 1) + IMITATION])
            self.publish(["q"], [b"%d|one" % (number + 2), b"%d|two" % (number + 3)])
            self.acknowledge("q", number + 1)
            self.acknowledge("r", number)
        self.world.disk.kill()
        assert self.logged.last_file >= 2, "the log was to have several files"
        return self.logged

    def publish(self, queues: list[str], new: list[bytes]) -> None:
        begin = self.world.core.position
        self.world.publish(queues, new, confirm=0)
        place = self.commit(begin)
        for queue in queues:
            self.logged.published[queue].update(dict.fromkeys(new, place))

    def acknowledge(self, queue: str, number: int) -> None:
        taken = []
        while (got := self.world.get(queue)) is not None:
            taken.append(got)
        begin = self.world.core.position
        for got in taken:
            body = messages(got.content[got.piece.position :], 0, 1)[0][1]
            done = body.startswith(b"%d|" % number)
            outcome = Outcome.ACKNOWLEDGED if done else Outcome.RETURNED
            self.world.queues[queue].settle(got.piece, outcome, self.world.now)
            if done:
                acknowledged = body
        self.world.kind.tick(self.world.now)  # which writes what was settled
        self.world.log.flush_lazy()
        self.logged.acknowledged[queue][acknowledged] = self.commit(begin)

    def commit(self, begin: int) -> Place:
        core = self.world.core
        place = Place(core.file_number, begin, core.position)
        assert place.begin < place.end, "nothing was appended"
        self.logged.last_file = core.file_number
        self.world.loop.run_soon()
        return place


@pytest.fixture(scope="module")
def logged() -> LoggedQueues:
    return Builder().build()


def start(disk: SimDisk) -> World:
    return World(RECORDS, disk, LIMITS, LOG_FILE_BYTES_MAX)


def check(logged: LoggedQueues, number: int, damaged: Damaged, *, twice: bool) -> None:
    """Start with a damaged file, and see that what must hold does; with `twice`, that it does at the next start, too."""
    content, begin, end = damaged
    disk = logged.disk.copy()
    disk.overwrite(names.log_file(number), content)
    where = f"log file {number}, {len(content)} bytes, wrong from {begin} to {end}"
    world = start(disk)
    is_last = number == logged.last_file
    reported = [(damage.file_number, damage.offset, damage.offset + damage.length) for damage in world.damage]
    assert reported or is_last, f"{where}: was not reported"
    if is_last and not reported:
        reported = [(number, begin, len(logged.disk.content(names.log_file(number))))]
    assert all(file_number == number for file_number, _, _ in reported), f"{where}: reported at {reported}"
    found = {queue: bodies(world, queue) for queue in logged.published}
    for queue, published in logged.published.items():
        got, acknowledged = found[queue], logged.acknowledged[queue]
        assert got == [body for body in published if body in got], f"{where}: {queue} has {got}"
        changed = [(body, published[body]) for body in published if body not in got and body not in acknowledged]
        changed += [(body, acknowledged[body]) for body in got if body in acknowledged]
        for body, place in changed:
            assert any(place.meets(*one) for one in reported), f"{where}: {queue} has {body!r} wrong, {place}"
    disk.kill()
    if not twice:
        return
    again = start(disk)
    assert {queue: bodies(again, queue) for queue in logged.published} == found, f"{where}: a second start differs"
    again.publish(["q"], [NEW], confirm=1_000)
    again.loop.run_soon()
    assert 1_000 in again.confirmed.accepted
    assert bodies(again, "q") == [*found["q"], NEW]


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_log_costs_queues_what_it_reports_and_no_more(logged: LoggedQueues, way: str) -> None:
    for number, content in logged.used().items():
        for turn, damaged in enumerate(WAYS[way](content)):
            check(logged, number, damaged, twice=turn % 8 == turn // 8 % 8)  # another bit of each byte
