"""Whether what clients were told can be explained by one register, each operation taking effect at one moment while it ran.

Wing and Gong's search with Lowe's memory: among the calls that nobody had to wait for, try one after the other as the next;
remember which sets of calls led to which state, and never search from the same twice. Histories of different keys do not
touch each other, so each key is searched by itself. Calls whose fate is unknown may take effect at any time after they
began, or never: these are what makes a search long. Five things keep it short. Each leaves an explanation where there is
one, and none of them makes it longer:

1. *Who changes nothing goes first.* A call whose answer fits the register as it is now, and that does not change it (a read, a
   compare-and-set that failed, a delete of nothing), is next, and nothing else is tried. For if an explanation has it later, it
   may be moved to this place: it may be next already, so nobody has to come before it, and nobody notices that it has gone.
2. *A value that nobody has read is like any other of these.* Nothing but reads tells values apart, so all of them are one. (A
   model whose other calls tell values apart says so, and goes without this.)
3. *Of unknown calls that would do the same now, one is tried*: a compare-and-set before a put, and of equals the one that began
   first. Say that an explanation has B now where we have A. If it does without A, A may take B's place. If it has A later,
   the two may change places: B has begun now, so it has begun then too; and there it does what A did, for a put does what a
   compare-and-set does that succeeds, and equals do the same anywhere.
4. *Who has used less of the unknown can do more.* From the same set of known calls and the same state, whatever is possible
   after some unknown calls were used is possible when only part of these were. So of the unknown only the smallest sets are
   remembered. What is given up for a smaller set has no shorter explanation than that one has, hence none is lost in a circle.
5. An unknown call that changes nothing, and an unknown read, may as well never have happened.

Whoever knows where the log has a call may say so (`place`): calls are tried in that order first, so that a history that is as
it should be is explained at once. What is answered does not depend on it.

tests/unit/sim/test_linearizability.py has the same question in its dumb form, and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

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


class Model(NamedTuple):
    """What calls do and answer. The five things above hold for every model in which a call that may never have happened at all
    is one of unknown fate, and in which calls that lead to the same state now do the same later."""

    step: Callable[[State, Call], tuple[State, State]]
    only_reads_tell_values: bool
    says_what_it_changed: Callable[[Call], bool]
    """Whether the answer of this call tells that it changed something. The first of the five things needs that: a call that
    could be answered alike and change something in another place may not be moved away from there."""


VERSIONED = Model(step, only_reads_tell_values=True, says_what_it_changed=lambda call: True)


class _Tried(NamedTuple):
    """Somewhere in the search: what was done to get there, and what can be done next."""

    done: int  # of the known calls, a bit for each
    used: int  # of the unknown ones
    state: State
    place: int  # up to which the order of the log was followed
    path: _Path | None
    moves: list[_Move]  # the likeliest is the last


class _Path(NamedTuple):
    """Calls in the order in which they took effect, the last one first."""

    before: _Path | None
    call: Call


class _Move(NamedTuple):
    """A call that could be the next to change the register. The smallest is the likeliest."""

    place: int
    ended: int
    is_unknown: bool
    at: int
    after: State


class _Search:
    """One key's history. Values are told apart by whether anybody has read them, see the module."""

    def __init__(self, calls: Sequence[Call], model: Model) -> None:
        self._step = model.step
        self._says_what_it_changed = model.says_what_it_changed
        in_order = sorted(calls, key=lambda call: call.began)
        read = {call.result[1] for call in in_order if call.kind is Kind.READ and call.result not in (None, NOTHING)}
        self.told = [call for call in in_order if call.result is not None]
        self.untold = [call for call in in_order if call.result is None and call.kind is not Kind.READ]
        plain = model.only_reads_tell_values
        self.known = [_with_plain_values(call, read) if plain else call for call in self.told]
        self.unknown = [_with_plain_values(call, read) if plain else call for call in self.untold]
        self.all_known = (1 << len(self.known)) - 1
        self._smallest: dict[tuple[int, State], list[int]] = {}  # the sets of unknown calls that led there
        self.states = 0

    def reach(self, done: int, used: int, state: State, place: int, path: _Path | None) -> _Tried | None:
        """Take what changes nothing, and see what could be next. None when we were here before."""
        candidates, first_end = self._candidates(done)
        while idle := [at for at in candidates if self._is_idle(state, self.known[at])]:
            for at in idle:
                done |= 1 << at
                path = _Path(path, self.told[at])
            candidates, first_end = self._candidates(done)
        if not self._is_new(done, used, state):
            return None
        moves = [*self._known_moves(candidates, state, place), *self._unknown_moves(used, state, place, first_end)]
        return _Tried(done, used, state, place, path, sorted(moves, reverse=True))

    def make(self, move: _Move, tried: _Tried) -> _Tried | None:
        done, used, _, place, path, _ = tried
        place = place if move.place == NEVER else move.place
        if move.is_unknown:
            return self.reach(done, used | 1 << move.at, move.after, place, _Path(path, self.untold[move.at]))
        return self.reach(done | 1 << move.at, used, move.after, place, _Path(path, self.told[move.at]))

    def _is_idle(self, state: State, call: Call) -> bool:
        return self._says_what_it_changed(call) and self._step(state, call) == (state, call.result)

    def _is_new(self, done: int, used: int, state: State) -> bool:
        before = self._smallest.setdefault((done, state), [])
        if any(not other & ~used for other in before):
            return False
        before[:] = [other for other in before if used & ~other]
        before.append(used)
        self.states += 1
        return True

    def _candidates(self, done: int) -> tuple[list[int], int]:
        """Known calls that may be the next: those that began before any that is left had ended; and when the first of these
        ended."""
        found, first_end = [], NEVER
        for at in range((~done & (done + 1)).bit_length() - 1, len(self.known)):
            if done >> at & 1:
                continue
            call = self.known[at]
            if call.began > first_end:
                break
            first_end = min(first_end, call.ended)
            found.append(at)
        return found, first_end

    def _known_moves(self, candidates: list[int], state: State, place: int) -> Iterator[_Move]:
        for at in candidates:
            call = self.known[at]
            after, answer = self._step(state, call)
            if answer == call.result:
                yield _Move(_behind(place, call), call.ended, False, at, after)

    def _unknown_moves(self, used: int, state: State, place: int, first_end: int) -> Iterator[_Move]:
        """One for each state that any would lead to. Where the log has one of its equals is a hint as good as its own."""
        places: dict[State, int] = {}
        best: dict[State, tuple[bool, int]] = {}
        for at, call in enumerate(self.unknown):
            if call.began > first_end:
                break
            after, _ = self._step(state, call)
            if after == state:
                continue
            places[after] = min(places.get(after, NEVER), _behind(place, call))
            if not used >> at & 1:
                best[after] = min(best.get(after, (True, len(self.unknown))), (call.kind is Kind.PUT, at))
        for after, (_, at) in best.items():
            yield _Move(places[after], NEVER, True, at, after)


def explain(calls: Sequence[Call], search_max: int = SEARCH_MAX, model: Model = VERSIONED) -> list[Call] | None:
    """An order that explains every answer, or None when there is none. Raises Inconclusive."""
    search = _Search(calls, model)
    tried = search.reach(0, 0, NOTHING, -1, None)
    stack = [tried] if tried is not None else []
    while stack:
        tried = stack[-1]
        if tried.done == search.all_known:
            return _in_order(tried.path)
        if not tried.moves:
            stack.pop()
            continue
        following = search.make(tried.moves.pop(), tried)
        if following is None:
            continue
        if search.states > search_max:
            raise Inconclusive(f"{len(calls)} calls of one key: more than {search_max} states")
        stack.append(following)
    return None


def _with_plain_values(call: Call, read: set[bytes]) -> Call:
    """The call with one value in the place of all that nobody has read."""
    value = b"=" + call.value if call.value in read else b""
    result = call.result
    if call.kind is Kind.READ and result is not None and result != NOTHING:
        result = (result[0], b"=" + result[1])
    return replace(call, value=value, result=result)


def _behind(place: int, call: Call) -> int:
    """Where the log has the call; NEVER when that place was passed: it had no effect there, and may have none at all."""
    return call.place if call.place > place else NEVER


def _in_order(path: _Path | None) -> list[Call]:
    found = []
    while path is not None:
        found.append(path.call)
        path = path.before
    return found[::-1]
