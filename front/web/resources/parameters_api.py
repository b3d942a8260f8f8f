"""The management API's paths about runtime parameters: of components in vhosts, and global ones."""

from __future__ import annotations

from typing import Any

from broker.operations.parameters import ParameterView
from broker.records import ParameterRecord
from front.web.handlers import WebFront, operator, put
from front.web.http import bodies
from front.web.http.request import Request, Response, json_response
from front.web.lists.listing import ListOf, listed
from front.web.router import WebRouter
from front.web.security.access import Right


def parameter_view(view: ParameterView) -> dict[str, Any]:
    return {"value": view.value, "vhost": view.vhost, "component": view.component, "name": view.name}


def global_parameter_view(record: ParameterRecord) -> dict[str, Any]:
    return {"name": record.name, "value": record.value}


LISTED = ListOf(parameter_view, order=lambda one: (one.component, one.vhost, one.name), name=lambda one: one.name)
LISTED_GLOBAL = ListOf(global_parameter_view, order=lambda one: one.name, name=lambda one: one.name)


class ParametersApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front
        self._parameters = front.operations.parameters

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/api/parameters", self._get_all, Right.POLICYMAKER)
        router.add("GET", "/api/parameters/{component}", self._get_all, Right.POLICYMAKER)
        router.add("GET", "/api/parameters/{component}/{vhost}", self._get_all, Right.VHOST_POLICYMAKER)
        one = "/api/parameters/{component}/{vhost}/{name}"
        router.add("GET", one, self._get, Right.VHOST_POLICYMAKER)
        router.add("PUT", one, self._put, Right.VHOST_POLICYMAKER)
        router.add("DELETE", one, self._delete, Right.VHOST_POLICYMAKER)
        router.add("GET", "/api/global-parameters", self._get_all_global, Right.POLICYMAKER)
        one = "/api/global-parameters/{name}"
        router.add("GET", one, self._get_global, Right.POLICYMAKER)
        router.add("PUT", one, self._put_global, Right.POLICYMAKER)
        router.add("DELETE", one, self._delete_global, Right.POLICYMAKER)

    async def _get_all(self, request: Request, component: str | None = None, vhost: str | None = None) -> Response:
        return await listed(request, self._parameters.listed(operator(request), component, vhost), LISTED)

    async def _get(self, request: Request, component: str, vhost: str, name: str) -> Response:
        return json_response(parameter_view(self._parameters.one(operator(request), component, vhost, name)))

    async def _put(self, request: Request, component: str, vhost: str, name: str) -> Response:
        record = ParameterRecord(vhost, component, name, _value(request))
        return put(await self._front.done(self._parameters.set(operator(request), record)))

    async def _delete(self, request: Request, component: str, vhost: str, name: str) -> Response:
        await self._front.done(self._parameters.clear(operator(request), component, vhost, name))
        return Response(204)

    async def _get_all_global(self, request: Request) -> Response:
        return await listed(request, self._parameters.listed_global(operator(request)), LISTED_GLOBAL)

    async def _get_global(self, request: Request, name: str) -> Response:
        return json_response(global_parameter_view(self._parameters.one_global(operator(request), name)))

    async def _put_global(self, request: Request, name: str) -> Response:
        return put(await self._front.done(self._parameters.set_global(operator(request), name, _value(request))))

    async def _delete_global(self, request: Request, name: str) -> Response:
        await self._front.done(self._parameters.clear_global(operator(request), name))
        return Response(204)


def _value(request: Request) -> Any:
    body = request.json_object()
    bodies.require(body, "value")
    return body["value"]
