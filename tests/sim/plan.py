"""What a seed stands for: the shape of the cluster, the faults with their times, and what clients ask for.

A seed first draws *which* kinds of fault exist in its world, then when they happen; so most worlds have few kinds that meet
often, instead of all kinds that drown each other. All limits are tiny, so that files roll, segments are flushed, snapshots
taken and sent, and logs compacted all the time. A plan can be written as text and read again (tests/sim/kept.py): that is how
a failure is kept after it was made smaller.

    # why this is kept
    layer engine
    seed 17
    shape voters=3 spare=1 ...
    fault 12.250 halves node=0 other=0 span=3.1 value=0.0
    ask 12.400 client=1 group=1 kind=put key=k2 size=20
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from random import Random
from typing import Any

from raft.core.settings import Settings
from raft.store.store_limits import StoreLimits

SECONDS = 60.0
HEALED_BEFORE_END_S = 14.0
FAULTS_BEFORE_HEALING_S = 2.0
CLIENT_KINDS = ("put", "put", "put", "cas", "cas", "delete", "read", "read", "read", "big")


@dataclass(frozen=True)
class Shape:
    """The cluster, and every limit in it."""

    seconds: float = SECONDS  # of the run
    voters: int = 3
    spare: int = 0  # nodes that belong to no group at first
    groups: int = 1
    clients: int = 3
    keys: int = 3
    frail: int = 0  # the first so many nodes, a minority, may lose what they had promised to keep
    net_delay_s: float = 0.001
    fsync_s: float = 0.002
    job_s: float = 0.01
    tick_s: float = 0.5
    ping_interval_s: float = 0.4
    pings_missed: int = 3
    election_min_s: float = 0.1
    election_max_s: float = 0.6
    resend_s: float = 0.5
    file_bytes_max: int = 8192
    segment_entries_max: int = 16
    segment_bytes_max: int = 4096
    kept_pack_bytes_min: int = 100
    log_files_kept: int = 0
    entries_kept: int = 4
    bytes_kept: int = 2000
    memory_bytes_max: int = 2000
    open_segments_max: int = 4
    small_segments_max: int = 3
    compaction_interval_ms: int = 1000
    snapshot_part_bytes: int = 700
    snapshot_entries_max: int = 40
    snapshot_bytes_max: int = 1 << 20
    append_bytes_max: int = 1000
    window_bytes_max: int = 4000
    window_messages_max: int = 8
    catch_up_bytes_max: int = 1000
    catch_up_messages_max: int = 4
    commit_news_s: float = 0.01
    uncommitted_bytes_max: int = 8000
    apply_bytes_max: int = 2000
    snapshot_chunk_bytes: int = 300
    snapshot_window_chunks: int = 3
    snapshot_bytes_per_s: int = 300_000
    promote_lag_entries: int = 4
    eagerness: float = 1.0
    all_must_heal: int = 1  # 0: a majority is healed, the others stay away
    healed_s: float = HEALED_BEFORE_END_S  # before the end, from when on no fault happens
    seeks: int = 0  # whether a fault that would miss the node it was drawn for hits another one

    def store_limits(self) -> StoreLimits:
        names = [field.name for field in fields(StoreLimits)]
        return StoreLimits(**{name: getattr(self, name) for name in names})

    def settings(self) -> Settings:
        names = [field.name for field in fields(Settings) if hasattr(self, field.name)]
        return Settings(**{name: getattr(self, name) for name in names})

    @property
    def nodes(self) -> int:
        return self.voters + self.spare


@dataclass(frozen=True)
class Fault:
    """Something that happens to the cluster at a time. What the numbers mean is told by its kind, in faults.py; node 0 is
    whoever leads the first group then."""

    at: float
    kind: str
    node: int = 0
    other: int = 0
    span: float = 0.0  # seconds that it lasts, or until the process is started again
    value: float = 0.0


@dataclass(frozen=True)
class Ask:
    """What a client asks for. A client asks one thing at a time: what comes too early waits its turn."""

    at: float
    client: int
    group: int
    kind: str
    key: str
    size: int


@dataclass(frozen=True)
class Plan:
    """Everything that is decided before a run begins."""

    seed: int
    shape: Shape
    faults: tuple[Fault, ...]
    asks: tuple[Ask, ...]
    layer: str = "engine"

    def text(self, why: str) -> str:
        lines = [*(f"# {line}" for line in why.splitlines()), f"layer {self.layer}", f"seed {self.seed}"]
        lines.append(f"shape {_pairs(asdict(self.shape))}")
        for fault in self.faults:
            lines.append(
                f"fault {fault.at:.3f} {fault.kind.replace(' ', '_')} {_pairs(_without(asdict(fault), 'at', 'kind'))}"
            )
        for ask in self.asks:
            lines.append(f"ask {ask.at:.3f} {_pairs(_without(asdict(ask), 'at'))}")
        return "\n".join(lines) + "\n"


def _without(values: dict[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in values.items() if name not in names}


def _pairs(values: dict[str, object]) -> str:
    return " ".join(
        f"{name}={value!r}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()
    )


# Drawing


@dataclass(frozen=True)
class Recipe:
    """How faults of a kind are drawn: bounds of what stands in Fault. `weight` is how often, where it exists."""

    kind: str
    span: tuple[float, float] = (0.0, 0.0)
    value: tuple[float, float] = (0.0, 0.0)
    weight: float = 1.0
    frail: bool = False  # only nodes that may lose what they promised
    leader: float = 0.4  # chance that it is about whoever leads


RECIPES: tuple[Recipe, ...] = (
    # the network; node and other are the ends where it is about a link
    Recipe("loss", (1, 8), (0.05, 0.3)),
    Recipe("duplication", (1, 10), (0.05, 0.3)),
    Recipe("reorder", (1, 10), (0.002, 0.3)),
    Recipe("delay", (1, 8), (0.01, 0.5)),
    Recipe("clog", (0.2, 5)),
    Recipe("one way cut", (0.5, 6)),
    Recipe("halves", (0.5, 6)),
    Recipe("ring", (0.5, 6)),
    Recipe("bridge", (0.5, 6)),
    Recipe("isolate", (0.5, 6), leader=0.0),
    Recipe("isolate leader", (0.5, 6), leader=1.0),
    Recipe("flapping", (1, 6), (0.05, 0.6)),
    Recipe("swizzle", (1, 5)),
    Recipe("reset", weight=1.5),
    # the disk
    Recipe("power cut", (0.05, 4), weight=2.0),
    Recipe("power cut at a call", (0.05, 4), (1, 60), weight=2.0),
    Recipe("power cut at a start", (0.05, 2), (1, 40)),
    Recipe("power cut of all", (0.05, 2), weight=0.7),
    Recipe("disk full", (0.5, 6)),
    Recipe("no room for a call", (0.05, 2), (1, 40)),
    Recipe("no descriptors", (0.5, 6)),
    Recipe("write fails", (0.05, 3), (1, 20)),
    Recipe("read fails", (0.05, 3), (1, 10)),
    Recipe("fsync fails", (0.05, 3), (1, 20)),
    Recipe("slow fsync", (1, 8), (0.05, 2.0)),
    Recipe("lying fsync", (1, 6), frail=True, weight=1.5),
    Recipe("bit rot", (0.1, 3), (1, 4), frail=True, weight=2.0),
    Recipe("stale block", (0.1, 3), (1, 2), frail=True),
    Recipe("misdirected block", (0.1, 3), (1, 2), frail=True),
    Recipe("wiped disk", (0.1, 3), frail=True),
    Recipe("old disk", (0.1, 3), (1, 10), frail=True),
    # processes
    Recipe("kill", (0.05, 4), weight=2.0),
    Recipe("kill at a call", (0.05, 4), (1, 60)),
    Recipe("crash loop", (2, 6), (0.05, 0.5)),
    Recipe("clean stop", (0.05, 3)),
    Recipe("pause", (0.1, 8), weight=1.5),
    Recipe("wall clock jump", value=(-3600, 3600)),
    Recipe("clock rate", (2, 15), (0.5, 2.0)),
    # what operators do
    Recipe("transfer", leader=0.0, weight=1.5),
    Recipe("add member", weight=2.0, leader=0.0),
    Recipe("add learner", weight=2.0, leader=0.0),
    Recipe("promote", leader=0.0),
    Recipe("remove member", weight=2.0),
    Recipe("snapshot now"),
)
KINDS: tuple[str, ...] = tuple(recipe.kind for recipe in RECIPES)


def draw(seed: int, seconds: float = SECONDS) -> Plan:
    """The world of a seed."""
    random = Random(f"plan of {seed}")
    shape = replace(_draw_shape(random), seconds=seconds)
    faults = draw_faults(random, shape, RECIPES, (1.0, 2.0, 2.0, 4.0))
    return Plan(seed, shape, faults, tuple(_draw_asks(random, shape)))


def _draw_shape(random: Random) -> Shape:
    voters = random.choices((1, 3, 5, 7), (10, 60, 22, 8))[0]
    ping_interval_s = random.choice((0.2, 0.3, 0.5)) if voters <= 3 else random.choice((0.5, 0.8))
    election_min_s = random.choice((0.05, 0.1, 0.3))
    shape = Shape(
        voters=voters,
        spare=random.choice((0, 1, 1, 2)) if voters < 7 else 0,
        groups=random.choice((1, 1, 2, 3)) if voters < 5 else 1,
        clients=random.randint(2, 5),
        keys=random.randint(1, 4),
        frail=random.randint(0, (voters - 1) // 2),
        net_delay_s=random.choice((0.0003, 0.001, 0.005, 0.03)),
        fsync_s=random.choice((0.0, 0.001, 0.004, 0.03)),
        job_s=random.choice((0.0, 0.005, 0.05, 0.5)),
        tick_s=random.choice((0.3, 0.7, 1.5)),
        ping_interval_s=ping_interval_s,
        pings_missed=random.choice((2, 3, 4)),
        election_min_s=election_min_s,
        election_max_s=election_min_s * random.choice((2, 4, 6)),
        resend_s=random.choice((0.2, 0.5, 1.0)),
        all_must_heal=random.choice((0, 1)),
    )
    return replace(shape, **_draw_limits(random))


def _draw_limits(random: Random) -> dict[str, Any]:
    return {
        "file_bytes_max": random.choice((1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15)),
        "segment_entries_max": random.choice((4, 8, 16, 64)),
        "log_files_kept": random.choice((0, 0, 1, 2)),
        "entries_kept": random.choice((0, 0, 2, 10, 30)),
        "memory_bytes_max": random.choice((200, 1000, 10_000)),
        "open_segments_max": random.choice((1, 2, 8)),
        "small_segments_max": random.choice((1, 3, 8)),
        "compaction_interval_ms": random.choice((0, 500, 3000)),
        "snapshot_entries_max": random.choice((5, 10, 20, 50, 200)),
        "append_bytes_max": random.choice((100, 400, 2000)),
        "window_bytes_max": random.choice((300, 2000, 20_000)),
        "window_messages_max": random.choice((1, 2, 8)),
        "catch_up_bytes_max": random.choice((100, 400, 2000)),
        "catch_up_messages_max": random.choice((1, 4)),
        "commit_news_s": random.choice((0.0, 0.01, 0.1)),
        "uncommitted_bytes_max": random.choice((600, 4000, 50_000)),
        "apply_bytes_max": random.choice((100, 500, 5000)),
        "snapshot_chunk_bytes": random.choice((50, 200, 1000)),
        "snapshot_window_chunks": random.choice((1, 2, 4)),
        "promote_lag_entries": random.choice((0, 2, 10)),
    }


def draw_faults(random: Random, shape: Shape, recipes: Sequence[Recipe], gaps_s: Sequence[float]) -> tuple[Fault, ...]:
    """Of these recipes, some exist in a world, and follow each other in one of these gaps, more or less."""
    share = random.choice((0.1, 0.2, 0.35, 0.6))
    ours = [recipe for recipe in recipes if random.random() < share and (shape.frail or not recipe.frail)]
    return tuple(_draw_faults(random, shape, ours, random.choice(gaps_s)))


def _draw_faults(random: Random, shape: Shape, recipes: Sequence[Recipe], gap_s: float) -> Iterator[Fault]:
    weights = [recipe.weight for recipe in recipes]
    at = 1.0 + random.random()
    while at < shape.seconds - shape.healed_s - FAULTS_BEFORE_HEALING_S and recipes:
        recipe = random.choices(recipes, weights)[0]
        most = shape.frail if recipe.frail else shape.nodes
        node = 0 if not recipe.frail and random.random() < recipe.leader else random.randint(1, most)
        other = random.randint(1, shape.nodes)
        span, value = random.uniform(*recipe.span), random.uniform(*recipe.value)
        yield Fault(round(at, 3), recipe.kind, node, other, round(span, 3), round(value, 3))
        at += random.expovariate(1 / gap_s)


def _draw_asks(random: Random, shape: Shape) -> Iterator[Ask]:
    gap_s = random.choice((0.1, 0.2, 0.4))
    at = 0.5
    while at < shape.seconds - 2:
        burst = random.choice((1, 1, 1, 1, 5, 20))
        for _ in range(burst):
            kind = random.choice(CLIENT_KINDS)
            size = random.choice((8, 20, 100)) if kind != "big" else random.choice((600, 3000))
            key = f"k{random.randint(1, shape.keys)}"
            group = random.randint(1, shape.groups)
            yield Ask(round(at, 3), random.randint(1, shape.clients), group, kind, key, size)
        at += random.expovariate(1 / (gap_s * burst)) + 0.001
