"""Families of one series each, and what Prometheus's text is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class Families(Collector):
    """What generate_latest takes."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def counters_of_each(
    prefix: str,
    counted: Mapping[str, str],
    labels: Sequence[str],
    things: Sequence[Any],
    where: Callable[[Any], list[str]],
) -> Iterator[Metric]:
    """A family for each figure of these things, made one at a time: there may be thousands of them."""
    for name, help_text in counted.items():
        family = CounterMetricFamily(f"{prefix}_{name}", help_text, labels=list(labels))
        for one in things:
            family.add_metric(where(one), getattr(one, name))
        yield family


def info(name: str, help_text: str, labels: Mapping[str, str]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=list(labels))
    family.add_metric(list(labels.values()), 1)
    return family


def gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=float(value))


def counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(name, help_text, value=float(value))
