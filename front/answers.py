"""Waiting for a `Pending` on the event loop, for the fronts that are written with async."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from broker.errors import BrokerError
from broker.pending import Pending

T = TypeVar("T")


def answered(pending: Pending[T]) -> asyncio.Future[T]:
    """A future for the answer. It raises the error that is the answer; nobody may be waiting any more when it comes."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def resolve(value: T) -> None:
        if not future.done():
            future.set_result(value)

    def fail(error: BrokerError) -> None:
        if not future.done():
            future.set_exception(error)

    pending.then(resolve, fail)
    return future
