"""Many requests about what is declared, made a few in each step and answered together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from broker.background_work import Work, begin
from broker.errors import BrokerError
from broker.pending import Pending

REQUESTS_PER_STEP = 5  # a declaration takes about 0.1 ms

Request = Callable[[], Pending[Any]]


class ManyRequests:
    """`outcome` is answered when each of them is: with the first error, or None. With `until_error` none is made behind it."""

    def __init__(self, requests: Sequence[Request], *, until_error: bool) -> None:
        self.outcome: Pending[BrokerError | None] = Pending()
        self._requests = requests
        self._until_error = until_error
        self._error: BrokerError | None = None
        self._waiting = 1  # answers, and one for the end of the requests

    def begin(self, work: Work) -> Pending[BrokerError | None]:
        begin(work, self._steps())
        return self.outcome

    def _steps(self) -> Iterator[None]:
        for count, request in enumerate(self._requests, 1):
            if self._error is not None and self._until_error:
                break
            self._make(request)
            if count % REQUESTS_PER_STEP == 0:
                yield
        self._answered(None)

    def _make(self, request: Request) -> None:
        self._waiting += 1
        try:
            asked = request()
        except BrokerError as error:
            self._failed(error)
        else:
            asked.then(self._answered, self._failed)

    def _failed(self, error: BrokerError) -> None:
        self._error = self._error or error
        self._answered(None)

    def _answered(self, _: Any) -> None:
        self._waiting -= 1
        if not self._waiting:
            self.outcome.resolve(self._error)
