"""The scenarios, as data: what the cluster looks like, and which faults hit which nodes for how long."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos.backend import Can, Shape
from tests.chaos.cut_short import CONVERTED
from tests.chaos.faults import Where
from tests.chaos.kinds import NEEDS, TAKES_LOGS, Fault

TINY = """
[log]
file_bytes_max = 262_144
[classic]
store_file_bytes_max = 65_536
compaction_interval_ms = 50
"""
"""Log files roll, segments are flushed and stores are compacted within seconds."""
ARCHIVE = """
[archive]
hours = 1
free_min_bytes = 1_048_576
"""
"""What happened to messages is still in the logs when clients have left (log_proof.py), unless a disk is full."""

THREE = Shape(config=ARCHIVE)
THREE_TINY = Shape(config=ARCHIVE + TINY)
WITH_RAM = Shape(ram_nodes=1, config=ARCHIVE)
FOUR = Shape(disk_nodes=4, config=ARCHIVE)
FIVE = Shape(disk_nodes=5, config=ARCHIVE)


@dataclass(frozen=True, slots=True)
class Do:
    """One fault: it lasts `for_s`, with `during` happening meanwhile, and then there is peace for `then_s`."""

    fault: Fault
    where: Where = Where.LEADER
    for_s: float = 2.0
    then_s: float = 1.5
    during: tuple[Do, ...] = ()
    times: int = 1

    def faults(self) -> frozenset[Fault]:
        return frozenset({self.fault}).union(*(inner.faults() for inner in self.during))


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    steps: tuple[Do, ...]
    shape: Shape = THREE
    classic_is_kept: bool = True  # False: a disk is lost or damaged on which a classic queue may live
    converts: frozenset[str] = (
        frozenset()
    )  # queues that are other ones in the end, of which alone the proof of the logs tells

    @property
    def faults(self) -> frozenset[Fault]:
        return frozenset[Fault]().union(*(step.faults() for step in self.steps))

    @property
    def logs_are_kept(self) -> bool:
        """So each queue must be proved from them."""
        return not self.faults & TAKES_LOGS

    @property
    def needs(self) -> frozenset[Can]:
        return frozenset(NEEDS[fault] for fault in self.faults if fault in NEEDS)


F, W = Fault, Where
SCENARIOS = (
    # processes that end
    Scenario("leader-killed", (Do(F.KILL, times=3),)),
    Scenario("any-killed-tiny-files", (Do(F.KILL, W.ANY, for_s=0.3, times=4),), THREE_TINY),
    Scenario("all-killed", (Do(F.KILL, W.ALL, for_s=0.2), Do(F.KILL, W.ALL, for_s=0.2)), THREE_TINY),
    Scenario("majority-killed", (Do(F.KILL, W.MAJORITY, for_s=2.5),)),
    Scenario("killed-one-in-another", (Do(F.KILL, W.FOLLOWER, during=(Do(F.KILL, W.LEADER, for_s=1.0),)),)),
    Scenario("two-of-five-killed", (Do(F.KILL, W.MINORITY, times=2),), FIVE),
    Scenario("any-killed-with-ram-node", (Do(F.KILL, W.ANY, times=3),), WITH_RAM),
    Scenario("home-of-classic-killed", (Do(F.KILL, W.HOME, for_s=1.0, times=3),), THREE_TINY),
    # processes that stop for a while
    Scenario("leader-paused", (Do(F.PAUSE, for_s=5.0), Do(F.PAUSE, for_s=0.5, times=3))),
    Scenario("leader-paused-for-a-minute", (Do(F.PAUSE, for_s=65.0, then_s=3.0),)),
    Scenario("majority-paused", (Do(F.PAUSE, W.MAJORITY, for_s=3.0),)),
    Scenario("any-stutters", (Do(F.STUTTER, W.ANY, for_s=5.0, times=2),)),
    Scenario("paused-then-killed", (Do(F.PAUSE, during=(Do(F.KILL, W.FOLLOWER, for_s=0.5),)),)),
    # operators
    Scenario("rolling-restart", (Do(F.RESTART, W.ANY, for_s=0.2, times=3),)),
    Scenario("drained", (Do(F.DRAIN, times=3),)),
    Scenario("forgotten-and-joined", (Do(F.FORGOTTEN, W.AWAY, for_s=1.0),)),
    Scenario("clients-closed", (Do(F.CLIENTS, W.ALL, for_s=0.2, times=4),)),
    Scenario("drained-and-another-killed", (Do(F.DRAIN, W.LEADER, during=(Do(F.KILL, W.LEADER, for_s=1.0),)),)),
    # operations that are cut short at each step, and given again
    Scenario("drain-cut-short", (Do(F.DRAIN_CUT),)),
    Scenario("decommission-cut-short", (Do(F.DECOMMISSION_CUT, W.AWAY, for_s=0.5),), FOUR),
    Scenario("rebalance-cut-short", (Do(F.REBALANCE_CUT, W.FOLLOWER, for_s=0.5),)),
    Scenario("moves-cut-short", (Do(F.MOVES_CUT, W.FOLLOWER, for_s=0.5),), FOUR),
    Scenario("conversion-cut-short", (Do(F.CONVERSION_CUT, W.HOME, for_s=0.5),), converts=frozenset({CONVERTED})),
    Scenario("survive-cut-short", (Do(F.SURVIVAL_CUT, W.HOME, for_s=0.5),)),
    Scenario("redrive-cut-short", (Do(F.REDRIVE_CUT, W.ANY, for_s=0.5),)),
    Scenario("replay-cut-short", (Do(F.REPLAY_CUT, W.ANY, for_s=0.5),)),
    # disks
    Scenario("power-cut-of-one", (Do(F.POWER, W.ANY, for_s=0.5, times=3),), THREE_TINY),
    Scenario("power-cut-of-two-in-five", (Do(F.POWER, W.MINORITY, for_s=0.5, times=2),), FIVE),
    Scenario("power-cut-of-all", (Do(F.POWER, W.ALL, for_s=0.2, times=2),), THREE_TINY),
    Scenario("disk-full", (Do(F.FULL, W.LEADER, for_s=3.0), Do(F.FULL, W.ANY, for_s=3.0))),
    Scenario("home-disk-full", (Do(F.FULL, W.HOME, for_s=3.0, times=2),), THREE_TINY),
    Scenario("home-disk-nearly-full", (Do(F.NEARLY_FULL, W.HOME, for_s=4.0, times=2),), THREE_TINY),
    Scenario("home-killed-on-a-full-disk", (Do(F.KILLED_FULL, W.HOME, for_s=2.5, times=3),), THREE_TINY),
    Scenario("slow-fsync", (Do(F.SLOW_FSYNC, W.LEADER, for_s=4.0), Do(F.SLOW_FSYNC, W.ALL, for_s=3.0))),
    Scenario("failing-fsync", (Do(F.FAILED_FSYNC, W.LEADER), Do(F.FAILED_FSYNC, W.ANY))),
    Scenario("rotten-log", (Do(F.ROT, W.AWAY), Do(F.ROT, W.LEADER)), THREE_TINY, classic_is_kept=False),
    Scenario("shortened-log", (Do(F.SHORTENED, W.AWAY), Do(F.SHORTENED, W.LEADER)), classic_is_kept=False),
    Scenario("wiped-disk", (Do(F.WIPED, W.AWAY), Do(F.WIPED, W.LEADER)), classic_is_kept=False),
    Scenario("old-copy-of-a-disk", (Do(F.OLD_DISK, W.AWAY),)),
    # limits of the process
    Scenario("memory-alarm", (Do(F.MEMORY, W.LEADER),)),
    Scenario("memory-limit", (Do(F.NO_MEMORY, W.LEADER, for_s=4.0), Do(F.NO_MEMORY, W.HOME, for_s=4.0)), THREE_TINY),
    Scenario("little-processor", (Do(F.PROCESSOR, W.LEADER, for_s=5.0), Do(F.PROCESSOR, W.ALL, for_s=3.0))),
    Scenario(
        "no-descriptors", (Do(F.DESCRIPTORS, W.LEADER, for_s=4.0), Do(F.DESCRIPTORS, W.HOME, for_s=4.0)), THREE_TINY
    ),
    # networks
    Scenario("leader-isolated", (Do(F.ISOLATE, W.LEADER, for_s=4.0, times=2),)),
    Scenario("catalog-leader-isolated", (Do(F.ISOLATE, W.METADATA, for_s=4.0),)),
    Scenario("home-isolated-long", (Do(F.ISOLATE, W.HOME, for_s=12.0),)),
    Scenario("halves-of-five", (Do(F.SPLIT, W.MINORITY, for_s=4.0), Do(F.SPLIT, W.MAJORITY, for_s=4.0)), FIVE),
    Scenario("ring-of-five", (Do(F.RING, W.ALL, for_s=5.0),), FIVE),
    Scenario("leader-deaf", (Do(F.DEAF, W.LEADER, for_s=4.0),)),
    Scenario("leader-mute", (Do(F.MUTE, W.LEADER, for_s=4.0),)),
    Scenario("any-flapping", (Do(F.FLAP, W.ANY, for_s=6.0),)),
    Scenario("isolated-and-killed", (Do(F.ISOLATE, W.LEADER, during=(Do(F.KILL, W.LEADER, for_s=1.0),)),), FIVE),
    Scenario("everybody-alone", (Do(F.ISOLATE, W.ALL, for_s=3.0),)),
    Scenario("slow-links", (Do(F.SLOW_LINKS, W.ANY, for_s=5.0),)),
    Scenario("dripping-links", (Do(F.DRIPPING_LINKS, W.LEADER, for_s=5.0),)),
    Scenario("breaking-links", (Do(F.BREAKING_LINKS, W.ANY, for_s=5.0),)),
    Scenario(
        "corrupting-links", (Do(F.CORRUPTING_LINKS, W.LEADER, for_s=6.0), Do(F.CORRUPTING_LINKS, W.ALL, for_s=6.0))
    ),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
assert len(BY_NAME) == len(SCENARIOS), "two scenarios of one name"

SHORT = (
    "leader-killed", "leader-paused", "power-cut-of-all", "leader-isolated", "wiped-disk", "home-killed-on-a-full-disk",
    "no-descriptors", "corrupting-links",
)  # fmt: skip
"""What runs before anything lands: at most four minutes."""
