"""What is seen of the whole cluster from any node: each node says what it has, in rows as they are shown.

A question is asked of this node and of all others at once. Who does not answer in time is named in a header of the answer; the
rest is shown. A row belongs to the node that says it, so nothing is shown twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from broker.errors import BrokerError
from broker.operations.operator import Operator
from broker.vouched.scopes import ScopeRights
from front.slices import made_in_slices

Json = dict[str, Any]
Source = Callable[..., Iterable[Json] | AsyncIterable[Json]]  # called with who asks and the question's arguments
MISSING_NODES = "X-Leveret-Missing-Nodes"


class WebQuestion(msgspec.Struct, frozen=True):
    """As it goes to another node, in JSON. Who does not know what is asked says nothing."""

    what: str
    user: str
    tags: tuple[str, ...]
    arguments: tuple[Any, ...] = ()
    scopes: tuple[str, ...] | None = None  # of a user for whom a token vouches


class OtherNodes(Protocol):
    """node/web_questions.py fulfils it."""

    async def ask(self, question: bytes, node: str | None = None) -> Mapping[str, bytes | None]:
        """The answers of the other nodes that belong to the cluster, or of one of them, by name; None: it has not answered in
        time, or cannot be reached."""


@dataclass(slots=True, frozen=True)
class ClusterRows:
    rows: list[Json]
    missing: Sequence[str]  # names of nodes that have not said what they have

    def headers(self) -> tuple[tuple[str, str], ...]:
        return ((MISSING_NODES, ",".join(self.missing)),) if self.missing else ()


class Everywhere:
    """Questions to all nodes, and answers to those of others."""

    def __init__(self, others: OtherNodes | None) -> None:
        """Without others this node is alone."""
        self._others = others
        self._sources: dict[str, Source] = {}

    def add(self, what: str, source: Source) -> None:
        """What this node says to a question."""
        assert what not in self._sources, f"{what} is answered twice"
        self._sources[what] = source

    async def find(self, what: str, who: Operator, *arguments: Any) -> ClusterRows:
        """Of all nodes."""
        asked = {} if self._others is None else await self._others.ask(_encoded(what, who, arguments))
        rows = [row async for row in _each(self._sources[what](who, *arguments))]
        for answer in asked.values():
            rows += _rows(answer)
        return ClusterRows(rows, sorted(name for name, answer in asked.items() if answer is None))

    async def find_elsewhere(self, what: str, who: Operator, *arguments: Any, node: str | None = None) -> list[Json]:
        """Of all other nodes, or of one of them: nothing where they do not answer."""
        asked = {} if self._others is None else await self._others.ask(_encoded(what, who, arguments), node)
        return [row for answer in asked.values() for row in _rows(answer)]

    async def find_each(self, what: str, who: Operator, *arguments: Any) -> dict[str, list[Json]]:
        """Of each other node that has answered, by name."""
        asked = {} if self._others is None else await self._others.ask(_encoded(what, who, arguments))
        return {name: _rows(answer) for name, answer in asked.items() if answer is not None}

    async def find_on(self, node: str, what: str, who: Operator, *arguments: Any) -> list[Json] | None:
        """Of one other node; None: it has not answered."""
        asked = {} if self._others is None else await self._others.ask(_encoded(what, who, arguments), node)
        answer = asked.get(node)
        return None if answer is None else _rows(answer)

    async def answer(self, raw: bytes) -> AsyncIterator[bytes]:
        """To a question of another node, in pieces: no rows for what cannot be read, is unknown, or is refused."""
        try:
            question = msgspec.json.decode(raw, type=WebQuestion)
            source: Source = self._sources.get(question.what, _nothing)
            found = source(_asker(question), *question.arguments)
            async for row in _each(found):
                yield msgspec.json.encode(row)
        except (msgspec.MsgspecError, BrokerError):
            return


def _each(found: Iterable[Json] | AsyncIterable[Json]) -> AsyncIterable[Json]:
    return found if isinstance(found, AsyncIterable) else made_in_slices(iter(found))


def _nothing(*_: Any) -> Iterable[Json]:
    return ()


def _encoded(what: str, who: Operator, arguments: Sequence[Any]) -> bytes:
    scopes = None if who.vouched is None else who.vouched.scopes
    return msgspec.json.encode(WebQuestion(what, who.name, who.tags, tuple(arguments), scopes))


def _asker(question: WebQuestion) -> Operator:
    vouched = None if question.scopes is None else ScopeRights(question.scopes)
    return Operator(question.user, question.tags, vouched)


def _rows(answer: bytes | None) -> list[Json]:
    if answer is None:
        return []
    try:
        return msgspec.json.decode(b"[" + answer + b"]", type=list[Json])
    except msgspec.MsgspecError:
        return []
