"""Each failure of a call becomes the exception that says what can be done."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from broker import errors as broker_errors
from front.grpc import convert
from leveret import errors
from leveret.retry import Backoff


def rpc_error(code: grpc.StatusCode, text: str = "text", *trailers: tuple[str, str]) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), text)


SERVER_ERRORS = [kind for kind in convert._STATUS if kind is not broker_errors.BrokerError]


@pytest.mark.parametrize("kind", SERVER_ERRORS)
def test_the_client_knows_every_name_that_a_node_sends(kind: type[broker_errors.BrokerError]) -> None:
    code, text, trailers = convert.status_of(kind("because"))
    found = errors.from_rpc(rpc_error(code, text, *trailers), "node")
    same_name = getattr(errors, kind.__name__, None)
    assert str(found) == "because"
    assert same_name is None or type(found) is same_name


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, errors.ConnectionLost),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.TimedOut),
        (grpc.StatusCode.NOT_FOUND, errors.NotFound),
        (grpc.StatusCode.UNKNOWN, errors.NodeFailed),
    ],
)
def test_without_a_name_the_status_decides(code: grpc.StatusCode, kind: type[errors.LeveretError]) -> None:
    assert type(errors.from_rpc(rpc_error(code), "node:1")) is kind


def test_a_stream_that_ends_while_it_is_written_to_is_a_lost_connection() -> None:
    found = errors.from_rpc(rpc_error(grpc.StatusCode.INTERNAL, "Internal error from Core"), "node:1")
    assert type(found) is errors.ConnectionLost


def test_a_lost_connection_names_the_node() -> None:
    assert str(errors.from_rpc(rpc_error(grpc.StatusCode.UNAVAILABLE, "refused"), "node:1")) == (
        "no connection to node:1: refused"
    )


def test_pauses_grow_stay_bounded_and_begin_again() -> None:
    backoff = Backoff(first_s=0.1, max_s=2.0)
    delays = [backoff.next_delay_s() for _ in range(2000)]
    assert all(0 <= delay <= min(2.0, 0.1 * 2**attempt) for attempt, delay in enumerate(delays[:40]))
    assert max(delays) <= 2.0
    assert max(delays[100:]) > 1.0 > min(delays[100:])
    backoff.reset()
    assert backoff.next_delay_s() <= 0.1
