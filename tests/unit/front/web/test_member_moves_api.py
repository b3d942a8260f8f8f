"""Moves of members over HTTP: one run at a time, what it tells, how it ends, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.errors import AccessRefused, BrokerError, PreconditionFailed, ResourceExhausted
from broker.operations.operator import Operator
from broker.records import UserRecord
from front.member_moves import MemberMoves, Spreading
from front.node_ports import Chosen, MemberMoveView
from front.web.everywhere import Everywhere
from front.web.handlers import WebFront
from front.web.http.request import HttpError, Request
from front.web.resources.nodes.member_moves_api import MovesApi
from front.web.router import WebRouter
from tests.unit.broker.broker_world import World
from tests.unit.front.web.test_api import LOCAL, NOW

PATH = "/api/leveret/cluster/member-moves"
GUEST = UserRecord("guest", "", ("administrator",))


def move(number: int, state: str = "planned", error: str = "") -> MemberMoveView:
    return MemberMoveView("/", f"q{number}", "n1", "n2", 1, 3, 0, number, 2, state, error)


class Members:
    """Two members would move; each step waits until the test lets it be made."""

    def __init__(self) -> None:
        self.asked: list[tuple[Chosen, str, bool]] = []
        self.let = asyncio.Semaphore(0)
        self.fault: Exception | None = None

    async def move_members(
        self, chosen: Chosen, by: str = "queues", *, dry_run: bool = False
    ) -> AsyncGenerator[MemberMoveView, None]:
        self.asked.append((chosen, by, dry_run))
        for number in (1, 2):
            if dry_run:
                yield move(number)
                continue
            yield move(number, "copying")
            await self.let.acquire()
            if isinstance(self.fault, BrokerError) or self.fault is None:
                yield move(number, "moved") if self.fault is None else move(number, "failed", self.fault.text)
            else:
                raise self.fault
            if self.fault is not None:
                return


class Node:
    """One of the cluster, whose other nodes tell `others`."""

    def __init__(self) -> None:
        self.members = Members()
        self.others: dict[str, bytes | None] = {}
        operations: Any = SimpleNamespace(this_node=SimpleNamespace(name="n1", facts=None))
        self.router = WebRouter()
        others: Any = SimpleNamespace(ask=self._ask)
        front: Any = WebFront(World().broker, operations, lambda: NOW)
        everywhere = Everywhere(others)
        self.moves = MemberMoves("n1", everywhere, lambda: NOW)
        MovesApi(front, everywhere, self.moves, self.members).add_routes(self.router)  # type: ignore[arg-type]

    async def _ask(self, question: bytes, node: str | None = None) -> dict[str, bytes | None]:
        return {name: answer for name, answer in self.others.items() if node in (None, name)}

    async def __call__(self, method: str, body: Any = None, path: str = PATH) -> tuple[int, Any]:
        data = json.dumps(body).encode() if body is not None else b""
        request = Request(method, path, {}, data, LOCAL, NOW, GUEST)
        route, named = self.router.find(request)
        response = await route.handler(request, **named)
        return response.status, json.loads(response.body)

    async def run(self) -> dict[str, Any]:
        for _ in range(10):
            await asyncio.sleep(0)
        _, (row,) = await self("GET")
        return dict(row)


def in_loop(story: Callable[[Node], Awaitable[None]]) -> None:
    async def told() -> None:
        await story(Node())

    asyncio.run(told())


def test_a_dry_run_tells_the_moves_and_begins_nothing() -> None:
    async def story(node: Node) -> None:
        code, told = await node("POST", {"dry_run": True, "by": "bytes", "kind": "stream", "queue_pattern": "^q"})
        assert (code, [one["queue"] for one in told]) == (200, ["q1", "q2"])
        assert node.members.asked == [(Chosen("", "^q", "stream"), "bytes", True)]
        assert await node("GET") == (200, [])

    in_loop(story)


def test_each_move_is_told_once_as_it_is_now() -> None:
    async def story(node: Node) -> None:
        assert (await node("POST", {}))[0] == 202
        seen = [await node.run()]
        for _ in range(2):
            node.members.let.release()
            seen.append(await node.run())
        told = [(row["state"], row["moved"], row["total"], [one["state"] for one in row["moves"]]) for row in seen]
        assert told == [
            ("moving", 0, 2, ["copying"]), ("moving", 1, 2, ["moved", "copying"]), ("done", 2, 2, ["moved", "moved"]),
        ]  # fmt: skip

    in_loop(story)


def test_there_is_one_run_at_a_time_in_the_cluster_and_it_ends_behind_the_move_under_way() -> None:
    async def story(node: Node) -> None:
        await node("POST", {})
        await node.run()
        with pytest.raises(PreconditionFailed, match="node 'n1' is moving members"):
            await node("POST", {})
        assert (await node("DELETE", path=f"{PATH}/n1"))[1]["is_to_end"]
        node.members.let.release()
        row = await node.run()
        assert (row["state"], row["moved"], [one["state"] for one in row["moves"]]) == ("ended", 1, ["moved"])
        node.others = {"n2": json.dumps({"node": "n2", "state": "moving", "began_at": 1}).encode(), "n3": None}
        with pytest.raises(PreconditionFailed, match="node 'n2' is moving members"):
            await node("POST", {})
        with pytest.raises(HttpError, match="node 'n1' is not moving members"):
            await node("DELETE", path=f"{PATH}/n1")

    in_loop(story)


def test_what_is_begun_twice_at_once_is_begun_once() -> None:
    async def story(node: Node) -> None:
        begun = await asyncio.gather(*(node("POST", {}) for _ in range(5)), return_exceptions=True)
        assert [one[0] for one in begun if isinstance(one, tuple)] == [202]
        refused = [one for one in begun if isinstance(one, PreconditionFailed)]
        assert len(refused) == 4 and all("node 'n1' is moving members" in one.text for one in refused)
        await node.run()
        assert len(node.members.asked) == 1

    in_loop(story)


class Two:
    """Nodes that ask each other."""

    def __init__(self) -> None:
        self.everywhere = {name: Everywhere(cast(Any, _Other(self, name))) for name in ("n1", "n2")}
        self.moves = [MemberMoves(name, everywhere, lambda: NOW) for name, everywhere in self.everywhere.items()]


class _Other:
    def __init__(self, two: Two, name: str) -> None:
        self._two = two
        self._name = name

    async def ask(self, question: bytes, node: str | None = None) -> dict[str, bytes | None]:
        (other,) = self._two.everywhere.keys() - {self._name}
        await asyncio.sleep(0)  # it is on its way
        return {other: b",".join([row async for row in self._two.everywhere[other].answer(question)])}


def test_of_runs_begun_at_the_same_moment_on_two_nodes_no_two_go_on() -> None:
    async def story() -> None:
        two, who = Two(), Operator("guest", ("administrator",))
        begun = await asyncio.gather(*(moves.begin(who, "queues") for moves in two.moves), return_exceptions=True)
        assert [type(one) for one in begun] == [PreconditionFailed, Spreading], (
            "the first to hear of the other gives way"
        )
        assert [len(moves.told_here(who)) for moves in two.moves] == [0, 1]
        with pytest.raises(PreconditionFailed, match="node 'n2' is moving members"):
            await two.moves[0].begin(who, "queues")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("fault", "said"), [(ResourceExhausted("no leader"), "no leader"), (KeyError("q"), "the node failed (KeyError)")]
)
def test_what_failed_is_told_and_a_run_may_be_begun_again(fault: Exception, said: str) -> None:
    async def story(node: Node) -> None:
        node.members.fault = fault
        await node("POST", {})
        node.members.let.release()
        row = await node.run()
        assert (row["state"], row["moved"]) == ("failed", 0)
        assert row["error"].startswith(said)
        node.members.fault = None
        assert (await node("POST", {}))[1]["state"] == "moving"

    in_loop(story)


def test_runs_of_all_nodes_are_told_the_last_one_first() -> None:
    async def story(node: Node) -> None:
        await node("POST", {})
        for name, began_at in (("n2", NOW - 1), ("n3", NOW + 1)):
            node.others[name] = json.dumps({"node": name, "state": "done", "began_at": began_at}).encode()
        assert [row["node"] for row in (await node("GET"))[1]] == ["n3", "n1", "n2"]

    in_loop(story)


@pytest.mark.parametrize("body", [{"by": "luck"}, {"kind": "classic"}])
def test_what_cannot_be_spread_is_refused(body: dict[str, str]) -> None:
    async def story(node: Node) -> None:
        with pytest.raises(HttpError) as refused:
            await node("POST", body)
        assert refused.value.status == 400
        assert node.members.asked == []

    in_loop(story)


def test_nodes_that_are_asked_by_others_look_at_the_tags_of_the_user_themselves() -> None:
    """Over HTTP the first node has looked. A node of another version may not have."""

    async def story() -> None:
        two = Two()
        moves, root = two.moves[0], Operator("root", ("administrator",))
        await moves.begin(root, "queues")
        with pytest.raises(AccessRefused):
            moves.told_here(Operator("anne", ("management",)))
        with pytest.raises(AccessRefused):
            moves.ended_here(Operator("anne", ("monitoring",)))
        assert [row["is_to_end"] for row in moves.told_here(Operator("anne", ("monitoring",)))] == [False]

    asyncio.run(story())
