"""Metrics of logins and of administrative changes: the counts of broker/login/audit.py, under RabbitMQ's names where it has
them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from broker.login.audit import Audit

PROTOCOLS = {
    "AMQP 0-9-1": "amqp091",
    "stream": "stream",
    "gRPC": "grpc",
    "HTTP": "http",
}  # as fronts name them -> the label's value


def audit_metrics(audit: Audit) -> Iterator[Metric]:
    all_, succeeded, failed = (
        CounterMetricFamily(name, help_text, labels=["protocol"])
        for name, help_text in (
            ("rabbitmq_auth_attempts", "Logins that were checked"),
            ("rabbitmq_auth_attempts_succeeded", "Logins that succeeded"),
            ("rabbitmq_auth_attempts_failed", "Logins that were refused: wrong user, password or certificate"),
        )
    )
    for protocol, label in PROTOCOLS.items():
        right, wrong = audit.logins[protocol, True], audit.logins[protocol, False]
        all_.add_metric([label], right + wrong)
        succeeded.add_metric([label], right)
        failed.add_metric([label], wrong)
    yield from (all_, succeeded, failed)
    changes = CounterMetricFamily(
        "leveret_audited_changes",
        "Changes by operators that this node was asked for, such as those of users, permissions, policies and nodes",
        labels=["kind", "outcome"],
    )
    for (kind, outcome), count in sorted(audit.changes.items()):
        changes.add_metric([kind, outcome], count)
    yield changes
