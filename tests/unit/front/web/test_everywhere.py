"""Questions to all nodes: who asks goes with them, and a node that says nothing is named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from broker.errors import AccessRefused
from broker.operations.operator import Operator
from front.web.everywhere import ClusterRows, Everywhere
from tests.unit.broker.vouched.bearers import bearer

ANNE = Operator("anne", ("management",))


class OtherTwo:
    """n2 says what the test says; n3 does not answer."""

    def __init__(self, said: bytes) -> None:
        self._said = said
        self.heard: list[Any] = []

    async def ask(self, question: bytes, node: str | None = None) -> Mapping[str, bytes | None]:
        self.heard.append(json.loads(question))
        answers = {"n3": None, "n2": self._said}
        return {name: answer for name, answer in answers.items() if node in (None, name)}


def of_this_node(who: Operator, *arguments: Any) -> Iterator[dict[str, Any]]:
    if who.name == "eve":
        raise AccessRefused("not for eve")
    yield {"node": "n1", "asked": [who.name, list(who.tags), *arguments]}


def everywhere(others: OtherTwo | None) -> Everywhere:
    found = Everywhere(others)
    found.add("things", of_this_node)
    return found


def said_to(question: bytes) -> list[bytes]:
    async def gathered() -> list[bytes]:
        return [piece async for piece in everywhere(None).answer(question)]

    return asyncio.run(gathered())


def test_all_nodes_are_asked_for_the_user_who_asks_and_those_that_are_silent_are_named() -> None:
    others = OtherTwo(b'{"node":"n2"},{"node":"n2"}')
    found = asyncio.run(everywhere(others).find("things", ANNE, "v"))
    assert [row["node"] for row in found.rows] == ["n1", "n2", "n2"]
    assert found.rows[0]["asked"] == ["anne", ["management"], "v"]
    assert others.heard == [
        {"what": "things", "user": "anne", "tags": ["management"], "arguments": ["v"], "scopes": None}
    ]
    assert found.headers() == (("X-Leveret-Missing-Nodes", "n3"),)
    assert ClusterRows([], []).headers() == ()


def test_one_node_is_asked_and_its_silence_is_no_empty_answer() -> None:
    others = everywhere(OtherTwo(b""))
    assert asyncio.run(others.find_on("n2", "things", ANNE)) == []
    assert asyncio.run(others.find_on("n3", "things", ANNE)) is None
    assert asyncio.run(others.find_elsewhere("things", ANNE, node="n3")) == []


def test_what_each_node_says_is_told_apart_and_who_is_silent_is_left_out() -> None:
    said = asyncio.run(everywhere(OtherTwo(b'{"node":"n2"}')).find_each("things", ANNE))
    assert said == {"n2": [{"node": "n2"}]}
    assert asyncio.run(everywhere(OtherTwo(b"")).find_each("things", ANNE)) == {"n2": []}
    assert asyncio.run(everywhere(None).find_each("things", ANNE)) == {}


def test_an_answer_that_cannot_be_read_has_no_rows() -> None:
    assert asyncio.run(everywhere(OtherTwo(b'{"node":')).find_elsewhere("things", ANNE)) == []


def test_another_nodes_question_is_answered_with_the_rights_that_it_names() -> None:
    (row,) = said_to(b'{"what":"things","user":"anne","tags":["management"],"arguments":["v"]}')
    assert json.loads(row)["asked"] == ["anne", ["management"], "v"]


def test_scopes_of_who_asks_go_with_the_question_and_count_on_the_other_node() -> None:
    others, scopes = OtherTwo(b""), ["read:eu/*", "tag:management"]
    asyncio.run(everywhere(others).find("things", Operator.of(bearer("ann", *scopes))))
    assert others.heard[0]["scopes"] == scopes
    seen: list[Operator] = []
    answering = Everywhere(None)
    answering.add("things", lambda who: seen.append(who) or [])

    async def answered() -> None:
        assert [piece async for piece in answering.answer(json.dumps(others.heard[0]).encode())] == []

    asyncio.run(answered())
    (who,) = seen
    assert who.vouched is not None and who.vouched.may_enter("eu") and not who.vouched.may_enter("us")


@pytest.mark.parametrize(
    "question",
    [
        b'{"what":"things","user":"eve","tags":[]}',
        b'{"what":"unheard of","user":"anne","tags":[]}',
        b'{"what":"things"}',
        b"no JSON",
    ],
)
def test_what_is_refused_unknown_or_unreadable_is_answered_with_nothing(question: bytes) -> None:
    assert said_to(question) == []
