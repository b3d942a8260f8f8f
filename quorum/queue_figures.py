"""What a queue shows of itself: its statistics for clients and the management API, and its state for operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

from broker.queues.queue_type import QueueStatistics
from quorum.fifo.inspection import unacknowledged_count
from quorum.leading import Leading
from quorum.letters import QueueNews
from quorum.local_consumers import LocalConsumers
from quorum.member import QueueMember
from quorum.session import QueueSession
from raft.core.messages import NodeId
from replicated.leader_route import LeaderRoute
from replicated.letters import MemberReport


class ShownQueue(Protocol):
    """What is shown of a queue."""

    @property
    def group(self) -> int: ...

    @property
    def ready_count(self) -> int: ...

    @property
    def consumer_count(self) -> int: ...

    @property
    def route(self) -> LeaderRoute: ...

    @property
    def session(self) -> QueueSession: ...

    @property
    def consumers(self) -> LocalConsumers: ...

    @property
    def member(self) -> QueueMember | None: ...

    @property
    def leading(self) -> Leading | None: ...

    @property
    def news(self) -> QueueNews: ...

    @property
    def quarantined(self) -> str | None: ...

    def member_nodes(self) -> Sequence[NodeId]: ...


def fill_in_counts(figures: QueueStatistics, queue: ShownQueue) -> QueueStatistics:
    """What came and went is counted on the node of whoever published or consumed; what is here is the group's."""
    figures.ready = queue.ready_count
    member = queue.member
    figures.unacknowledged = queue.news.unacknowledged if member is None else unacknowledged_count(member.machine.state)
    return figures


def fill_in_sizes(figures: QueueStatistics, queue: ShownQueue) -> QueueStatistics:
    figures.consumers = queue.consumer_count
    figures.ready = figures.persistent = queue.ready_count
    is_quarantined = queue.quarantined is not None and not queue.route.leader()
    figures.state = "quarantined" if is_quarantined else queue.route.shown_state()
    if queue.member is not None:
        machine = queue.member.machine.figures()
        figures.ready_bytes = machine.ready_bytes
        figures.unacknowledged = machine.unacknowledged
        figures.unacknowledged_bytes = machine.unacknowledged_bytes
        figures.persistent += machine.unacknowledged
        figures.disk_reads = queue.member.bodies.reads
    else:
        figures.ready_bytes = queue.news.ready_bytes
        figures.unacknowledged = queue.news.unacknowledged
        figures.unacknowledged_bytes = queue.news.unacknowledged_bytes
        figures.persistent += queue.news.unacknowledged
    figures.persistent_bytes = figures.ready_bytes + figures.unacknowledged_bytes
    figures.single_active_consumer_tag = _active_tag(queue)
    return figures


def details(queue: ShownQueue) -> dict[str, Any]:
    found: dict[str, Any] = {"leader": queue.route.shown_leader(), "members": queue.member_nodes()}
    if queue.member is None:
        return found
    state = queue.member.machine.state
    return found | {
        "delayed": state.delayed.count,
        "next_delayed_at": state.delayed.due if state.delayed.count else None,
        "dead": state.dead.count,
        "dead_bytes": state.dead.size,
        "delivery_limit": state.rules.delivery_limit,
    }


def report(queue: ShownQueue) -> MemberReport | None:
    """For a node without a member; None: nor has this one."""
    if queue.member is None:
        return None
    machine = queue.member.machine
    figures = machine.figures()
    return MemberReport(
        queue.group,
        queue.route.leader(),
        machine.state.applied,
        figures.ready,
        figures.ready_bytes,
        figures.unacknowledged,
        figures.unacknowledged_bytes,
        figures.consumers,
    )


def with_report(news: QueueNews, told: MemberReport) -> QueueNews:
    """What was known before stays, where a leader has told what is newer."""
    if told.applied < news.applied:
        return news
    return QueueNews(*told[2:], news.exclusive, news.single_active, news.active)


def _active_tag(queue: ShownQueue) -> str | None:
    if queue.member is not None:
        active = queue.member.machine.state.consumers.active
        return active.tag if active is not None else None
    return next((one.consumer.tag for one in queue.consumers.subscriptions.values() if one.consumer.active), None)


def for_operators(queue: ShownQueue) -> dict[str, Any]:
    """In JSON's types; replicated/administration.py adds the group."""
    session = queue.session
    found: dict[str, Any] = {
        "said": {
            "open": session.open,
            "portions": len(session.portions),
            "in_flight": session.sent,
            "waiting_bytes": session.waiting_bytes,
            "waiting_messages": session.waiting_messages,
        }
    }
    if queue.member is not None:
        machine = queue.member.machine
        found["machine"] = asdict(machine.figures())
        found["machine"]["version"] = machine.version
        found["machine"]["applied"] = machine.applied
        found["machine"]["digest"] = machine.digest
    if queue.leading is not None:
        found["dead_letters_nowhere"] = queue.leading.dead_letters_nowhere
        if (odd := queue.leading.group.comparison.diverged) is not None:
            found["diverged"] = {"nodes": list(odd.nodes), "index": odd.at}
    return found
