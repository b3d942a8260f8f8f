"""Who makes the call that this code serves, and what their tags allow."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from broker.errors import AccessRefused
from broker.records import UserRecord
from front.tags import includes


@dataclass(slots=True, frozen=True)
class Caller:
    """The user behind this call."""

    user: str
    tags: tuple[str, ...]
    peer: str  # ip:port
    tls: bool
    login: UserRecord | None = None  # the user's record when it was verified

    def has_tag(self, tag: str) -> bool:
        return includes(self.tags, tag)

    def require_tag(self, tag: str) -> None:
        """Raises AccessRefused."""
        if not self.has_tag(tag):
            raise AccessRefused(f"user '{self.user}' needs the tag '{tag}' for this; its tags are: {self._tags_text()}")

    def _tags_text(self) -> str:
        return ", ".join(self.tags) or "none"


_caller: ContextVar[Caller] = ContextVar("caller")


def caller() -> Caller:
    """Set before any handler runs, for every call but those that are open to everybody."""
    return _caller.get()


def set_caller(caller: Caller) -> None:
    _caller.set(caller)
