"""The life of the process: take the directory, start the node, say that it is ready, wait for the end, stop in order.

The line on standard output that begins with `ready` is a promise: everything recovered is served, every address listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys
import time
from types import FrameType

import msgspec
import uvloop

import native
from broker.catalog.catalog_state import CatalogDamaged
from front.grpc.server import CannotListenToGrpc
from node.assemble import Node
from node.config import Config, ConfigError
from node.membership.first_boot import NoPlace
from node.peers.server import CannotListenToPeers
from node.watching import descriptors
from node.watching.garbage import LastingObjects
from node.watching.loop_watch import LoopWatch, SlowTurnLog
from storage.errors import Corrupt, DirectoryInUse, StorageError

EXIT_OK = 0
EXIT_DATA = 65
EXIT_UNAVAILABLE = 69
EXIT_INTERNAL = 70
EXIT_DISK = 74
EXIT_CONFIG = 78

# Parameters of mallopt(3), and what they are set to.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
TRIM_THRESHOLD_BYTES = 128 << 20
MMAP_THRESHOLD_BYTES = 32 << 20

# An object costs the collector 0.4 us, 1 us on a busy machine: the middle generation, of 20,000, takes it 8 to 20 ms.
# The old one is in a round of its own after 60 million objects more than went away, if it has grown by a quarter since.
GC_YOUNG_OBJECTS = 5_000
GC_MIDDLE_ROUNDS = 3
GC_OLD_ROUNDS = 3_000
THREAD_SWITCH_S = 0.0005
END_SIGNALS = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger("leveret")


def run_node(config: Config) -> int:
    """Run one node until it is told to stop or must; returns the exit code."""
    set_modules_aside()
    keep_freed_memory()
    descriptors.raise_limit()
    while True:
        ending = Ending()
        code = run_once(config, ending)
        if ending.restarts is None or code != EXIT_OK:
            return code
        try:
            config = prepared_again(config, ending.restarts)
        except OSError as error:
            logger.error("cannot start again: %s", error)
            return EXIT_UNAVAILABLE


def prepared_again(config: Config, join: str) -> Config:
    """What the node is to start again with. One that joins another cluster leaves its data directory aside, under a name that
    says so: nothing of it was declared by anybody, but that is for an operator to delete. Raises OSError."""
    if not join:
        return config
    aside = f"{config.node.data_dir.rstrip('/')}.before-joining-{time.time_ns() // 1_000_000}"
    os.rename(config.node.data_dir, aside)
    logger.info("the data directory of before is %s now", aside)
    section = msgspec.structs.replace(config.cluster, join=join, peers=(), dns="", nodes_expected=0)
    return msgspec.structs.replace(config, cluster=section)


def run_once(config: Config, ending: Ending) -> int:
    try:
        return uvloop.run(serve(config, ending))
    except (DirectoryInUse, CannotListenToGrpc, CannotListenToPeers) as error:
        logger.error("cannot start: %s", error)
        return EXIT_UNAVAILABLE
    except (ConfigError, NoPlace) as error:
        logger.error("cannot start: %s", error)
        return EXIT_CONFIG
    except (Corrupt, CatalogDamaged) as error:
        logger.error("cannot start: %s. Nothing was changed; `leveret doctor` shows more", error)
        return EXIT_DATA
    except StorageError as error:
        logger.error("the disk failed: %s", error)
        return EXIT_DISK
    except OSError as error:
        logger.error("cannot start: %s", error)
        return EXIT_UNAVAILABLE
    except Exception:
        logger.exception("a fault of this node ended it")
        return EXIT_INTERNAL


def keep_freed_memory() -> None:
    """Ask glibc not to give buffers back to the kernel between two messages.

    Bodies come and go in pieces of 64 KiB and more. With glibc's defaults each is a fresh mapping whose pages are faulted in
    again: a stream of 64 KiB messages then costs 65 µs each instead of 11. Other C libraries have no mallopt; they go without.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
        libc.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)


def set_modules_aside() -> None:
    """What has been loaded is not looked through: of 180,000 objects some 600 are garbage, and to look for them takes 0.1 s."""
    gc.freeze()
    gc.enable()


def throttle_garbage_collection() -> None:
    """What the node holds by now stays: keep the collector from walking over it again and again.

    Messages die by reference counting; cycles are rare. With CPython's defaults a full collection walks every queue and
    connection while clients wait. And let threads hand the interpreter over sooner than after 5 ms: the event loop must not
    wait so long for the log's thread.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNG_OBJECTS, GC_MIDDLE_ROUNDS, GC_OLD_ROUNDS)
    sys.setswitchinterval(THREAD_SWITCH_S)


class MissedSignals:
    """Those that come while no event loop listens: between two lives of a node that starts again."""

    def __init__(self) -> None:
        self.name = ""

    def listen(self) -> None:
        for number in END_SIGNALS:
            signal.signal(number, self._remember)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.name = signal.Signals(number).name


missed_signals = MissedSignals()  # signals are the process's


class Ending:
    """Why the process ends; the first reason counts. Fulfils the port `Process`."""

    def __init__(self) -> None:
        self._wanted = asyncio.Event()
        self.exit_code = EXIT_OK
        self.restarts: str | None = None  # not None: begin again; not empty: in the cluster of the node at this address

    def stop(self, reason: str) -> None:
        """A promise cannot be kept any more: stop, and let whoever watches the process know."""
        self._stop_with(EXIT_DISK, reason)

    def fail(self, reason: str) -> None:
        """A fault of ours, which a new start may mend."""
        self._stop_with(EXIT_INTERNAL, reason)

    def _stop_with(self, exit_code: int, reason: str) -> None:
        if not self._wanted.is_set():
            logger.error("stopping: %s", reason)
            self.exit_code = exit_code
            self._wanted.set()

    def leave_out(self, reason: str) -> None:
        """As for a start that finds no place."""
        self._stop_with(EXIT_CONFIG, reason)

    def end(self, reason: str) -> None:
        if not self._wanted.is_set():
            logger.info("stopping: %s", reason)
            self._wanted.set()

    def restart(self, reason: str, *, join: str = "") -> None:
        if not self._wanted.is_set():
            logger.info("starting again: %s", reason)
            self.restarts = join
            self._wanted.set()

    def stop_by_signal(self, name: str) -> None:
        """Also while it stops in order to begin again: then it does not."""
        if not self._wanted.is_set() or self.restarts is not None:
            logger.info("stopping: %s", name)
            self.restarts = None
            self._wanted.set()

    def task_ended(self, task: asyncio.Task[None]) -> None:
        """For tasks that are to run as long as the node does."""
        if not task.cancelled():
            self.fail(f"a task of the node ended: {task.exception()!r}")

    async def wait(self) -> None:
        await self._wanted.wait()


async def started(node: Node, ending: Ending) -> bool:
    """False: it was told to stop meanwhile. A node may wait for others for as long as an operator lets it."""
    starting = asyncio.create_task(node.start())
    told = asyncio.create_task(ending.wait())
    await asyncio.wait([starting, told], return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if starting.done():
        await starting
        return True
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    return False


async def hand_over_signals(loop: asyncio.AbstractEventLoop) -> None:
    """From now on those are remembered that this loop would not come to any more."""
    missed_signals.listen()
    for _ in range(2):  # what came before is in the loop's pipe, and is read between two of its rounds
        await asyncio.sleep(0)
    for number in END_SIGNALS:
        loop.remove_signal_handler(number)
    missed_signals.listen()  # the removal has set the default


async def serve(config: Config, ending: Ending) -> int:
    loop = asyncio.get_running_loop()
    for number in END_SIGNALS:
        loop.add_signal_handler(number, ending.stop_by_signal, signal.Signals(number).name)
    if missed_signals.name:
        ending.stop_by_signal(missed_signals.name)
    logger.info("node %s starts in %s, kernels %s", config.node_name, config.node.data_dir, native.backend())
    if native.backend() != "compiled":
        logger.warning("the kernels are not compiled: messages move some hundred times slower (see native/README.md)")
    watch = LoopWatch(loop, SlowTurnLog(logger))
    node = Node(config, ending, loop_watch=watch)
    lasting = LastingObjects(node.ended)
    try:
        if not await started(node, ending):
            return ending.exit_code
        throttle_garbage_collection()
        watch.start()
        lasting.start()
        listening = ", ".join(f"{listener.protocol} {listener.address}" for listener in node.listeners)
        print(f"ready: node {config.node_name}, {listening}", flush=True)
        loop.add_signal_handler(signal.SIGHUP, node.certificates.look)
        watching = asyncio.create_task(node.watcher.run())
        watching.add_done_callback(ending.task_ended)
        await ending.wait()
        watching.cancel()
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        watch.stop()
        lasting.stop()
        await node.stop()
        await hand_over_signals(loop)
    logger.info("stopped")
    return ending.exit_code
