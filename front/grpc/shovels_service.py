"""The part of leveret.v1.Admin that is about shovels, on whichever node they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.errors import NotSupported
from front.cluster_shovels import ClusterShovels
from front.grpc import convert
from front.grpc.call import DEFAULT_VHOST, Context, Front, answers_errors, vhost_asked_for
from front.grpc.caller import operator
from leveret.v1 import admin_pb2 as pb

NO_END = -1  # the shovel does not end by itself


class ShovelMethods:
    """Mixed into AdminService."""

    front: Front
    shovels: ClusterShovels | None

    def _shovels(self) -> ClusterShovels:
        if self.shovels is None:
            raise NotSupported("this node knows no shovels")
        return self.shovels

    @answers_errors
    async def ListShovels(self, request: pb.ListShovelsRequest, context: Context) -> pb.ListShovelsResponse:
        found = await self._shovels().listed(operator(), vhost_asked_for(request))
        rows = sorted(found.rows, key=lambda row: (row["vhost"], row["name"]))
        return pb.ListShovelsResponse(shovels=map(_shovel, rows), missing_nodes=found.missing)

    @answers_errors
    async def PutShovel(self, request: pb.PutShovelRequest, context: Context) -> pb.PutShovelResponse:
        vhost, definition = request.vhost or DEFAULT_VHOST, convert.plain_table(request.definition)
        putting = self._shovels().put(operator(), vhost, request.name, definition, create_only=request.create_only)
        await self.front.answer(putting)
        return pb.PutShovelResponse()

    @answers_errors
    async def DeleteShovel(self, request: pb.DeleteShovelRequest, context: Context) -> pb.DeleteShovelResponse:
        vhost = request.vhost or DEFAULT_VHOST
        await self.front.answer(await self._shovels().delete(operator(), vhost, request.name))
        return pb.DeleteShovelResponse()

    @answers_errors
    async def RestartShovel(self, request: pb.RestartShovelRequest, context: Context) -> pb.RestartShovelResponse:
        await self._shovels().restart(operator(), request.vhost or DEFAULT_VHOST, request.name)
        return pb.RestartShovelResponse()


def _shovel(row: Mapping[str, Any]) -> pb.Shovel:
    return pb.Shovel(
        vhost=convert.text(row["vhost"]),
        name=convert.text(row["name"]),
        node=row["node"],
        type=row["type"],
        state=row["state"],
        reason=convert.text(row.get("reason", "")),
        since_ms=row["since_ms"],
        source=_end(row, "src"),
        destination=_end(row, "dest"),
        remaining=row.get("remaining", NO_END),
        pending=row["pending"],
        unconfirmed=row["unconfirmed"],
        forwarded=row["forwarded"],
        returned=row["returned"],
        restarts=row["restarts"],
        stalls=row["stalls"],
    )


def _end(row: Mapping[str, Any], which: str) -> pb.ShovelEnd:
    names = ("uri", "protocol", "queue", "exchange", "exchange_key")
    return pb.ShovelEnd(**{name: convert.text(row.get(f"{which}_{name}", "")) for name in names})
