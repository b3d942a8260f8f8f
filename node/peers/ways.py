"""The port Ways (node/membership/upkeep.py) over sockets: each dialer and each greeting is a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress

from node.peers import peer_pb2
from node.peers.dialer import Dialer
from node.peers.side import PeerSide
from node.peers.stranger import NoAnswer
from raft.core.messages import NodeId
from raft.transport import Ears


class PeerWays:
    """`stop` it when nobody uses it any more. `on_fault` is told what ended a task that nobody has stopped."""

    def __init__(self, peers: PeerSide, on_fault: Callable[[BaseException], None]) -> None:
        self._peers = peers
        self._on_fault = on_fault
        self._greetings: set[asyncio.Task[None]] = set()

    @property
    def listens(self) -> bool:
        return self._peers.listens

    @property
    def address(self) -> str:
        return self._peers.address

    def add(self, node: NodeId, ears: Ears) -> None:
        self._peers.links.add(node, ears)

    def remove(self, node: NodeId) -> None:
        self._peers.links.remove(node)

    def dial(self, node: NodeId, address: str) -> DialerTask:
        link = self._peers.links.link(node)
        assert link is not None, f"node {node} is dialed, and has no link"
        dialer = self._peers.dialer(link, address)
        return DialerTask(dialer, self._begin(dialer.run()))

    def greet(
        self,
        address: str,
        greeting: peer_pb2.Greeting,
        timeout_s: float,
        on_answer: Callable[[peer_pb2.Greeted | None], None],
    ) -> None:
        task = self._begin(self._greet(address, greeting, timeout_s, on_answer))
        self._greetings.add(task)
        task.add_done_callback(self._greetings.discard)

    def stop(self) -> None:
        for task in self._greetings:
            task.cancel()

    async def _greet(
        self,
        address: str,
        greeting: peer_pb2.Greeting,
        timeout_s: float,
        on_answer: Callable[[peer_pb2.Greeted | None], None],
    ) -> None:
        stranger = self._peers.stranger
        assert stranger is not None, f"{address} is greeted by a node that stays alone"
        answer: peer_pb2.Greeted | None = None
        with suppress(NoAnswer):
            answer = await stranger.greet(address, greeting, timeout_s)
        on_answer(answer)

    def _begin(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_fault(error)


class DialerTask:
    """A dialer at work."""

    def __init__(self, dialer: Dialer, task: asyncio.Task[None]) -> None:
        self._dialer = dialer
        self._task = task

    @property
    def address(self) -> str:
        return self._dialer.address

    def redirect(self, address: str) -> None:
        self._dialer.redirect(address)

    def stop(self) -> None:
        self._task.cancel()
