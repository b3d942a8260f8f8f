"""node/replicas/far_queues.py: what a node shows of queues of which it has no member, and which nodes it asks for that."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.pending import Pending
from broker.records import QueueRecord
from node.peers.calls import QUEUES, Handler, OnAnswer, Payload
from node.replicas import far_queues
from node.replicas.far_queues import FarQueues
from quorum.letters import QueueNews
from quorum.queue_figures import with_report
from raft.core.messages import NodeId
from replicated import letters
from replicated.kinds import ReplicatedKinds
from replicated.leader_route import LeaderSight
from replicated.letters import BadLetter, MemberReport
from tests.unit.quorum.clients import Clients, Publisher
from tests.unit.stream.test_random_streams import StreamClients

FAR = 4  # the node without a member


class Calls:
    """Of all nodes, without any delay. Older nodes do not serve the topic; what is asked of silent ones is never answered."""

    def __init__(self) -> None:
        self.handlers: dict[NodeId, Handler] = {}
        self.silent: set[NodeId] = set()
        self.letters: Counter[NodeId] = Counter()

    def of(self, node: NodeId) -> Any:
        def serve(topic: int, handler: Handler) -> None:
            assert topic == QUEUES
            self.handlers[node] = handler

        return SimpleNamespace(serve=serve, ask=self.ask)

    def ask(self, node: NodeId, topic: int, payload: Payload, on_answer: OnAnswer) -> None:
        assert topic == QUEUES and isinstance(payload, bytes)
        self.letters[node] += 1
        loop = asyncio.get_running_loop()
        if node in self.silent:
            return
        handler = self.handlers.get(node)
        if handler is None:
            loop.call_soon(on_answer, None)
        else:
            loop.call_soon(handler, FAR, payload, lambda answer: on_answer(b"".join([answer])))


class World:
    """Queues with members on nodes 1, 2 and 3, seen from node 4."""

    def __init__(self, clients: Clients | None = None, queues: int = 1, older: Iterable[NodeId] = ()) -> None:
        self.clients = clients or Clients(4)
        self.cluster = self.clients.cluster
        self.records = [self.cluster.declare(f"q{number}", [1, 2, 3]) for number in range(queues)]
        self.leaders = [self.cluster.leader(record).number for record in self.records]
        self.cluster.run(0.5)
        self.calls = Calls()
        self.away: set[NodeId] = set()
        self.figures_asked: Counter[NodeId] = Counter()
        self.looks = {node: self._looks_of(node) for node in (1, 2, 3, 4)}
        for node in {1, 2, 3} - set(older):
            self.looks[node].serve()

    def _looks_of(self, node: NodeId) -> FarQueues:
        kind = self.cluster.nodes[node].kind
        seen = SimpleNamespace(
            name=kind.name, queues=kind.queues, administration=self, report=kind.report, reported=kind.reported
        )
        return FarQueues(
            ReplicatedKinds(seen), self.calls.of(node), lambda other: other not in self.away, lambda other: f"n{other}"
        )

    def figures(self, queue: Any, node: NodeId) -> Pending[Any]:
        """As nodes of all versions tell of one queue."""
        self.figures_asked[node] += 1
        if node in self.calls.silent:
            return Pending()
        kind = self.cluster.nodes[node].kind
        return Pending.of(json.loads(json.dumps(kind.administration.status(kind.queues[queue.group]))))

    async def look_from(self, node: NodeId = FAR, *records: QueueRecord) -> list[str]:
        """At all of them, where none is given."""
        return list(await self.looks[node].look(records or None))

    def look(self) -> list[str]:
        return asyncio.run(self.look_from())

    def queue(self, record: QueueRecord | None = None) -> Any:
        return self.cluster.nodes[FAR].queue(record or self.records[0])

    def publish(self, count: int) -> None:
        Publisher(self.clients, self.leaders[0], self.records[0]).publish(count)
        self.cluster.run(0.5)


def test_a_healthy_queue_that_no_client_of_the_node_uses_runs_and_has_its_messages() -> None:
    """It was shown as a minority without messages, and the health check failed."""
    world = World()
    world.publish(7)
    assert world.queue().statistics().state == "unknown"
    assert world.look() == []
    shown, there = (
        world.queue().statistics(),
        world.cluster.nodes[world.leaders[0]].queue(world.records[0]).statistics(),
    )
    assert (shown.state, shown.details["leader"]) == ("running", world.leaders[0])
    assert (shown.ready, shown.ready_bytes, shown.persistent) == (7, there.ready_bytes, 7) and there.ready_bytes
    assert world.queue().ready_count == world.queue().counts().ready == 7


def test_one_letter_asks_a_node_for_many_queues_and_what_was_told_counts_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(queues=9)
    monkeypatch.setattr(far_queues, "ASKED_AT_ONCE", 4)

    async def look_twice() -> None:
        await world.look_from()
        first = world.calls.letters.total()
        await world.look_from()
        assert world.calls.letters.total() == first, "what was told just now was asked for again"
        monkeypatch.setattr(far_queues, "FRESH_S", 0.0)
        world.calls.letters.clear()
        await world.look_from()

    asyncio.run(look_twice())
    assert {world.queue(record).statistics().state for record in world.records} == {"running"}
    assert world.calls.letters == {leader: (count + 3) // 4 for leader, count in Counter(world.leaders).items()}, (
        "leaders that are known are asked, and nobody else"
    )


def test_who_led_when_somebody_looked_last_is_asked_first_while_it_can_be_reached() -> None:
    """The queues of these tests are all led by the node that is asked first where nothing is known."""
    world = World()
    for leader, away, asked in ((3, set(), 3), (2, set(), 2), (3, {3}, 1)):
        world.away = away
        world.calls.letters.clear()
        world.queue().route.sight = LeaderSight(float("-inf"), True, leader)
        assert world.look() == [] and world.queue().statistics().state == "running"
        assert world.calls.letters == {asked: 1}


def test_very_many_queues_are_looked_at_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(queues=9)
    monkeypatch.setattr(far_queues, "SEARCHED_AT_ONCE", 2)
    assert world.look() == []
    assert {world.queue(record).statistics().state for record in world.records} == {"running"}
    assert world.calls.letters.total() >= 5
    world.away = {1, 2, 3}
    monkeypatch.setattr(far_queues, "FRESH_S", 0.0)
    assert world.look() == ["n1", "n2", "n3"]


@pytest.mark.parametrize("older", [(), (1, 2, 3)])
def test_a_node_that_hangs_is_waited_for_once_in_a_look_at_very_many(
    older: tuple[NodeId, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was waited for again for each 5,000 queues, so that a list of 100,000 came 20 s late."""
    world = World(queues=9, older=older)
    monkeypatch.setattr(far_queues, "SEARCHED_AT_ONCE", 2)
    monkeypatch.setattr(far_queues, "ANSWER_S_MAX", 0.05)
    world.calls.silent = {1}
    assert world.look() == []
    assert world.calls.letters[1] == 1
    assert {world.queue(record).statistics().state for record in world.records} == {"running"}


def test_nodes_that_were_silent_about_the_first_of_very_many_are_named_whatever_the_others_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(far_queues, "SEARCHED_AT_ONCE", 1)
    world = World(queues=2)
    last = world.queue(world.records[-1]).group

    def answer_of_the_last(_: NodeId, letter: bytes, answer: Any) -> None:
        asked = letters.groups_asked_for(letter)
        answer(letters.told_reports(MemberReport(group, 1) for group in asked if group == last))

    world.calls.handlers = dict.fromkeys((1, 2, 3), answer_of_the_last)
    assert world.look() == ["n1", "n2", "n3"]
    assert [world.queue(record).statistics().state for record in world.records] == ["down", "running"]


def test_a_queue_with_a_member_on_the_node_is_not_asked_for() -> None:
    world = World()
    assert asyncio.run(world.look_from(1)) == [] and not world.calls.letters


def test_others_are_asked_where_a_node_hangs_is_away_or_knows_of_no_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(far_queues, "ANSWER_S_MAX", 0.05)
    world = World()
    first, second, _ = world.queue().member_nodes()
    world.calls.silent = {first}
    assert world.look() == [] and world.queue().statistics().state == "running"
    world = World()
    world.away = {first}
    assert world.look() == [] and world.queue().statistics().state == "running"
    assert first not in world.calls.letters
    world = World()
    world.cluster.nodes[first].queue(world.records[0]).left()  # it has no member any more
    assert world.look() == [] and world.queue().statistics().state == "running"
    assert world.calls.letters[second] == 1


def test_a_node_whose_member_knows_of_no_leader_is_followed_by_the_next_one() -> None:
    """As one that was cut off, or has just been started."""
    world = World()
    world.publish(7)
    first, group = world.queue().member_nodes()[0], world.queue().group
    nothing, not_asked_for = MemberReport(group, 0), MemberReport(group + 1, first)
    said = letters.told_reports([nothing, not_asked_for])
    world.calls.handlers[first] = lambda node, letter, answer: None if answer is None else answer(said)
    assert world.look() == [] and world.calls.letters[first] == 1
    assert (world.queue().statistics().state, world.queue().statistics().ready) == ("running", 7)


def test_an_answer_that_comes_after_its_time_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(far_queues, "ANSWER_S_MAX", 0.05)
    world = World()
    late: list[Any] = []
    world.calls.handlers[world.queue().member_nodes()[0]] = lambda node, letter, answer: late.append(answer)
    assert world.look() == [] and world.queue().statistics().state == "running"
    (answer,) = late
    answer(letters.told_reports([]))


def test_a_queue_whose_members_have_no_leader_is_a_minority() -> None:
    world = World()
    world.publish(3)
    left = next(node for node in (1, 2, 3) if node != world.leaders[0])
    for node in {1, 2, 3} - {left}:
        world.cluster.nodes[node].kill()
    world.away = {1, 2, 3} - {left}
    world.cluster.run(20)
    assert world.look() == []
    assert (world.queue().statistics().state, world.queue().ready_count) == ("minority", 3)


def test_a_queue_that_no_node_tells_of_is_down_and_its_nodes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(far_queues, "ANSWER_S_MAX", 0.05)
    world = World()
    world.look()
    world.away, world.calls.silent = {1, 2}, {3}
    monkeypatch.setattr(far_queues, "FRESH_S", 0.0)
    assert world.look() == ["n1", "n2", "n3"]
    assert world.queue().statistics().state == "down"
    world.away, world.calls.silent = set(), set()
    assert world.look() == [] and world.queue().statistics().state == "running"


def test_a_queue_that_no_node_has_told_of_is_asked_for_again_at_once() -> None:
    """That nobody was there counts for no while: the next look is to find who has come back."""
    world = World()
    world.away = {1, 2, 3}
    assert world.look() == ["n1", "n2", "n3"]
    world.away = set()
    assert world.look() == [] and world.queue().statistics().state == "running"


def test_nodes_of_versions_that_know_no_such_letter_are_asked_for_each_queue() -> None:
    world = World(queues=20, older=(1, 2, 3))
    world.publish(5)
    assert world.look() == []
    assert {world.queue(record).statistics().state for record in world.records} == {"running"}
    there = world.cluster.nodes[world.leaders[0]].queue(world.records[0]).statistics()
    assert (world.queue().statistics().ready, world.queue().statistics().ready_bytes) == (5, there.ready_bytes)


def test_an_older_node_that_hangs_is_waited_for_once_and_not_for_each_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(far_queues, "ANSWER_S_MAX", 0.05)
    monkeypatch.setattr(far_queues, "OLDER_AT_ONCE", 2)
    world = World(queues=20, older=(1, 2, 3))

    async def look() -> None:
        await world.looks[FAR]._ask_older(1, [_search(world.queue(record)) for record in world.records])

    world.calls.silent = {1}
    asyncio.run(look())
    assert world.figures_asked[1] == 2


def _search(queue: Any) -> Any:
    return far_queues._Search(queue, [])


def test_a_stream_shows_its_messages_and_their_bytes() -> None:
    """How many bytes it has no other letter asks."""
    world = World(StreamClients(4))
    world.publish(7)
    assert world.look() == []
    shown, there = (
        world.queue().statistics(),
        world.cluster.nodes[world.leaders[0]].queue(world.records[0]).statistics(),
    )
    assert (shown.state, shown.ready, shown.ready_bytes) == ("running", 7, there.ready_bytes) and there.ready_bytes
    older = World(StreamClients(4), older=(1, 2, 3))
    older.publish(7)
    assert older.look() == []
    assert (older.queue().statistics().ready, older.queue().statistics().ready_bytes) == (7, there.ready_bytes)


def test_a_follower_that_is_behind_does_not_take_back_what_the_leader_has_told() -> None:
    news = QueueNews(applied=9, ready=4, consumers=1, single_active=True)
    assert with_report(news, MemberReport(1, 2, applied=8, ready=3)) == news
    told = with_report(news, MemberReport(1, 2, 9, 5, 50, 6, 60, 2))
    assert told == QueueNews(9, 5, 50, 6, 60, 2, single_active=True)


def test_reports_that_have_grown_are_read_and_others_are_refused() -> None:
    reports = [MemberReport(1, 2, 3, 4, 5, 6, 7, 8), MemberReport(9, 0)]
    letter = letters.told_reports(reports)
    assert letters.decode_reports(letter) == reports and letters.decode_reports(letters.told_reports([])) == []
    size = (len(letter) - 2) // 2
    grown = (size + 3).to_bytes(2, "little") + b"".join(letter[2 + at * size :][:size] + b"new" for at in (0, 1))
    assert letters.decode_reports(grown) == reports
    for wrong in (b"", b"\1", letter[:-1]):
        with pytest.raises(BadLetter):
            letters.decode_reports(wrong)
    assert letters.groups_asked_for(letters.ask_reports([7, 1 << 40])) == [7, 1 << 40]
    with pytest.raises(BadLetter):
        letters.groups_asked_for(bytes(9))
