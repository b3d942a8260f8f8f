"""Everything that can go wrong, by the names that plans use. A fault that makes no sense at its moment does not happen, and is
not counted: a node that is down cannot be paused, a disk may not lose what the atlas protects. A fault that waits for its
victim is counted when it takes effect: the call of a disk that fails, the letter that is lost.

What the numbers of a plan's Fault mean is told at each function. `span` is how long it lasts, or how long a process stays down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from raft.core.errors import RaftError
from raft.core.messages import node_of
from storage import names
from tests.sim import atlas, marks
from tests.sim.disk import BLOCK, ENDLESS, OPENING, Call, SimDisk, no_faults
from tests.sim.disk import Fault as DiskFault
from tests.sim.disk import Faults as DiskFaults
from tests.sim.network import Trouble
from tests.sim.plan import RECIPES, Fault
from tests.sim.process import Crash, Site

if TYPE_CHECKING:
    from tests.sim.world import World

Happen = Callable[["Faults", Fault, Random], bool | None]
HAPPENINGS: dict[str, Happen] = {}
ARMED_S = 5.0  # a call that is to fail is waited for so long
FRAIL_KINDS = frozenset(recipe.kind for recipe in RECIPES if recipe.frail)
REPLACED_MAX = 50  # disks of one node: after some hundred lives it is forgotten (broker/catalog/parts/disk_lives.py)
FULL_ROOM, FULL_ROOM_SOUGHT = 20_000, 2_000  # bytes at most that still fit on a disk that runs full


def kind(name: str) -> Callable[[Happen], Happen]:
    """The function says whether it happened; None: it may yet, and says so to `took_effect`."""

    def register(happen: Happen) -> Happen:
        HAPPENINGS[name] = happen
        return happen

    return register


class Rules:
    """Of several that a disk follows at once, the first that says something."""

    def __init__(self, rules: Sequence[DiskFaults]) -> None:
        self.rules = rules

    def __call__(self, call: Call) -> DiskFault | None:
        for rule in self.rules:
            what = rule(call)
            if what is not None:
                return what
        return None


class Faults:
    """Those of one run. `happened` counts, by kind, those that took effect."""

    def __init__(self, world: World, happenings: Mapping[str, Happen]) -> None:
        self.world = world
        self._happenings = happenings
        self.happened: dict[str, int] = {}
        self._armed: dict[Fault, bool] = {}  # that have not taken effect yet

    def happen(self, fault: Fault) -> None:
        if self.world.is_healed:
            return
        random = Random(f"{self.world.plan.seed} {fault}")
        self.world.trace.event(self.world.loop.time(), fault.node, fault.kind)
        self._armed[fault] = True
        happened = self._happenings[fault.kind](self, fault, random)
        if happened:
            self.took_effect(fault)
        elif happened is not None:
            self._armed.pop(fault, None)

    def took_effect(self, fault: Fault) -> None:
        """Counts it, once."""
        if self._armed.pop(fault, False):
            self.happened[fault.kind] = self.happened.get(fault.kind, 0) + 1

    # Helpers

    def site(self, fault: Fault) -> Site | None:
        """The one that it is about."""
        found = self.world.sites.get(fault.node) if fault.node else self.world.main_leader()
        if not self.world.shape.seeks or fault.kind in FRAIL_KINDS or (found is not None and found.is_up):
            return found
        running = [site for site in self.world.sites.values() if site.is_up and not site.stopped]
        return running[fault.other % len(running)] if running else found

    def other(self, fault: Fault, site: Site) -> int:
        """The far end of the link of this node that it is about."""
        network = self.world.network
        if not self.world.shape.seeks or network.is_connected(site.number, fault.other):
            return fault.other
        linked = [number for number in self.world.sites if network.is_connected(site.number, number)]
        return linked[fault.other % len(linked)] if linked else fault.other

    def later(self, after_s: float, call: Callable[..., object], *args: object) -> None:
        self.world.loop.call_later(after_s, call, *args)

    def trouble(self, fault: Fault, trouble: Trouble) -> bool | None:
        """For as long as the fault lasts. It takes effect with the first letter that it concerns."""
        trouble.on_effect = partial(self.took_effect, fault)
        self.world.network.troubles.append(trouble)
        self.later(fault.span, self.end_trouble, trouble)
        return None

    def end_trouble(self, trouble: Trouble) -> None:
        if trouble in self.world.network.troubles:
            self.world.network.troubles.remove(trouble)

    def end(self, site: Site, fault: Fault, *, power: bool) -> bool:
        """Down, and up again after the span."""
        if site.process is None:
            return False
        site.down_until = self.world.loop.time() + fault.span
        site.end(power=power)
        self.world.start_later(site, fault.span)
        return True

    def break_calls(self, site: Site, fault: Fault, rule: DiskFaults, *, now: bool = True) -> bool | None:
        """The disk misbehaves until it has once, or for a few seconds."""
        if now and site.process is None:
            return False

        def faults(call: Call) -> DiskFault | None:
            try:
                what = rule(call)
            except Crash:
                self.took_effect(fault)
                raise
            if what is not None:
                self.took_effect(fault)
            return what

        site.down_s = fault.span
        self.harm(site.disk, faults)
        self.later(ARMED_S, self.mend, site.disk, faults)
        return None

    def harm(self, disk: SimDisk, rule: DiskFaults) -> None:
        """The disk follows this rule from now on: beside others, or in their place."""
        old = disk.faults
        if not self.world.shape.seeks or old is no_faults:
            disk.faults = rule
        else:
            disk.faults = Rules([*(old.rules if isinstance(old, Rules) else [old]), rule])

    @staticmethod
    def mend(disk: SimDisk, rule: DiskFaults) -> None:
        """It does not follow this rule any more, if it still did."""
        if disk.faults is rule:
            disk.faults = no_faults
        elif isinstance(disk.faults, Rules):
            left = [one for one in disk.faults.rules if one is not rule]
            disk.faults = Rules(left) if left else no_faults

    def end_all(self) -> None:
        """Everything is as it should be, but for processes that are down."""
        self.world.network.heal()
        for site in self.world.sites.values():
            site.disk.faults = no_faults
            if site.lied:
                site.disk.settle()
                site.lied = False
            site.disk.capacity = ENDLESS
            site.hurry()
            site.clock.go_at(1.0)
            if site.stopped:
                site.go_on()


# The network. `node` and `other` are ends of a link; value is how likely, or how long


@kind("loss")
def _loss(faults: Faults, fault: Fault, random: Random) -> bool | None:
    return faults.trouble(fault, Trouble("loss", lambda a, b: True, loss=fault.value))


@kind("duplication")
def _duplication(faults: Faults, fault: Fault, random: Random) -> bool | None:
    return faults.trouble(fault, Trouble("duplication", lambda a, b: True, loss=0.0, duplicate=fault.value))


@kind("reorder")
def _reorder(faults: Faults, fault: Fault, random: Random) -> bool | None:
    return faults.trouble(fault, Trouble("reorder", lambda a, b: True, loss=0.0, reorder_s=fault.value))


@kind("delay")
def _delay(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """To and from one node."""
    site = faults.site(fault)
    number = site.number if site else fault.other
    return faults.trouble(fault, Trouble("delay", lambda a, b: number in (a, b), loss=0.0, delay_s=fault.value))


@kind("clog")
def _clog(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """In one direction; then everything arrives at once."""
    site = faults.site(fault)
    other = faults.other(fault, site) if site is not None else 0
    if site is None or site.number == other:
        return False
    until = faults.world.loop.time() + fault.span
    faults.world.network.clog(site.number, other, until, partial(faults.took_effect, fault))
    return None


@kind("one way cut")
def _one_way_cut(faults: Faults, fault: Fault, random: Random) -> bool | None:
    site = faults.site(fault)
    other = faults.other(fault, site) if site is not None else 0
    if site is None or site.number == other:
        return False
    number = site.number
    if random.random() < 0.5:
        number, other = other, number
    return faults.trouble(fault, Trouble("one way cut", lambda a, b: (a, b) == (number, other)))


@kind("halves")
def _halves(faults: Faults, fault: Fault, random: Random) -> bool | None:
    numbers = list(faults.world.sites)
    random.shuffle(numbers)
    left = numbers[: random.randint(1, max(1, len(numbers) - 1))]
    return faults.trouble(fault, Trouble("halves", lambda a, b: (a in left) != (b in left)))


@kind("ring")
def _ring(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """Each reaches only its two neighbours: everybody a majority, no two the same one."""
    count = len(faults.world.sites)
    return faults.trouble(fault, Trouble("ring", lambda a, b: (a - b) % count not in (1, count - 1)))


@kind("bridge")
def _bridge(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """Two halves, and one node that reaches both."""
    numbers = list(faults.world.sites)
    random.shuffle(numbers)
    bridge, left = numbers[0], numbers[1 : 1 + len(numbers) // 2]

    def cut(a: int, b: int) -> bool:
        return bridge not in (a, b) and (a in left) != (b in left)

    return faults.trouble(fault, Trouble("bridge", cut))


@kind("isolate")
@kind("isolate leader")
def _isolate(faults: Faults, fault: Fault, random: Random) -> bool | None:
    site = faults.site(fault)
    if site is None:
        return False
    number = site.number
    return faults.trouble(fault, Trouble(fault.kind, lambda a, b: number in (a, b)))


@kind("flapping")
def _flapping(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """One node comes and goes; value: how long each time, less than an election takes."""
    site = faults.site(fault)
    if site is None:
        return False
    number, loop, period = site.number, faults.world.loop, fault.value

    def cut(a: int, b: int) -> bool:
        return number in (a, b) and int(loop.time() / period) % 2 == 0

    return faults.trouble(fault, Trouble("flapping", cut))


@kind("swizzle")
def _swizzle(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """Nodes are cut off one by one, and come back in another order."""
    numbers = list(faults.world.sites)
    random.shuffle(numbers)
    for position, number in enumerate(numbers[: len(numbers) // 2 + 1]):
        trouble = Trouble("swizzle", lambda a, b, number=number: number in (a, b))  # type: ignore[misc]
        trouble.on_effect = partial(faults.took_effect, fault)
        faults.later(position * 0.3, faults.world.network.troubles.append, trouble)
        faults.later(position * 0.3 + fault.span * (0.2 + random.random()), faults.end_trouble, trouble)
    return None


@kind("reset")
def _reset(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """The connection of two nodes breaks, and is made again."""
    site, network = faults.site(fault), faults.world.network
    other = faults.other(fault, site) if site is not None else 0
    if site is None or not network.is_connected(site.number, other):
        return False
    number = site.number
    network.reset(number, other)

    def connect() -> None:
        ends = (faults.world.sites[number], faults.world.sites[other])
        if all(end.process is not None for end in ends) and not network.is_connected(number, other):
            network.connect(number, other)

    faults.later(0.05 + random.random(), connect)
    return True


# The disk


@kind("power cut")
@kind("kill")
def _end(faults: Faults, fault: Fault, random: Random) -> bool | None:
    site = faults.site(fault)
    return site is not None and faults.end(site, fault, power=fault.kind == "power cut")


@kind("power cut of all")
def _power_cut_of_all(faults: Faults, fault: Fault, random: Random) -> bool | None:
    ended = [faults.end(site, fault, power=True) for site in faults.world.sites.values()]
    return any(ended)


def _crash_at(nth: int, *, power: bool) -> DiskFaults:
    left = nth

    def faults(call: Call) -> DiskFault | None:
        nonlocal left
        if call.operation in ("read", "open", "list", "free_bytes"):
            return None
        left -= 1
        if left == 0:
            raise Crash(power=power)
        return None

    return faults


@kind("power cut at a call")
@kind("kill at a call")
def _crash_at_a_call(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """value: at which of the next calls that change something."""
    site = faults.site(fault)
    power = fault.kind.startswith("power")
    return False if site is None else faults.break_calls(site, fault, _crash_at(int(fault.value), power=power))


@kind("power cut at a start")
def _power_cut_at_a_start(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """A power cut, and another one while the node recovers from it."""
    site = faults.site(fault)
    if site is None or not faults.end(site, fault, power=True):
        return False
    return faults.break_calls(site, fault, _crash_at(int(fault.value), power=True), now=False)


def _nth(operations: tuple[str, ...], nth: int, what: DiskFault) -> DiskFaults:
    left = nth

    def faults(call: Call) -> DiskFault | None:
        nonlocal left
        if call.operation not in operations:
            return None
        left -= 1
        return what if left == 0 else None

    return faults


@kind("disk full")
def _disk_full(faults: Faults, fault: Fault, random: Random) -> bool | None:
    site = faults.site(fault)
    if site is None or site.process is None:
        return False
    site.disk.capacity = ENDLESS + 1
    most = FULL_ROOM_SOUGHT if faults.world.shape.seeks else FULL_ROOM
    site.disk.capacity -= site.disk.free() - random.randint(0, most)
    site.disk.on_full = partial(faults.took_effect, fault)
    site.down_s = max(0.3, fault.span)
    faults.later(fault.span, setattr, site.disk, "capacity", ENDLESS)
    return None


@kind("no room for a call")
def _no_room(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """Of the calls that need room, one finds none, or not enough."""
    site = faults.site(fault)
    what = random.choice((DiskFault.ENOSPC, DiskFault.ENOSPC_PARTIAL))
    rule = _nth(("write", "create"), int(fault.value), what)
    return False if site is None else faults.break_calls(site, fault, rule)


@kind("no descriptors")
def _no_descriptors(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """EMFILE, or ENFILE: nothing can be opened for a while; files that are open go on."""
    site = faults.site(fault)
    if site is None or site.process is None:
        return False

    def none_left(call: Call) -> DiskFault | None:
        if call.operation not in OPENING:
            return None
        faults.took_effect(fault)
        return DiskFault.EMFILE

    site.down_s = fault.span
    faults.harm(site.disk, none_left)
    faults.later(fault.span, faults.mend, site.disk, none_left)
    return None


@kind("write fails")
def _write_fails(faults: Faults, fault: Fault, random: Random) -> bool | None:
    site = faults.site(fault)
    rule = _nth(("write", "create", "rename", "delete", "truncate"), int(fault.value), DiskFault.EIO)
    return False if site is None else faults.break_calls(site, fault, rule)


@kind("read fails")
def _read_fails(faults: Faults, fault: Fault, random: Random) -> bool | None:
    site = faults.site(fault)
    rule = _nth(("read",), int(fault.value), DiskFault.EIO)
    return False if site is None else faults.break_calls(site, fault, rule)


@kind("fsync fails")
def _fsync_fails(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """And drops the pages: the next one says that all is well."""
    site = faults.site(fault)
    nth = _nth(("sync", "sync_dir"), int(fault.value), DiskFault.EIO)

    def rule(call: Call) -> DiskFault | None:
        what = nth(call)
        if what is not None and site is not None and site.lied:
            # What an fsync has lied about is lost only in a power cut, which asks the atlas whether that may be.
            site.disk.settle()
            site.lied = False
        return what

    return False if site is None else faults.break_calls(site, fault, rule)


@kind("slow fsync")
def _slow_fsync(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """value: seconds that each takes longer, at most."""
    site = faults.site(fault)
    if site is None:
        return False
    site.slow_down(fault.value, partial(faults.took_effect, fault))
    faults.later(fault.span, site.hurry)
    return None


@kind("lying fsync")
def _lying_fsync(faults: Faults, fault: Fault, random: Random) -> bool | None:
    site = faults.site(fault)
    if site is None or site.process is None:
        return False

    def lie(call: Call) -> DiskFault | None:
        if call.operation not in ("sync", "sync_dir"):
            return None
        site.lied = True
        faults.took_effect(fault)
        return DiskFault.LIE

    disk = site.disk
    faults.harm(disk, lie)

    def stop() -> None:
        faults.mend(disk, lie)
        if (
            site.disk is disk and not faults.world.is_healed and random.random() < 0.7
        ):  # the power goes before the cache is written
            faults.end(site, fault, power=True)

    faults.later(fault.span, stop)
    return None


def _damage(faults: Faults, fault: Fault, random: Random, change: Callable[[bytes, int], bytes]) -> bool:
    """At rest: the node is down, its disk is found changed. value: at how many places."""
    site = faults.site(fault)
    if site is None or site.disks_replaced >= REPLACED_MAX:
        return False
    if site.process is not None:
        faults.end(site, fault, power=False)
        site.disk.settle()
    if not atlas.may_lose(faults.world, site):
        return False
    found = [name for name in site.disk.files() if site.disk.content(name)]
    if not found:
        return False
    if site.logs_at_rest is None:
        site.logs_at_rest = marks.logs_on(site.disk)
    raft = [name for name in found if name.startswith(names.RAFT_DIRECTORY)]
    for _ in range(int(fault.value)):
        name = random.choice(raft if raft and random.random() < 0.5 else found)
        content = site.disk.content(name)
        used = len(content.rstrip(b"\0")) or 1
        site.disk.overwrite(name, change(content, random.randrange(used)))
    site.damaged = True
    # No log can tell what no mark vouches for any more from a torn tail. The atlas was asked: it may be lost without a word.
    site.rolled_back |= marks.look_torn(site.logs_at_rest, marks.logs_on(site.disk))
    return True


@kind("bit rot")
def _bit_rot(faults: Faults, fault: Fault, random: Random) -> bool | None:
    def flip(content: bytes, at: int) -> bytes:
        return content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :]

    return _damage(faults, fault, random, flip)


@kind("stale block")
def _stale_block(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """A write never reached its block: what was there before is zeros."""

    def forget(content: bytes, at: int) -> bytes:
        start = at - at % BLOCK
        end = min(len(content), start + BLOCK)
        return content[:start] + bytes(end - start) + content[end:]

    return _damage(faults, fault, random, forget)


@kind("misdirected block")
def _misdirected_block(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """A block holds what was written for another place of the file."""

    def swap(content: bytes, at: int) -> bytes:
        start = at - at % BLOCK
        other = random.randrange(len(content)) // BLOCK * BLOCK
        block = content[other : other + BLOCK][: len(content) - start]
        return content[:start] + block + content[start + len(block) :]

    site = faults.site(fault)
    done = _damage(faults, fault, random, swap)
    if done and site is not None:
        site.rolled_back = True  # whole records may stand in the place of others, and end where they did
    return done


@kind("wiped disk")
def _wiped_disk(faults: Faults, fault: Fault, random: Random) -> bool | None:
    site = faults.site(fault)
    if site is None or site.disks_replaced >= REPLACED_MAX:
        return False
    faults.end(site, fault, power=True)
    faults.world.replace_disk(site)
    return True


@kind("old disk")
def _old_disk(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """A copy is made, as backups are; value: seconds later the node stands on it."""
    site = faults.site(fault)
    if site is None or site.process is None or site.lied or site.damaged:
        return False
    site.disk.settle()
    copy, disk = site.disk.copy(), site.disk

    def take() -> None:
        if site.disk is not disk or faults.world.is_healed:
            return
        faults.end(site, fault, power=False)
        if atlas.may_lose(faults.world, site):
            faults.world.watch.count("node stands on an old disk")
            faults.took_effect(fault)
            site.disk = copy
            site.equip()
            site.rolled_back = True

    faults.later(fault.value, take)
    return None


# Processes


@kind("crash loop")
def _crash_loop(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """value: seconds that it lives each time, at most."""
    site = faults.site(fault)
    if site is None or site.process is None:
        return False
    until = faults.world.loop.time() + fault.span

    def crash() -> None:
        if faults.world.loop.time() < until and not faults.world.is_healed:
            if site.process is not None:
                site.end(power=random.random() < 0.5)
                faults.world.start_later(site, 0.02)
            faults.later(0.05 + random.random() * fault.value, crash)

    crash()
    return True


@kind("clean stop")
def _clean_stop(faults: Faults, fault: Fault, random: Random) -> bool | None:
    site = faults.site(fault)
    process = site.process if site is not None else None
    if site is None or process is None or site.stopped or not process.may_close:
        return False
    world = faults.world

    def close() -> None:
        if site.process is not process or site.stopped or world.is_healed:
            return
        if not process.may_close:
            faults.later(0.01, close)
            return
        world.event(site, process.close, ())
        faults.end(site, fault, power=False)
        faults.took_effect(fault)

    world.prepare_stop(site, process, close)
    return None


@kind("pause")
def _pause(faults: Faults, fault: Fault, random: Random) -> bool | None:
    site = faults.site(fault)
    if site is None or site.process is None or site.stopped:
        return False
    site.stop()
    life = site.life

    def go_on() -> None:
        if site.life == life and site.stopped:
            site.go_on()

    faults.later(fault.span, go_on)
    return True


@kind("wall clock jump")
def _wall_clock_jump(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """value: seconds, either way."""
    site = faults.site(fault)
    if site is None:
        return False
    site.clock.wall_offset_ms += int(fault.value * 1000)
    return True


@kind("clock rate")
def _clock_rate(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """value: seconds of the node in one of the world."""
    site = faults.site(fault)
    if site is None or site.process is None:
        return False
    site.clock.go_at(fault.value)
    faults.later(fault.span, site.clock.go_at, 1.0)
    return True


# What operators do: all of it to every group


@kind("transfer")
def _transfer(faults: Faults, fault: Fault, random: Random) -> None:
    for group in faults.world.watch.books:
        found = faults.world.leader(group)
        if found is None:
            continue
        site, driver = found
        voters = [one for one in driver.core._s.membership.voters if node_of(one) != site.number]
        if not voters:
            continue

        def hand_over(group: int = group, site: Site = site, to: int = random.choice(voters)) -> None:
            assert site.process is not None, f"node {site.number} is down"
            try:
                site.process.groups.transfer(group, to)
            except RaftError:
                faults.world.watch.count("transfer refused")
            else:
                faults.took_effect(fault)

        site.run(site.life, hand_over, ())


@kind("snapshot now")
def _snapshot_now(faults: Faults, fault: Fault, random: Random) -> bool | None:
    site = faults.site(fault)
    if site is None or site.process is None or site.stopped:
        return False
    taken = faults.world.watch.counted.get("snapshot taken", 0)
    for driver in site.process.groups.drivers():
        site.run(site.life, driver.take_snapshot, ())
    return faults.world.watch.counted.get("snapshot taken", 0) > taken
