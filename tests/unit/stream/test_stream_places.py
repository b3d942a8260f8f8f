"""stream/stream_places.py: who leads a stream, on a node without a member."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicated.letters import AnswerStatus
from stream import stream_places
from stream.stream_places import KNOWN_FOR_MS, StreamsPlaces


class FarStream:
    """Of which the nodes 2 and 3 have members, and 2 is asked."""

    group = 7
    route: Any = SimpleNamespace(driver=None, look_for=lambda: 2, refused=lambda *_: None, forget=lambda _: None)

    def member_nodes(self) -> list[int]:
        return [2, 3]


class Watcher:
    def __init__(self, told: list[Any]) -> None:
        self.stream_moved = told.append


def test_a_node_that_answers_as_the_leader_is_named_as_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    told, asked, now = list[Any](), list[Any](), [1_000]
    answers = {b"I lead": (AnswerStatus.DONE, 0), b"3 leads": (AnswerStatus.NOT_LEADER, 3)}
    monkeypatch.setattr(
        stream_places, "decode_answer", lambda data: SimpleNamespace(status=answers[data][0], leader=answers[data][1])
    )
    ports: Any = SimpleNamespace(
        topic=6, wall_ms=lambda: now[0], calls=SimpleNamespace(ask=lambda *given: asked.append((given[0], given[-1])))
    )
    queue = FarStream()
    places: StreamsPlaces[Any] = StreamsPlaces(ports, lambda node: f"n{node}")
    assert places.of(queue).leader == ""
    for said, leader in ((b"3 leads", "n3"), (b"I lead", "n2")):
        node, answered = asked.pop()
        assert node == 2
        answered(said)
        assert places.of(queue).leader == leader
        now[0] += KNOWN_FOR_MS
        places.of(queue)
    places.watch(queue, Watcher(told))
    asked.pop()[1](b"3 leads")
    places.check()
    assert told == [queue]
