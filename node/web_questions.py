"""What the HTTP front of one node asks those of the others, so that each shows the whole cluster.

Topic WEB of node/peers/calls.py. A question is JSON (front/web/everywhere.py, WebQuestion); its answer is rows of JSON with
commas between them, and nothing where there are none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from broker.catalog.catalog import Catalog
from broker.records import NodeRecord
from node.peers.calls import WEB, Answer, Handler, OnAnswer, Payload
from raft.core.messages import NodeId

ANSWER_S_MAX = 2.0
ANSWER_BYTES_MAX = 64 << 20

AnswerPieces = Callable[[bytes], AsyncIterator[bytes]]


class WebCalls(Protocol):
    """What is needed of node/peers/calls.py."""

    def ask(self, node: NodeId, topic: int, payload: Payload, on_answer: OnAnswer) -> None: ...

    def serve(self, topic: int, handler: Handler) -> None: ...


class WebQuestions:
    """Fulfils front/web/everywhere.py, OtherNodes."""

    def __init__(self, node: str, catalog: Catalog, calls: WebCalls, reaches: Callable[[NodeId], bool]) -> None:
        self._node = node
        self._catalog = catalog
        self._calls = calls
        self._reaches = reaches
        self._answering: set[asyncio.Task[None]] = set()

    def serve(self, answer: AnswerPieces) -> None:
        """From now on the others are answered."""

        def hear(_: NodeId, question: bytes, say: Answer | None) -> None:
            if say is not None:
                task = asyncio.get_running_loop().create_task(_answer(answer(question), say))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)

        self._calls.serve(WEB, hear)

    def stop(self) -> None:
        for task in self._answering:
            task.cancel()

    async def ask(self, question: bytes, node: str | None = None) -> Mapping[str, bytes | None]:
        others = [one for one in self._catalog.nodes.values() if one.name != self._node and node in (None, one.name)]
        answers = await asyncio.gather(*[self._ask(one, question) for one in others])
        return {one.name: answer for one, answer in zip(others, answers, strict=True)}

    async def _ask(self, other: NodeRecord, question: bytes) -> bytes | None:
        if not self._reaches(other.number):
            return None
        answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

        def on_answer(answer: bytes | None) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._calls.ask(other.number, WEB, question, on_answer)
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                return await answered
        except TimeoutError:
            return None


async def _answer(pieces: AsyncIterator[bytes], say: Answer) -> None:
    """What is too long to be said is left out: the next one may be shorter."""
    said: list[bytes] = []
    size = 0
    async for piece in pieces:
        size += len(piece) + 1
        if size > ANSWER_BYTES_MAX:
            break
        said.append(piece)
    say(b",".join(said))
