"""`node.busy_poll_us` of a real node: between two requests its event loop does not sleep, and later it does."""

from __future__ import annotations

import time
from pathlib import Path

import pika

from tests.running_node import start_node

REQUESTS = 200
SOON_S = 30.0


def sleeps(process: int) -> int:
    """How often the loop's thread gave its core away by itself."""
    said = Path(f"/proc/{process}/task/{process}/status").read_text()
    return next(int(line.split()[1]) for line in said.splitlines() if line.startswith("voluntary_ctxt_switches"))


def test_between_requests_the_loop_looks_for_the_next_one_and_behind_the_last_it_sleeps(tmp_path: Path) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text("node.busy_poll_us = 10_000\n")
    node = start_node(tmp_path / "data", "--config", str(config))
    try:
        with pika.BlockingConnection(pika.URLParameters(node.amqp_url)) as connection:
            channel = connection.channel()
            channel.queue_declare("asked", exclusive=True)
            before = sleeps(node.process.pid)
            for _ in range(REQUESTS):
                channel.basic_get("asked")
            while_asked = sleeps(node.process.pid) - before
        assert while_asked < REQUESTS / 2, "without it there is one for each"
        awake, until = sleeps(node.process.pid), time.monotonic() + SOON_S
        while sleeps(node.process.pid) < awake + 5:
            assert time.monotonic() < until, "it looks for ever"
            time.sleep(0.05)
    finally:
        node.stop()
