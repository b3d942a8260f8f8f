"""leveretctl status, leveretctl alarm list, leveretctl log level"""

from __future__ import annotations

from typing import Annotated

import typer

from leveret.ctl.terminal import render
from leveret.ctl.terminal.run import with_node

alarms_app = typer.Typer(help="Alarms: what holds publishers now.", no_args_is_help=True)
log_app = typer.Typer(help="The node's own log.", no_args_is_help=True)


def status() -> None:
    """The node: version, memory, disk, listeners, totals."""
    found = with_node(lambda node: node.admin.node_status())
    listeners = ", ".join(f"{item.protocol} {item.address}{' TLS' if item.tls else ''}" for item in found.listeners)
    render.facts(
        {
            "node": found.name,
            "cluster": found.cluster_name,
            "version": f"{found.version}, Python {found.python_version}, {found.kernels} kernels",
            "process": found.process_id,
            "started_at_ms": found.started_at_ms,
            "data directory": found.data_dir,
            "listeners": listeners,
            "memory": f"{render.size(found.memory_bytes)} of {render.size(found.memory_limit_bytes)} allowed",
            "disk free": f"{render.size(found.disk_free_bytes)}, at least {render.size(found.disk_free_limit_bytes)} wanted",
            "alarms": ", ".join(f"{alarm.kind}: {alarm.reason}" for alarm in found.alarms) or "none",
            "connections": found.connections,
            "channels": found.channels,
            "consumers": found.consumers,
            "queues": found.queues,
            "messages ready": found.messages_ready,
            "messages unacknowledged": found.messages_unacknowledged,
            "log level": found.log_level,
        },
        as_json=found,
    )


@alarms_app.command("list")
def list_alarms() -> None:
    """Alarms that are on: publishers wait until they are over."""
    render.records(with_node(lambda node: node.admin.alarms()), ("kind", "reason", "since_ms"), empty="no alarms")


@log_app.command("level")
def log_level(level: Annotated[str, typer.Argument(help="debug, info, warning or error.")]) -> None:
    """Change what the node logs, until it stops."""
    with_node(lambda node: node.admin.set_log_level(level))
    render.done(f"the node logs from {level} on", level=level)
