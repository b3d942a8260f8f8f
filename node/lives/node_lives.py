"""Puts the parts of this folder together, for node/assemble.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from broker.catalog.catalog import Catalog
from node.background import Threads
from node.lives.cluster_lives import ClusterLives, LivesCalls
from node.lives.life_process import LifeProcess
from node.lives.replay_process import OPEN_MAX, ReplayLog
from raft.core.messages import NodeId


def begin_lives(
    data_dir: str,
    node: str,
    catalog: Catalog,
    calls: LivesCalls,
    reaches: Callable[[NodeId], bool],
    undo: AsyncExitStack,
) -> ClusterLives:
    """From now on the others are answered, until `undo` is carried out."""
    thread = Threads(asyncio.get_running_loop(), 1, "leveret-lives")
    undo.callback(thread.close)
    process = LifeProcess(data_dir, thread)
    undo.callback(process.stop)
    lives = ClusterLives(node, catalog, process, calls, reaches)
    undo.callback(lives.stop)
    return lives


def begin_replay_log(data_dir: str, undo: AsyncExitStack) -> ReplayLog:
    """The log of this node, for replays, until `undo` is carried out."""
    thread = Threads(asyncio.get_running_loop(), OPEN_MAX, "leveret-replays")
    undo.callback(thread.close)
    log = ReplayLog(data_dir, thread)
    undo.callback(log.stop)
    return log
