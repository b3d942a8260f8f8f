"""The life of the process: which exit code tells what, and that the first reason to stop counts."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from broker.catalog.catalog_state import CatalogDamaged
from front.grpc.server import CannotListenToGrpc
from node import main, run
from node.config import ClusterSection, Config, ConfigError, NodeSection
from node.run import Ending, run_node
from node.watching.loop_watch import LoopWatch
from storage.errors import Corrupt, DirectoryInUse, DiskFailed, DiskFull


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Corrupt("log.facts", 0, 10, "torn"), 65),
        (CatalogDamaged("a QueueRecord cannot be read"), 65),
        (DirectoryInUse("in use by another process"), 69),
        (CannotListenToGrpc("127.0.0.1:5680 is taken"), 69),
        (OSError(98, "Address already in use"), 69),
        (ValueError("a fault of ours"), 70),
        (DiskFull("no room"), 74),
        (DiskFailed("fsync failed"), 74),
        (ConfigError("tls.certificate cannot be read"), 78),
    ],
)
def test_what_keeps_a_node_from_starting_decides_the_exit_code(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(config: Config, ending: Ending) -> int:
        raise error

    def run_plainly(work: Coroutine[Any, Any, int]) -> int:
        return asyncio.run(work)

    monkeypatch.setattr(run, "serve", fail)
    monkeypatch.setattr(run, "keep_freed_memory", lambda: None)
    monkeypatch.setattr(run.uvloop, "run", run_plainly)
    monkeypatch.setattr(run.logger, "propagate", True)
    assert run_node(Config()) == code
    assert str(error) in caplog.text


def test_a_node_runs_with_the_collector_of_garbage_that_loading_went_without(monkeypatch: pytest.MonkeyPatch) -> None:
    enabled = []
    set_modules_aside = run.set_modules_aside

    def loaded() -> None:
        enabled.append(gc.isenabled())
        set_modules_aside()

    def run_once(config: Config, ending: Ending) -> int:
        enabled.append(gc.isenabled())
        return 0

    monkeypatch.setattr(run, "keep_freed_memory", lambda: None)
    monkeypatch.setattr(run, "set_modules_aside", loaded)
    monkeypatch.setattr(run, "run_once", run_once)
    monkeypatch.setattr(sys, "argv", ["leveret", "serve", "--amqp", "127.0.0.1:0"])
    try:
        with pytest.raises(SystemExit, match=r"^0$"):
            main.main()
        assert enabled == [False, True] and gc.get_freeze_count() > 0
    finally:
        gc.enable()


def test_the_first_reason_to_stop_decides() -> None:
    async def work() -> int:
        ending = Ending()
        ending.stop("the log failed")
        ending.stop_by_signal("SIGTERM")
        await asyncio.wait_for(ending.wait(), 5)
        return ending.exit_code

    assert asyncio.run(work()) == 74


def test_a_signal_is_a_clean_end_and_a_later_failure_does_not_change_that() -> None:
    async def work() -> int:
        ending = Ending()
        ending.stop_by_signal("SIGTERM")
        ending.stop("the log failed")
        await ending.wait()
        return ending.exit_code

    assert asyncio.run(work()) == 0


def test_a_signal_ends_a_process_that_stops_in_order_to_begin_again() -> None:
    """It was lost, and whoever had sent it waited for a process that ran on."""

    async def both() -> None:
        ending = Ending()
        ending.restart("as a ram node")
        ending.stop_by_signal("SIGTERM")
        await asyncio.wait_for(ending.wait(), 5)
        assert ending.restarts is None and ending.exit_code == run.EXIT_OK

    asyncio.run(both())


def test_a_task_that_ends_stops_the_node_and_a_cancelled_one_does_not() -> None:
    async def fail() -> None:
        raise ValueError("out of order")

    async def work() -> tuple[int, int]:
        ending, other = Ending(), Ending()
        task = asyncio.create_task(fail())
        await asyncio.wait([task])
        ending.task_ended(task)
        cancelled = asyncio.create_task(asyncio.sleep(3600))
        cancelled.cancel()
        await asyncio.wait([cancelled])
        other.task_ended(cancelled)
        return ending.exit_code, other.exit_code

    assert asyncio.run(work()) == (70, 0), "a fault of ours, which a new start may mend"


def test_a_node_that_is_to_join_another_cluster_leaves_its_directory_aside_and_begins_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    started: list[Config] = []

    def once(config: Config, ending: Ending) -> int:
        started.append(config)
        if len(started) == 1:
            ending.restart("to join", join="127.0.0.1:1")
        return ending.exit_code

    monkeypatch.setattr(run, "run_once", once)
    monkeypatch.setattr(run, "keep_freed_memory", lambda: None)
    before = Config(node=NodeSection(data_dir=str(data)), cluster=ClusterSection(secret="x" * 16, peers=("a:1",)))
    assert run_node(before) == 0
    assert [config.cluster.join for config in started] == ["", "127.0.0.1:1"]
    assert started[1].cluster.peers == ()
    assert not data.exists()
    assert [path.name.startswith("data.before-joining-") for path in tmp_path.iterdir()] == [True]


def test_a_node_that_waits_for_others_at_its_start_can_be_stopped() -> None:
    class Waiting:
        async def start(self) -> None:
            await asyncio.Event().wait()

    async def work() -> bool:
        ending = Ending()
        asyncio.get_running_loop().call_soon(ending.stop_by_signal, "SIGTERM")
        return await asyncio.wait_for(run.started(Waiting(), ending), 5)  # type: ignore[arg-type]

    assert not asyncio.run(work())


class BriefNode:
    """Wants to begin again as soon as it has begun, and the second time it never comes to its begin."""

    begun = 0
    listeners = ()

    def __init__(self, config: Config, ending: Ending, loop_watch: LoopWatch) -> None:
        self._ending = ending
        self.watcher = self.certificates = self

    async def start(self) -> None:
        BriefNode.begun += 1
        if BriefNode.begun > 1:
            await asyncio.Event().wait()
        self._ending.restart("as a ram node")

    async def run(self) -> None:
        await asyncio.Event().wait()

    def look(self) -> None:
        """It has no certificates."""

    def ended(self) -> int:
        return 0

    async def stop(self) -> None:
        """There is nothing to stop."""


def test_a_signal_between_two_lives_of_a_process_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """No event loop heard it, and the node ran on: whoever had sent it waited for a minute."""

    def prepared_meanwhile(config: Config, join: str) -> Config:
        os.kill(os.getpid(), signal.SIGTERM)
        return config

    monkeypatch.setattr(run, "Node", BriefNode)
    monkeypatch.setattr(run, "missed_signals", run.MissedSignals())
    monkeypatch.setattr(run, "prepared_again", prepared_meanwhile)
    monkeypatch.setattr(run, "keep_freed_memory", lambda: None)
    monkeypatch.setattr(run, "throttle_garbage_collection", lambda: None)
    before = [signal.getsignal(number) for number in run.END_SIGNALS]
    try:
        assert run_node(Config()) == run.EXIT_OK
    finally:
        for number, handler in zip(run.END_SIGNALS, before, strict=True):
            signal.signal(number, handler)
    assert BriefNode.begun <= 2
