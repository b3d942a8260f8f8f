"""Whoever looks into a stream may ask any node, and learns what is committed where there is a member."""

from __future__ import annotations

from typing import Any

import pytest

from broker.errors import ResourceExhausted
from broker.messages.browsed import Browsed
from broker.queues.stream_contract import AtOffset, AtTime, Begin, OffsetSpec
from native.content import messages
from raft.core.messages import NodeId
from replicated.letters import AnswerStatus, BadLetter, refusal
from stream.reading import letters
from stream.reading.letters import Skip
from tests.unit.quorum.clients import Publisher
from tests.unit.stream.test_random_streams import StreamClients

PLACES: list[OffsetSpec | Skip] = [
    Skip(0), Skip(100_000), Begin.FIRST, Begin.LAST, Begin.NEXT, AtOffset(0), AtOffset((1 << 63) - 1), AtTime(-1),
]  # fmt: skip


def test_any_node_shows_what_is_in_the_stream() -> None:
    clients = StreamClients(4)
    record = clients.cluster.declare("s", [1, 2, 3])
    clients.cluster.leader(record)
    Publisher(clients, 2, record).publish(5)
    clients.cluster.run(0.5)

    def asked(node: NodeId, begin: Any) -> list[Browsed]:
        told: list[Any] = []
        clients.of(node, record)[1].browse_from(begin, 2, clients.now).then(told.extend, told.append)
        clients.cluster.run(0.1)
        return told

    for node in (1, 2, 3, 4):
        for begin, offsets in ((1, [1, 2]), ("first", [0, 1]), ("next", []), (4, [4])):
            found = asked(node, begin)
            assert [one.offset for one in found] == offsets
            assert [int(messages(one.content, 0, 1)[0][1]) for one in found] == offsets
        behind: list[Browsed] = []
        clients.of(node, record)[1].browse(3, 9, clients.now).then(behind.extend, lambda error: pytest.fail(str(error)))
        clients.cluster.run(0.1)
        assert [one.offset for one in behind] == [3, 4]
    for node in (1, 2, 3):
        clients.cluster.cut(4, node)
    (refused,) = asked(4, 0)
    assert isinstance(refused, ResourceExhausted)
    assert refused.text == "no node with a member of queue 's' in vhost '/' can be asked what is in it"


@pytest.mark.parametrize("place", PLACES)
def test_where_to_begin_is_told_between_nodes(place: OffsetSpec | Skip) -> None:
    letter = letters.browse(7, place, 1_000)
    assert letters.decode_browse(letter) == (place, 1_000)
    for end in range(len(letter) - 13, len(letter)):
        with pytest.raises(BadLetter, match="a BROWSE of"):
            letters.decode_browse(letter[:end])
    with pytest.raises(BadLetter, match="a BROWSE of"):
        letters.decode_browse(letter[:-13] + b"\xff" + letter[-12:])


def test_an_answer_is_read_as_it_was_told_and_half_of_one_is_refused() -> None:
    found = [Browsed("x", "k", b"\0\0content", True, offset=17)]
    answer = letters.browsed(1, found)
    assert letters.decode_browsed(answer) == found
    assert letters.decode_browsed(refusal(AnswerStatus.NO_GROUP, 0)) is None
    with pytest.raises(BadLetter, match="an answer to BROWSE of"):
        letters.decode_browsed(answer[:-1])
