"""Samples all objects of this node, a slice of the event loop at a time: at most DUTY of its time is taken.

A round begins every five seconds, or when the one before is through: with very many objects, rates are of longer times.
"""

from __future__ import annotations

import asyncio

from front.slices import step_by_step
from front.web.samples.books import STEP_S
from front.web.samples.node_samples import NodeSamples

DUTY = 0.02


class Sampler:
    """`run` it as a task."""

    def __init__(self, samples: NodeSamples) -> None:
        self._samples = samples

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            begun = clock()
            await step_by_step(self._samples.steps(), DUTY)
            passed_s = clock() - begun
            for book in self._samples.books:
                book.round_ms = round(max(STEP_S, passed_s) * 1_000)
            await asyncio.sleep(max(0.0, STEP_S - passed_s))
