"""Metrics of the shovels that this node runs: how many are in each state, and what they have done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from broker.operations.shovel_facts import ShovelFacts
from node.watching.metric_families import counters_of_each

STATES = ("starting", "running", "flow", "blocked", "stalled", "terminated")

COUNTED = {
    "forwarded": "Messages that arrived at their destination",
    "returned": "Messages that no queue there wanted",
    "restarts": "Times that a shovel began again",
    "stalls": "Times that work waited and nothing moved for a minute",
}


def shovel_metrics(shovels: Sequence[ShovelFacts]) -> Iterator[Metric]:
    """Of the shovels that run now: a counter begins anew where a shovel does. A family is made at a time."""
    states = GaugeMetricFamily("leveret_shovels", "Shovels that this node runs, by state", labels=["state"])
    found = Counter(one.state for one in shovels)
    for state in STATES:
        states.add_metric([state], found[state])
    yield states
    yield from counters_of_each(
        "leveret_shovel", COUNTED, ("vhost", "shovel"), shovels, lambda one: [one.vhost, one.name]
    )
