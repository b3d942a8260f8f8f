"""What clients and the runner know of a cluster: where its nodes are, who leads, and whether all is well."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TypeVar

import leveret
from leveret.errors import LeveretError
from leveret.records import ClusterStatus
from tests.chaos.backend import Address, Backend

T = TypeVar("T")
ASK_WITHIN_S = 5.0
LOOK_S = 0.1
WELL_WITHIN_S = 60.0


class NotWell(Exception):
    """What was waited for did not come. The text says what the nodes say instead."""


class Cluster:
    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.names = backend.shape.names

    def in_turn(self, rng: random.Random) -> Iterator[tuple[Address, tuple[str, str]]]:
        """Addresses to connect to, one after the other for ever, from a drawn one on."""
        at = rng.randrange(len(self.names))
        while True:
            yield self.backend.amqp(self.names[at % len(self.names)]), self.backend.credentials
            at += 1

    async def ask(self, node: str, work: Callable[[leveret.Node], Awaitable[T]]) -> T:
        """Raises LeveretError."""
        user, password = self.backend.credentials
        target = self.backend.grpc(node)
        async with leveret.connect(target, user=user, password=password, timeout_s=ASK_WITHIN_S) as connected:
            return await work(connected)

    async def ask_anyone(self, work: Callable[[leveret.Node], Awaitable[T]], among: tuple[str, ...] = ()) -> T:
        """The answer of the first that gives one. Raises NotWell."""
        said = []
        for node in among or self.names:
            if not self.backend.is_running(node):
                continue
            try:
                return await self.ask(node, work)
            except LeveretError as error:
                said.append(f"{node}: {error!r}")
        raise NotWell(f"no node answers: {'; '.join(said) or 'none runs'}")

    async def status(self, node: str) -> ClusterStatus:
        return await self.ask(node, lambda connected: connected.admin.cluster_status())

    async def leader_of(self, queue: str) -> str:
        """The node that leads a quorum queue. Waits until there is one."""

        async def found(node: leveret.Node) -> str:
            status = await node.admin.queue_status(queue)
            cluster = await node.admin.cluster_status()
            names = {one.number: one.name for one in cluster.nodes}
            return names.get(status.details.get("leader", 0), "")

        return await self.eventually(lambda: self.ask_anyone(found), f"a leader of {queue}")

    async def metadata_leader(self) -> str:
        async def found(node: leveret.Node) -> str:
            return (await node.admin.cluster_status()).metadata_leader

        return await self.eventually(lambda: self.ask_anyone(found), "a leader of the metadata")

    async def until_well(self) -> None:
        """Every node sees every other, and all disk nodes vote. Raises NotWell."""
        for name in self.names:
            await self.eventually(partial(self._is_well, name), f"{name} finding all well")

    async def _is_well(self, asked: str) -> bool:
        found = await self.status(asked)
        up = {node.name for node in found.nodes if node.up and not node.draining}
        voters = set(found.metadata_voters)
        return up == set(self.names) and voters == set(self.backend.shape.disk_names) and bool(found.metadata_leader)

    async def eventually(self, found: Callable[[], Awaitable[T]], what: str) -> T:
        """The first answer that is not false. Raises NotWell."""
        until = asyncio.get_running_loop().time() + WELL_WITHIN_S
        said: object = None
        while True:
            try:
                if value := await found():
                    return value
            except (LeveretError, NotWell) as error:
                said = error
            if asyncio.get_running_loop().time() > until:
                raise NotWell(f"{what} did not come within {WELL_WITHIN_S:g} s; last: {said!r}")
            await asyncio.sleep(LOOK_S)
