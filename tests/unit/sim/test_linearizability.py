"""The judge of histories, on histories of which everybody can see whether they are possible."""

from __future__ import annotations

import random

import pytest

from tests.sim.linearizability import NOTHING, Call, Inconclusive, Kind, State, explain, step


def put(began: int, ended: int, value: bytes, version: int) -> Call:
    return Call(Kind.PUT, began, ended, value, result=(version, b"\1"))


def read(began: int, ended: int, found: State) -> Call:
    return Call(Kind.READ, began, ended, result=found)


def test_what_happens_one_after_the_other_is_read_in_that_order() -> None:
    calls = [put(1, 2, b"a", 1), put(3, 4, b"b", 2), read(5, 6, (2, b"b"))]
    assert explain(calls) == calls


def test_a_stale_read_is_found() -> None:
    assert explain([put(1, 2, b"a", 1), put(3, 4, b"b", 2), read(5, 6, (1, b"a"))]) is None


def test_a_read_that_runs_beside_a_write_may_see_either() -> None:
    for found in ((1, b"a"), (2, b"b")):
        assert explain([put(1, 2, b"a", 1), put(3, 8, b"b", 2), read(4, 6, found)]) is not None


def test_two_reads_never_see_time_go_back() -> None:
    calls = [put(1, 2, b"a", 1), put(3, 20, b"b", 2), read(4, 6, (2, b"b")), read(7, 9, (1, b"a"))]
    assert explain(calls) is None


def test_a_lost_write_is_found() -> None:
    assert explain([put(1, 2, b"a", 1), read(3, 4, NOTHING)]) is None


def test_a_write_that_took_effect_twice_is_found() -> None:
    assert explain([put(1, 2, b"a", 1), read(3, 4, (2, b"a"))]) is None


def test_a_call_of_unknown_fate_may_have_happened_late_or_never() -> None:
    unknown = Call(Kind.PUT, 1, value=b"x")
    assert explain([unknown, read(2, 3, NOTHING), read(4, 5, (1, b"x"))]) is not None
    assert explain([unknown, read(2, 3, NOTHING)]) is not None
    assert explain([unknown, read(2, 3, (1, b"x")), read(4, 5, NOTHING)]) is None


def test_of_two_compare_and_sets_on_one_version_one_succeeds() -> None:
    both = [Call(Kind.CAS, 1, 5, value, expected=0, result=(1, b"\1")) for value in (b"a", b"b")]
    assert explain(both) is None
    both[1].result = (1, b"\0")
    assert explain(both) is not None


def test_a_delete_says_whether_there_was_something() -> None:
    deleted = Call(Kind.DELETE, 3, 4, result=(0, b"\1"))
    assert explain([put(1, 2, b"a", 1), deleted, read(5, 6, NOTHING)]) is not None
    assert explain([deleted]) is None


def history(random: random.Random, count: int) -> list[Call]:
    """Of a register that works, with calls that overlap and some that are never told of; each with its true place."""
    calls = []
    state = NOTHING
    for place in range(count):
        kind = random.choice(list(Kind))
        at = 10 * place + 1000
        began, ended = at - random.randrange(60), at + random.randrange(60)
        call = Call(kind, began * 1000 + place, ended * 1000 + place, b"%d" % place, expected=state[0])
        state, answer = step(state, call)
        call.result, call.place = answer, place
        if random.random() < 0.1:
            call.result, call.ended = None, Call(kind, 0).ended
        calls.append(call)
    return calls


@pytest.mark.parametrize("seed", range(20))
def test_a_register_that_works_is_explained_with_places_and_without(seed: int) -> None:
    calls = history(random.Random(seed), 60)
    assert explain(calls) is not None
    for call in calls:
        call.place = Call(Kind.READ, 0).place
    assert explain(calls) is not None


@pytest.mark.parametrize("seed", range(20))
def test_places_never_excuse_a_wrong_answer(seed: int) -> None:
    calls = history(random.Random(seed), 30)
    reads = [call for call in calls if call.kind is Kind.READ and call.result is not None]
    reads[len(reads) // 2].result = (7, b"never written")
    assert explain(calls) is None


def test_a_search_that_takes_too_long_is_no_proof() -> None:
    unknown = [Call(Kind.PUT, began, value=b"%d" % began) for began in range(30)]
    with pytest.raises(Inconclusive, match="more than 100 states"):
        explain([*unknown, read(40, 41, (9, b"never written"))], search_max=100)
