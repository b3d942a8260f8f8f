"""Whether what clients were told can be explained by one register, each operation taking effect at one moment while it ran.

Wing and Gong's search with Lowe's memory: among the operations that nobody had to wait for, try one after the other as the
next; remember which sets of operations led to which state, and never search from the same twice. Histories of different keys
do not touch each other, so each key is searched by itself. Operations whose fate is unknown may take effect at any time
after they began, or never.

Whoever knows where the log has an operation may say so (`place`): it is tried in that order first, so that a history that is
as it should be is explained at once. What is answered does not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

SEARCH_MAX = 400_000  # states of one key; a search that needs more says nothing, and that counts as a failure
NEVER = 1 << 62


class Kind(Enum):
    PUT = "put"
    CAS = "cas"
    DELETE = "delete"
    READ = "read"


State = tuple[int, bytes]  # version and value; (0, b"") is no value
NOTHING: State = (0, b"")


@dataclass(slots=True)
class Call:
    """What one client asked for, when, and what it was told. `result` is None when it does not know what became of it."""

    kind: Kind
    began: int  # moments, counted; no two are equal
    ended: int = NEVER
    value: bytes = b""  # put, cas
    expected: int = 0  # cas
    result: State | None = None
    """Read: what was found; others: (version afterwards, b"\\1" when it was done, else b"\\0")."""
    command: bytes = b""
    """What went into the log; no two are equal."""
    place: int = NEVER

    def __str__(self) -> str:
        ended = "?" if self.ended == NEVER else self.ended
        return f"{self.began}..{ended} {self.kind.value} {self.expected} {self.value!r} -> {self.result}"


class Inconclusive(Exception):
    """The search was given up."""


def step(state: State, call: Call) -> tuple[State, State]:
    """The register after a call, and what is answered."""
    version, _ = state
    match call.kind:
        case Kind.READ:
            return state, state
        case Kind.DELETE:
            return NOTHING, (0, b"\1" if version else b"\0")
        case Kind.CAS if version != call.expected:
            return state, (version, b"\0")
        case _:
            return (version + 1, call.value), (version + 1, b"\1")


def explain(calls: Sequence[Call], search_max: int = SEARCH_MAX) -> list[Call] | None:
    """An order that explains every answer, or None when there is none. Raises Inconclusive."""
    todo = sorted((call for call in calls if call.kind is not Kind.READ or call.result), key=lambda call: call.began)
    known = sum(1 << at for at, call in enumerate(todo) if call.result is not None)
    seen: set[tuple[int, State]] = set()
    stack: list[tuple[int, State, list[int]]] = [(0, NOTHING, _candidates(todo, 0))]
    path: list[int] = []
    while stack:
        done, state, candidates = stack[-1]
        if done & known == known:
            return [todo[at] for at in path]
        if not candidates:
            stack.pop()
            if path:
                path.pop()
            continue
        at = candidates.pop()
        call = todo[at]
        after, answer = step(state, call)
        if call.result is not None and answer != call.result:
            continue
        if call.result is None and after == state:
            continue  # it may as well never have happened
        key = (done | 1 << at, after)
        if key in seen:
            continue
        seen.add(key)
        if len(seen) > search_max:
            raise Inconclusive(f"{len(todo)} calls of one key: more than {search_max} states")
        path.append(at)
        stack.append((key[0], after, _candidates(todo, key[0])))
    return None


def _candidates(todo: Sequence[Call], done: int) -> list[int]:
    """Calls that may be the next: those that began before any that is left had ended. The likeliest is the last: the one that
    is known and ended first."""
    first_end = NEVER
    found = []
    for at, call in enumerate(todo):
        if done >> at & 1:
            continue
        if call.began > first_end:
            break
        first_end = min(first_end, call.ended)
        found.append(at)
    return sorted(found, key=lambda at: (todo[at].place, todo[at].ended), reverse=True)
