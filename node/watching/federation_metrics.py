"""Metrics of the federation links that this node runs: how many are in each state, and what they have done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from broker.operations.federation_facts import FederationLinkFacts
from node.watching.metric_families import counters_of_each

KINDS = ("exchange", "queue")
STATUSES = ("starting", "running", "error", "shutdown")
COUNTED = {
    "passed_on": "Messages that came over a link and were confirmed here",
    "dropped": "Messages that came over a link and went no further: they were here before, or came over too many links",
    "refused": "Messages that were refused here, and came again if they were not acknowledged yet",
    "restarts": "Times that a link began again",
}


def federation_metrics(links: Sequence[FederationLinkFacts]) -> Iterator[Metric]:
    """Of the links that run now: a counter begins anew where a link does."""
    states = GaugeMetricFamily(
        "rabbitmq_federation_links", "Federation links that this node runs", labels=["type", "status"]
    )
    found = Counter((one.kind, one.status) for one in links)
    for kind in KINDS:
        for status in STATUSES:
            states.add_metric([kind, status], found[kind, status])
    yield states
    labels = ("vhost", "type", "name", "upstream")
    yield from counters_of_each(
        "leveret_federation", COUNTED, labels, links, lambda one: [one.vhost, one.kind, one.name, one.upstream]
    )
