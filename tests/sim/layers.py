"""What can be put under simulation: each layer has its worlds, its plans and what a big campaign must have reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module

from tests.sim.plan import Plan, Shape
from tests.sim.world import World


@dataclass(frozen=True)
class Layer:
    """One of them, as its module says."""

    name: str
    world: Callable[[Plan], World]
    draw: Callable[[int, float], Plan]
    shape: type[Shape]
    kinds: tuple[str, ...]  # of faults
    invariants: Iterable[str]
    rare_paths: tuple[str, ...]
    big: int  # seeds of a campaign that must reach all of these
    progress: str = ""  # counted when the cluster serves a client; a big campaign must have more of it than faults


MODULES = {"engine": "tests.sim.engine_layer", "brokers": "tests.sim.brokers.layer"}
NAMES = tuple(MODULES)


def layer_of(name: str) -> Layer:
    layer = import_module(MODULES[name]).LAYER
    assert isinstance(layer, Layer), f"{MODULES[name]} has no layer"
    return layer
