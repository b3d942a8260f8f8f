"""The management API's paths about policies and operator policies, which differ in who may change them."""

from __future__ import annotations

from typing import Any

from broker.json_values import to_json
from broker.records import PolicyRecord
from front.web.handlers import WebFront, operator, put
from front.web.http import bodies
from front.web.http.request import Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.router import WebRouter
from front.web.security.access import Right


def policy_view(record: PolicyRecord) -> dict[str, Any]:
    return {
        "vhost": record.vhost,
        "name": record.name,
        "pattern": record.pattern,
        "apply-to": record.apply_to,
        "definition": to_json(record.definition),
        "priority": record.priority,
    }


LISTED = ListOf(policy_view, order=lambda one: (one.priority, one.vhost, one.name), name=lambda one: one.name)


class PoliciesApi:
    """One for each of the two kinds."""

    def __init__(self, front: WebFront, *, operators: bool) -> None:
        self._front = front
        self._policies = front.operations.policies
        self._operators = operators

    def add_routes(self, router: WebRouter) -> None:
        path = "/api/operator-policies" if self._operators else "/api/policies"
        change = Right.ADMINISTRATOR if self._operators else Right.VHOST_POLICYMAKER
        router.add("GET", path, self._get_all)
        router.add("GET", f"{path}/{{vhost}}", self._get_all, Right.VHOST)
        one = f"{path}/{{vhost}}/{{name}}"
        router.add("GET", one, self._get, Right.VHOST)
        router.add("PUT", one, self._put, change)
        router.add("DELETE", one, self._delete, change)

    async def _get_all(self, request: Request, vhost: str | None = None) -> Response:
        found = self._policies.listed(operator(request), vhost, operator=self._operators)
        return await listed(request, found, LISTED)

    async def _get(self, request: Request, vhost: str, name: str) -> Response:
        return json_response(policy_view(self._one(request, vhost, name)))

    def _one(self, request: Request, vhost: str, name: str) -> PolicyRecord:
        return self._policies.one(operator(request), vhost, name, operator=self._operators)

    async def _put(self, request: Request, vhost: str, name: str) -> Response:
        if self._operators:
            request.require_json()
        body = request.json_object()
        bodies.require(body, "pattern", "definition")
        record = PolicyRecord(
            vhost,
            name,
            pattern=bodies.text(body, "pattern"),
            apply_to=bodies.text(body, "apply-to", "all"),
            priority=bodies.number(body, "priority", 0),
            definition=bodies.table(body, "definition"),
            operator=self._operators,
        )
        found = self._policies.listed(operator(request), vhost, operator=self._operators)
        existed = any(one.name == name for one in found)
        await self._front.done(self._policies.set(operator(request), record))
        return put(existed)

    async def _delete(self, request: Request, vhost: str, name: str) -> Response:
        self._one(request, vhost, name)
        await self._front.done(self._policies.clear(operator(request), vhost, name, operator=self._operators))
        return Response(204)
