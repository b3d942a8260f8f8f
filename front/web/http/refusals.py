"""What the broker refuses, as the management API says it: status, error word and reason."""

from __future__ import annotations

from broker.errors import (
    AccessRefused,
    BrokerError,
    ConnectionForced,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    ResourceExhausted,
)
from broker.operations.vhosts import VhostProtected
from front.web.http.request import HttpError

NOT_FOUND = "Object Not Found"
STATUS_OF_ERROR: dict[type[BrokerError], tuple[int, str]] = {
    AccessRefused: (401, "not_authorised"),
    NotAllowed: (401, "not_authorised"),
    NotFound: (404, NOT_FOUND),
    PreconditionFailed: (400, "bad_request"),
    VhostProtected: (412, "precondition_failed"),
    ResourceExhausted: (503, "service_unavailable"),
    ConnectionForced: (503, "service_unavailable"),
}


def http_error(error: BrokerError) -> HttpError:
    """A subclass counts as its nearest ancestor in the table; what is in none was the request's fault."""
    for kind in type(error).__mro__:
        if kind in STATUS_OF_ERROR:
            status, word = STATUS_OF_ERROR[kind]
            return HttpError(status, word, error.text)
    return HttpError(400, "bad_request", error.text)


def bad_request(reason: str) -> HttpError:
    return HttpError(400, "bad_request", reason)


def missing(what: str) -> HttpError:
    return HttpError(404, NOT_FOUND, what)
