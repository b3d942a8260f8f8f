"""Looking at a queue's state without changing it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import chain

from quorum.fifo.commands import ConsumerKey
from quorum.fifo.consumers import MachineConsumers
from quorum.fifo.effects import Deliver
from quorum.fifo.queue_state import QueueState
from raft.core.live_entries import LiveEntries

_NOBODY = ConsumerKey(0, 0, 0)


@dataclass(slots=True)
class MemberCounters:
    """What has happened since this member started or was restored. Of this process, not of the replicated state."""

    published: int = 0
    rejected: int = 0  # publishes that found the queue full
    delivered: int = 0
    redelivered: int = 0
    got: int = 0
    acknowledged: int = 0
    dead: int = 0  # for any reason, dead-lettered or dropped


@dataclass(slots=True)
class ConsumerFigures:
    """One consumer as the management API shows it."""

    key: ConsumerKey
    tag: str
    priority: int
    prefetch: int
    no_ack: bool
    exclusive: bool
    status: str  # up, quiescing, timed_out or suspected
    active: bool  # may be given messages
    unacknowledged: int


@dataclass(slots=True)
class Figures:
    """Of the state as it is now."""

    ready: int
    ready_bytes: int
    unacknowledged: int
    unacknowledged_bytes: int
    delayed: int
    dead: int  # held until they have arrived
    dead_bytes: int
    consumers: int
    active: ConsumerKey | None  # the single active one
    counters: MemberCounters = field(default_factory=MemberCounters)


def figures(state: QueueState, counters: MemberCounters) -> Figures:
    held, returning = state.consumers.held, state.returning
    active = state.consumers.active
    return Figures(
        ready=state.ready.count,
        ready_bytes=state.ready.size,
        unacknowledged=unacknowledged_count(state),
        unacknowledged_bytes=held.size + returning.size,
        delayed=state.delayed.count,
        dead=state.dead.count,
        dead_bytes=state.dead.size,
        consumers=state.consumers.count,
        active=active.key if active is not None else None,
        counters=counters,
    )


def unacknowledged_count(state: QueueState) -> int:
    """Until the queue has dealt with them."""
    return state.consumers.held.count + state.returning.count


def consumer_figures(consumers: MachineConsumers) -> list[ConsumerFigures]:
    return [
        ConsumerFigures(
            key=one.key,
            tag=one.tag,
            priority=one.priority,
            prefetch=one.prefetch,
            no_ack=one.no_ack,
            exclusive=one.exclusive,
            status="suspected" if one.suspected_at is not None else one.state.name.lower(),
            active=consumers.may_receive(one),
            unacknowledged=one.checked_out.count,
        )
        for one in consumers.subscribed()
    ]


def browse(state: QueueState, skip: int, limit: int) -> list[Deliver]:
    found: list[Deliver] = []
    for stored in state.ready:
        if skip >= stored.length:
            skip -= stored.length
            continue
        if not limit:
            break
        part = stored.part(skip, min(limit, stored.length - skip))
        found.append(Deliver(_NOBODY, 0, part.piece, part.delivery_count, part.acquired_count))
        skip = 0
        limit -= part.length
    return found


def held_bytes(state: QueueState) -> int:
    """Of all messages that are in the queue, whatever becomes of them next."""
    return state.ready.size + state.returning.size + state.delayed.size + state.consumers.held.size + state.dead.size


def live_entries(state: QueueState) -> LiveEntries:
    """Ready rows are ascending by themselves, and the rest is little beside a backlog."""
    elsewhere = chain(
        (stored for _, stored in state.returning),
        (stored for _, stored in state.delayed),
        (held.stored for consumer in state.consumers.all.values() for held in consumer.checked_out),
        (held.stored for checked_out in state.dead.by_reason.values() for held in checked_out),
    )
    columns = [ready_rows.entries() for ready_rows in state.ready.by_priority if ready_rows]
    others = {stored.entry for stored in elsewhere} | state.ready.returned.entries()
    return LiveEntries.of_columns([array("Q", sorted(others)), *columns])


def is_unfinished(state: QueueState) -> bool:
    """Whether the entries so far have left something to the next one (quorum/fifo/machine.py, ROWS_MAX)."""
    rules, ready = state.rules, state.ready
    if state.returning.count or (ready.count and state.consumers.have_room):
        return True
    if rules.reject_publish:
        return False
    return (rules.max_length is not None and ready.count > rules.max_length) or (
        rules.max_length_bytes is not None and ready.size > rules.max_length_bytes
    )
