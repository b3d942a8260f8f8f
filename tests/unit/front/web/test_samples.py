"""Samples: rates between two of them, rings of fixed size, times that somebody asks for, and what nodes say added up."""

from __future__ import annotations

from itertools import pairwise

import pytest

from broker.login.client_address import ClientAddress
from front.web.http.request import HttpError, Request
from front.web.samples.books import BASIC, DETAILED, LOOKED_AT_MS, RINGED_MAX, SampleBook
from front.web.samples.figures import SampledFigures
from front.web.samples.ranges import Ranges, details, ranges_asked_for, sampled_at
from front.web.samples.rings import SampleRing
from front.web.samples.shapes import CONNECTION, DATA_RATES, EXCHANGE, LENGTHS, QUEUE, VHOST

BEGIN = 1_000_000_000_000
STEP_MS = 5_000


class Sampled:
    """One connection, which a round comes to every five seconds."""

    def __init__(self, *, spans: tuple[tuple[int, int], ...] = DETAILED, always: bool = False) -> None:
        self.book = SampleBook(CONNECTION, spans, always=always)
        self.now = BEGIN

    def round(self, received: int, sent: int = 0, key: str = "one", after_ms: int = STEP_MS) -> None:
        self.now += after_ms
        self.book.add(key, self.now, (received, sent))
        self.end_round()

    def end_round(self) -> None:
        for _ in self.book.forget_gone(self.now):
            pass

    def rate(self, figure: str = "recv_oct", key: str = "one") -> float:
        return self.book.rates(key, self.now)[figure]

    def points(self, age_s: int, step_s: int, figure: str = "recv_oct") -> dict[int, int]:
        """By seconds before now."""
        asked = {DATA_RATES: (age_s * 1_000, step_s * 1_000, self.now)}
        return {(self.now - at) // 1_000: count for at, count in self.book.points("one", asked)[figure].items()}


def test_a_rate_is_what_came_between_the_last_two_samples() -> None:
    sampled = Sampled()
    sampled.round(100)
    assert sampled.rate() == 0.0, "there is one sample only"
    sampled.round(150, sent=500)
    assert (sampled.rate(), sampled.rate("send_oct")) == (10.0, 100.0)
    sampled.round(250, after_ms=2 * STEP_MS)
    assert sampled.rate() == 10.0


def test_a_rate_is_0_when_the_last_sample_is_old_or_the_clock_was_set_back() -> None:
    sampled = Sampled()
    sampled.round(0)
    sampled.round(50)
    sampled.now += 3 * STEP_MS
    assert sampled.rate() == 0.0
    sampled.round(60, after_ms=-10 * STEP_MS)
    assert sampled.rate() == 0.0
    sampled.round(110)
    assert sampled.rate() == 10.0


def test_what_does_nothing_is_idle_since_it_was_seen_to_do_something() -> None:
    sampled = Sampled()
    assert sampled.book.idle_since("one") is None, "nobody has looked yet"
    sampled.round(100)
    assert sampled.book.idle_since("one") is None, "it has just been seen"
    sampled.round(150)
    changed_at = sampled.now
    assert sampled.book.idle_since("one") is None
    for _ in range(2):
        sampled.round(150)
        assert sampled.book.idle_since("one") == changed_at
    sampled.round(151)
    assert sampled.book.idle_since("one") is None


def test_what_only_grows_has_no_rate_below_0_and_lengths_have() -> None:
    book = SampleBook(QUEUE, DETAILED)
    book.add(1, BEGIN, (100, 0, 100, 0, 0, 0, 0, 0))
    book.add(1, BEGIN + STEP_MS, (50, 0, 10, 0, 0, 0, 0, 0))
    rates = book.rates(1, BEGIN + STEP_MS)
    assert (rates["messages"], rates["messages_ready"], rates["publish"]) == (-10.0, -10.0, 0.0)


def test_sums_are_reckoned_from_what_is_sampled() -> None:
    book = SampleBook(QUEUE, DETAILED)
    book.add(1, BEGIN, (0,) * 8)
    book.add(1, BEGIN + STEP_MS, (5, 10, 0, 1, 2, 3, 0, 0))
    found = book.figures(1, (5, 10, 0, 1, 2, 3, 0, 0), BEGIN + STEP_MS, {})
    assert (found.counts["messages"], found.rates["messages"]) == (15, 3.0)
    assert (found.counts["deliver_get"], found.rates["deliver_get"]) == (6, 1.2)
    assert book.rate(1, "deliver_get", BEGIN + STEP_MS) == 1.2


def test_what_is_gone_is_forgotten_after_a_round() -> None:
    sampled = Sampled()
    for key in ("one", "two"):
        sampled.book.add(key, sampled.now, (1, 1))
    sampled.end_round()
    sampled.round(2)
    assert len(sampled.book) == 1


def test_samples_of_the_past_are_there_of_what_was_looked_at() -> None:
    sampled = Sampled()
    sampled.round(0)
    assert sampled.points(20, 5) == {}
    sampled.book.look_at("one", sampled.now)
    for received in (10, 20, 30):
        sampled.round(received)
    assert sampled.points(10, 5) == {0: 30, 5: 20, 10: 10}
    assert sampled.points(60, 10) == {0: 30, 10: 10}
    assert list(sampled.points(10, 5)) == [0, 5, 10], "newest first"


def test_looks_are_forgotten_and_only_so_many_objects_have_rings() -> None:
    sampled = Sampled()
    sampled.round(1)
    sampled.book.look_at("one", sampled.now)
    assert sampled.book.ring_bytes() > 0
    sampled.now += LOOKED_AT_MS
    sampled.round(2)
    assert sampled.book.ring_bytes() == 0
    for number in range(RINGED_MAX + 5):
        sampled.book.add(number, sampled.now, (1, 1))
        sampled.book.look_at(number, sampled.now)
    sampled.round(3, after_ms=0)
    for number in range(RINGED_MAX + 5):
        sampled.book.add(number, sampled.now, (1, 1))
    ringed = [number for number in range(RINGED_MAX + 5) if sampled.book._objects[number].rings]
    assert ringed == list(range(5, RINGED_MAX + 5)), "those that were looked at last"


@pytest.mark.parametrize("spans", [DETAILED, BASIC])
def test_rings_have_a_size_that_does_not_grow_with_time(spans: tuple[tuple[int, int], ...]) -> None:
    sampled = Sampled(spans=spans, always=True)
    for received in range(3_600 // 5 + 10):
        sampled.round(received)
    size = sampled.book.ring_bytes()
    for received in range(500):
        sampled.round(received)
    assert sampled.book.ring_bytes() == size == sum(span // step for span, step in spans) * 3 * 8


def test_of_what_has_rings_always_no_more_do_than_may_have_them() -> None:
    book = SampleBook(CONNECTION, DETAILED, always=True)
    for number in range(RINGED_MAX + 5):
        book.add(number, BEGIN, (1, 1))
    assert [number for number, found in book._objects.items() if not found.rings] == list(
        range(RINGED_MAX, RINGED_MAX + 5)
    )


def test_what_is_gone_leaves_its_rings_to_others() -> None:
    sampled = Sampled(always=True)
    sampled.round(1, key="gone")
    sampled.round(1, key="one")
    assert list(sampled.book._ringed) == ["one"]


def test_who_asks_for_a_long_time_is_shown_the_coarser_ring() -> None:
    sampled = Sampled(spans=BASIC, always=True)
    for minute in range(60):
        for _ in range(12):
            sampled.round(minute)
    points = sampled.points(3_600, 60)
    assert len(points) >= 59
    assert all(older < newer for newer, older in pairwise(points.values()))
    assert len(sampled.points(605, 5)) == 605 // 5, "the finest ring reaches back as far as that"


def test_a_sample_that_stood_for_long_is_shown_at_the_times_that_were_asked_for_only() -> None:
    asked = (10_000, 5_000, 102_000)
    expected = [(at, (1,)) for at in (100_000, 95_000, 90_000)]
    assert list(sampled_at([(101_000, (2,)), (20_000, (1,))], asked)) == expected
    assert list(sampled_at([(90_000, (1,)), (80_000, (0,))], asked)) == expected


def test_the_times_of_a_sum_have_all_that_it_is_the_sum_of() -> None:
    book = SampleBook(QUEUE, DETAILED, always=True)
    book.add("one", BEGIN, (7, 5, *(0,) * 6))
    points = book.points("one", {LENGTHS: (5_000, 5_000, BEGIN)})
    assert points["messages"] == {BEGIN: 12}
    assert points["messages_ready"] == {BEGIN: 7}


def test_a_ring_takes_no_more_than_a_sample_for_each_step() -> None:
    ring = SampleRing(1, 3, 60_000)
    for second in range(0, 600, 5):
        ring.add(second * 1_000, (second,))
    times = [at // 1_000 for at, _ in ring.newest_first()]
    assert len(times) == 3
    assert all(newer - older == 60 for newer, older in pairwise(times))


def test_a_sample_that_comes_a_little_early_is_taken() -> None:
    ring = SampleRing(1, 3, 5_000)
    for at in (0, 4_900, 4_950, 9_800):
        ring.add(at, (at,))
    assert [at for at, _ in ring.newest_first()] == [9_800, 4_900, 0]


def test_samples_of_a_clock_that_was_set_back_are_forgotten() -> None:
    ring = SampleRing(1, 3, 5_000)
    for at in (100_000, 105_000, 50_000, 55_000):
        ring.add(at, (at,))
    assert [at for at, _ in ring.newest_first()] == [55_000, 50_000]


def test_details_have_the_mean_and_the_rate_over_all_samples() -> None:
    shown = details(2.0, {10_000: 100, 0: 0, 5_000: 20})
    assert [one["timestamp"] for one in shown["samples"]] == [10_000, 5_000, 0]
    assert (shown["rate"], shown["avg_rate"], shown["avg"]) == (2.0, 10.0, 40.0)
    assert details(2.0) == {"rate": 2.0}
    assert details(0.0, {}) == {"rate": 0.0, "samples": []}


def asked_for(query: str) -> Ranges:
    client = ClientAddress("127.0.0.1", 1, True, "HTTP")
    return ranges_asked_for(Request("GET", f"/api/overview?{query}", {}, b"", client, BEGIN))


def test_ranges_are_asked_for_by_the_kind_of_figure() -> None:
    assert asked_for("lengths_age=600&lengths_incr=5") == {LENGTHS: (600_000, 5_000, BEGIN)}
    assert asked_for("lengths_age=600") == asked_for("lengths_age=x&lengths_incr=5") == {}
    assert asked_for("data_rates_age=500&data_rates_incr=1")[DATA_RATES] == (500_000, 1_000, BEGIN), "500 samples"


@pytest.mark.parametrize(
    "query",
    ["lengths_age=600&lengths_incr=1", "lengths_age=60&lengths_incr=0", "msg_rates_age=-5&msg_rates_incr=5"],
)
def test_more_than_500_samples_and_none_are_refused(query: str) -> None:
    with pytest.raises(HttpError) as refused:
        asked_for(query)
    assert (refused.value.status, refused.value.error) == (400, "invalid_range_parameters")


def test_figures_of_nodes_are_added_up_by_the_times_of_their_samples() -> None:
    one = SampledFigures({"publish_in": 3}, {"publish_in": 1.0}, {"publish_in": {5_000: 3, 0: 1}})
    two = SampledFigures({"publish_in": 4, "publish_out": 1}, {"publish_in": 0.5}, {"publish_in": {5_000: 4}})
    found = SampledFigures.of_nodes([one.row(), two.row(), {}])
    shown = found.shown(EXCHANGE.names)
    assert (shown["publish_in"], shown["publish_out"]) == (7, 1)
    assert shown["publish_in_details"]["rate"] == 1.5
    assert shown["publish_in_details"]["samples"] == [
        {"sample": 7, "timestamp": 5_000},
        {"sample": 1, "timestamp": 0},
    ]
    only = found.only(name for name in ("publish_in", "publish_x"))
    assert (only.counts, only.rates, list(only.points)) == ({"publish_in": 7}, {"publish_in": 1.5}, ["publish_in"])


def test_an_object_that_does_nothing_keeps_one_row() -> None:
    book = SampleBook(VHOST, BASIC)
    for number in range(3):
        for vhost in ("one", "two"):
            book.add(vhost, BEGIN + number, (0,) * len(VHOST.names))
    rows = {id(row) for found in book._objects.values() for row in (found.row, found.before)}
    assert len(rows) == 1
