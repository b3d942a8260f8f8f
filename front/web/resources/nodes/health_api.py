"""The management API's health checks: 200 with status ok, or 503 with the reason.

Load balancers ask the open ones every second: they do no work, and ask no other node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from broker.catalog.patterns import check_pattern, matches
from broker.operations.node_facts import AlarmFacts
from broker.operations.resources import QueueView
from broker.records import QueueRecord
from front.far_looks import look_at
from front.node_ports import ClusterPort
from front.slices import made_in_slices
from front.web.handlers import WebFront, operator
from front.web.http.refusals import bad_request
from front.web.http.request import Request, Response, json_response
from front.web.router import WebRouter
from front.web.security.access import Right
from front.web.views.node_views import PROTOCOLS, host_and_port, listener_view
from front.whole_number import whole_number

CHECKS = "/api/health/checks"
OK = {"status": "ok"}
RESOURCES = {"memory": "memory", "disk": "disk space"}
# Names that tools have for protocols, beside our listeners'.
ALIASES = {
    "amqp091": "amqp",
    "amqp10": "amqp",
    "amqps": "amqp/ssl",
    "http_api": "http",
    "management": "http",
    "streams": "stream/ssl",
    "rabbitmq-stream": "stream",
}
DAY_MS = 86_400_000
DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
DIGITS_OF_TIME = 4
PATTERN_LENGTH_MAX = 1_024
PORT_MAX = 65_535
PORT_DIGITS_MAX = 5


class HealthApi:
    """See the module."""

    def __init__(self, front: WebFront, cluster: ClusterPort | None) -> None:
        self._front = front
        self._node = front.operations.this_node
        self._resources = front.operations.resources
        self._cluster = cluster

    def add_routes(self, router: WebRouter) -> None:
        def add(path: str, check: Callable[..., Awaitable[Response]], right: Right = Right.MANAGEMENT) -> None:
            router.add("GET", f"{CHECKS}/{path}", check, right)

        add("alarms", self._check_alarms)
        add("local-alarms", self._check_local_alarms)
        add("metadata-store/initialized", self._check_started)
        add("metadata-store/initialized/with-data", self._check_started)
        add("port-listener/{port}", self._check_port)
        add("protocol-listener/{protocols}", self._check_protocols)
        add("certificate-expiration/{within}/{unit}", self._check_certificate)
        add("virtual-hosts", self._check_started)
        add("node-is-quorum-critical", self._check_critical)
        without_leaders = "quorum-queues-without-elected-leaders"
        for where, right in (("all-vhosts", Right.MANAGEMENT), ("vhost/{vhost}", Right.VHOST)):
            add(f"{without_leaders}/{where}", self._check_leaders, right)
            add(f"{without_leaders}/{where}/pattern/{{pattern}}", self._check_leaders, right)
        for path in ("ready-to-serve-clients", "is-in-service"):
            add(path, self._check_in_service, Right.NONE)
        add("alive", self._check_started, Right.NONE)
        add("below-node-connection-limit", self._check_connections, Right.NONE)
        add("reached-target-cluster-size", self._check_size, Right.NONE)
        router.add("GET", "/api/aliveness-test/{vhost}", self._check_started, Right.VHOST)
        router.add("GET", "/api/healthchecks/node", self._check_local_alarms)
        router.add("GET", "/api/healthchecks/node/{node}", self._check_local_alarms)

    async def _check_started(self, request: Request, vhost: str | None = None) -> Response:
        """Whoever is answered finds everything recovered: listeners come last."""
        return json_response(OK)

    # alarms

    async def _check_local_alarms(self, request: Request, node: str | None = None) -> Response:
        return _alarms({self._node.name: self._node.alarms(operator(request))})

    async def _check_alarms(self, request: Request) -> Response:
        alarms = {self._node.name: self._node.alarms(operator(request))}
        if self._cluster is not None:
            alarms |= {one.name: one.alarms for one in self._cluster.status().nodes}
        return _alarms(alarms)

    # listeners

    async def _check_port(self, request: Request, port: str) -> Response:
        wanted = whole_number(port, PORT_DIGITS_MAX)
        if wanted is None or not 0 < wanted <= PORT_MAX:
            raise bad_request(f"'{port}' is no port")
        listeners = self._node.status(operator(request)).facts.listeners
        ports = sorted({host_and_port(one)[1] for one in listeners})
        if wanted in ports:
            return json_response({**OK, "port": wanted})
        return failed("No active listener", missing=wanted, ports=ports)

    async def _check_protocols(self, request: Request, protocols: str) -> Response:
        listeners = self._node.status(operator(request)).facts.listeners
        there = sorted({PROTOCOLS.get(one.protocol, one.protocol) for one in listeners})
        wanted = [one.strip().lower() for one in protocols.split(",") if one.strip()]
        absent = [one for one in wanted if ALIASES.get(one, one) not in there]
        if absent:
            return failed("No active listener", missing=absent, protocols=there)
        return json_response({**OK, "protocols": there})

    async def _check_certificate(self, request: Request, within: str, unit: str) -> Response:
        """Of all listeners within TLS: they have one."""
        count = whole_number(within, DIGITS_OF_TIME)
        if not count or unit not in DAYS:
            raise bad_request(f"'{within} {unit}' is no time: give a number above 0, and days, weeks, months or years")
        who = operator(request)
        certificate = self._node.certificate(who)
        if certificate is None or certificate.valid_until_ms > self._front.wall_ms() + count * DAYS[unit] * DAY_MS:
            return json_response(OK)
        until = datetime.fromtimestamp(certificate.valid_until_ms / 1000, UTC).isoformat()
        expiry = {"certfile": certificate.path, "certfile_expires_on": [until]}
        listeners = [one for one in self._node.status(who).facts.listeners if one.tls]
        expired = [{**listener_view(self._node.name, one), **expiry} for one in listeners]
        return failed("Certificates expiring", expired=expired)

    # queues

    async def _check_critical(self, request: Request) -> Response:
        if len(self._node.node_names()) < 2 or self._cluster is None:
            return json_response({**OK, "reason": "single node cluster"})
        _, critical = self._cluster.critical("")
        return failed("; ".join(critical), queues=[]) if critical else json_response(OK)

    async def _check_leaders(self, request: Request, vhost: str | None = None, pattern: str = "") -> Response:
        if pattern:
            check_pattern("pattern", pattern, PATTERN_LENGTH_MAX)
        who = operator(request)
        meant = [
            record
            async for record in made_in_slices(self._resources.queue_records(who, vhost))
            if record.kind == "quorum" and matches(pattern, record.name)
        ]
        silent = await look_at(self._resources, meant)
        views = (self._resources.view(record) for record in meant if self._resources.is_declared(record))
        without = [_readable(view.record) async for view in made_in_slices(views) if _has_no_leader(view)]
        if not without:
            return json_response(OK)
        if silent:
            unheard = f"of some no node with a member answers this one: {', '.join(silent)}"
            return failed(f"Some quorum queues have no leaders; {unheard}", queues=without, unreachable_nodes=silent)
        return failed("Some quorum queues have no leaders", queues=without)

    # what is asked every second

    async def _check_in_service(self, request: Request) -> Response:
        closed = self._front.broker.closed_because
        return failed(closed) if closed else json_response(OK)

    async def _check_connections(self, request: Request) -> Response:
        limit = self._front.broker.limits.connections
        opened = self._front.broker.totals.connections_opened - self._front.broker.totals.connections_closed
        if limit and opened >= limit:
            return failed("node connection limit is reached", limit=limit, connections=opened)
        return json_response(OK)

    async def _check_size(self, request: Request) -> Response:
        """Nobody says how large a cluster is to become."""
        return json_response(OK)


def _has_no_leader(view: QueueView) -> bool:
    """One that is being opened has none, and one that no node tells of may have none: nobody can use it from here."""
    return view.figures is None or view.figures.state in ("minority", "down")


def _readable(record: QueueRecord) -> dict[str, str]:
    return {
        "readable_name": record.label,
        "name": record.name,
        "virtual_host": record.vhost,
        "type": record.kind,
    }


def _alarms(by_node: dict[str, Any]) -> Response:
    found = [_alarm(node, one) for node, alarms in by_node.items() for one in alarms]
    return failed("There are alarms in effect in the cluster", alarms=found) if found else json_response(OK)


def _alarm(node: str, alarm: AlarmFacts) -> dict[str, str]:
    return {"node": node, "resource": RESOURCES.get(alarm.kind, alarm.kind), "reason": alarm.reason}


def failed(reason: str, **more: Any) -> Response:
    return json_response({"status": "failed", "reason": reason, **more}, 503)
