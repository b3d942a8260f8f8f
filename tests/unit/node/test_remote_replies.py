"""Direct reply-to when the requester is connected to another node than whoever answers."""

from __future__ import annotations

import pytest

from broker.errors import NotFound
from broker.names import DIRECT_REPLY_TO
from node.anywhere import replies as remote_replies
from node.anywhere.replies import RemoteReplies
from node.peers.calls import REPLIES, PeerCalls
from tests.unit.broker.broker_world import Client, World
from tests.unit.node.memory_calls import MemoryNetwork


class Nodes:
    """The requester's node 1, and node 2 of who answers."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.worlds: dict[int, World] = {}
        self.calls: dict[int, PeerCalls] = {}
        for number in (1, 2):
            world, calls = World(), self.network.join(number)
            replies = world.broker.replies
            replies.join(str(number), RemoteReplies(calls, replies, lambda: 1))
            self.worlds[number], self.calls[number] = world, calls
        self.network.connect_all()
        self.requester, self.server = self.worlds[1].client(), self.worlds[2].client()
        self.requester.declare("service")
        self.requester.consume(DIRECT_REPLY_TO, "replies", no_ack=True)
        self.name = self.name_of(self.requester)

    def name_of(self, requester: Client) -> str:
        requester.publish("", "service", b"request", reply_to=DIRECT_REPLY_TO)
        name = requester.properties_of("service")["reply_to"]
        assert isinstance(name, str)
        return name

    def declare(self, name: str) -> list[object]:
        """Ask from node 2 whether the requester is there."""
        answers: list[object] = []
        self.server.session.topology.declare_queue(
            name, passive=True, durable=False, exclusive=False, auto_delete=False, arguments={}, now=1
        ).then(answers.append, answers.append)
        self.network.run()
        return answers


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def test_an_answer_finds_its_requester_on_another_node(nodes: Nodes) -> None:
    assert nodes.name.startswith("amq.rabbitmq.reply-to.1.")
    nodes.server.publish("", nodes.name, b"one", b"two", correlation_id="7")
    nodes.network.run()
    assert nodes.requester.bodies == [b"one", b"two"]
    assert nodes.requester.properties == [{"correlation_id": "7"}] * 2
    assert nodes.requester.routes == [("", nodes.name)] * 2


def test_an_answer_on_the_same_node_takes_no_way_round(nodes: Nodes) -> None:
    nodes.worlds[1].client().publish("", nodes.name, b"answer")
    assert nodes.requester.bodies == [b"answer"]
    assert nodes.network.wires[1].letters_sent == 0


@pytest.mark.parametrize("place", ["2", "3", "x", "\u00b2", ""])
def test_an_answer_to_nobody_comes_back_if_it_is_mandatory(nodes: Nodes, place: str) -> None:
    nodes.server.publish("", f"{DIRECT_REPLY_TO}.{place}.token", b"answer", mandatory=True)
    nodes.network.run()
    assert [body for _, _, body in nodes.server.returns] == [b"answer"]


def test_an_answer_to_a_node_that_cannot_be_reached_comes_back_if_it_is_mandatory(nodes: Nodes) -> None:
    nodes.network.disconnect(1, 2)
    nodes.server.publish("", nodes.name, b"answer", mandatory=True)
    assert [body for _, _, body in nodes.server.returns] == [b"answer"]


def test_who_answers_may_ask_whether_its_requester_is_still_there(nodes: Nodes) -> None:
    (answer,) = nodes.declare(nodes.name)
    assert getattr(answer, "consumers", None) == 1
    nodes.requester.session.close(1)
    (answer,) = nodes.declare(nodes.name)
    assert isinstance(answer, NotFound)
    nodes.network.disconnect(1, 2)
    (answer,) = nodes.declare(nodes.name)
    assert isinstance(answer, NotFound)


def test_replies_to_a_node_that_takes_no_more_are_dropped(nodes: Nodes) -> None:
    nodes.network.stop_way(2, 1)
    for _ in range(100):
        nodes.server.publish("", nodes.name, bytes(1 << 20))
    nodes.network.loop.run_soon()
    assert nodes.network.wires[2].calls_waiting(1) < 10 << 20


@pytest.mark.parametrize("payload", [b"", b"\0", b"\1", b"\2", b"\1" + bytes(8), b"\1\1" + bytes(7) + b"x"])
def test_what_is_no_reply_ends_the_link(nodes: Nodes, payload: bytes) -> None:
    nodes.calls[2].tell(1, REPLIES, payload)
    nodes.network.run()
    assert len(nodes.network.bad) == 1


def test_places_are_numbers() -> None:
    assert [remote_replies.node_at(place) for place in ("12", "", "-1", "9" * 30)] == [12, None, None, None]
