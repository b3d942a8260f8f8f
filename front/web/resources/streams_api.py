"""The management API's paths about streams themselves: super streams to create, and what is kept in a stream by names."""

from __future__ import annotations

from typing import Any

from broker.operations.operator import MANAGEMENT
from front.web.handlers import WebFront, operator
from front.web.http.refusals import bad_request
from front.web.http.request import HttpError, Request, Response, json_response
from front.web.router import WebRouter
from front.web.security.access import Right
from front.whole_number import whole_number

PARTITIONS_MAX = 1_000  # of a super stream, as over every other protocol
NUMBERS = ("max-length-bytes", "stream-max-segment-size-bytes", "initial-cluster-size", "stream-filter-size-bytes")
TEXTS = ("max-age", "queue-leader-locator")
DIGITS_MAX = 19


class StreamsApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front
        self._streams = front.operations.stream_admin

    def add_routes(self, router: WebRouter) -> None:
        """Behind those that begin with the same words."""
        router.add("PUT", "/api/stream/super-streams/{vhost}/{name}", self._put_super_stream, Right.VHOST)
        router.add("GET", "/api/stream/{vhost}/{stream}/tracking", self._get_tracking, Right.VHOST)

    async def _put_super_stream(self, request: Request, vhost: str, name: str) -> Response:
        who, wanted = operator(request), request.json_object()
        who.require_tag(MANAGEMENT)
        keys, arguments = binding_keys(wanted), stream_arguments(wanted.get("arguments", {}))
        await self._front.done(self._streams.create_super_stream(who, vhost, name, keys, arguments, request.now))
        return Response(204)

    async def _get_tracking(self, request: Request, vhost: str, stream: str) -> Response:
        found = self._streams.tracking(operator(request), vhost, stream)
        shown = {"writers": found.publishers, "offsets": found.offsets}
        only = {"writer": "writers", "offset": "offsets"}.get(request.query.get("type", [""])[-1])
        return json_response({only: shown[only]} if only is not None else shown)


def binding_keys(wanted: dict[str, Any]) -> tuple[str, ...]:
    """One for each partition: as they are given, or numbers. Raises HttpError."""
    partitions, given = wanted.get("partitions"), wanted.get("binding-keys")
    if (partitions is None) == (given is None):
        raise _wrong("give either partitions, a number, or binding-keys")
    keys = _given_keys(given) if partitions is None else _numbers_below(_number("partitions", partitions))
    if not 0 < len(keys) <= PARTITIONS_MAX:
        raise _wrong(f"a super stream has 1 to {PARTITIONS_MAX} partitions, not {len(keys)}")
    if "" in keys or len(set(keys)) < len(keys):
        raise _wrong("a binding key is empty or comes twice: each names another partition")
    return keys


def _given_keys(given: Any) -> tuple[str, ...]:
    """A list of texts, or one text with commas between them."""
    found = given.split(",") if isinstance(given, str) else given
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise _wrong("binding-keys is a list of texts, or a text with commas between them")
    return tuple([one.strip() for one in found])


def _numbers_below(count: int) -> tuple[str, ...]:
    if count > PARTITIONS_MAX:
        raise _wrong(f"a super stream has 1 to {PARTITIONS_MAX} partitions, not {count}")
    return tuple(map(str, range(count)))


def stream_arguments(given: Any) -> dict[str, Any]:
    """As queue.declare has them; here they have no x-. Raises HttpError."""
    if not isinstance(given, dict):
        raise _wrong("arguments is an object")
    unknown = sorted(set(given) - {*NUMBERS, *TEXTS})
    if unknown:
        raise _wrong(f"a partition has no argument '{unknown[0]}', but {', '.join((*NUMBERS, *TEXTS))}")
    found: dict[str, Any] = {f"x-{name}": _number(name, given[name]) for name in NUMBERS if name in given}
    return found | {f"x-{name}": given[name] for name in TEXTS if name in given}


def _number(name: str, value: Any) -> int:
    """Tools send some as texts."""
    found = None if isinstance(value, bool) else whole_number(str(value), DIGITS_MAX)
    if found is None:
        raise _wrong(f"{name} is {value!r}, and should be a number")
    return found


def _wrong(why: str) -> HttpError:
    return bad_request(why)
