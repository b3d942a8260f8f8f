"""Addresses of every view of the page: the lists, and what each shows of one thing."""

from __future__ import annotations

from tests.page.hostile_node import delayed, parts

LISTS = (
    "overview", "queues", "exchanges", "connections", "channels", "consumers", "alarms", "nodes", "cluster", "groups",
    "dead-letters", "users", "permissions", "vhosts", "policies", "policies?kind=operator-policies", "limits", "links",
    "federation", "federation?tab=upstreams",
    "parameters", "definitions", "features", "activity", "activity?tab=log", "activity?tab=audit",
)  # fmt: skip
QUEUE_TABS = ("overview", "messages", "bindings", "consumers", "causes", "replay")
EXCHANGE_TABS = ("overview", "from", "to")


def details_of(name: str) -> list[str]:
    """Views of what has this name."""
    queue, exchange, later = f"queues/{parts('/', name)}", f"exchanges/{parts('/', name)}", parts("/", delayed(name))
    return [
        *[f"{queue}?tab={tab}" for tab in QUEUE_TABS],
        *[f"{exchange}?tab={tab}" for tab in EXCHANGE_TABS],
        f"exchanges/{later}?tab=delayed",
        f"users/{parts(name)}",
        f"vhosts/{parts(name)}",
    ]
