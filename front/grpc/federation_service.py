"""The part of leveret.v1.Admin that is about federation links, on whichever node they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.errors import NotSupported
from front.cluster_federation import ClusterFederation
from front.grpc import convert
from front.grpc.call import DEFAULT_VHOST, Context, answers_errors, vhost_asked_for
from front.grpc.caller import operator
from leveret.v1 import admin_pb2 as pb


class FederationMethods:
    """Mixed into AdminService."""

    federation: ClusterFederation | None

    def _federation(self) -> ClusterFederation:
        if self.federation is None:
            raise NotSupported("this node knows no federation links")
        return self.federation

    @answers_errors
    async def ListFederationLinks(
        self, request: pb.ListFederationLinksRequest, context: Context
    ) -> pb.ListFederationLinksResponse:
        found = await self._federation().listed(operator(), vhost_asked_for(request))
        rows = sorted(
            found.rows, key=lambda row: (row["vhost"], row["type"], row[row["type"]], row["upstream"], row["id"])
        )
        return pb.ListFederationLinksResponse(links=map(_link, rows), missing_nodes=found.missing)

    @answers_errors
    async def RestartFederationLink(
        self, request: pb.RestartFederationLinkRequest, context: Context
    ) -> pb.RestartFederationLinkResponse:
        await self._federation().restart(operator(), request.vhost or DEFAULT_VHOST, request.id, request.node)
        return pb.RestartFederationLinkResponse()


def _link(row: Mapping[str, Any]) -> pb.FederationLink:
    return pb.FederationLink(
        vhost=convert.text(row["vhost"]),
        type=row["type"],
        name=convert.text(row[row["type"]]),
        upstream=convert.text(row["upstream"]),
        upstream_name=convert.text(row[f"upstream_{row['type']}"]),
        id=row["id"],
        node=row["node"],
        status=row["status"],
        error=convert.text(row.get("error", "")),
        uri=convert.text(row["uri"]),
        since_ms=row["since_ms"],
        passed_on=row["passed_on"],
        dropped=row["dropped"],
        refused=row["refused"],
        unconfirmed=row["unconfirmed"],
        restarts=row["restarts"],
    )
