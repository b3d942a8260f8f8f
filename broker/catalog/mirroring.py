"""Keys of policies by which RabbitMQ 3.x has classic queues mirrored, and what is made of them.

ha-mode                  all, exactly or nodes: how many nodes have the messages. A queue that is declared under it becomes a
                         quorum queue (broker/catalog/mirrored_queues.py)
ha-params                of exactly, on how many; of nodes, their names
ha-sync-mode, ha-sync-batch-size, ha-promote-on-shutdown, ha-promote-on-failure
                         are kept and have no effect: members catch up by themselves, meanwhile the queue goes on, and none
                         leads that lacks what was confirmed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from broker.errors import PreconditionFailed
from broker.table_values import show

HA_MODE, HA_PARAMS = "ha-mode", "ha-params"
MODES = ("all", "exactly", "nodes")
_CHOICES: dict[str, tuple[Any, ...]] = {
    HA_MODE: MODES,
    "ha-sync-mode": ("manual", "automatic"),
    "ha-promote-on-shutdown": ("when-synced", "always"),
    "ha-promote-on-failure": ("when-synced", "always"),
}
_BATCH_SIZE = "ha-sync-batch-size"
MIRRORING_KEYS = frozenset((*_CHOICES, HA_PARAMS, _BATCH_SIZE))
WITHOUT_EFFECT = {
    "ha-sync-mode": "members catch up by themselves, and the queue goes on meanwhile",
    _BATCH_SIZE: "members catch up by themselves, and the queue goes on meanwhile",
    "ha-promote-on-shutdown": "no member leads that lacks what was confirmed",
    "ha-promote-on-failure": "no member leads that lacks what was confirmed",
}


class Mirroring(NamedTuple):
    """What a definition asks for."""

    mode: str
    copies: int = 0  # of the mode exactly
    nodes: tuple[str, ...] = ()  # of the mode nodes


def mirroring_of(definition: Mapping[str, Any]) -> Mirroring | None:
    """Of one that is sound; None: it says nothing of it."""
    mode, params = definition.get(HA_MODE), definition.get(HA_PARAMS)
    if mode is None:
        return None
    return Mirroring(
        mode, params if isinstance(params, int) else 0, tuple(params) if isinstance(params, (list, tuple)) else ()
    )


def mirroring_faults(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys that cannot stay as they are, and why."""
    for key, choices in _CHOICES.items():
        if key in definition and definition[key] not in choices:
            yield key, f"it is one of {', '.join(choices)}, not {show(definition[key])}"
    if _BATCH_SIZE in definition and not _is_positive(definition[_BATCH_SIZE]):
        yield _BATCH_SIZE, f"it is a number above 0, not {show(definition[_BATCH_SIZE])}"
    mode, params = definition.get(HA_MODE), definition.get(HA_PARAMS)
    if mode == "exactly" and not _is_positive(params):
        yield HA_MODE, f"'exactly' needs ha-params with a number above 0, not {show(params)}"
    elif mode == "nodes" and not _are_names(params):
        yield HA_MODE, f"'nodes' needs ha-params with a list of names, not {show(params)}"
    elif mode not in ("exactly", "nodes") and params is not None:
        yield HA_PARAMS, "only the modes exactly and nodes have parameters"


def check_mirroring(what: str, definition: Mapping[str, Any]) -> None:
    """Raises PreconditionFailed for the first fault."""
    for key, why in mirroring_faults(definition):
        raise PreconditionFailed(f"{what}: invalid value for '{key}': {why}")


def _is_positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31


def _are_names(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(one, str) and one for one in value)
