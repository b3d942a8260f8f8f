"""Runs that spread members of quorum queues and streams over the nodes, as all fronts begin and follow them.

A node makes one run at a time, whoever began it, and makes none while another node that can be reached is at one. A run is
there before the others are asked, so of two that are begun at the same moment on two nodes at most one goes on: perhaps none. A
node that cannot be reached is not heard: what it moves is found by the check of each move (node/replicas/members.py).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from broker.errors import BrokerError, PreconditionFailed
from broker.operations.operator import ADMINISTRATOR, MONITORING, Operator
from front.node_ports import MemberMoveView

LOOK, END = "member moves", "end member moves"

Json = dict[str, Any]

logger = logging.getLogger("leveret.web")


class MovesQuestions(Protocol):
    """What is needed of front/web/everywhere.py."""

    def add(self, what: str, source: Callable[[Operator], Iterable[Json]]) -> None: ...

    async def find_elsewhere(self, what: str, who: Operator) -> list[Json]: ...


@dataclass(slots=True)
class Spreading:
    """Of one node. Each move is there once, as it was told last."""

    node: str
    user: str
    by: str
    began_at: int
    state: str = "moving"  # or done, failed, ended: by somebody
    total: int = 0  # moves
    error: str = ""
    moves: list[MemberMoveView] = field(default_factory=list)
    is_to_end: bool = False

    async def follow(self, moves: AsyncGenerator[MemberMoveView, None]) -> AsyncGenerator[MemberMoveView, None]:
        """Each as it is told, until there are no more, one has failed, it is to end, or nobody wants more. Then it is over."""
        all_told = False
        try:
            async with aclosing(moves):
                async for move in moves:
                    if self.is_to_end and move.state == "copying":  # it has not begun yet
                        break
                    self._note(move)
                    yield move
                else:
                    all_told = not self.is_to_end
        except BrokerError as error:
            self.error = error.text
            raise
        except Exception as fault:
            self.error = f"the node failed ({type(fault).__name__}); its log says how"
            raise
        finally:
            self.state = "failed" if self.error else "done" if all_told else "ended"

    def _note(self, move: MemberMoveView) -> None:
        self.total, self.error = move.total, move.error
        del self.moves[move.number - 1 :]
        self.moves.append(move)

    def row(self) -> Json:
        moved = sum(1 for one in self.moves if one.state == "moved")
        return {**asdict(self), "moved": moved}


class MemberMoves:
    """Of this node, and what others tell of theirs. A node that ends forgets its run: what was moved stays moved, and asked
    again it goes on with what is left."""

    def __init__(self, node: str, everywhere: MovesQuestions, wall_ms: Callable[[], int]) -> None:
        self._node = node
        self._everywhere = everywhere
        self._wall_ms = wall_ms
        self._run: Spreading | None = None  # the last one
        everywhere.add(LOOK, self.told_here)
        everywhere.add(END, self.ended_here)

    async def begin(self, who: Operator, by: str) -> Spreading:
        """For its caller to follow at once. Raises PreconditionFailed where a run is under way, and names its node."""
        before = self._run
        _check_over(self.told_here(who))
        run = self._run = Spreading(self._node, who.name, by, self._wall_ms())
        try:
            _check_over(await self._everywhere.find_elsewhere(LOOK, who))
        except BaseException:
            self._run = before
            raise
        return run

    def told_here(self, who: Operator) -> Sequence[Json]:
        who.require_tag(MONITORING)
        return [] if self._run is None else [self._run.row()]

    def ended_here(self, who: Operator) -> Sequence[Json]:
        """Behind the move that is under way. Nothing where there is no run to end."""
        who.require_tag(ADMINISTRATOR)
        if self._run is None or self._run.state != "moving":
            return []
        logger.info("user %r: end the moves of members", who.name)
        self._run.is_to_end = True
        return [self._run.row()]


def _check_over(rows: Iterable[Json]) -> None:
    for row in rows:
        if row["state"] == "moving":
            raise PreconditionFailed(
                f"node '{row['node']}' is moving members: wait until that is over, end it, or try again if it has just begun"
            )
