"""Dead letters at least once: the leader's node publishes what the machine holds, and has it forgotten when it has arrived.

At most IN_FLIGHT_MAX messages are on their way. One that some of its new queues refuse is tried again after RETRY_MS with those
that do not have it yet, and those behind it wait. Delayed messages that are released (quorum/holding.py) go by the same way;
there are RELEASED_MAX on their way, those that are found together are handed over together, LOOKED_AT_MAX at most, and one
that is refused holds up no other. One that has nowhere to go, because nothing is
bound or all ways lead back to where it died unrejected, holds nobody up: it is tried again later and later, up to every
NOWHERE_RETRY_MS_MAX, until somebody changes what is declared. Nothing that died here is dropped, however long that takes. A new
leader begins with the oldest again, and does not know who has it, so a message may arrive twice.

When to try again is counted by the monotonic clock: a wall clock that is set back must not hold up anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from broker.names import is_holding
from broker.queues.queue_type import Arrival, DeadMessage, Queue, QueueHost
from native.content import skip
from quorum.bodies import Body, counted
from quorum.fifo.commands import FIRST_ID, DeadSettled, Op, Piece
from quorum.fifo.effects import Dead
from quorum.member import QueueMember
from raft.core.errors import Damaged
from replicated.ports import QueuePorts

IN_FLIGHT_MAX = 32
# Behind the loss of a leader all that fell due meanwhile is to be worked off while the next one falls due. On nodes that are
# short of processors a message takes 0.2 s until it has arrived and is settled: 1,024 on their way were 5,000 a second.
RELEASED_MAX = 4_096
LOOKED_AT_MAX = 1_024  # of these in one turn: each is read, 10 us
IN_FLIGHT_BYTES_MAX = 16 << 20  # of contents; one message goes whatever its size
RETRY_MS = 3_000
NOWHERE_RETRY_MS_MAX = 60_000
NOWHERE_MAX = 1_000  # messages that are gone past; when there are more, all wait

Propose = Callable[[Sequence[Op], Callable[[bool], None]], None]


def place_of(piece: Piece, offset: int) -> tuple[int, int, int]:
    """Where a message of a piece lies, as the log names it."""
    return piece.entry, piece.offset, piece.first + offset


class DeadLetterWorker:
    """Of one leadership."""

    def __init__(
        self, queue: Queue, group: int, member: QueueMember, ports: QueuePorts, host: QueueHost, propose: Propose
    ) -> None:
        self._queue = queue
        # Delayed messages do not wait for each other: one whose queue is full must not make the others late.
        self._refused_wait_alone = is_holding(queue.record.name)
        self._in_flight_max = RELEASED_MAX if self._refused_wait_alone else IN_FLIGHT_MAX
        self._group = group
        self._ports = ports
        self._host = host
        self._member = member
        self._propose = propose
        # Ids that were published, or whose settling was proposed, with the bytes of their contents.
        self._in_flight: dict[int, int] = {}
        self._bytes = 0  # of these
        self._next = FIRST_ID  # all that are held and before it are in flight, or wait to be tried again
        self._reached: dict[int, set[int]] = {}  # by id of one that was published: numbers of queues that have it
        # Ids of those with nowhere to go, or that wait alone: when to try again, after how long. All are held, or were at the
        # last look: what an earlier leader settled may leave now.
        self._nowhere: dict[int, tuple[int, int]] = {}
        self._arrived: list[int] = []
        self._read: tuple[Piece, Body] | None = None  # last; the next message is often of the same piece
        self._settling = False
        self._retry_at: int | None = None
        self._ended = False

    def end(self) -> None:
        self._ended = True

    @property
    def nowhere(self) -> int:
        """Messages that have nowhere to go."""
        return len(self._nowhere)

    def look(self) -> None:
        """There may be more than before."""
        if not self._member.machine.state.dead.count:
            self._nowhere.clear()
            self._reached.clear()
            return
        now = self._now_ms()
        if self._ended or (self._retry_at is not None and now < self._retry_at):
            return
        self._retry_at = None
        self._settle()
        if any(at <= now for at, _ in self._nowhere.values()):
            self._next = FIRST_ID
        due: dict[int, DeadMessage] = {}
        self._send(now, due)
        self._read = None
        if due:
            self._host.release(
                self._queue, list(due.values()), self._ports.wall_ms(), partial(self._released, list(due))
            )

    def _send(self, now: int, due: dict[int, DeadMessage]) -> None:
        """What may go. Delayed messages, but for those that go again, are only added to `due`, by their ids."""
        for dead in self._found():
            for offset in range(dead.piece.length):
                number = dead.first_id + offset
                if self._is_full or len(due) >= LOOKED_AT_MAX:
                    return
                if len(self._nowhere) >= NOWHERE_MAX and self._is_new(number):
                    return
                if self._may_go(number, now):
                    self._publish(dead, offset, now, due)
                if self._retry_at is not None:
                    return
                self._next = number + 1

    def _found(self) -> Sequence[Dead]:
        """What may have to go. Behind those in flight as many as there is room for, so that each is looked at once."""
        if self._next > FIRST_ID:
            room = min(self._in_flight_max - len(self._in_flight), LOOKED_AT_MAX)
            return self._member.machine.dead_letters(self._next, room) if room > 0 else ()
        limit = len(self._in_flight) + min(self._in_flight_max, LOOKED_AT_MAX) + len(self._nowhere)
        found = self._member.machine.dead_letters(limit=limit)
        self._forget_gone(found, limit)
        return found

    @property
    def _is_full(self) -> bool:
        return len(self._in_flight) >= self._in_flight_max or self._bytes >= IN_FLIGHT_BYTES_MAX

    def _is_new(self, number: int) -> bool:
        return number not in self._in_flight and number not in self._nowhere

    def _now_ms(self) -> int:
        return int(self._ports.monotonic() * 1000)

    def _forget_gone(self, found: Sequence[Dead], limit: int) -> None:
        """Of those with nowhere to go, what is not held any more. `found`: the first so many that are."""
        if not self._nowhere:
            return
        held = {dead.first_id + offset for dead in found for offset in range(dead.piece.length)}
        is_all = len(held) < limit
        last = max(held, default=0)
        gone = [number for number in self._nowhere if number not in held and (is_all or number < last)]
        for number in gone:
            del self._nowhere[number]

    def _may_go(self, number: int, now: int) -> bool:
        return number not in self._in_flight and (number not in self._nowhere or self._nowhere[number][0] <= now)

    def _publish(self, dead: Dead, offset: int, now: int, due: dict[int, DeadMessage]) -> None:
        try:
            body = self._body_of(dead.piece)
        except Damaged as damage:
            self._ports.groups.damaged(self._group, damage)
            self._retry_at = now + RETRY_MS
            return
        start = skip(body.content, body.position, offset)
        content = counted(body.content[start : skip(body.content, start, 1)], dead.delivery_count, dead.acquired_count)
        number = dead.first_id + offset
        message = DeadMessage(body.exchange, body.routing_key, content, body.persistent, place_of(dead.piece, offset))
        self._in_flight[number] = len(content)
        self._bytes += len(content)
        if self._refused_wait_alone and number not in self._nowhere:
            due[number] = message
            return
        self._host.dead_letter_confirmed(
            self._queue,
            dead.reason,
            message,
            self._ports.wall_ms(),
            self._reached.setdefault(number, set()),
            partial(self._published, number),
        )

    def _body_of(self, piece: Piece) -> Body:
        """Raises Damaged."""
        if self._read is None or self._read[0] != piece:
            self._read = piece, self._member.bodies.get(piece)
        return self._read[1]

    def _released(self, numbers: Sequence[int], members: Sequence[int], arrived: Arrival, reached: set[int]) -> None:
        """What became of some of the messages with these ids."""
        if self._ended:
            return
        if arrived is Arrival.ARRIVED:
            self._arrived += [numbers[nth] for nth in members]
            self._settle()
            self.look()
            return
        for nth in members:
            self._reached[numbers[nth]] = reached
            self._published(numbers[nth], arrived)

    def _published(self, number: int, arrived: Arrival) -> None:
        """What is to be tried again, the tick of the leader's node comes back to."""
        if self._ended:
            return
        now = self._now_ms()
        if arrived is not Arrival.REFUSED:
            self._reached.pop(number, None)
        elif self._refused_wait_alone:
            arrived = Arrival.NOWHERE
        if arrived is Arrival.ARRIVED:
            self._nowhere.pop(number, None)
            self._arrived.append(number)
            self._settle()
        elif arrived is Arrival.REFUSED:
            self._landed(number)
            self._next = FIRST_ID
            self._retry_at = now + RETRY_MS
        else:
            self._landed(number)
            _, waited = self._nowhere.get(number, (0, RETRY_MS // 2))
            wait = min(2 * waited, NOWHERE_RETRY_MS_MAX)
            self._nowhere[number] = (now + wait, wait)

    def _landed(self, number: int) -> None:
        self._bytes -= self._in_flight.pop(number, 0)

    def _settle(self) -> None:
        if self._settling or not self._arrived or self._ended:
            return
        self._settling = True
        arrived, self._arrived = sorted(self._arrived), []
        self._propose((DeadSettled(_ranges(arrived)),), partial(self._settled, arrived))

    def _settled(self, numbers: list[int], done: bool) -> None:
        self._settling = False
        if not done:
            self._arrived += numbers  # the next look proposes it again
            return
        for number in numbers:
            self._landed(number)
        self._settle()
        self.look()


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and count of each range of ascending numbers."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and sum(ranges[-1]) == number:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
        else:
            ranges.append((number, 1))
    return ranges
