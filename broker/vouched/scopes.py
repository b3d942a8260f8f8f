"""What scopes allow, in RabbitMQ's form without their prefix:

    configure:VHOST/NAME     declare and delete; write and read as the permissions of users have them
    read:VHOST/NAME/KEY      the same, and with these routing keys at topic exchanges; without a KEY none may be used there
    tag:administrator        a tag, as a user has it

VHOST, NAME and KEY are patterns (wildcard.py). `{vhost}` in one of them is the virtual host that is asked about, whatever
characters it has. Scopes of other forms mean nothing here: a token carries those of other programs too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from broker.vouched.wildcard import Wildcard, literally, wildcard

ACCESSES_OF_SCOPES = ("configure", "write", "read")
TAG = "tag:"
ASKED_VHOST = "{vhost}"


class ScopePatterns(NamedTuple):
    """What one scope is about."""

    vhost: Wildcard
    name: Wildcard
    routing_key: Wildcard | None


@dataclass(slots=True, frozen=True)
class _Scope:
    """Its patterns, or the text that they are made of for each virtual host."""

    text: str
    patterns: ScopePatterns | None

    def of(self, vhost: str) -> ScopePatterns | None:
        """None: it is about other virtual hosts."""
        patterns = self.patterns or _patterns(self.text.replace(ASKED_VHOST, literally(vhost)))
        return patterns if patterns is not None and patterns.vhost.matches(vhost) else None


class ScopeRights:
    """What all scopes of a user allow together."""

    def __init__(self, scopes: Iterable[str]) -> None:
        """Without the prefix of the resource server."""
        self.scopes = tuple(dict.fromkeys(scopes))
        self._by_access: dict[str, list[_Scope]] = defaultdict(list)
        for text in self.scopes:
            access, _, rest = text.partition(":")
            if access in ACCESSES_OF_SCOPES and (scope := _scope(rest)) is not None:
                self._by_access[access].append(scope)

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(sorted(one.removeprefix(TAG) for one in self.scopes if one.startswith(TAG)))

    def may_enter(self, vhost: str) -> bool:
        """Any scope for something in it lets in."""
        return any(True for access in ACCESSES_OF_SCOPES for _ in self._about(access, vhost))

    def allows(self, vhost: str, access: str, name: str) -> bool:
        return any(one.name.matches(name) for one in self._about(access, vhost))

    def allows_topic(self, vhost: str, access: str, exchange: str, routing_key: str) -> bool:
        """Whether this key may be used at this topic exchange."""
        return any(
            one.routing_key is not None and one.name.matches(exchange) and one.routing_key.matches(routing_key)
            for one in self._about(access, vhost)
        )

    def _about(self, access: str, vhost: str) -> Iterator[ScopePatterns]:
        found = (scope.of(vhost) for scope in self._by_access.get(access, ()))
        return (patterns for patterns in found if patterns is not None)


def _scope(text: str) -> _Scope | None:
    if ASKED_VHOST in text:
        return _Scope(text, None)
    patterns = _patterns(text)
    return None if patterns is None else _Scope(text, patterns)


def _patterns(text: str) -> ScopePatterns | None:
    """None: it has another form."""
    parts = [wildcard(part) for part in text.split("/")]
    match parts:
        case [Wildcard() as vhost, Wildcard() as name]:
            return ScopePatterns(vhost, name, None)
        case [Wildcard() as vhost, Wildcard() as name, Wildcard() as routing_key]:
            return ScopePatterns(vhost, name, routing_key)
    return None
