"""RabbitMQ's own Grafana dashboards, asked of this broker through a real Prometheus.

`panels.tsv` has what each panel needs: its dashboard and title, which of its queries, a metric, and the labels that it is
chosen by. The dashboards are RabbitMQ's and are not kept here; `python -m tests.compat.dashboards.panels FILE...` renews the
table from them.
"""
