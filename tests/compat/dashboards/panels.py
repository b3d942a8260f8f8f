"""What the panels of dashboards need: a table, and how it was made.

    python -m tests.compat.dashboards.panels RabbitMQ-Overview.json RabbitMQ-Quorum-Queues-Raft.json RabbitMQ-Stream.json

prints the table anew from the dashboards in deps/rabbitmq_prometheus/docker/grafana/dashboards of rabbitmq-server.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("panels.tsv")
IDENTITY = "rabbitmq_identity_info"
COLUMNS = "dashboard\tpanel\tquery\tmetric\tlabels\n"
_SELECTOR = re.compile(r"(rabbitmq_\w+)(?:\{([^}]*)\})?")
_NOT_METRICS = ("rabbitmq_cluster", "rabbitmq_node", "rabbitmq_version", "rabbitmq_endpoint")


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """One metric of one query of one panel."""

    dashboard: str
    panel: str
    query: int
    metric: str
    labels: str  # as between the braces of a selector


def needs() -> list[Need]:
    lines = TABLE.read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return [Need(dashboard, panel, int(query), metric, labels) for dashboard, panel, query, metric, labels in rows]


def read_dashboard(path: Path) -> Iterator[Need]:
    found: dict[str, Any] = json.loads(path.read_text())
    for number, (title, queries) in enumerate(_panels(found["panels"]), 1):
        for query, text in enumerate(queries, 1):
            for metric, labels in sorted(_selectors(text)):
                yield Need(path.stem.removeprefix("RabbitMQ-"), f"{title or 'table'} ({number})", query, metric, labels)


def _panels(panels: list[dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    for panel in panels:
        queries = [target["expr"] for target in panel.get("targets", []) if "expr" in target]
        if queries:
            yield panel.get("title", ""), queries
        yield from _panels(panel.get("panels", []))


def _selectors(query: str) -> set[tuple[str, str]]:
    found = {(name, labels) for name, labels in _SELECTOR.findall(query) if name not in _NOT_METRICS}
    whose_node = {(name, "") for name, _ in found if name == IDENTITY}  # its labels are variables of the dashboard
    return {(name, labels) for name, labels in found if name != IDENTITY} | whose_node


def main() -> None:
    sys.stdout.write(COLUMNS)
    for path in sys.argv[1:]:
        for need in read_dashboard(Path(path)):
            row = (need.dashboard, need.panel, str(need.query), need.metric, need.labels)
            sys.stdout.write("\t".join(row) + "\n")


if __name__ == "__main__":
    main()
