"""One run of a plan, and all that is to be told of it."""

from __future__ import annotations

import gc
import logging
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.sim.invariants import Violation
from tests.sim.layers import layer_of
from tests.sim.plan import Plan

logging.getLogger("leveret").addHandler(logging.NullHandler())  # nodes tell of every damage; what matters is judged


@dataclass(frozen=True)
class Outcome:
    """What became of a run. Without a violation, `invariant` is empty."""

    seed: int
    hash: str  # of everything that happened, in its order
    events: int
    simulated_s: float
    cpu_s: float
    invariant: str = ""  # that was broken
    message: str = ""
    faults: dict[str, int] = field(default_factory=dict)  # that happened, by kind
    asked: dict[str, int] = field(default_factory=dict)  # that its plan has, by kind
    counted: dict[str, int] = field(default_factory=dict)  # what was reached
    checked: dict[str, int] = field(default_factory=dict)  # by invariant
    answered: int = 0  # calls of clients that were told their result
    unknown: int = 0  # calls of which nobody told
    committed: int = 0

    @property
    def is_good(self) -> bool:
        return not self.invariant

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def run(plan: Plan) -> Outcome:
    return run_with_log(plan, None)


def run_with_log(plan: Plan, log: list[str] | None) -> Outcome:
    """`log` is filled with what happened, an event a line."""
    began = time.process_time()
    world = layer_of(plan.layer).world(plan)
    world.trace.log = log
    invariant = message = ""
    was_enabled = gc.isenabled()
    gc.disable()  # a world is small, and is thrown away as a whole
    try:
        world.run()
    except Violation as violation:
        invariant, message = violation.invariant, str(violation)
        if violation.__cause__ is not None:
            message += "\n" + "".join(traceback.format_exception(violation.__cause__)).rstrip()
    except Exception:
        invariant, message = "the_simulator_itself", traceback.format_exc().rstrip()
    finally:
        if was_enabled:
            gc.enable()
    return Outcome(
        plan.seed,
        world.trace.hash,
        world.trace.events,
        world.loop.time(),
        time.process_time() - began,
        invariant,
        message,
        world.faults.happened,
        dict(Counter(fault.kind for fault in plan.faults)),
        world.watch.counted,
        world.watch.checked,
        world.answered,
        world.unknown,
        sum(len(book.committed) for book in world.watch.books.values()),
    )
