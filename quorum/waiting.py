"""Which delayed messages wait, and until when (quorum/holding.py): from this node's member, or from another node's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from broker.messages.browsed import Browsed, bounded
from broker.pending import Pending
from broker.queues.holding_contract import LISTED_MAX, ListOrder, WaitingMessage, WaitingPlace
from broker.queues.queue_type import QueueHost
from native.content import singles
from quorum import letters
from quorum.fifo.commands import Piece
from quorum.fifo.stored import StoredMessages
from quorum.letters import AskedWaiting
from quorum.member import QueueMember
from replicated.ports import QueuePorts
from replicated.remote_browsing import BrowsedQueue, browse_somewhere


def list_waiting(
    queue: BrowsedQueue[QueueMember], ports: QueuePorts, host: QueueHost, asked: AskedWaiting, now: int
) -> Pending[list[WaitingMessage]]:
    return browse_somewhere(
        queue,
        ports,
        host,
        now,
        here=lambda member: waiting_in(member, asked),
        letter=lambda: letters.waiting(queue.group, asked),
        decode=letters.decode_waiting,
    )


def waiting_in(member: QueueMember, asked: AskedWaiting) -> list[WaitingMessage]:
    """Raises Damaged."""
    limit = min(asked.limit, LISTED_MAX)
    ready = member.machine.state.ready
    if asked.order is ListOrder.DUE:
        rows: Iterable[StoredMessages] = ready.next_to_expire(limit)
    else:
        rows = ready.behind(*asked.after)
    places = islice(((place, row) for row in rows for place in _places(row) if place > asked.after), limit)
    return _within_bounds(list(places), member, limit)


def _places(row: StoredMessages) -> Iterator[WaitingPlace]:
    return (WaitingPlace(row.entry, row.offset, row.first + at) for at in range(row.length))


def _within_bounds(
    found: list[tuple[WaitingPlace, StoredMessages]], member: QueueMember, limit: int
) -> list[WaitingMessage]:
    messages = bounded((_message(member, place) for place, _ in found), limit)
    return [
        WaitingMessage(place, row.expires_at, message)
        for (place, row), message in zip(found, messages, strict=False)  # as many as fit an answer
    ]


def _message(member: QueueMember, place: WaitingPlace) -> Browsed:
    body = member.bodies.get(Piece(*place, 1))
    (content,) = singles(body.content, body.position, 1)
    return Browsed(body.exchange, body.routing_key, content, body.persistent)
