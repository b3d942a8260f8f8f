"""Lives of messages as several nodes tell them: what is put together, who is asked again, and who could not be read."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.catalog.catalog import Catalog
from broker.records import NodeRecord
from front.node_ports import LivesFound
from node.background import Inline, Threads
from node.lives import life_process
from node.lives.cluster_lives import UNANSWERED, UNREACHABLE, ClusterLives
from node.lives.life_process import WAITING_MAX, LifeProcess, LifeUnread
from node.lives.merged_lives import MergedLives
from node.peers.calls import LIVES, Handler, OnAnswer
from raft.core.errors import BadBytes

NAMED = {"user": "ann", "address": "10.0.0.1:5", "connection": "", "product": "", "consumer_tag": "t", "other": ""}
UNNAMED = {**NAMED, "user": "", "address": "", "other": "consumer 1 of node 2"}
COVERAGE = {
    "files": 2,
    "file_bytes": 9,
    "skipped": 1,
    "first": "a",
    "last": "b",
    "damage": [{"torn": False, "length": 3}],
}


def life(queue: int, *place: int, steps: tuple[Any, ...] = (), **more: Any) -> dict[str, Any]:
    position = [queue, *place] if len(place) == 3 else [queue, *place, 0, 0]
    told = [{"at": None, "event": event, "reason": None, "who": who} for event, who in steps]
    empty = {"published_at": None, "publisher": None, "died_in": None, "unknown": None, "committed": True}
    return {
        "queue": queue,
        "place": list(place),
        "position": position,
        "steps": told,
        "steps_left_out": 0,
        **empty,
        **more,
    }


def test_a_client_has_its_name_from_the_node_that_it_was_connected_to() -> None:
    merged = MergedLives()
    merged.add("a", [life(1, 4, 0, 0, steps=(("acked", UNNAMED),))])
    merged.add("b", [life(1, 4, 0, 0, steps=(("acked", NAMED),), publisher=NAMED, committed=None)])
    (one,) = merged.all()
    assert (one["steps"][0]["who"], one["publisher"], one["committed"]) == (NAMED, NAMED, True)


@pytest.mark.parametrize("swapped", [False, True])
def test_the_copy_that_tells_most_counts_whoever_says_it_first(swapped: bool) -> None:
    short = life(1, 4, 0, 0, steps=(("delivered", NAMED),))
    whole = life(1, 4, 0, 0, steps=(("delivered", NAMED), ("acked", NAMED)))
    unknown = life(1, 4, 0, 0, steps=(("delivered", NAMED),) * 3, unknown="the log begins later")
    merged = MergedLives()
    for number, one in enumerate((whole, short, unknown) if swapped else (unknown, short, whole)):
        merged.add(str(number), [one])
    assert [step["event"] for step in merged.all()[0]["steps"]] == ["delivered", "acked"]


def test_lives_are_told_in_the_order_of_their_publishing_and_first_those_of_which_that_is_unknown() -> None:
    merged = MergedLives()
    merged.add("a", [life(1, 4, 0, 0, published_at="2026-11-29T10:00:02"), life(1, 5, 0, 0)])
    merged.add("b", [life(2, 9, 0, 0, published_at="2026-11-29T10:00:01")])
    assert [one["place"][0] for one in merged.all()] == [5, 9, 4]


def test_a_dead_letter_and_what_it_was_name_each_other() -> None:
    merged = MergedLives()
    merged.add("a", [life(1, 7, steps=(("rejected", NAMED),))])
    assert (merged.died("a"), merged.died("b")) == ([], [[1, 7]])
    merged.add("b", [life(2, 3, died_in=[1, 7, 0, 0])])
    assert merged.died("b") == merged.sources("a") == []
    first, second = merged.all()
    assert (first["became"], second["was"]) == ([{"queue": 2, "place": [3]}], {"queue": 1, "place": [7]})


# The cluster.


class NodeWithALog:
    """Answers what it is asked with what the test has put in."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self._answer = answer
        self.asked: list[dict[str, Any]] = []

    async def read(self, question: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(question)
        found = self._answer(question)
        if isinstance(found, str):
            raise LifeUnread(found)
        return {"coverage": COVERAGE, "lives": found, "more": False}


class ManyCalls:
    """Nodes joined by nothing but this: an ask is handled at once."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}

    def of(self, number: int) -> ManyCalls.Of:
        return ManyCalls.Of(self, number)

    class Of:
        def __init__(self, calls: ManyCalls, number: int) -> None:
            self._calls, self._number = calls, number

        def serve(self, topic: int, handler: Handler) -> None:
            assert topic == LIVES
            self._calls.handlers[self._number] = handler

        def ask(self, node: int, topic: int, payload: Any, on_answer: OnAnswer) -> None:
            handler = self._calls.handlers.get(node)
            if handler is None:
                on_answer(None)
            else:
                handler(self._number, bytes(payload), lambda said: on_answer(bytes(said)))


def asked(*logs: NodeWithALog | None, by: str = "message_id", unreachable: int = 0) -> LivesFound:
    """The first of several nodes is; None: a node that does not know what that is."""
    catalog, calls = Catalog(), ManyCalls()
    for number in range(1, len(logs) + 1):
        catalog.nodes[f"n{number}"] = NodeRecord(f"n{number}", number, 1, "")

    async def ask() -> LivesFound:
        lives = [
            ClusterLives(f"n{number}", catalog, log, calls.of(number), lambda other: other != unreachable)
            for number, log in enumerate(logs, 1)
            if log is not None
        ]
        found = await lives[0].find(1, by, "m")
        for one in lives:
            one.stop()
        return found

    return asyncio.run(ask())


def test_a_dead_letter_on_another_node_is_asked_for_there() -> None:
    here = NodeWithALog(lambda _: [life(1, 7, steps=(("rejected", NAMED),))])
    there = NodeWithALog(lambda question: [life(2, 3, died_in=[1, 7, 0, 0])] if question["died"] == [[1, 7]] else [])
    found = asked(here, there)
    assert [one["queue"] for one in found.lives] == [1, 2]
    assert (len(here.asked), len(there.asked)) == (1, 2)


def test_what_a_dead_letter_was_is_asked_for_by_its_place() -> None:
    here = NodeWithALog(lambda _: [life(2, 3, died_in=[1, 7, 0, 0])])
    there = NodeWithALog(
        lambda question: [life(1, 7, steps=(("expired", None),))] if question["places"] == [[1, 7, 0, 0]] else []
    )
    assert [one["queue"] for one in asked(here, there).lives] == [1, 2]
    assert there.asked[1] == {"queue": 0, "by": "", "value": "", "died": [], "places": [[1, 7, 0, 0]]}


def test_a_node_is_asked_once_for_all_that_it_may_know_besides() -> None:
    """It lets few questions wait: of one for each dead letter it refused most, and those of everybody else."""
    letters = [life(2, 30 + at, died_in=[1, at, 0, 0]) for at in range(2 * WAITING_MAX)]
    here = NodeWithALog(lambda _: [*letters, life(1, 99, steps=(("rejected", NAMED),))])
    there = NodeWithALog(lambda question: [life(1, place[1]) for place in question["places"]])
    found = asked(here, there)
    assert len(found.lives) == 2 * len(letters) + 1
    assert [(len(one["died"]), len(one["places"])) for one in there.asked] == [(0, 0), (1, len(letters)), (1, 0)]


def test_a_node_that_comes_while_the_others_are_asked_is_not() -> None:
    catalog, calls = Catalog(), ManyCalls()
    catalog.nodes["n1"] = NodeRecord("n1", 1, 1, "")

    def answer(_: dict[str, Any]) -> list[dict[str, Any]]:
        catalog.nodes["n2"] = NodeRecord("n2", 2, 1, "")
        return [life(1, 7)]

    lives = ClusterLives("n1", catalog, NodeWithALog(answer), calls.of(1), lambda _: True)
    found = asyncio.run(lives.find(1, "message_id", "m"))
    assert ([one.node for one in found.nodes], len(found.lives)) == (["n1"], 1)


def test_it_is_said_which_nodes_were_read_and_why_others_were_not() -> None:
    here, fails = NodeWithALog(lambda _: [life(1, 7)]), NodeWithALog(lambda _: "the log was not read within 25 s")
    found = asked(here, fails, None, NodeWithALog(lambda _: []), unreachable=4)
    assert [one.error for one in found.nodes] == ["", "the log was not read within 25 s", UNANSWERED, UNREACHABLE]
    assert found.nodes[0][2:] == (2, 9, 1, "a", "b", 3)


def test_what_is_no_question_ends_the_link() -> None:
    calls = ManyCalls()
    ClusterLives("n1", Catalog(), NodeWithALog(lambda _: []), calls.of(1), lambda _: True)
    with pytest.raises(BadBytes):
        calls.handlers[1](2, b"[", None)


# The process.


def test_a_log_that_cannot_be_read_is_said_to_be_so(tmp_path: Path) -> None:
    process = LifeProcess(str(tmp_path), Inline())
    with pytest.raises(LifeUnread, match="has no log"):
        asyncio.run(process.read({"queue": 1, "by": "message_id", "value": "m"}))


def test_without_the_reader_it_is_said_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life_process, "READER", "analytics.none")
    with pytest.raises(LifeUnread, match=r"No module named analytics\.none"):
        asyncio.run(LifeProcess(str(tmp_path), Inline()).read({"queue": 1}))


def test_a_reader_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "waits_for_ever.py").write_text("import signal\nsignal.pause()\n")
    monkeypatch.setattr(life_process, "READER", "waits_for_ever")
    monkeypatch.setattr(life_process, "READ_S_MAX", 0.2)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(LifeUnread, match=r"not read within 0\.2 s: ask leveret-analytics"):
        asyncio.run(LifeProcess(str(tmp_path), Inline()).read({"queue": 1}))


def test_few_questions_wait_and_who_waits_no_more_ends_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "waits_for_ever.py").write_text("import signal\nsignal.pause()\n")
    monkeypatch.setattr(life_process, "READER", "waits_for_ever")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    async def ask() -> None:
        thread = Threads(asyncio.get_running_loop(), 1, "test-lives")
        process = LifeProcess(str(tmp_path), thread)
        waiting = [asyncio.create_task(process.read({"queue": 1})) for _ in range(WAITING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(LifeUnread, match="are waiting: try again later"):
            await process.read({"queue": 1})
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        thread.close()  # waits for ever, unless all were ended

    asyncio.run(asyncio.wait_for(ask(), 20))


def test_the_question_that_a_process_is_asked_is_the_one_that_it_knows() -> None:
    from analytics.life.node_reader import ReaderQuestion
    from node.lives.cluster_lives import LifeAsk

    assert set(LifeAsk.__struct_fields__) < set(ReaderQuestion.__struct_fields__)
    assert msgspec.to_builtins(LifeAsk(1)).keys() == {"queue", "by", "value", "died", "places"}
