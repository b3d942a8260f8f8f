"""The port Ways (node/membership/upkeep.py) over sockets: each dialer and each greeting is a task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress

from node.peers import peer_pb2
from node.peers.dialer import Dialer
from node.peers.side import PeerSide
from node.peers.stranger import NoAnswer
from raft.core.messages import NodeId
from raft.transport import Ears


async def no_places() -> Collection[str]:
    return ()


class PeerWays:
    """`stop` it when nobody uses it any more. `on_fault` is told what ended a task that nobody has stopped; `places` says where
    there may be other nodes."""

    def __init__(
        self,
        peers: PeerSide,
        on_fault: Callable[[BaseException], None],
        places: Callable[[], Awaitable[Collection[str]]] = no_places,
    ) -> None:
        self._peers = peers
        self._on_fault = on_fault
        self._places = places
        self._asking: set[asyncio.Task[None]] = set()

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
        self._ask(self._greet(address, greeting, timeout_s, on_answer))

    def look_up(self, on_places: Callable[[Collection[str]], None]) -> None:
        self._ask(self._look_up(on_places))

    def stop(self) -> None:
        for task in self._asking:
            task.cancel()

    def _ask(self, work: Coroutine[object, object, None]) -> None:
        task = self._begin(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _look_up(self, on_places: Callable[[Collection[str]], None]) -> None:
        on_places(await self._places())

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
