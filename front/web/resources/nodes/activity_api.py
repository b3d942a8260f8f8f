"""Paths of Leveret's own about what happened lately, to be asked again and again: events, the log, and who changed what.

Every answer has a `cursor`, one number for each node. Who gives it with the next request is shown what is new, so there is no
stream that would have to be kept open, and a client that is slow costs nothing. What a node has kept is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from broker.broker import Broker
from broker.json_values import readable
from broker.operations.operator import ADMINISTRATOR, MONITORING, Operator
from front.node_ports import LogTailPort
from front.web.everywhere import ClusterRows, Everywhere, Json
from front.web.handlers import WebFront, operator
from front.web.http.refusals import bad_request
from front.web.http.request import Request, Response, json_response
from front.web.router import WebRouter
from front.web.security.access import Right
from front.whole_number import whole_number

EVENTS, LOG_LINES, AUDIT_LINES = "events", "log lines", "audit lines"
LIMIT_DEFAULT, LIMIT_MAX = 200, 1_000
CURSOR_NODES_MAX = 256
DIGITS_MAX = 15
LEVELS = ("debug", "info", "warning", "error", "critical")
NO_LEVEL = "debug"

Cursor = Mapping[str, int]  # by node


class ActivityApi:
    """See the module."""

    def __init__(self, front: WebFront, everywhere: Everywhere, log: LogTailPort | None) -> None:
        self._broker: Broker = front.broker
        self._node = front.operations.this_node.name
        self._everywhere = everywhere
        self._log = log
        everywhere.add(EVENTS, self._events)
        everywhere.add(LOG_LINES, self._log_lines)
        everywhere.add(AUDIT_LINES, self._audit_lines)

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/leveret/events", self._get_events)
        router.add("GET", "/api/leveret/log", self._get_log, Right.ADMINISTRATOR)
        router.add("GET", "/api/leveret/audit", self._get_audit, Right.ADMINISTRATOR)

    # what this node says

    def _events(self, who: Operator, cursor: Cursor, limit: int, asked_by: str) -> Iterable[Json]:
        """What every node has applied is said by the one that is asked."""
        here = asked_by == self._node
        found = (
            {"node": self._node, "number": number, "kind": one.kind, "at": one.at, "name": readable(one.name),
             "vhost": readable(one.vhost), "user": readable(one.user), "detail": readable(one.detail)}
            for number, one in self._broker.events.after(cursor.get(self._node, 0))
            if (here or one.local) and self._may_see(who, one.vhost, one.user)
        )  # fmt: skip
        return islice(found, limit)

    def _may_see(self, who: Operator, vhost: str, user: str) -> bool:
        """Monitoring sees all, others what is in their vhosts, and of clients their own."""
        if who.has_tag(MONITORING):
            return True
        return bool(vhost) and user in ("", who.name) and who.may_see(self._broker.catalog, vhost)

    def _log_lines(self, who: Operator, cursor: Cursor, limit: int, level: str) -> Iterable[Json]:
        who.require_tag(ADMINISTRATOR)
        if self._log is None:
            return ()
        least = LEVELS.index(level)
        found = (
            {"node": self._node, "number": number, **one._asdict()}
            for number, one in self._log.after(cursor.get(self._node, 0))
            if one.level not in LEVELS or LEVELS.index(one.level) >= least
        )
        return islice(found, limit)

    def _audit_lines(self, who: Operator, cursor: Cursor, limit: int, user: str, text: str) -> Iterator[Json]:
        who.require_tag(ADMINISTRATOR)
        found = (
            {"node": self._node, "number": number, **_readable(one)}
            for number, one in self._broker.audit.lines.after(cursor.get(self._node, 0))
            if user in ("", one.user) and text.lower() in f"{one.kind} {one.what} {one.why}".lower()
        )
        return islice(found, limit)

    # answers

    async def _get_events(self, request: Request) -> Response:
        cursor, limit = _cursor(request), _limit(request)
        found = await self._everywhere.find(EVENTS, operator(request), cursor, limit, self._node)
        kind = request.asked("kind") or ""
        shown = [row for row in found.rows if row["kind"].startswith(kind)]
        return _answer(found, shown, cursor, limit)

    async def _get_log(self, request: Request) -> Response:
        level = request.asked("level") or NO_LEVEL
        if level not in LEVELS:
            raise bad_request(f"level is one of {', '.join(LEVELS)}, not {level!r}")
        cursor, limit = _cursor(request), _limit(request)
        found = await self._everywhere.find(LOG_LINES, operator(request), cursor, limit, level)
        return _answer(found, found.rows, cursor, limit)

    async def _get_audit(self, request: Request) -> Response:
        cursor, limit = _cursor(request), _limit(request)
        user, text = request.asked("user") or "", request.asked("contains") or ""
        found = await self._everywhere.find(AUDIT_LINES, operator(request), cursor, limit, user, text)
        return _answer(found, found.rows, cursor, limit)


def _answer(found: ClusterRows, shown: list[Json], cursor: Cursor, limit: int) -> Response:
    """The newest first. The cursor goes by all that was found, also by what a filter left out."""
    first_of = {row["node"]: row["number"] for row in reversed(found.rows)}  # a node says its newest first
    newest = {**cursor, **first_of}
    items = sorted(shown, key=lambda row: (row["at"], row["node"], row["number"]), reverse=True)[:limit]
    cursor_text = ",".join(f"{name}:{number}" for name, number in newest.items())
    response = json_response({"items": items, "cursor": cursor_text})
    return Response(response.status, response.body, headers=found.headers())


def _cursor(request: Request) -> Cursor:
    """Names of nodes have no comma and no colon."""
    given = request.asked("cursor") or ""
    found: dict[str, int] = {}
    for part in given.split(",") if given else ():
        name, _, digits = part.rpartition(":")
        number = whole_number(digits, DIGITS_MAX)
        if not name or number is None or len(found) >= CURSOR_NODES_MAX:
            raise bad_request(f"cursor is {given[:100]!r}: give what the answer before had, or nothing")
        found[name] = number
    return found


def _limit(request: Request) -> int:
    given = request.asked("limit")
    found = LIMIT_DEFAULT if given is None else whole_number(given, DIGITS_MAX)
    if not found or found > LIMIT_MAX:
        raise bad_request(f"limit is {given!r}, and lies between 1 and {LIMIT_MAX}")
    return found


def _readable(line: Any) -> Json:
    values = {name: getattr(line, name) for name in line.__slots__}
    return {name: readable(value) if isinstance(value, str) else value for name, value in values.items()}
