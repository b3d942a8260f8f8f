"""Who makes the call that this code serves."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from broker.operations.operator import Operator
from broker.records import UserRecord


@dataclass(slots=True, frozen=True)
class Caller:
    """The user behind this call."""

    user: str
    tags: tuple[str, ...]
    peer: str  # ip:port
    tls: bool
    login: UserRecord | None = None  # the user's record when it was verified


_caller: ContextVar[Caller] = ContextVar("caller")


def caller() -> Caller:
    """Set before any handler runs, for every call but those that are open to everybody."""
    return _caller.get()


def operator() -> Operator:
    """The same, as who asks for an operation."""
    who = _caller.get()
    return Operator(who.user, who.tags, who.login.vouched if who.login is not None else None)


def set_caller(caller: Caller) -> None:
    _caller.set(caller)
