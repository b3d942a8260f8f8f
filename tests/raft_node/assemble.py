"""Builds the process bottom up, as node/assemble.py does: disk, log, store, groups, the way to the other nodes, the service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from node.background import Threads
from node.clock import SystemClock
from node.peers.dialer import Dialer
from node.peers.handshake import Gatekeeper, PeerIdentity, Secret
from node.peers.link import LinkLimits, PeerLinks
from node.peers.server import PeerServer
from raft.core.errors import Damaged
from raft.core.messages import Membership, NodeId, member_id, shown
from raft.core.settings import Settings
from raft.driver import Driver, SnapshotRules
from raft.groups import Groups
from raft.store.group_records import GroupIdentity
from raft.store.node_log import RaftStore
from raft.store.replicas import FOUNDER
from raft.store.store_limits import StoreLimits
from storage import names
from storage.os_disk import OsDisk
from storage.wal.facts import load_or_create
from storage.wal.log_core import LOG_ID_BYTES, LogCore
from storage.wal.log_users import LogUsers
from storage.wal.replay import Replay
from storage.wal.writer import LogWriter
from tests.disk_numbers import begin_process
from tests.raft_node.leaders import hand_back, preferred_node
from tests.raft_node.register import Register
from tests.raft_node.slow_disk import SlowDisk

TICK_S = 0.1
DURABLE_WITHIN_S = 30.0
REBALANCE_S = 5.0
LEADERS_MOVED_MAX = 50  # in one go
INLINE_BYTES_MAX = 65_536
EAGER = 4.0  # of the member that should lead; see Settings.eagerness

logger = logging.getLogger("raft_node")


@dataclass(frozen=True)
class Options:
    """How the process is started."""

    number: NodeId
    data_dir: str
    listen: str  # for the other nodes
    peers: Mapping[NodeId, str]  # their addresses
    groups: int
    form: bool  # an empty disk begins new groups together with the peers, instead of asking to be taken in
    keep_leaders: bool  # wherever they are
    secret: str
    life: int = 1  # that the disk is granted if it is empty: above those of the node's disks before
    snapshot_entries: int = 50_000
    log_file_bytes: int = 64 << 20
    fsync_s: float = 0.0  # longer than the disk takes, each time
    store: StoreLimits = field(default_factory=StoreLimits)


class RaftNode:
    """`start` it once, then `stop` it once."""

    def __init__(self, options: Options, stop: Callable[[str], None]) -> None:
        self._options = options
        self._stop = stop
        self._clock = SystemClock()
        self._undo = contextlib.AsyncExitStack()
        self.groups: Groups
        self.store: RaftStore
        self.log: LogWriter

    async def start(self) -> None:
        options, loop = self._options, asyncio.get_running_loop()
        disk = SlowDisk(options.data_dir, options.fsync_s) if options.fsync_s else OsDisk(options.data_dir)
        disk.lock(names.LOCK)
        self._undo.callback(disk.unlock)
        incarnation, self._new_replica = begin_process(disk, options.life, self._clock.wall_ms())
        me = PeerIdentity(options.number, incarnation)

        self._open_log(disk, loop)
        links = PeerLinks(LinkLimits(), logger)
        self.groups = Groups(
            me.node,
            me.incarnation,
            loop=loop,
            clock=self._clock,
            net=links,
            random=random.random,
            on_failed=self._stop,
            on_leading=lambda driver: logger.debug("group %d: %s", driver.group, driver.standing),
            on_damaged=lambda driver, damage: self._repair(driver.group, damage),
            on_repaired=self._repaired,
        )
        self.store.on_damaged = self.groups.damaged
        self._undo.callback(self.groups.close)
        self._begin_groups()
        await self._until_groups_are_durable()

        secret = Secret(options.secret.encode())
        for node in options.peers:
            links.add(node, self.groups)
            self.groups.add_node(node)
        server = PeerServer(links, Gatekeeper(secret, me, self._clock.monotonic, os.urandom), logger)
        await server.listen(options.listen)
        self._undo.push_async_callback(server.stop)
        for node, address in options.peers.items():
            link = links.link(node)
            if node < me.node and link is not None:
                dialer = Dialer(link, address, me, secret, random_bytes=os.urandom, logger=logger)
                self._run(dialer.run())
        self._run(self._tick())

    @property
    def peers(self) -> Iterable[NodeId]:
        return self._options.peers

    async def stop(self) -> None:
        await self._undo.aclose()

    # parts

    def _open_log(self, disk: OsDisk, loop: asyncio.AbstractEventLoop) -> None:
        thread = Threads(loop, 1, "leveret-raft")
        facts = load_or_create(disk, os.urandom(LOG_ID_BYTES))
        replay = Replay(disk, facts, salvage=True)
        limits = self._options.store
        self.store = RaftStore(disk, limits, thread, self._new_replica, lambda found: logger.error("%s", found))
        for _ in self.store.recover(replay, replay.chunks(), facts.first_file):
            pass
        end = replay.finish()
        self.store.finish(end)
        core = LogCore(facts.log_id, end, self._options.log_file_bytes)
        inline_bytes_max = 0 if self._options.fsync_s else INLINE_BYTES_MAX  # a slow one must not hold up the loop
        self.log = LogWriter(core, disk, loop, facts, on_failed=self._stop, commit_inline_bytes_max=inline_bytes_max)
        self.store.attach(self.log, LogUsers(self.log).join("raft"))
        self._undo.callback(self.store.close)
        self._undo.callback(self.log.close)
        self._undo.callback(thread.close)

    def _begin_groups(self) -> None:
        options = self._options
        nodes = sorted((options.number, *options.peers))
        if options.form:
            replica, membership = FOUNDER, Membership(tuple(member_id(node, FOUNDER) for node in nodes))
        else:
            replica, membership = self._new_replica(0), Membership(())
        for group in range(1, options.groups + 1):
            if group not in self.store.stores:
                me = member_id(options.number, replica)
                self.store.create_group(GroupIdentity(group, me, f"register-{group}", "register", membership))
            self._take_part(group)

    async def _until_groups_are_durable(self) -> None:
        """Before the node says that it is ready: if the founders of a group lost their beginning, nobody could vote in it."""
        ticket, reached = self.store.last_ticket, asyncio.Event()
        self.log.when_durable(lambda durable: reached.set() if durable >= ticket else None)
        async with asyncio.timeout(DURABLE_WITHIN_S):
            while self.log.durable < ticket:
                await reached.wait()

    def _take_part(self, group: int) -> None:
        nodes = sorted((self._options.number, *self._options.peers))
        eager = EAGER if preferred_node(group, nodes) == self._options.number else 1.0
        store = self.store.group(group)
        rules = SnapshotRules(entries_max=self._options.snapshot_entries)
        try:
            self.groups.add(group, store.member, store, Register(store.read_entry), Settings(eagerness=eager), rules)
        except Damaged as damage:  # its snapshot
            self._repair(group, damage)

    def _repair(self, group: int, damage: Damaged) -> None:
        logger.error("group %d takes no part on this node for now: %s", group, damage)
        self.store.repair(group, damage, lambda member: self._take_part(group))

    def _repaired(self, driver: Driver) -> None:
        logger.info("group %d is repaired: its new member here, %s, votes", driver.group, shown(driver.me))

    def _run(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)  # type: ignore[arg-type]
        task.add_done_callback(self._task_ended)
        self._undo.callback(task.cancel)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._stop(f"a task ended: {task.exception()!r}")

    async def _tick(self) -> None:
        nodes = sorted((self._options.number, *self._options.peers))
        rebalance_at = self._clock.monotonic() + REBALANCE_S
        while True:
            await asyncio.sleep(TICK_S)
            self.store.tick(self._clock.wall_ms())
            if self.log.failed is None:
                self.log.flush_lazy()
            if self._clock.monotonic() >= rebalance_at and not self._options.keep_leaders:
                rebalance_at += REBALANCE_S
                hand_back(self.groups, nodes, LEADERS_MOVED_MAX)
