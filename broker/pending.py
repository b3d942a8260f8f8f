"""An answer that may come later, without a loop to wait on.

Metadata becomes durable, passwords are verified and commits finish outside the core. Such a request returns a `Pending`:
already answered, or answered later by whoever owns the work. Exactly one of `resolve` and `fail` is called, once.
Fronts decide what waiting means: the AMQP front stops reading that channel's frames, the gRPC front awaits a future.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from broker.errors import BrokerError

T = TypeVar("T")
U = TypeVar("U")


class Pending(Generic[T]):
    """One answer, now or later."""

    __slots__ = ("_answered", "_error", "_on_error", "_on_value", "_value")

    def __init__(self) -> None:
        self._answered = False
        self._value: T | None = None
        self._error: BrokerError | None = None
        self._on_value: Callable[[T], None] | None = None
        self._on_error: Callable[[BrokerError], None] | None = None

    @classmethod
    def of(cls, value: T) -> Pending[T]:
        """An answer that is known already."""
        pending: Pending[T] = cls()
        pending.resolve(value)
        return pending

    @classmethod
    def failed(cls, error: BrokerError) -> Pending[T]:
        """A refusal that is known already."""
        pending: Pending[T] = cls()
        pending.fail(error)
        return pending

    @property
    def answered(self) -> bool:
        return self._answered

    @property
    def error(self) -> BrokerError | None:
        """Why it failed, if it has."""
        return self._error

    def resolve(self, value: T) -> None:
        assert not self._answered, f"answered twice: {self._value!r}, then {value!r}"
        self._answered = True
        self._value = value
        if self._on_value is not None:
            self._on_value(value)

    def fail(self, error: BrokerError) -> None:
        assert not self._answered, f"answered {self._value!r}, then failed with {error!r}"
        self._answered = True
        self._error = error
        if self._on_error is not None:
            self._on_error(error)

    def then(self, on_value: Callable[[T], None], on_error: Callable[[BrokerError], None]) -> None:
        """Call one of the two, at once if the answer is known. There is one listener."""
        assert self._on_value is None, "a pending answer has one listener"
        self._on_value, self._on_error = on_value, on_error
        if self._error is not None:
            on_error(self._error)
        elif self._answered:
            on_value(cast(T, self._value))

    def map(self, change: Callable[[T], U]) -> Pending[U]:
        """The same answer seen through `change`; an error that `change` raises becomes the answer."""
        seen: Pending[U] = Pending()

        def pass_on(value: T) -> None:
            try:
                changed = change(value)
            except BrokerError as error:
                seen.fail(without_frames(error))
            else:
                seen.resolve(changed)

        self.then(pass_on, seen.fail)
        return seen

    def then_ask(self, ask: Callable[[T], Pending[U]]) -> Pending[U]:
        """The answer to what is asked when this one is there; an error that `ask` raises becomes the answer."""
        answer: Pending[U] = Pending()

        def go_on(value: T) -> None:
            try:
                asked = ask(value)
            except BrokerError as error:
                answer.fail(without_frames(error))
            else:
                asked.then(answer.resolve, answer.fail)

        self.then(go_on, answer.fail)
        return answer


def without_frames(error: BrokerError) -> BrokerError:
    """It is an answer now, and nobody looks where it was raised: its frames would hold the answer, and the answer holds it."""
    return error.with_traceback(None)


def ignore(_: Any) -> None:
    """For requests of the broker's own: what failed is tried again by whoever needs it."""
