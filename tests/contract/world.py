"""What a queue is surrounded by in the contract suite: a host that notes, a clock that stands, clients that take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from broker.background_work import Unsliced, Work
from broker.catalog.policy import EffectiveArguments, effective_arguments
from broker.errors import BrokerError
from broker.messages.browsed import Browsed
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import DeadMessage, DeathReason, Got, Outcome, Queue, Slice
from broker.records import PolicyRecord, QueueRecord
from broker.timers import Delays, Timers
from native.content import encode, messages
from tests.contract.kinds import Opened

START = 1_700_000_000_000  # the clock of the suite, milliseconds
NO_PROPERTIES = b"\0\0"

T = TypeVar("T")


class Answers:
    """Gathers what becomes of publishes; fulfils AnswersTo."""

    def __init__(self) -> None:
        self.next_tag = 1
        self.accepted: list[int] = []
        self.refused: list[int] = []

    def receipt(self, run: Run, queues: int) -> Receipt:
        first, self.next_tag = self.next_tag, self.next_tag + run.count
        return Receipt(self, first, first + run.count - 1, queues)

    def answered(self, receipt: Receipt) -> None:
        for first, last, accepted in receipt.answers():
            answered = self.accepted if accepted else self.refused
            answered += range(first, last + 1)

    def given_up(self, receipt: Receipt) -> None:
        self.refused += range(receipt.first, receipt.last + 1)


class Taker:
    """A client with one consumer. Fulfils DeliverySink."""

    def __init__(self) -> None:
        self.writable = True
        self.pieces: list[Slice] = []  # all deliveries, in order
        self.bodies: list[bytes] = []  # of all messages
        self.redelivered: list[bool] = []
        self.held: list[Slice] = []  # not settled yet
        self.cancelled = False
        self.most_outstanding = 0

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        assert self.writable, "a delivery to a sink that is not writable"
        self.pieces.append(piece)
        self.bodies += bodies_of(piece, content)
        self.redelivered += [piece.redelivered] * piece.count
        if not consumer.no_ack:
            self.held.append(piece)
            self.most_outstanding = max(self.most_outstanding, consumer.outstanding)

    def consumer_cancelled(self, consumer: Consumer) -> None:
        self.cancelled = True


class World:
    """The host of the queues under test, and the verbs the tests are written in. Fulfils QueueHost."""

    def __init__(self) -> None:
        self.now = START
        self.opened: Opened  # set by the fixture: the kind needs its host first
        self.woken: dict[Queue, None] = {}
        self.timers = Timers(lambda when: None)
        self.delays = Delays(lambda: self.now, lambda delay_ms: None)
        self.dead: list[tuple[DeathReason, str, str, bytes, bool]] = []  # reason, exchange, key, body, persistent
        self.to_delete: list[Queue] = []
        self.on_dead_letter: Callable[[], None] = lambda: None
        self.answers = Answers()
        self.work: Work = Unsliced()
        self._ids = 0

    # QueueHost

    def wake(self, queue: Queue) -> None:
        self.woken[queue] = None

    def call_at(self, when: int, call: Callable[[int], None]) -> Callable[[], None]:
        return self.timers.call_at(when, call)

    def call_after(self, delay_ms: int, call: Callable[[int], None]) -> Callable[[], None]:
        return self.delays.call_after(delay_ms, call)

    def dead_letter(self, queue: Queue, reason: DeathReason, dead: Sequence[DeadMessage], now: int) -> None:
        self.on_dead_letter()
        for exchange, routing_key, content, persistent, _ in dead:
            ((_, body),) = messages(content, 0, 1)
            self.dead.append((reason, exchange, routing_key, body, persistent))

    def delete_queue(self, queue: Queue, reason: str, unused: Callable[[], bool] | None = None) -> None:
        assert reason, "a queue that goes says why"
        if queue not in self.to_delete:
            self.to_delete.append(queue)

    # verbs

    def queue(self, *, auto_delete: bool = False, **arguments: Any) -> Queue:
        """A durable queue with `x_max_length=3` and so on."""
        self._ids += 1
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        record = QueueRecord(
            "/", f"queue-{self._ids}", self.opened.kind.name, True, False, auto_delete, named, self._ids
        )
        self.opened.kind.check(record)
        return self.opened.kind.open(record, effective_arguments(record, None, None), self.now)

    def effective_with_policy(self, queue: Queue, **definition: Any) -> EffectiveArguments:
        named = {name.replace("_", "-"): value for name, value in definition.items()}
        return effective_arguments(queue.record, PolicyRecord("/", "p", ".*", "all", 0, named), None)

    def publish(
        self, queue: Queue | Sequence[Queue], *bodies: bytes, confirm: bool = False, **properties: Any
    ) -> list[int]:
        """One run; answers the tags of its confirms, if wanted."""
        queues = (queue,) if not isinstance(queue, (list, tuple)) else queue
        content = b"".join([encode(NO_PROPERTIES, body) for body in bodies])
        run = Run("", "key", content, len(bodies), sum(map(len, bodies)), **{"persistent": True, **properties})
        receipt = self.answers.receipt(run, len(queues)) if confirm else None
        self.opened.kind.publish(tuple(queues), run, receipt, self.now)
        return list(range(receipt.first, receipt.last + 1)) if receipt is not None else []

    def turn(self) -> None:
        """The end of a batch of work, after the disk has done what it was asked."""
        self.opened.let_disk_finish()
        while self.woken:
            woken, self.woken = self.woken, {}
            for queue in woken:
                queue.pump(self.now)
            self.opened.let_disk_finish()

    def pass_time(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.timers.tick(self.now)
        self.delays.tick(self.now)
        self.turn()

    def consumer(self, queue: Queue, tag: str = "c", **properties: Any) -> tuple[Consumer, Taker]:
        taker = Taker()
        consumer = Consumer(tag, queue, taker, **{**self.opened.consumes_with, **properties})
        consuming = queue.consume(consumer, self.now)
        if consuming is not None:
            self.opened.let_disk_finish()
            assert consuming.answered, "whoever asked to consume was not answered"
            consuming.then(lambda _: None, _unexpected)
        return consumer, taker

    def settle(self, consumer: Consumer | None, piece: Slice, outcome: Outcome) -> None:
        if consumer is not None:
            consumer.settled(piece.count)
            for queue in consumer.shared.take_waiting() if consumer.shared is not None else ():
                self.wake(queue)
        piece.queue.settle(piece, outcome, self.now)
        self.wake(piece.queue)

    def settle_all(self, consumer: Consumer, taker: Taker, outcome: Outcome = Outcome.ACKNOWLEDGED) -> None:
        held, taker.held = taker.held, []
        for piece in held:
            self.settle(consumer, piece, outcome)

    def get(self, queue: Queue, no_ack: bool = True) -> tuple[bytes, Got] | None:
        answers: list[Got | None] = []

        queue.get(no_ack, self.now).then(answers.append, _unexpected)
        self.opened.let_disk_finish()
        (got,) = answers
        return (bodies_of(got.piece, got.content)[0], got) if got is not None else None

    def drain(self, queue: Queue) -> list[bytes]:
        """Everything that is ready, in order."""
        bodies = []
        while (found := self.get(queue)) is not None:
            bodies.append(found[0])
        return bodies

    def browse(self, queue: Queue, skip: int = 0, limit: int = 100) -> list[Browsed]:
        return self.answer(queue.browse(skip, limit, self.now))

    def purge(self, queue: Queue) -> int:
        return self.answer(queue.purge(self.now))

    def answer(self, pending: Pending[T]) -> T:
        answers: list[T] = []
        pending.then(answers.append, _unexpected)
        self.opened.let_disk_finish()
        return answers[0]


def part(piece: Slice, start: int, count: int) -> Slice:
    """Some messages of a slice, as a session gives them back."""
    position = piece.position if start == 0 else -1
    return Slice(
        piece.queue, piece.handle, piece.sequence + start, count, position, piece.exchange, piece.routing_key,
        piece.redelivered, piece.headers, None if piece.offset is None else piece.offset + start,
    )  # fmt: skip


def bodies_of(piece: Slice, content: bytes) -> list[bytes]:
    return [body for _, body in messages(content, piece.position, piece.count)]


def _unexpected(error: BrokerError) -> None:
    raise error
