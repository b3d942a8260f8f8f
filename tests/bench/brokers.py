"""Nodes of a tree and a configuration as one side of a comparison: where they listen, and the processor time that they took."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.bench.process_tree import processor_seconds
from tests.bench.workloads import QUORUM_SET, Address
from tests.running_cluster import running_cluster
from tests.running_node import LISTENERS, ROOT, imports_of, start_node


class Broker(NamedTuple):
    address: Address
    # Of which all its others are children; none: it is not on this machine, or nobody said.
    processes: tuple[int, ...] = ()

    def processor_seconds(self) -> float | None:
        return sum(map(processor_seconds, self.processes)) if self.processes else None


@contextlib.contextmanager
def running_broker(which: str, tree: Path = ROOT, settings: str = "") -> Iterator[Broker]:
    """Three nodes for the set of quorum queues, one for others. `settings`: what its configuration file says, as TOML."""
    with tempfile.TemporaryDirectory(prefix="leveret-") as scratch:
        config = Path(scratch) / "leveret.toml"
        config.write_text(settings)
        data, given = Path(scratch) / "data", config if settings else None
        yield from _cluster(tree, data, given) if which == QUORUM_SET else _node(tree, data, given)


def _cluster(tree: Path, data: Path, config: Path | None) -> Iterator[Broker]:
    with running_cluster(data, tree=tree, config=config) as cluster:
        yield Broker(cluster.amqp(1), (cluster.process.pid,))


def _node(tree: Path, data: Path, config: Path | None) -> Iterator[Broker]:
    asked = [sys.executable, "-m", "node.main", "serve", "--help"]
    said = subprocess.run(asked, cwd=tree, env=os.environ | imports_of(tree), capture_output=True, text=True).stdout
    listeners = [name for name in LISTENERS if f"--{name} " in said]
    options = [] if config is None else ["--config", str(config)]
    node = start_node(data, *options, tree=tree, listeners=listeners)
    try:
        yield Broker(node.amqp, (node.process.pid,))
    finally:
        node.stop()
