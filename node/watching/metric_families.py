"""Families of one series each, and what Prometheus's text is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class Families(Collector):
    """What generate_latest takes."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def info(name: str, help_text: str, labels: Mapping[str, str]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=list(labels))
    family.add_metric(list(labels.values()), 1)
    return family


def gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=float(value))


def counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(name, help_text, value=float(value))
