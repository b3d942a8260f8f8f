"""Lives of messages as the logs of all nodes tell them.

Topic LIVES of node/peers/calls.py: a question and its answer are JSON (LifeAsk, LifeAnswer). A node searches its own log. What
a message was before it died, and what it became, may be in a queue of another node: so the others are asked once more for
that, as long as something new is found, a few times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from broker.catalog.catalog import Catalog
from front.node_ports import LivesFound, NodeRead
from node.lives.life_process import LifeUnread
from node.lives.merged_lives import MergedLives
from node.peers.calls import LIVES, Answer, Handler, OnAnswer, Payload
from raft.core.errors import BadBytes
from raft.core.messages import NodeId

ANSWER_S_MAX = 28.0  # for all that is asked for one question
ROUNDS_MAX = 3  # of dead letters that lead from node to node
UNANSWERED = "it did not answer"
UNREACHABLE = "it cannot be reached"


class LifeAsk(msgspec.Struct, frozen=True):
    """What a process that reads a log is asked: analytics/life/node_reader.py."""

    queue: int = 0  # its number in the catalog
    by: str = ""
    value: str = ""
    died: list[list[int]] = []  # or: what these became, by queue and place
    places: list[list[int]] = []  # and: these, by queue and place


class LifeAnswer(msgspec.Struct, frozen=True):
    error: str = ""  # why the log was not searched
    coverage: dict[str, Any] = {}
    lives: list[dict[str, Any]] = []
    more: bool = False


class OwnLog(Protocol):
    """node/lives/life_process.py."""

    async def read(self, question: dict[str, Any]) -> dict[str, Any]: ...


class LivesCalls(Protocol):
    """What is needed of node/peers/calls.py."""

    def ask(self, node: NodeId, topic: int, payload: Payload, on_answer: OnAnswer) -> None: ...

    def serve(self, topic: int, handler: Handler) -> None: ...


class ClusterLives:
    """Fulfils front/node_ports.py, MessageLivesPort."""

    def __init__(
        self, node: str, catalog: Catalog, log: OwnLog, calls: LivesCalls, reaches: Callable[[NodeId], bool]
    ) -> None:
        self._node = node
        self._catalog = catalog
        self._log = log
        self._calls = calls
        self._reaches = reaches
        self._answering: set[asyncio.Task[None]] = set()
        calls.serve(LIVES, self._hear)

    def stop(self) -> None:
        for task in self._answering:
            task.cancel()

    async def find(self, queue: int, by: str, value: str) -> LivesFound:
        merged, read = MergedLives(), dict[str, NodeRead]()
        loop = asyncio.get_running_loop()
        until = loop.time() + ANSWER_S_MAX
        asks = {name: LifeAsk(queue, by, value) for name in self._catalog.nodes}
        more = False
        for _ in range(1 + ROUNDS_MAX):
            left_s = until - loop.time()
            answers = await asyncio.gather(*[self._ask(name, ask, left_s) for name, ask in asks.items()])
            before = len(merged)
            for name, answer in zip(asks, answers, strict=True):
                merged.add(name, answer.lives)
                more = more or answer.more
                if name not in read or answer.error:
                    read[name] = _node_read(name, answer)
            if len(merged) == before:
                break
            asks = {name: _further(merged, name) for name, one in read.items() if not one.error}
            asks = {name: ask for name, ask in asks.items() if ask.died or ask.places}
        return LivesFound(merged.all(), sorted(read.values(), key=lambda one: one.node), more)

    # one node

    async def _ask(self, name: str, ask: LifeAsk, seconds: float) -> LifeAnswer:
        try:
            async with asyncio.timeout(seconds):
                return await self._own(ask) if name == self._node else await self._of_other(name, ask)
        except TimeoutError:
            return LifeAnswer(f"{UNANSWERED} within {ANSWER_S_MAX:.0f} s")

    async def _own(self, ask: LifeAsk) -> LifeAnswer:
        try:
            return msgspec.convert(await self._log.read(msgspec.to_builtins(ask)), LifeAnswer)
        except LifeUnread as error:
            return LifeAnswer(str(error))

    async def _of_other(self, name: str, ask: LifeAsk) -> LifeAnswer:
        record = self._catalog.nodes.get(name)
        if record is None or not self._reaches(record.number):
            return LifeAnswer(UNREACHABLE)
        answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

        def on_answer(answer: bytes | None) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._calls.ask(record.number, LIVES, msgspec.json.encode(ask), on_answer)
        said = await answered
        try:
            return LifeAnswer(UNANSWERED) if said is None else msgspec.json.decode(said, type=LifeAnswer)
        except msgspec.MsgspecError:
            return LifeAnswer("its answer cannot be read: it may be of another version")

    # for others

    def _hear(self, _: NodeId, question: bytes, say: Answer | None) -> None:
        try:
            ask = msgspec.json.decode(question, type=LifeAsk)
        except msgspec.MsgspecError as error:
            raise BadBytes(f"this asks for no life of a message: {error}") from error
        if say is not None:
            task = asyncio.get_running_loop().create_task(self._answer(ask, say))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, ask: LifeAsk, say: Answer) -> None:
        say(msgspec.json.encode(await self._ask(self._node, ask, ANSWER_S_MAX)))


def _further(merged: MergedLives, node: str) -> LifeAsk:
    """What this node may know besides: all of it in one question, for a node answers one at a time and lets few wait."""
    return LifeAsk(died=merged.died(node), places=merged.sources(node))


def _node_read(name: str, answer: LifeAnswer) -> NodeRead:
    covered = answer.coverage
    damaged = [one for one in covered.get("damage", ()) if not one["torn"]]
    return NodeRead(
        node=name,
        error=answer.error,
        files=covered.get("files", 0),
        file_bytes=covered.get("file_bytes", 0),
        skipped=covered.get("skipped", 0),
        first=covered.get("first"),
        last=covered.get("last"),
        damaged_bytes=sum(one["length"] for one in damaged),
    )
