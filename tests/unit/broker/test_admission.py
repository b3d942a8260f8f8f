"""broker/login/admission.py: who gives way to whom, by a clock of the test's own, and beside a plain model."""

from __future__ import annotations

import random

import pytest

from broker.login.admission import EXCHANGES_BURST, EXCHANGES_PER_S, GRACE_S, Admission, Decision
from broker.login.client_address import source_of


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_source_that_has_its_share_displaces_its_own_oldest() -> None:
    clock = Clock()
    admission: Admission[str] = Admission(10, 3, clock)
    for name in ("a1", "a2", "a3"):
        assert admission.enter(name, "a") == Decision(True)
    assert admission.enter("b1", "b") == Decision(True)
    clock.now = GRACE_S
    assert admission.enter("a4", "a") == Decision(True, "a1")
    assert admission.count("a") == 3 and "a1" not in admission and "b1" in admission


def test_within_the_grace_period_a_source_cannot_displace_its_own() -> None:
    """So that a login that has begun can end, however fast others of its source come."""
    clock = Clock()
    admission: Admission[str] = Admission(10, 1, clock)
    admission.enter("first", "a")
    clock.now = GRACE_S / 2
    assert admission.enter("second", "a") == Decision(False)
    assert "first" in admission and "second" not in admission


def test_a_flood_displaces_few_of_its_own_and_another_source_as_many_as_it_needs() -> None:
    """An exchange costs as much as ten refusals, and a flood would have the node do nothing else."""
    clock = Clock()
    admission: Admission[int] = Admission(100, 100, clock)
    for number in range(100):
        admission.enter(number, "flood")
    clock.now = 10.0
    flood = [admission.enter(number, "flood").admitted for number in range(1_000, 2_000)]
    assert flood.count(True) == EXCHANGES_BURST
    clock.now = 11.0
    flood = [admission.enter(number, "flood").admitted for number in range(2_000, 3_000)]
    assert flood.count(True) <= EXCHANGES_PER_S
    assert all(admission.enter(number, "client").admitted for number in range(3_000, 3_049))


def test_when_all_is_taken_the_greediest_source_gives_way_at_once() -> None:
    admission: Admission[str] = Admission(4, 4, Clock())
    for number in range(4):
        admission.enter(f"flood {number}", "flood")
    assert admission.enter("client 1", "c") == Decision(True, "flood 0")
    assert admission.enter("client 2", "d") == Decision(True, "flood 1")
    assert admission.enter("flood 4", "flood") == Decision(False)
    assert len(admission) == 4


def test_sources_that_have_equally_much_wait_for_the_grace_period() -> None:
    clock = Clock()
    admission: Admission[str] = Admission(2, 2, clock)
    admission.enter("a", "a")
    admission.enter("b", "b")
    assert admission.enter("c", "c") == Decision(False)
    clock.now = GRACE_S
    assert admission.enter("c", "c").evicted in ("a", "b")


def test_full_for_another_reason_is_as_full() -> None:
    admission: Admission[str] = Admission(0, 0, Clock())
    assert admission.enter("one", "a", full=True) == Decision(False), "there is nobody to give way"
    admission.enter("a1", "a")
    admission.enter("a2", "a")
    assert admission.enter("b", "b", full=True) == Decision(True, "a1")


def test_a_source_that_is_named_later_counts_from_then_on() -> None:
    """Behind a load balancer, which is no source to be limited."""
    admission: Admission[str] = Admission(10, 1, Clock())
    for name in ("one", "two", "three"):
        assert admission.enter(name, "") == Decision(True)
    assert admission.rename("one", "client") == Decision(True)
    assert admission.rename("two", "client") == Decision(False)
    assert "two" not in admission and len(admission) == 2


def test_eviction_takes_the_oldest_of_the_greediest() -> None:
    admission: Admission[str] = Admission(0, 0, Clock())
    assert admission.evict() is None
    for name, source in (("b1", "b"), ("a1", "a"), ("a2", "a")):
        admission.enter(name, source)
    assert [admission.evict() for _ in range(2)] == ["a1", "b1"]


def test_nothing_stays_of_a_source_of_which_nobody_waits() -> None:
    """Strangers have as many addresses as they like."""
    admission: Admission[str] = Admission(0, 2, Clock())
    for number in range(50):
        admission.enter(f"c{number}", f"source {number}")
        admission.leave(f"c{number}")
    assert not admission._waiting and not admission._sources_by_count and not len(admission)


@pytest.mark.parametrize("seed", range(20))
def test_counts_stay_right_whatever_happens(seed: int) -> None:
    chance, clock = random.Random(seed), Clock()
    admission: Admission[int] = Admission(chance.choice((0, 5, 20)), chance.choice((0, 3)), clock)
    model: dict[int, str] = {}
    for number in range(500):
        clock.now += chance.choice((0.0, 0.3, 2.0))
        match chance.randrange(4):
            case 0 if model:
                gone = chance.choice(list(model))
                admission.leave(gone)
                del model[gone]
            case 1 if model and chance.random() < 0.2:
                evicted = admission.evict()
                assert evicted is not None
                counts = list(model.values())
                assert counts.count(model[evicted]) == max(map(counts.count, counts))
                del model[evicted]
            case _:
                source = chance.choice("abcde")
                decision = admission.enter(number, source)
                if decision.evicted is not None:
                    del model[decision.evicted]
                if decision.admitted:
                    model[number] = source
        assert len(admission) == len(model)
        assert not admission.places or len(model) <= admission.places
        for source in "abcde":
            count = list(model.values()).count(source)
            assert admission.count(source) == count
            assert not admission.per_source or count <= admission.per_source


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::1", "::1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_the_source_of_an_address(host: str, source: str) -> None:
    assert source_of(host) == source
