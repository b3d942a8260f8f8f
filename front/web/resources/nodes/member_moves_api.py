"""Paths of Leveret's own that spread members of quorum queues and streams over the nodes: dry runs, progress, to end it.

The node that is asked makes the moves, one after the other (front/member_moves.py); any node tells of the last run of each.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from dataclasses import asdict, replace

from broker.errors import BrokerError, NotSupported
from front.member_moves import END, LOOK, MemberMoves
from front.node_ports import Chosen, MemberMoveView, QueueMembersPort
from front.web.everywhere import Everywhere
from front.web.handlers import WebFront, operator
from front.web.http import bodies
from front.web.http.refusals import bad_request, missing
from front.web.http.request import Request, Response, json_response
from front.web.resources.nodes.replicas_api import balanced_by, pattern
from front.web.router import WebRouter
from front.web.security.access import Right

KINDS = ("", "quorum", "stream")

logger = logging.getLogger("leveret.web")


class MovesApi:
    """See the module."""

    def __init__(
        self, front: WebFront, everywhere: Everywhere, moves: MemberMoves, members: QueueMembersPort | None
    ) -> None:
        self._front = front
        self._node = front.operations.this_node.name
        self._everywhere = everywhere
        self._moves = moves
        self._members_port = members

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
        members = self._members
        run = await self._moves.begin(who, by)
        logger.info("user %r: move members over HTTP", who.name)
        self._front.begin(_to_the_end(run.follow(members.move_members(chosen, by))))
        return json_response(run.row(), 202)

    async def _delete(self, request: Request, node: str) -> Response:
        """Behind the move that is under way."""
        who = operator(request)
        rows = self._moves.ended_here(who) if node == self._node else await self._everywhere.find_on(node, END, who)
        if not rows:
            raise missing(f"node '{node}' is not moving members, or has not answered")
        return json_response(rows[0])


async def _to_the_end(moves: AsyncGenerator[MemberMoveView, None]) -> None:
    """Nobody looks at each: what has failed is told of the run, and a fault is in the log."""
    try:
        async for _ in moves:
            pass
    except BrokerError:
        pass
    except Exception:
        logger.exception("a bug while members of queues were moved")


def _chosen(body: bodies.Body) -> Chosen:
    kind = bodies.text(body, "kind", "")
    if kind not in KINDS:
        raise bad_request(f"queues of kind {kind!r} have no members to spread: there are quorum and stream")
    return Chosen(pattern(body, "vhost_pattern"), pattern(body, "queue_pattern"), kind)
