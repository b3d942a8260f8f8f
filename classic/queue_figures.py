"""What a classic queue shows of itself: its statistics, and what lies in which part, as RabbitMQ's backing_queue_status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.queues.queue_type import QueueStatistics
from classic.variable_queue import VariableQueue
from native.content import one
from wire.amqp.tables import TableError, split_properties

RUN_BYTES = 400  # what the position of a run costs in memory, about


def has_nothing(figures: QueueStatistics) -> None:
    """As most of very many queues: neither ready nor unacknowledged messages."""
    figures.ready_bytes = figures.unacknowledged_bytes = figures.persistent = figures.persistent_bytes = 0
    figures.ram = figures.ram_bytes = figures.memory_bytes = 0


def fill_in_ready(figures: QueueStatistics, levels: Sequence[VariableQueue]) -> None:
    """What is ready, and what of it is in memory."""
    figures.ready_bytes = sum(level.ready_bytes for level in levels)
    figures.ram = sum(level.ram_count for level in levels)
    figures.ram_bytes = sum(map(_ram_bytes, levels))
    runs = sum(len(q) for level in levels for q in (level.q1, level.q2, level.q3, level.q4))
    figures.memory_bytes = runs * RUN_BYTES + figures.ram_bytes


def _ram_bytes(level: VariableQueue) -> int:
    """Only runs with a content are counted in `ram_count`: without one there is nothing to walk over."""
    if not level.ram_count:
        return 0
    return sum(len(run.content) for run in level.runs() if run.content is not None)


def persistent_bytes(figures: QueueStatistics) -> int:
    """Sizes are not counted for each kind of message: where both are in the queue, each has its share of the bytes."""
    count = figures.ready + figures.unacknowledged
    size = figures.ready_bytes + figures.unacknowledged_bytes
    return size if figures.persistent == count else size * figures.persistent // count


def head_timestamp(levels: Sequence[VariableQueue]) -> int | None:
    """None also where it has none, or one that nobody can read."""
    level = next(level for level in reversed(levels) if level.ready)
    run = level.head()
    if run is None or run.content is None:
        return None
    props, _, _ = one(run.content, run.position_of(level.ready.first(), run.content))
    try:
        raw = split_properties(props).get("timestamp")
    except TableError:
        return None
    return None if raw is None else int.from_bytes(raw, "big")


def details(levels: Sequence[VariableQueue]) -> dict[str, Any]:
    """Of a queue with priorities the sums, and each level by its number."""
    each = [_level_details(level) for level in levels]
    shown: dict[str, Any] = {"mode": "default", "version": 2}
    if len(each) == 1:
        return shown | each[0]
    for name, value in each[0].items():
        shown[name] = value if name == "delta" else sum(one[name] for one in each)
    counts = [one["delta"]["count"] for one in each]
    shown["delta"] = {"start": None, "count": sum(counts), "end": None}
    shown["priority_lengths"] = {number: one["len"] for number, one in enumerate(each)}
    return shown


def _level_details(level: VariableQueue) -> dict[str, Any]:
    rates = level.rates
    return {
        "q1": level.q1.count,
        "q2": level.q2.count,
        "delta": {"start": level.delta_start, "count": level.delta_count, "end": level.delta_end}
        if level.delta_count
        else {"start": None, "count": 0, "end": None},
        "q3": level.q3.count,
        "q4": level.q4.count,
        "len": level.ready.count,
        "target_ram_count": level.target_ram_count,
        "ram_msg_count": level.ram_count,
        "ram_bytes": _ram_bytes(level),
        "next_seq_id": level.next_sequence - level.base,
        "avg_ingress_rate": rates.ingress.per_second,
        "avg_egress_rate": rates.egress.per_second,
        "avg_ack_ingress_rate": rates.ack_ingress.per_second,
        "avg_ack_egress_rate": rates.ack_egress.per_second,
        **states(level),
    }


def states(level: VariableQueue) -> dict[str, int]:
    """How many ready messages are in each of the four states."""
    indexed = sum(run.ready for queue in (level.q2, level.q3) for run in queue if run.indexed and run.content is None)
    positions = level.ready.count - level.delta_count - level.ram_count
    return {
        "num_alphas": level.ram_count,
        "num_betas": positions - indexed,
        "num_gammas": indexed,
        "num_deltas": level.delta_count,
    }
