"""The text that Prometheus reads, for what there are thousands of: made a slice of the event loop at a time.

# HELP rabbitmq_queue_messages_ready Messages ready to be delivered
# TYPE rabbitmq_queue_messages_ready gauge
rabbitmq_queue_messages_ready{vhost="/",queue="orders"} 17
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from front.slices import made_in_slices

LINES_AT_ONCE = 250  # a tenth of a millisecond
GAUGE, COUNTER = "gauge", "counter"


@dataclass(slots=True, frozen=True)
class MetricSeries:
    """A figure that each of many objects has."""

    name: str  # without the prefix
    kind: str
    help: str


class ObjectRow(NamedTuple):
    """One object."""

    labels: str
    values: Sequence[float]  # in the order of the series


def labelled(**labels: str) -> str:
    return ",".join([f'{name}="{escaped(value)}"' for name, value in labels.items()])


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


async def exposed(prefix: str, series: Sequence[MetricSeries], rows: Iterable[ObjectRow | None]) -> list[bytes]:
    """Series by series, as the format wants it. Only text is kept meanwhile: the collector of garbage does not look at it."""
    names = [prefix + one.name for one in series]
    parts: list[list[bytes]] = [[] for _ in series]
    lines: list[list[str]] = [[] for _ in series]
    async for row in made_in_slices(iter(rows)):
        if row is None:
            continue
        labels, values = row
        for name, value, some in zip(names, values, lines, strict=True):
            some.append(f"{name}{{{labels}}} {value}\n")
        if len(lines[0]) >= LINES_AT_ONCE:
            _move(lines, parts)
    _move(lines, parts)
    heads = [f"# HELP {name} {one.help}\n# TYPE {name} {one.kind}\n" for name, one in zip(names, series, strict=True)]
    return [piece for head, part in zip(heads, parts, strict=True) for piece in (head.encode(), *part)]


def _move(lines: Sequence[list[str]], parts: Sequence[list[bytes]]) -> None:
    for some, part in zip(lines, parts, strict=True):
        part.append("".join(some).encode())
        some.clear()
