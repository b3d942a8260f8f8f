"""Metrics of the shovels that this node runs: how many are in each state, and what they have done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.operations.shovel_facts import ShovelFacts

STATES = ("starting", "running", "flow", "blocked", "stalled", "terminated")


def shovel_metrics(shovels: Sequence[ShovelFacts]) -> Iterator[Metric]:
    """Of the shovels that run now: a counter begins anew where a shovel does."""
    states = GaugeMetricFamily("leveret_shovels", "Shovels that this node runs, by state", labels=["state"])
    found = Counter(one.state for one in shovels)
    for state in STATES:
        states.add_metric([state], found[state])
    yield states
    labels = ["vhost", "shovel"]
    forwarded = CounterMetricFamily(
        "leveret_shovel_forwarded", "Messages that arrived at their destination", labels=labels
    )
    returned = CounterMetricFamily("leveret_shovel_returned", "Messages that no queue there wanted", labels=labels)
    restarts = CounterMetricFamily("leveret_shovel_restarts", "Times that a shovel began again", labels=labels)
    stalls = CounterMetricFamily(
        "leveret_shovel_stalls", "Times that work waited and nothing moved for a minute", labels=labels
    )
    for one in shovels:
        where = [one.vhost, one.name]
        forwarded.add_metric(where, one.forwarded)
        returned.add_metric(where, one.returned)
        restarts.add_metric(where, one.restarts)
        stalls.add_metric(where, one.stalls)
    yield from (forwarded, returned, restarts, stalls)
