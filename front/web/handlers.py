"""What the handlers of all paths need: who asks, a session as that user, and answers that change something."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from broker.client_connection import Connection
from broker.errors import BrokerError
from broker.operations.operations import Operations
from broker.operations.operator import Operator
from broker.pending import Pending
from broker.records import UserRecord
from broker.session.silent_sink import SilentSink
from front.answers import answered
from front.visit import visit
from front.web.http.request import Request, Response
from front.web.samples.fresh_sums import FreshSums
from front.web.samples.node_samples import NodeSamples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.broker import Broker
    from broker.session.session import Session
    from broker.session.session_sink import SessionSink

T = TypeVar("T")
PROTOCOL = "HTTP"

logger = logging.getLogger("leveret.web")


def _ends_by_itself(_: BrokerError) -> None:
    """It is there for one request."""


@dataclass(slots=True)
class WebFront:
    """The HTTP front of a node, as the paths see it."""

    broker: Broker
    operations: Operations
    wall_ms: Callable[[], int]
    samples: NodeSamples = field(init=False)
    fresh: FreshSums = field(init=False)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _begun: set[asyncio.Task[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.samples = NodeSamples(self.broker, self.wall_ms, self.operations.this_node.facts)
        self.fresh = FreshSums(self.broker)

    async def done(self, change: Pending[T]) -> T:
        """The answer to a change, when it is there. Raises the error that is the answer."""
        self.broker.end_turn()
        return await answered(change)

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Go on with it behind the answer; what is refused is in the log."""
        task = asyncio.get_running_loop().create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._begun.discard(task)
        if not task.cancelled() and isinstance(task.exception(), BrokerError):
            logger.warning("what was begun over HTTP has failed: %s", task.exception())

    def visit(
        self,
        request: Request,
        vhost: str,
        sink: SessionSink | None = None,
        close: Callable[[BrokerError], None] = _ends_by_itself,
    ) -> AbstractContextManager[Session]:
        """A session for this request, as its user: an AMQP client's rules hold here too. `close`: the broker ends it."""
        return visit(self.broker, self._connection(request, vhost, close), sink or SilentSink(), self.wall_ms)

    def _connection(self, request: Request, vhost: str, close: Callable[[BrokerError], None]) -> Connection:
        user, number = login(request), next(self._numbers)
        return Connection(
            id=f"http-{number}",
            name=f"{request.client.address} -> {PROTOCOL} #{number}",
            user=user.name,
            login=user,
            vhost=vhost,
            protocol=PROTOCOL,
            client_properties={},
            connected_at=request.now,
            close=close,
            set_blocked=_may_be_blocked,
            statistics=_no_figures,
        )


def _may_be_blocked(_: str | None) -> None:
    """Nobody is told in the middle of a request."""


def _no_figures() -> dict[str, Any]:
    return {}


def put(existed: bool) -> Response:
    return Response(204 if existed else 201)


def login(request: Request) -> UserRecord:
    assert request.user is not None, f"{request.target} was added without a login, but asks who calls"
    return request.user


def operator(request: Request) -> Operator:
    return Operator.of(login(request))
