"""The management API's paths about the members of quorum queues: where they are, and which of them leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any

from broker.catalog.patterns import check_pattern
from broker.errors import NotFound, NotSupported
from front.node_ports import BALANCED_BY, ChangeView, Chosen, MemberView, QueueMembersPort
from front.web.handlers import WebFront, operator
from front.web.http import bodies
from front.web.http.refusals import bad_request
from front.web.http.request import HttpError, Request, Response, json_response
from front.web.resources.nodes.health_api import failed
from front.web.router import WebRouter
from front.web.security.access import Right

Change = Callable[[str, str, str], Awaitable[None]]

PATTERN_LENGTH_MAX = 1_024
STRATEGIES = ("all", "even")
LEADERLESS = "noproc"


class ReplicasApi:
    """See the module."""

    def __init__(self, front: WebFront, members: QueueMembersPort | None) -> None:
        self._front = front
        self._resources = front.operations.resources
        self._node_names = front.operations.this_node.node_names
        self._members_port = members

    def add_routes(self, router: WebRouter) -> None:
        one = "/api/queues/quorum/{vhost}/{queue}"
        router.add("GET", f"{one}/status", self._get_status, Right.VHOST)
        router.add("POST", f"{one}/replicas/add", self._add, Right.ADMINISTRATOR)
        router.add("DELETE", f"{one}/replicas/delete", self._delete, Right.ADMINISTRATOR)
        router.add("POST", "/api/queues/quorum/replicas/on/{node}/grow", self._grow, Right.ADMINISTRATOR)
        router.add("DELETE", "/api/queues/quorum/replicas/on/{node}/shrink", self._shrink, Right.ADMINISTRATOR)
        router.add("POST", "/api/rebalance/queues", self._rebalance, Right.ADMINISTRATOR)

    @property
    def _members(self) -> QueueMembersPort:
        if self._members_port is None:
            raise NotSupported("this node has no quorum queues")
        return self._members_port

    async def _get_status(self, request: Request, vhost: str, queue: str) -> Response:
        kind = self._resources.queue(operator(request), vhost, queue).record.kind
        group = await self._members.group(vhost, queue) if kind == "quorum" else None
        if group is None:
            return failed(f"{kind}_queue_not_supported")
        return json_response([_member_status(one, group.term) for one in group.members])

    # one queue

    async def _add(self, request: Request, vhost: str, queue: str) -> Response:
        """That there is one already is fine, as with RabbitMQ."""
        node = self._node_of(request)

        async def add(vhost: str, queue: str, node: str) -> None:
            group = await self._members.group(vhost, queue)
            if group is None or node not in {one.node for one in group.members}:
                await self._members.add(vhost, queue, node)

        await self._changed(vhost, queue, add, node)
        return Response(204)

    async def _delete(self, request: Request, vhost: str, queue: str) -> Response:
        node = self._node_of(request)

        async def delete(vhost: str, queue: str, node: str) -> None:
            await self._members.delete(vhost, queue, node, anyway=False)

        await self._changed(vhost, queue, delete, node)
        return Response(202)

    async def _changed(self, vhost: str, queue: str, change: Change, node: str) -> None:
        """Raises HttpError for a queue that is not there, or of another kind, as with RabbitMQ."""
        try:
            kind = self._resources.record(vhost, queue).kind
            if kind != "quorum":
                raise HttpError(503, "service_unavailable", f"{kind}_queue_not_supported")
            await change(vhost, queue, node)
        except NotFound as error:
            raise HttpError(503, "service_unavailable", error.text) from error

    def _node_of(self, request: Request) -> str:
        body = request.json_object()
        return self._known(bodies.text(body, "node"))

    def _known(self, node: str) -> str:
        if node not in self._node_names():
            raise bad_request("Node is not a cluster member")
        return node

    # many

    async def _grow(self, request: Request, node: str) -> Response:
        body = request.json_object()
        strategy = bodies.text(body, "strategy")
        if strategy not in STRATEGIES:
            raise bad_request(f"strategy is one of {', '.join(STRATEGIES)}, not {strategy!r}")
        chosen = Chosen(pattern(body, "vhost_pattern"), pattern(body, "queue_pattern"))
        _check_done(await self._members.grow(self._known(node), chosen, even_only=strategy == "even"))
        return Response(204)

    async def _shrink(self, request: Request, node: str) -> Response:
        _check_done(await self._members.shrink(self._known(node), Chosen(), anyway=False))
        return Response(202)

    async def _rebalance(self, request: Request) -> Response:
        """As RabbitMQ's; `by` and `dry_run` of the body are ours: a dry run answers the moves."""
        body = request.json_object()
        by = balanced_by(body)
        if bodies.flag(body, "dry_run"):
            return json_response([asdict(one) for one in await self._members.rebalance(Chosen(), by, dry_run=True)])
        self._front.begin(self._members.rebalance(Chosen(), by))
        return Response(204)


def balanced_by(body: bodies.Body) -> str:
    by = bodies.text(body, "by", BALANCED_BY[0])
    if by not in BALANCED_BY:
        raise bad_request(f"by is one of {', '.join(BALANCED_BY)}, not {by!r}")
    return by


def pattern(body: bodies.Body, name: str) -> str:
    pattern = bodies.text(body, name, "")
    check_pattern(name, pattern, PATTERN_LENGTH_MAX)
    return pattern


def _check_done(changes: Sequence[ChangeView]) -> None:
    """Raises HttpError with the first that was not done."""
    refused = [one for one in changes if one.error]
    if refused:
        first = refused[0]
        said = f"{len(refused)} queues were not changed; '{first.queue}' in vhost '{first.vhost}': {first.error}"
        raise HttpError(503, "service_unavailable", said)


def _member_status(member: MemberView, term: int) -> dict[str, Any]:
    """What is not known of a member that does not answer is 0; RabbitMQ has -1 for no snapshot."""
    return {
        "Node Name": member.node,
        "Raft State": member.state or LEADERLESS,
        "Membership": member.membership,
        "Last Log Index": member.last,
        "Last Written": member.last,
        "Last Applied": member.applied,
        "Commit Index": member.commit,
        "Snapshot Index": member.snapshot or -1,
        "Term": member.term or term,
        "Machine Version": member.machine_version,
    }
