"""stream/reading/serving.py: who reads from elsewhere, when the member here turns out to be damaged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from raft.core.errors import Damaged
from replicated.letters import AnswerStatus, decode_answer
from stream.reading import letters
from stream.reading.serving import ChunkServing


class Damageable:
    """A stream whose member has nothing to give, or cannot be read."""

    group = 7
    route = SimpleNamespace(leader=lambda: 2)

    def __init__(self) -> None:
        self.is_damaged = False
        state = SimpleNamespace(next_offset=0, last_chunk=-1)
        reading = SimpleNamespace(next_stored=self._next_stored)
        self.member: Any = SimpleNamespace(reading=reading, machine=SimpleNamespace(state=state))

    def _next_stored(self, index: int) -> None:
        if self.is_damaged:
            raise Damaged("a block of another place")

    @property
    def readable_member(self) -> Any:
        return self.member


def test_all_who_wait_are_answered_once_when_damage_is_met_for_the_first_of_them() -> None:
    stream, answers = Damageable(), list[tuple[int, AnswerStatus]]()

    def damaged(group: int, damage: Damaged) -> None:
        stream.member = None
        serving.end()

    ports: Any = SimpleNamespace(
        monotonic=lambda: 0.0,
        calls=SimpleNamespace(connected=lambda node: True, writable=lambda node: True),
        groups=SimpleNamespace(damaged=damaged),
        loop=SimpleNamespace(call_soon=lambda call: None),
    )
    serving = ChunkServing(stream, ports)  # type: ignore[arg-type]
    for node in (2, 3, 4):
        serving.asked(
            node, letters.read(7, 1, 100), lambda data, node=node: answers.append((node, decode_answer(data).status))
        )
    assert not answers and serving
    stream.is_damaged = True
    assert not serving.go_on()
    assert sorted(answers) == [(2, AnswerStatus.AGAIN), (3, AnswerStatus.NO_GROUP), (4, AnswerStatus.NO_GROUP)]
