"""Dashboards and what a node tells Prometheus agree: RabbitMQ's own, by a table of what their panels need, and ours."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.compat.dashboards.panels import IDENTITY, needs
from tests.unit.node.test_metrics import FakeBroker, metrics_of

OURS = Path(__file__).parents[3] / "deploy" / "grafana" / "dashboards"
METRIC = re.compile(r"\b(?:rabbitmq|leveret)_\w+")
LABELS = {"rabbitmq_node", "rabbitmq_cluster", "rabbitmq_endpoint"}
LABEL = re.compile(r'(\w+)="([^"]*)"')

Told = dict[str, list[dict[str, str]]]  # the labels of each series, by name


def told(endpoint: str) -> Told:
    watch = SimpleNamespace(counts={"work": 1}, seconds={"work": 0.1}, longest_s=0.1)
    metrics: Any = metrics_of(FakeBroker())
    metrics._loop_watch = watch
    raw = asyncio.run(metrics.text()) if endpoint == "aggregated" else b"".join(asyncio.run(metrics.per_object()))
    found: Told = {}
    for family in text_string_to_metric_families(raw.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def has(found: Told, metric: str, labels: str) -> bool:
    wanted = dict(LABEL.findall(labels))
    return any(wanted.items() <= series.items() for series in found.get(metric, ()))


@pytest.mark.parametrize("endpoint", ["aggregated", "per-object"])
def test_each_panel_of_rabbitmqs_dashboards_has_a_query_that_finds_all_its_metrics(endpoint: str) -> None:
    found = told(endpoint)
    queries: dict[tuple[str, str], dict[int, list[bool]]] = {}
    for need in needs():
        shown = has(found, need.metric, need.labels)
        queries.setdefault((need.dashboard, need.panel), {}).setdefault(need.query, []).append(shown)
    assert len(queries) > 50
    assert [panel for panel, some in queries.items() if not any(map(all, some.values()))] == []
    (identity,) = found[IDENTITY]
    assert identity["rabbitmq_endpoint"] == endpoint
    assert identity.keys() >= {"rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id"}


@pytest.mark.parametrize("dashboard", sorted(OURS.glob("*.json")), ids=lambda path: path.stem)
def test_our_dashboards_ask_for_nothing_that_is_not_told(dashboard: Path) -> None:
    panels = json.loads(dashboard.read_text())["panels"]
    assert len(panels) >= 8
    for panel in panels:
        for target in panel["targets"]:
            endpoint = "per-object" if "per-object" in target["expr"] else "aggregated"
            names = set(METRIC.findall(target["expr"])) - LABELS
            assert names <= told(endpoint).keys(), panel["title"]
