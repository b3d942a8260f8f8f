"""What a log may tell of a stream's messages, and what it may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from analytics.fold.lives import LifeState
from analytics.fold.stream_log import StreamLog
from analytics.jobs.proof import ProofRow
from analytics.streams.stream_rows import StreamRow
from tests.ledger.stream_clients import StreamNote, StreamNotes
from tests.ledger.stream_told import ToldMessage, ToldStream, compared_streams

NOW = 1_000.0
SAID = ("a", "b", "c", "d")  # of which the last one was not confirmed


def notes() -> StreamNotes:
    made = StreamNotes("s", {body: StreamNote("p", NOW, NOW + 1) for body in SAID})
    made.messages["d"].confirmed_at = None
    made.asked_to_store["r"], made.stored["r"] = 3, 2
    return made


def told(*bodies: str, at: float = NOW + 0.5, stored: int = 2) -> ToldStream:
    messages = [ToldMessage(offset, body, at, LifeState.KEPT) for offset, body in enumerate(bodies)]
    many = len(messages)
    proof = ProofRow("//s", 1, many, 0, 0, 0, 0, 0, 0, many, 0, 0, [], None)
    row = StreamRow("//s", many, 0, 1, 0, many, None, None, many, 0, "r", stored, went_back=0)
    return ToldStream(messages, StreamLog(), proof, [row])


def differences(one: ToldStream, read: dict[int, str] | None = None) -> list[str]:
    found = {message.offset: message.body for message in one.messages}
    return compared_streams([notes()], {"s": one}, {"s": found if read is None else read})


@pytest.mark.parametrize("bodies", [SAID, SAID[:3]])
def test_what_was_not_confirmed_may_be_there_or_not(bodies: tuple[str, ...]) -> None:
    assert differences(told(*bodies)) == []


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: told("a", "b"), "c is in the log 0 times"),
        (lambda: told("a", "b", "b", "c"), "b is in the log 2 times"),
        (lambda: told("b", "a", "c"), "messages of p are out of order"),
        (lambda: told("a", "b", "c", "x"), "x is in the log, and nobody published it"),
        (lambda: told(*SAID, at=NOW + 9), "a was published from"),
        (lambda: told(*SAID, stored=1), "r has stored 2 to 3"),
        (lambda: told(*SAID)._replace(messages=told(*SAID, "e").messages[:4][::-1]), "its offsets have gaps"),
        (lambda: told(*SAID)._replace(proof=told("a").proof), "4 messages, of which 0 were cut, and the proof is"),
        (lambda: told(*SAID)._replace(rows=told("a").rows), "4 messages, and `streams` answers"),
    ],
)
def test_anything_else_is_a_difference(make: Callable[[], ToldStream], wrong: str) -> None:
    assert any(wrong in sentence for sentence in differences(make()))


def test_readers_find_what_the_log_tells() -> None:
    assert "readers found offsets 0 to 2" in differences(told(*SAID), {0: "a", 1: "b", 2: "c"})[0]


def test_a_run_in_which_nothing_happened_is_not_taken_for_one_that_was_told_right() -> None:
    assert len(StreamNotes("s").not_seen()) == 4
    made = notes()
    assert [sentence.partition("seen ")[2] for sentence in made.not_seen()] == [
        "a kill of a node",
        "a confirm of one with a name",
    ]
    made.kills, made.named = 1, {"p": ["a", "d"]}
    assert made.not_seen() == []
    made.named = {"p": ["d"]}
    assert len(made.not_seen()) == 1, "its message was not confirmed"
