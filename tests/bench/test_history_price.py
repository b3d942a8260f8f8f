"""What a level of the history costs: ratios of one round, how sure they are, and when a row counts as too slow."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.bench.client import DELIVER
from tests.bench.price_table import Price, Round, markdown, over, prices
from tests.bench.staying_load import CANCELLED, DELIVERED, StayingConsumer


def rounds(level: str, ratios: Sequence[float], start: str = "1", figure: str = "rate") -> list[Round]:
    """In which `off` becomes twice as fast each time, as a machine with other work may."""
    return [
        Round("row", start, {"off": {figure: 2.0**n}, level: {figure: 2.0**n * ratio}})
        for n, ratio in enumerate(ratios)
    ]


def price(found: Sequence[Round]) -> Price:
    return next(iter(prices(found, random.Random(1))))


def test_a_ratio_is_of_portions_of_one_round() -> None:
    found = price(rounds("basic", [0.9, 0.95, 0.99]))
    assert (found.rounds, found.level) == (3, "basic")
    assert found.ratio == pytest.approx(0.95)


@pytest.mark.parametrize("figure", ["cpu", "p50"])
def test_of_what_a_message_takes_less_is_better(figure: str) -> None:
    assert price(rounds("full", [1.25] * 3, figure=figure)).ratio == pytest.approx(0.8)


def test_what_few_rounds_take_is_in_the_sum_of_all() -> None:
    found = [Round("row", "1", {"off": {"cpu": 1.0}, "full": {"cpu": 11.0 if n == 0 else 1.0}}) for n in range(10)]
    ratios = {one.figure: one.ratio for one in prices(found, random.Random(1))}
    assert ratios == pytest.approx({"cpu": 1.0, "cpu, sum": 0.5})


def test_an_archive_is_compared_with_the_level_that_it_has() -> None:
    found = [Round("row", "1", {"off": {"rate": 100}, "basic": {"rate": 50}, "archive": {"rate": 49}})]
    archive = next(one for one in prices(found, random.Random(1)) if one.level == "archive")
    assert archive.ratio == pytest.approx(0.98)


def test_starts_that_differ_make_it_unsure_however_many_rounds_each_has() -> None:
    alike = price(rounds("basic", [0.9] * 50, "1") + rounds("basic", [0.9] * 50, "2"))
    differ = price(rounds("basic", [0.9] * 50, "1") + rounds("basic", [1.1] * 50, "2"))
    assert [alike.low, alike.high] == pytest.approx([0.9, 0.9])
    assert [differ.low, differ.high] == pytest.approx([0.9, 1.1])
    assert sorted(differ.starts) == pytest.approx([0.9, 1.1])


def of(level: str, low: float, high: float) -> Price:
    return Price("row", level, "rate", (low + high) / 2, low, high, (low, high), 10)


def test_a_row_is_over_its_bar_where_its_whole_interval_is_and_that_of_the_control_is_not() -> None:
    control = of("control", 0.97, 1.02)
    assert over([control, of("basic", 0.95, 0.979)]) == [of("basic", 0.95, 0.979)]
    assert over([control, of("basic", 0.95, 0.981), of("full", 0.95, 0.975), of("archive", 0.97, 0.995)]) == []
    assert over([of("control", 0.9, 0.97), of("basic", 0.95, 0.979)]) == []


def test_the_control_has_no_bar() -> None:
    assert over([of("control", 0.5, 0.6)]) == []


def test_the_table_has_a_line_for_each_figure_and_room_for_levels_that_were_not_measured() -> None:
    lines = list(markdown([of("control", 0.9, 1.1), of("full", 0.8, 1.0)]))
    cell = "0.900 (0.800 to 1.000; 0.80 to 1.00)"
    assert lines[2] == f"| row | rate | 1.000 (0.900 to 1.100; 0.90 to 1.10) |  | {cell} |  | 10, 2 |"


class Scripted(StayingConsumer):
    """Gets what is given, in these pieces, and notes what it acknowledges."""

    def __init__(self, pieces: Sequence[bytes], prefetch: int) -> None:
        self._pieces, self.acknowledged = list(pieces), list[int]()
        self._half, self._got, self._acknowledged, self._end = prefetch // 2, 0, 0, b""

    def _receive_bytes(self) -> bytes:
        return self._pieces.pop(0)

    def acknowledge(self, tag: int) -> None:
        self.acknowledged.append(tag)

    def send(self, data: bytes) -> None:
        pass


DELIVERIES = b"".join(b"head" + DELIVERED + number.to_bytes(8, "big") + b"rest of it" for number in range(1, 9))


@pytest.mark.parametrize("size", [1, 2, 5, 7, 11, 23, len(DELIVERIES)])
def test_deliveries_are_counted_wherever_the_socket_cuts_them(size: int) -> None:
    data = DELIVERIES + CANCELLED
    client = Scripted([data[at : at + size] for at in range(0, len(data), size)], 4)
    client.take(8)
    client.end()
    assert client.acknowledged[-1] == 8
    assert set(client.acknowledged) >= {2, 4, 6}


def test_a_tag_that_looks_like_a_method_is_no_delivery() -> None:
    tag = int.from_bytes(DELIVER * 2, "big").to_bytes(8, "big")
    client = Scripted([DELIVERED + tag + b"rest" + DELIVERED + bytes(8)], 4)
    client.take(2)
    assert client.acknowledged == [2]
