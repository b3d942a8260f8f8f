"""What the handlers of all paths need: who asks, and answers that list or change something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from broker.operations.operator import Operator
from broker.records import UserRecord
from front.slices import made_in_slices
from front.web.request import Request, Response

T = TypeVar("T")


async def listed(found: Iterator[T], view: Callable[[T], dict[str, Any]]) -> Response:
    """Others are served in between."""
    pieces = [msgspec.json.encode(view(one)) async for one in made_in_slices(found)]
    return Response(200, b"[" + b",".join(pieces) + b"]")


def put(existed: bool) -> Response:
    return Response(204 if existed else 201)


def login(request: Request) -> UserRecord:
    assert request.user is not None, f"{request.target} was added without a login, but asks who calls"
    return request.user


def operator(request: Request) -> Operator:
    return Operator.of(login(request))
