"""The consensus engine as a layer of the simulator."""

from __future__ import annotations

from tests.sim.engine import EngineWorld
from tests.sim.invariants import INVARIANTS
from tests.sim.layers import Layer
from tests.sim.plan import KINDS, Shape, draw

RARE_PATHS = (
    "snapshot installed",
    "conflict truncation",
    "compaction race",
    "learner promotion",
    "damaged member becomes another",
    "member found damaged",
    "damaged member replaced",
    "repaired member votes again",
    "empty member begins",
    "removed member deletes its log",
    "acknowledged entries lost by a minority",
    "leader commits before its own disk",
    "transfer",
    "store stopped its jobs",
    "process failed by its disk",
    "crash within a call of the disk",
    "crash within a start",
    "lies were found out",
    "node stands on an old disk",
    "loss found by the leader",
    "node left dead",
)

LAYER = Layer(
    name="engine",
    world=EngineWorld,
    draw=draw,
    shape=Shape,
    kinds=KINDS,
    invariants=INVARIANTS,
    rare_paths=RARE_PATHS,
    big=1000,
)
