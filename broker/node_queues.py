"""The queues that are open on one node, of all kinds.

A queue is opened when a command of the catalog has created it and deleted when one has removed it, whoever submitted it. What
clients have caused is passed on at the end of each turn (broker/turns.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from broker import names
from broker.actors import LogActor, submitting
from broker.alarms import Alarms
from broker.background_work import Work
from broker.catalog.catalog import Catalog
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.metadata import Metadata
from broker.catalog.policy import EffectiveArguments
from broker.client_connection import Connection
from broker.counting.message_sizes import MessageSizes
from broker.errors import BrokerError, InternalError, PreconditionFailed, ResourceExhausted
from broker.exchanges.recent_history import Histories, each_of
from broker.limits import Limits
from broker.messages.message import Run
from broker.names import becoming_queue
from broker.pending import Pending, ignore
from broker.queues.consumer import Consumer
from broker.queues.open_queue import OpenQueue
from broker.queues.queue_type import Arrival, DeadMessage, DeathReason, OnArrival, Queue, QueueType
from broker.queues.queue_walk import QueueWalk
from broker.rate_limits import RateLimits
from broker.records import BindingRecord, QueueRecord
from broker.routing.arrivals import DeadLetterReceipt
from broker.routing.asked import Asked
from broker.routing.burials import Burial, Burials
from broker.routing.dead_letter import REASON_WORDS
from broker.routing.fan_out import QUEUES_PER_STEP
from broker.routing.reply_to import Replies
from broker.routing.route import route
from broker.timers import Delays, Timers
from broker.tracing.tracer import Tracer
from broker.turns import Turns
from broker.unlogged import UnloggedCounter

DELETE_AGAIN_MS = 1_000
CANCELLED_PER_STEP = 250  # consumers of a queue that is deleted
DRAWN_BYTES = 6  # for a number by chance: far more than there are destinations, so each is as likely


@dataclass(slots=True)
class Totals:
    """What came and went since the node was started."""

    connections_opened: int = 0
    connections_closed: int = 0
    channels_opened: int = 0
    channels_closed: int = 0
    queues_declared: int = 0
    queues_created: int = 0
    queues_deleted: int = 0


class NodeQueues:
    """See the module. Fulfils QueueHost."""

    def __init__(
        self,
        *,
        node: str,
        catalog: Catalog,
        metadata: Metadata,
        turns: Turns,
        tick_at: Callable[[int], None],
        delays: Delays,
        random_bytes: Callable[[int], bytes],
        alarms: Alarms,
        limits: Limits,
        owners: Container[str],
        owner_prefix: str,
        on_change: Callable[[commands.Command], None],
        queues_per_step: int = QUEUES_PER_STEP,
        unlogged: UnloggedCounter | None = None,
    ) -> None:
        """`owners` has the ids of connections. `owner_prefix` makes them unique over the cluster, and over the processes of
        this node. `on_change` is told of commands that have changed something."""
        self.node = node
        self.catalog = catalog
        self.metadata = metadata
        self.random_bytes = random_bytes
        self.alarms = alarms
        self.limits = limits
        self.turns = turns
        self.wake = turns.wake  # of QueueHost; itself: it is asked for each message
        self.work: Work = turns.work
        self.queues_per_step = queues_per_step
        self.replies = Replies(random_bytes)
        self.histories = Histories()
        self.unlogged = unlogged  # None: nobody counts what the log does not have
        self.totals = Totals()
        self.message_sizes: defaultdict[str, MessageSizes] = defaultdict(MessageSizes)  # by protocol of the publisher
        self._on_change = on_change
        self._owners = owners
        self._owner_prefix = owner_prefix
        self._timers = Timers(tick_at)
        self._delays = delays
        self._kinds: dict[str, QueueType] = {}
        self._queues: dict[tuple[str, str], OpenQueue] = {}
        self._walk = QueueWalk()  # over the same
        self._exclusive: dict[str, dict[str, QueueRecord]] = {}  # of this process, by owner and name
        # By number of a queue that goes by itself, while that is asked for: who waits for it.
        self._deletions: dict[int, list[Pending[None]]] = {}
        self._expiring: set[int] = set()  # ids of queues whose deletion for lack of use is asked for
        self._burials = Burials(self)
        self.tracer = Tracer(self)
        self.rates = RateLimits(catalog, delays)
        metadata.subscribe(self._applied)

    # ------------------------------------------------------------------------- what queues ask (QueueHost)

    def call_at(self, when: int, call: Callable[[int], None]) -> Callable[[], None]:
        return self._timers.call_at(when, call)

    def call_after(self, delay_ms: int, call: Callable[[int], None]) -> Callable[[], None]:
        return self._delays.call_after(delay_ms, call)

    def dead_letter(self, queue: Queue, reason: DeathReason, messages: Sequence[DeadMessage], now: int) -> None:
        self._burials.bury(Burial(queue, self._told(queue), reason, messages, now))

    def dead_letter_confirmed(
        self,
        queue: Queue,
        reason: DeathReason,
        message: DeadMessage,
        now: int,
        reached: set[int],
        on_answer: Callable[[Arrival], None],
    ) -> None:
        receipt = DeadLetterReceipt((0,), reached, lambda _, arrival, reached: on_answer(arrival))
        self._burials.bury(Burial(queue, self._told(queue), reason, (message,), now, receipt))

    def release(self, queue: Queue, messages: Sequence[DeadMessage], now: int, on_answer: OnArrival) -> None:
        burial = Burial(queue, self._told(queue), DeathReason.EXPIRED, messages, now, on_release=on_answer)
        self._burials.bury(burial)

    def delete_queue(self, queue: Queue, reason: str, unused: Callable[[], bool] | None = None) -> None:
        """What is refused now is tried again, as long as there is a reason to; with `unused`, by the kind of the queue. As the
        catalog counts uses (broker/catalog/parts/queue_uses.py), one that comes there before the deletion keeps the queue."""
        record = self.catalog.queue(queue.record.vhost, queue.record.name)
        if record is None or record.id != queue.record.id:
            return
        if unused is not None:
            self._delete_unused(record, unused)
        else:
            delete = commands.DeleteQueue(record.vhost, record.name, record.id, record.uses)
            self._delete(delete, lambda: record.auto_delete and not queue.consumer_count)

    def deletion_of(self, queue: Queue) -> Pending[None]:
        """Answered once the queue is gone, or stays for now, where its kind has asked for its deletion; else at once."""
        waiting = self._deletions.get(queue.record.id)
        if waiting is None:
            return Pending.of(None)
        pending: Pending[None] = Pending()
        waiting.append(pending)
        return pending

    def _delete(self, delete: commands.DeleteQueue, still: Callable[[], bool]) -> None:
        """The same command again: whoever has declared the queue since it was asked for first keeps it."""
        number = delete.id
        assert number is not None, f"{delete.name!r} would be deleted whichever queue it is"
        waiting = self._deletions.setdefault(number, [])

        def over(_: object) -> None:
            self._deletions.pop(number, None)
            for pending in waiting:
                pending.resolve(None)
            waiting.clear()

        def refused(error: BrokerError) -> None:
            over(error)
            self._delays.call_after(DELETE_AGAIN_MS, again)

        def again(now: int) -> None:
            found = self._queues.get((delete.vhost, delete.name))
            if found is not None and found.queue.record.id == number and still():
                self.turns.now = now
                self._delete(delete, still)

        self.submit(delete, self.turns.now).then(over, refused)

    def _delete_unused(self, record: QueueRecord, unused: Callable[[], bool]) -> None:
        """Its kind asks again as long as it is unused."""

        def over(_: object) -> None:
            self._expiring.discard(record.id)

        def asked(found: QueueRecord | None) -> Pending[Any]:
            """One more use than the one that was just counted: somebody has declared it."""
            if found is None or found.uses > record.uses + 1 or not unused():
                return Pending.of(None)
            return self.submit(commands.DeleteQueue(found.vhost, found.name, found.id, found.uses), self.turns.now)

        if record.id not in self._expiring:
            self._expiring.add(record.id)
            use = commands.UseQueue(record.vhost, record.name, record.id)
            self.submit(use, self.turns.now).then_ask(asked).then(over, over)

    # ------------------------------------------------------------------------- queues

    def add_kind(self, kind: QueueType) -> None:
        self._kinds[kind.name] = kind

    def check_kind(self, record: QueueRecord) -> None:
        """Raises PreconditionFailed when this node cannot have such a queue."""
        kind = self._kinds.get(record.kind)
        if kind is None:
            raise PreconditionFailed(
                f"invalid arg 'x-queue-type' for {record.label}: \"unsupported queue type '{record.kind}'\""
            )
        kind.check(record)

    def recover(self, now: int) -> None:
        """Open every queue that is declared."""
        self.turns.now = now
        for vhost in self.catalog.vhosts:
            for record in self.catalog.queues(vhost):
                self._open(record)

    @property
    def open_queues(self) -> Mapping[tuple[str, str], OpenQueue]:
        """By vhost and name, as they are now and later."""
        return self._queues

    def find_queue(self, vhost: str, name: str) -> OpenQueue | None:
        return self._queues.get((vhost, name))

    def queue(self, vhost: str, name: str) -> Queue:
        found = self._queues.get((vhost, name))
        if found is None:
            is_declared = self.catalog.queue(vhost, name) is not None
            raise names.not_open(name, vhost) if is_declared else names.not_found("queue", name, vhost)
        return found.queue

    def queues(self) -> Iterable[Queue]:
        """Also to be gone through in slices, while others come and go."""
        return self._walk

    def consumer_added(self, consumer: Consumer) -> None:
        found = self._found(consumer.queue)
        if found is not None:
            found.consumers[consumer] = None

    def consumer_removed(self, consumer: Consumer) -> None:
        found = self._found(consumer.queue)
        if found is not None:
            found.consumers.pop(consumer, None)

    def is_open(self, queue: Queue) -> bool:
        return self._found(queue) is not None

    def was_converted(self, queue: Queue) -> bool:
        """Whether it has become another one, which has its name."""
        found = self._queues.get((queue.record.vhost, queue.record.name))
        return found is not None and found.queue.record.was == queue.record.id

    def _found(self, queue: Queue) -> OpenQueue | None:
        """None for the queue of a requester's replies, and for one that was deleted, even if its name is used again."""
        found = self._queues.get((queue.record.vhost, queue.record.name))
        return found if found is not None and found.queue is queue else None

    def _told(self, queue: Queue) -> EffectiveArguments:
        """What the queue goes by: a policy that changed reaches many queues one after the other, and until then a queue
        lets go of messages by the old one."""
        found = self._found(queue)
        return found.effective if found is not None else self.catalog.effective(queue.record)

    # ------------------------------------------------------------------------- what is routed

    def asks(self, vhost: str, props: bytes | None) -> Asked:
        """What exchanges may ask of a message with these properties that is routed on this node."""
        return Asked(props, self._draw, lambda queue: self._is_here(vhost, queue))

    def replay_history(self, binding: BindingRecord) -> None:
        """Give what was bound just now the messages that its exchange remembers on this node."""
        vhost = binding.vhost
        source = self.catalog.namespace(vhost).exchanges.get(binding.source)
        for run in self.histories.of(source.bindings) if source is not None else ():
            if binding.destination_kind == "queue":
                self._replay(vhost, [binding.destination], run)
                continue
            for message, props in each_of(run):
                asked = self.asks(vhost, props)
                self._replay(vhost, route(self.catalog, vhost, binding.destination, run.routing_key, asked), message)

    def _replay(self, vhost: str, queues: Iterable[str], run: Run) -> None:
        for name in queues:
            found = self._queues.get((vhost, name))
            if found is not None:
                with suppress(ResourceExhausted):  # the disk failed: nothing is promised of what is only remembered
                    found.kind.publish((found.queue,), run, None, self.turns.now)

    def _draw(self, count: int) -> int:
        return int.from_bytes(self.random_bytes(DRAWN_BYTES)) % count

    def _is_here(self, vhost: str, queue: str) -> bool:
        found = self._queues.get((vhost, queue))
        return found is not None and found.queue.record.home in ("", self.node)

    # ------------------------------------------------------------------------- what is declared

    def submit(self, command: commands.Command, now: int, by: LogActor | None = None) -> Pending[Any]:
        """A change of what is declared, asked for at this time by this client."""
        self.turns.now = now
        with submitting(by):
            return self.metadata.submit(command)

    def _applied(self, command: commands.Command, result: Any) -> None:
        """Follow a command that was applied, whoever submitted it."""
        changes = True
        match command:
            case commands.DeclareQueue():
                self.totals.queues_declared += 1
                changes = (result.vhost, result.name) not in self._queues
                if changes:
                    self.totals.queues_created += 1
                    self._open(result)
            case commands.DeleteQueue():
                changes = result is not None
                if changes:
                    self._deleted([result])
            case commands.UseQueue():
                changes = False
            case commands.ConvertQueue():
                changes = result is not None
                if changes:
                    self._converted(*result)
            case commands.DeclareExchange() | commands.Bind():
                changes = result is command.record  # else there was one like it, which is the answer
            case commands.DeleteExchange():
                changes = result is not None
            case commands.Unbind():
                changes = result
            case commands.NodeStarted() | commands.NodeLost() | commands.RemoveNode() | commands.DeleteVhost():
                self._deleted(result)
            case commands.PutPolicy():
                self.work.do(self._policies_changed(command.record.vhost))
            case commands.DeletePolicy():
                self.work.do(self._policies_changed(command.vhost))
        if changes:
            self._on_change(command)

    def _open(self, record: QueueRecord) -> None:
        kind = self._kinds.get(record.kind)
        if kind is None:
            raise InternalError(
                f"{record.label} is declared as a {record.kind} queue, a kind that this node does not have"
            )
        effective = self.catalog.effective(record)
        opened = OpenQueue(kind, kind.open(record, effective, self.turns.now), effective)
        self._queues[record.vhost, record.name] = opened
        self._walk.add(opened)
        self.catalog.version += 1  # routes that were found since the command was applied do not lead to the queue yet
        if record.owner is not None and self._is_ours(record.owner):
            self._exclusive.setdefault(record.owner, {})[record.name] = record
            if record.owner.removeprefix(self._owner_prefix) not in self._owners:  # it has gone meanwhile
                self.work.do(self.delete_exclusive(record.owner))

    def _converted(self, before: QueueRecord, now: QueueRecord) -> None:
        """The queue is the one that was open beside it until now, and consumers are that one's, without noticing. What they
        still hold comes again."""
        becoming = self._queues.pop((now.vhost, becoming_queue(now.name)))
        old = self._queues[now.vhost, now.name]
        self._queues[now.vhost, now.name] = becoming
        self._walk.remove(old)
        becoming.queue.record = now
        becoming.effective = self.catalog.effective(now)
        becoming.queue.policy_changed(becoming.effective, self.turns.now)
        self.catalog.version += 1  # routes that were found since the command was applied lead to the old one
        self.turns.forget_queue(old.queue)
        old.kind.delete(old.queue, self.turns.now)
        for consumer in old.consumers:
            self._move(consumer, becoming)

    def _move(self, consumer: Consumer, to: OpenQueue) -> None:
        def refused(_: BrokerError) -> None:
            consumer.sink.consumer_cancelled(consumer)

        consumer.queue = to.queue
        to.consumers[consumer] = None
        try:
            consuming = to.queue.consume(consumer, self.turns.now)
        except BrokerError as error:
            refused(error)
            return
        if consuming is not None:
            consuming.then(ignore, refused)
        self.wake(to.queue)

    def _deleted(self, records: Iterable[QueueRecord]) -> None:
        """None of them is found any more; their kinds forget one after the other."""
        self.work.do(self._forget([found for record in records if (found := self._taken_away(record)) is not None]))

    def _taken_away(self, record: QueueRecord) -> OpenQueue | None:
        """None: its kind could not open it, and whoever declared it was told."""
        found = self._queues.get((record.vhost, record.name))
        if found is None or found.queue.record.id != record.id:
            return None
        del self._queues[record.vhost, record.name]
        self.catalog.version += 1  # one with this name may be declared already, and its routes have led to this one
        self.totals.queues_deleted += 1
        self._walk.remove(found)
        self.turns.forget_queue(found.queue)
        if record.owner in self._exclusive:
            self._exclusive[record.owner].pop(record.name, None)
        return found

    def _forget(self, deleted: Sequence[OpenQueue]) -> Iterator[None]:
        for found in deleted:
            for count, consumer in enumerate(list(found.consumers), 1):
                consumer.sink.consumer_cancelled(consumer)
                if count % CANCELLED_PER_STEP == 0:
                    yield
            found.kind.delete(found.queue, self.turns.now)
            yield

    def _policies_changed(self, vhost: str) -> Iterator[None]:
        """Whatever changes meanwhile comes behind it, with a walk of its own."""
        for key, found in list(self._queues.items()):
            if key[0] != vhost or self._queues.get(key) is not found:
                continue
            effective = self.catalog.effective(found.queue.record)
            if effective != found.effective:
                found.effective = effective
                found.queue.policy_changed(effective, self.turns.now)
            yield

    # ------------------------------------------------------------------------- exclusive queues

    def owner_of(self, connection: Connection) -> str:
        """As whom the connection has exclusive queues."""
        return self._owner_prefix + connection.id

    def owner_id(self, record: QueueRecord) -> str | None:
        """Of the connection of this process that an exclusive queue belongs to."""
        owner = record.owner
        return owner.removeprefix(self._owner_prefix) if owner is not None and self._is_ours(owner) else None

    def _is_ours(self, owner: str) -> bool:
        return owner.startswith(self._owner_prefix)

    def delete_exclusive(self, owner: str) -> Iterator[None]:
        for record in list(self._exclusive.pop(owner, {}).values()):
            self._delete(commands.DeleteQueue(record.vhost, record.name, record.id), lambda: True)
            yield

    # ------------------------------------------------------------------------- turns, figures

    def deliver_from(self, queue: Queue, now: int) -> None:
        """Before the turn ends: see `Turns.deliver_from`."""
        self.turns.deliver_from(queue, now)

    def end_turn(self) -> None:
        """Pass on what a client has caused: see `Turns.end`."""
        self.turns.end()

    def tick(self, now: int) -> None:
        """Whatever is due by now."""
        self.turns.now = now
        self._timers.tick(now)
        self._delays.tick(now)

    @property
    def dead_letters_too_large(self) -> int:
        """Messages that died and went, for their headers left no room for what had become of them."""
        return self._burials.too_large

    def dead_lettered(self) -> dict[str, int]:
        """Messages that were given to a dead-letter exchange, by reason."""
        return {REASON_WORDS[reason]: count for reason, count in self._burials.counted.items()}
