"""The contract of a queue, which classic, quorum and stream queues fulfil alike.

One `QueueType` stands for a kind on this node, one `Queue` for a queue. Both are called from the event loop only and never
wait: what takes time is answered through a `Receipt` (publishing) or a `Pending` (everything else). tests/contract holds
every kind to what is written here.

Who keeps what. The queue owns its messages, whose turn it is, and which messages are out. The session owns delivery
tags, and gives back exactly the slices it was given, whole or in parts, through `settle`. `handle` and `sequence` name
messages between the two; a session never looks into a handle.

What is too much for one turn of the event loop (40 000 messages that come back, or are too old) a queue does in slices
(broker/background_work.py). Whoever asks it for something meanwhile is answered as if there were no slices, later.

Order of a session's work on each batch of input: publishes and settles are passed on as they come, and queues that may
deliver more say so to `QueueHost.wake`; the host calls their `pump` once at the end of the batch (broker/turns.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from broker.background_work import Work
from broker.messages.browsed import Browsed
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.pending import Pending

if TYPE_CHECKING:
    from broker.actors import LogActor
    from broker.catalog.policy import EffectiveArguments
    from broker.queues.consumer import Consumer
    from broker.records import QueueRecord


UNUSED = "it was not used for as long as x-expires says"
EXPIRES_RETRY_MS = 10_000  # after a deletion by x-expires that did not happen: the catalog has no majority, say


class Outcome(IntEnum):
    """How messages that were out come back to their queue."""

    ACKNOWLEDGED = 0  # done: forget them
    REQUEUED = 1  # back to their old place, marked redelivered: the delivery failed (reject, a consumer that went away)
    REJECTED = 2  # dead-letter with reason `rejected`, or drop
    RETURNED = 3  # back to their old place and never seen by the client: not marked redelivered
    RELEASED = 4  # as REQUEUED, and nobody is to blame for it: a quorum queue counts no failure (nack, recover)


class BackReason(IntEnum):
    """Why messages that were out are ready again: an outcome and its cause, for the log (docs/history.md)."""

    NOT_SAID = 0
    REJECTED = 1  # to be requeued
    NACKED = 2
    RECOVERED = 3
    CHANNEL_CLOSED = 4
    CONNECTION_LOST = 5
    TIMED_OUT = 6  # not settled in time
    NEVER_SEEN = 7  # by the client


class DeathReason(IntEnum):
    """Why a message left its queue for a dead-letter exchange."""

    REJECTED = 0
    EXPIRED = 1
    MAXLEN = 2
    DELIVERY_LIMIT = 3


class DeadMessage(NamedTuple):
    """One message that its queue gives up, as it lay there."""

    exchange: str
    routing_key: str
    content: bytes  # of this message alone
    persistent: bool
    position: tuple[int, int, int] | None = None  # see classic/store/log_records.py; None: it never was in the queue


class Arrival(IntEnum):
    """What became of a dead letter that its queue keeps until it has arrived."""

    ARRIVED = 0  # every queue that it goes to has confirmed it
    REFUSED = 1  # one would not take it
    NOWHERE = 2  # there is no queue that it could go to, or only such as it has died in without being rejected


# Of which messages that is true, and numbers of queues that have them.
OnArrival = Callable[[Sequence[int], Arrival, set[int]], None]


# Position of a slice that was cut out of another one: nobody needs it to settle, and finding it takes a walk.
POSITION_UNKNOWN = -1


@dataclass(slots=True)
class Slice:
    """Consecutive messages of one stored run, as handed out and as given back."""

    queue: Queue
    handle: Any  # the queue's own name for the stored run; opaque to everybody else
    sequence: int  # of the first message
    count: int
    position: int  # byte in the content where the first message starts
    exchange: str
    routing_key: str
    redelivered: bool = False
    headers: dict[str, Any] | None = None  # headers that the queue adds (x-delivery-count), the same for all
    offset: int | None = None  # of the first message in its stream, the others follow; None for other kinds of queue
    taker: LogActor | None = None  # who was given it
    back: BackReason = BackReason.NOT_SAID  # why it is given back, if it is to be ready again


@dataclass(slots=True)
class Got:
    """The answer to a get: one message and how many are ready after it."""

    piece: Slice
    content: bytes
    remaining: int


@dataclass(slots=True)
class QueueStatistics:
    """What metrics, the management API and the CLI show of a queue. Everything is cheap to read."""

    ready: int = 0
    unacknowledged: int = 0
    ready_bytes: int = 0
    unacknowledged_bytes: int = 0
    persistent: int = 0
    persistent_bytes: int = 0
    ram: int = 0  # messages whose content is in memory
    ram_bytes: int = 0
    consumers: int = 0
    consumer_capacity: float = 0.0
    state: str = "running"
    memory_bytes: int = 0
    disk_reads: int = 0
    disk_writes: int = 0
    published: int = 0
    delivered: int = 0
    delivered_no_ack: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    got: int = 0
    single_active_consumer_tag: str | None = None
    exclusive_consumer_tag: str | None = None  # of who consumes it alone
    head_timestamp: int | None = None  # as the publisher of the message says that comes next, where that is in memory
    details: dict[str, Any] = field(default_factory=dict)  # backing_queue_status of a classic queue

    def with_details(self, details: dict[str, Any]) -> QueueStatistics:
        """A copy: a queue keeps no details, for those of very many queues are a burden to the garbage collector."""
        shown = QueueStatistics(*_all_figures(self))
        shown.details = details
        return shown


_all_figures = attrgetter(*(one.name for one in fields(QueueStatistics)))


class HeldSlice(Protocol):
    """Messages that a session has held, and whose slice is made when it is needed."""

    @property
    def count(self) -> int: ...

    def slice(self) -> Slice: ...


class Queue(Protocol):
    """One queue of any kind."""

    record: QueueRecord

    @property
    def ready_count(self) -> int: ...

    @property
    def consumer_count(self) -> int: ...

    def consume(self, consumer: Consumer, now: int) -> Pending[None] | None:
        """Add a consumer. Raises AccessRefused when the queue is, or would have to be, consumed exclusively. None: it consumes
        now; otherwise that is decided elsewhere, and the answer comes before the first delivery."""

    def cancel(self, consumer: Consumer, now: int) -> None:
        """Remove a consumer. What it still holds stays out until it is settled. Unknown consumers are ignored."""

    def get(self, no_ack: bool, now: int, by: LogActor | None = None) -> Pending[Got | None]:
        """Take one message, or None; a consumer, exclusive or single active, does not stand in the way of a classic
        queue's get. Raises ResourceLocked on a quorum queue with a single active consumer, NotSupported on streams. `by`: who
        asks, for the history."""

    def settle(self, piece: Slice, outcome: Outcome, now: int) -> None:
        """Messages that were out come back. `piece` is a slice given out, or a part of one (whose `position` is
        POSITION_UNKNOWN unless it is the first part); each message once. Ignored once the queue is deleted."""

    def settle_all(self, held: Sequence[HeldSlice], outcome: Outcome, now: int) -> None:
        """The same of very many, in their order: as if `settle` were called with each, without taking a turn for it."""

    def pump(self, now: int) -> None:
        """Deliver what consumers have room for, and drop what is too old when it comes to the head. Called by the host
        after `wake`, and when a sink is writable again."""

    def used(self, now: int) -> Pending[None] | None:
        """Somebody declared the queue again or asked how it is: the time of `x-expires` begins anew. None: `ready_count` and
        `consumer_count` are right; otherwise they are what was known here last, and right when this is answered."""

    def browse(self, skip: int, limit: int, now: int) -> Pending[list[Browsed]]:
        """Ready messages behind the first `skip`, in the order in which they would be delivered; nothing changes by it. Fewer
        than `limit` also where more would be too many for one answer (broker/messages/browsed.py). Raises NotSupported for
        replies."""

    def purge(self, now: int, by: LogActor | None = None) -> Pending[int]:
        """Drop all ready messages; answers how many, once that is durable. `by`: who asks, for the history."""

    def policy_changed(self, effective: EffectiveArguments, now: int) -> None:
        """New limits hold from now on, for messages that are already here too."""

    @property
    def accounted_here(self) -> bool:
        """Whether this node adds the queue's messages to its sums: one node of the cluster at most does, its home or leader."""

    @property
    def is_starving(self) -> bool:
        """Whether it is empty and a consumer with a priority of 0 or more could be given a message now. Only its home or leader
        knows; False elsewhere."""

    def counts(self) -> QueueStatistics:
        """The statistics of which only messages and traffic are up to date, for those who look at very many queues."""

    def sizes(self) -> QueueStatistics:
        """The statistics of which all but `details` are up to date: these cost most, and few ask for them."""

    def statistics(self) -> QueueStatistics: ...


class QueueHost(Protocol):
    """What the broker does for its queues."""

    @property
    def work(self) -> Work:
        """For what is too much for one turn."""

    def wake(self, queue: Queue) -> None:
        """Call the queue's `pump` at the end of this batch of work."""

    def call_at(self, when: int, call: Callable[[int], None]) -> Callable[[], None]:
        """Call with the time then, at or soon after wall-clock millisecond `when`; returns what cancels it: for what
        expires."""

    def call_after(self, delay_ms: int, call: Callable[[int], None]) -> Callable[[], None]:
        """The same so many milliseconds from now, also where the wall clock is set meanwhile. For what waits."""

    def dead_letter(self, queue: Queue, reason: DeathReason, messages: Sequence[DeadMessage], now: int) -> None:
        """Route dead messages onward, at most once, before the queue forgets them. Does nothing for a queue without a
        dead-letter exchange, so ask first (`EffectiveArguments.dead_letter_exchange`) and spare the decoding."""

    def dead_letter_confirmed(
        self,
        queue: Queue,
        reason: DeathReason,
        message: DeadMessage,
        now: int,
        reached: set[int],
        on_answer: Callable[[Arrival], None],
    ) -> None:
        """Route one dead message onward, for a queue that keeps it until it has arrived. Told what became of it, now or
        later. `reached`: numbers of queues that have it, and are not given it again; those that take it are added."""

    def release(self, queue: Queue, messages: Sequence[DeadMessage], now: int, on_answer: OnArrival) -> None:
        """Route delayed messages that are due, which their queue keeps until they have arrived: those as one run that can
        travel so. Told what became of each, now or later, by its place among them."""

    def delete_queue(self, queue: Queue, reason: str, unused: Callable[[], bool] | None = None) -> None:
        """The queue is to go by its own rules (auto-delete, expires): delete it as a client would have. `unused` is asked right
        before, where a queue goes for lack of use, and once more if this is asked for again later."""


class QueueType(Protocol):
    """One kind of queue on this node."""

    name: str  # as in x-queue-type

    def check(self, record: QueueRecord) -> None:
        """Raises PreconditionFailed when this kind cannot be declared so (durability, exclusive, arguments)."""

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> Queue:
        """The queue of this record: recovered when it has been here before, else new and empty. The record is
        durable when this is called."""

    def delete(self, queue: Queue, now: int) -> int:
        """Forget the queue and its messages; returns how many were ready. Its consumers have been told already. From
        now on `pump` and `settle` do nothing. Receipts that it still owes are accepted: what was published to a queue
        that is gone counts as confirmed."""

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        """Store the run in each of these queues of this kind, one copy of the bytes for all of them. `receipt` is
        answered once for each queue: accepted when that queue's promise holds, refused when it would not take it.
        Raises ResourceExhausted when nothing can be kept any more; what was not answered yet counts as refused then.

        A queue that may refuse messages (a length limit with overflow reject-publish) or counts their bytes
        (x-max-length-bytes) looks at each message of a run for itself, by the limits that it keeps to at this moment:
        its kind divides run and receipt (broker/messages/run_parts.py), for nobody else knows these limits in time. A limit
        counts what is left when consumers have taken what they have room for, for a batch is to be as good as its
        messages one by one. A message with a TTL of 0 goes to a consumer that has room at this moment, or to nobody."""
