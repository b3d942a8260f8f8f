"""A publisher with confirms, one message at a time, in a process of its own: what everybody else feels of a heavy work."""

from __future__ import annotations

import multiprocessing as processes
import time
from contextlib import suppress
from multiprocessing.connection import Connection

from pamqp import commands

from tests.bench.client import Client

QUEUE = "stall.beside"
PAUSE_S = 0.002
Address = tuple[str, int, str]  # and virtual host
Sample = tuple[float, float]  # when it was sent, and seconds until it was confirmed


class SteadyPublisher:
    """Runs from `start` to `stop`; `since` answers what it has measured in between."""

    def __init__(self, address: Address, stream: str = "") -> None:
        """To this stream, which is there already; else to a short classic queue of its own."""
        context = processes.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_publish, args=(address, stream, theirs), daemon=True)
        self._samples: list[Sample] = []

    def start(self) -> None:
        self._process.start()
        self._ours.recv()

    def between(self, begin: float, end: float) -> list[float]:
        """Seconds of the publishes that were under way in that time, sorted."""
        self._ours.send("tell")
        self._samples += self._ours.recv()
        return sorted(seconds for at, seconds in self._samples if at + seconds >= begin and at <= end)

    def stop(self) -> None:
        with suppress(BrokenPipeError):  # the broker ended it before
            self._ours.send("end")
        self._process.join(10)


def _publish(address: Address, stream: str, pipe: Connection) -> None:
    client = Client(*address)
    if not stream:
        client.declare_queue(QUEUE, arguments={"x-max-length": 1})
    client.call(1, commands.Confirm.Select(), "Confirm.SelectOk")
    unit = client.publish_unit("", stream or QUEUE, 100)
    samples: list[Sample] = []
    pipe.send("ready")
    while True:
        at, begin = time.time(), time.perf_counter()
        client.send(unit)
        client.receive_method(1, "Basic.Ack")
        samples.append((at, time.perf_counter() - begin))
        if pipe.poll(PAUSE_S):
            if pipe.recv() == "end":
                return
            pipe.send(samples)
            samples = []
