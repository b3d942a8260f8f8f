"""Samples all objects of this node, a slice of the event loop at a time: at most DUTY of its time is taken.

A round begins every five seconds, or when the one before is through: with very many objects, rates are of longer times.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

from front.slices import step_by_step
from front.web.samples.books import STEP_S
from front.web.samples.node_samples import NodeSamples

DUTY = 0.02
COLLECTED_EVERY = 2_000  # objects


class Sampler:
    """`run` it as a task."""

    def __init__(self, samples: NodeSamples) -> None:
        self._samples = samples

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            begun = clock()
            await step_by_step(with_young_collected(self._samples.steps()), DUTY)
            passed_s = clock() - begun
            for book in self._samples.books:
                book.round_ms = round(max(STEP_S, passed_s) * 1_000)
            await asyncio.sleep(max(0.0, STEP_S - passed_s))


def with_young_collected(steps: Iterator[None]) -> Iterator[None]:
    """The collector counts what is made less what goes, and each new sample takes the place of an old one: it would go through
    all of a round at once, 80 ms with 100,000 queues."""
    for number, _ in enumerate(steps):
        if number % COLLECTED_EVERY == 0:
            gc.collect(0)
        yield
