"""Paths of Leveret's own that spread members of quorum queues and streams over the nodes: dry runs, progress, to end it.

The node that is asked makes the moves, one after the other, and makes one such run at a time; any node tells of the last one
of each. A node that ends forgets its run: what was moved stays moved, and asked again it goes on with what is left.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace

from broker.errors import BrokerError, NotSupported
from broker.operations.operator import ADMINISTRATOR, MONITORING, Operator
from front.node_ports import Chosen, MemberMoveView, QueueMembersPort
from front.web.everywhere import Everywhere, Json
from front.web.handlers import WebFront, operator
from front.web.http import bodies
from front.web.http.refusals import bad_request, missing
from front.web.http.request import Request, Response, json_response
from front.web.resources.nodes.replicas_api import balanced_by, pattern
from front.web.router import WebRouter
from front.web.security.access import Right

LOOK, END = "member moves", "end member moves"
KINDS = ("", "quorum", "stream")

logger = logging.getLogger("leveret.web")


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

    async def follow(self, moves: AsyncGenerator[MemberMoveView, None]) -> None:
        """Until there are no more, one has failed, or it is to end: then behind the move that is under way."""
        try:
            async with aclosing(moves):
                async for move in moves:
                    if self.is_to_end and move.state == "copying":  # it has not begun yet
                        break
                    self._note(move)
        except BrokerError as error:
            self.error = error.text
        except Exception as fault:
            logger.exception("a bug while members of queues were moved")
            self.error = f"the node failed ({type(fault).__name__}); its log says how"
        self.state = "failed" if self.error else "ended" if self.is_to_end else "done"

    def _note(self, move: MemberMoveView) -> None:
        self.total, self.error = move.total, move.error
        del self.moves[move.number - 1 :]
        self.moves.append(move)

    def row(self) -> Json:
        moved = sum(1 for one in self.moves if one.state == "moved")
        return {**asdict(self), "moved": moved}


class MovesApi:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere, members: QueueMembersPort | None) -> None:
        self._front = front
        self._node = front.operations.this_node.name
        self._everywhere = everywhere
        self._members_port = members
        self._run: Spreading | None = None
        everywhere.add(LOOK, self._told_here)
        everywhere.add(END, self._ended_here)

    def add_routes(self, router: WebRouter) -> None:
        path = "/api/leveret/cluster/member-moves"
        router.add("GET", path, self._get, Right.MONITORING)
        router.add("POST", path, self._post, Right.ADMINISTRATOR)
        router.add("DELETE", f"{path}/{{node}}", self._delete, Right.ADMINISTRATOR)

    @property
    def _members(self) -> QueueMembersPort:
        if self._members_port is None:
            raise NotSupported("this node has no quorum queues")
        return self._members_port

    # what this node says

    def _told_here(self, who: Operator) -> Sequence[Json]:
        who.require_tag(MONITORING)
        return [] if self._run is None else [self._run.row()]

    def _ended_here(self, who: Operator) -> Sequence[Json]:
        who.require_tag(ADMINISTRATOR)
        if self._run is None or self._run.state != "moving":
            return []
        logger.info("user %r: end the moves of members over HTTP", who.name)
        self._run.is_to_end = True
        return [self._run.row()]

    # paths

    async def _get(self, request: Request) -> Response:
        found = await self._everywhere.find(LOOK, operator(request))
        rows = sorted(found.rows, key=lambda row: row["began_at"], reverse=True)
        return replace(json_response(rows), headers=found.headers())

    async def _post(self, request: Request) -> Response:
        """Begins, or with `dry_run` answers the moves."""
        body, who = request.json_object(), operator(request)
        by, chosen = balanced_by(body), _chosen(body)
        if bodies.flag(body, "dry_run"):
            return json_response([asdict(one) async for one in self._members.move_members(chosen, by, dry_run=True)])
        others = await self._everywhere.find_elsewhere(LOOK, who)
        busy = [row["node"] for row in (*others, *self._told_here(who)) if row["state"] == "moving"]
        if busy:
            raise bad_request(f"node '{busy[0]}' is moving members: wait until that is over, or end it")
        logger.info("user %r: move members over HTTP", who.name)
        run = self._run = Spreading(self._node, who.name, by, request.now)
        self._front.begin(run.follow(self._members.move_members(chosen, by)))
        return json_response(run.row(), 202)

    async def _delete(self, request: Request, node: str) -> Response:
        """Behind the move that is under way."""
        who = operator(request)
        rows = self._ended_here(who) if node == self._node else await self._everywhere.find_on(node, END, who)
        if not rows:
            raise missing(f"node '{node}' is not moving members, or has not answered")
        return json_response(rows[0])


def _chosen(body: bodies.Body) -> Chosen:
    kind = bodies.text(body, "kind", "")
    if kind not in KINDS:
        raise bad_request(f"queues of kind {kind!r} have no members to spread: there are quorum and stream")
    return Chosen(pattern(body, "vhost_pattern"), pattern(body, "queue_pattern"), kind)
