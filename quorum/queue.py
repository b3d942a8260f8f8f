"""One quorum queue as this node sees it. Fulfils broker.queues.queue_type.Queue on every node, member of its group or not.

    session        what clients of this node say: to the leader, wherever it is, through `route`
    consumers      those of this node (local_consumers.py)
    member         the queue's machine and log, if this node has them; then what its consumers get is read here
    leading        what only the leader's node does; None elsewhere
    remote_serving by the leader's node, where there is no member here and the queue is in use

What a client asks for is said to the group and answered when it was applied. Nothing is delivered from within a round of the
groups: effects gather until the host pumps.

A queue without a leader takes what is published until WAITING_BYTES_MAX wait for an answer; then it refuses more: a publisher
that wants confirms is told so (nack), any other one loses its channel (ResourceExhausted). Consumers wait; gets and purges do
for so long (replicated/reply_timeout.py); declaring answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from broker.actors import LogActor
from broker.catalog.policy import EffectiveArguments
from broker.errors import ResourceExhausted
from broker.messages.browsed import Browsed
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.messages.run_parts import one_by_one
from broker.names import is_holding
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.holding_contract import ListOrder, WaitingMessage, WaitingPlace
from broker.queues.queue_type import Got, HeldSlice, Outcome, QueueHost, QueueStatistics, Slice
from broker.records import QueueRecord
from quorum.browsing import browse
from quorum.dead_letters_once import DeadLettersOnce
from quorum.entries import QueueEntries
from quorum.fifo.commands import SessionKey, Tick, Who
from quorum.fifo.effects import ActiveChanged, DeadLetter, Deliver, Effect, TimedOut
from quorum.fifo.results import ResultCode
from quorum.gets import Gets
from quorum.holding import HOLDING_RULES, held
from quorum.leading import Leading
from quorum.letters import NO_NEWS, AskedWaiting, LetterKind, QueueNews
from quorum.local_consumers import LocalConsumers, waiting_delivery
from quorum.member import QueueMember
from quorum.numbered import may_be_numbered, producer_of_single
from quorum.purges import Purges
from quorum.queue_figures import details, fill_in_counts, fill_in_sizes, for_operators
from quorum.queue_rules import rules_for
from quorum.session import QueueSession
from quorum.waiting import list_waiting
from raft.core.messages import NodeId, node_of
from replicated.busy_queues import BusyQueues
from replicated.leader_route import LeaderRoute
from replicated.letters import head
from replicated.member import MemberLife
from replicated.portions import Asker, Owner, Portion
from replicated.ports import MemberDriver, QueuePorts, nobody
from replicated.remote_serving import RemoteServing
from replicated.reply_timeout import WAIT_MS, ReplyTimeout

WAITING_BYTES_MAX = 32 << 20
RUN_BYTES_MAX = 31 << 20  # an entry must fit raft/core/settings.py, entry_bytes_max, with what stands beside the run
FAILURES_MAX = 5  # in a row, until who asks for figures is given those that are known here
UNKNOWN_INDEX = 1 << 63  # beyond all


class QuorumQueue(Owner):
    """See the module."""

    def __init__(
        self,
        record: QueueRecord,
        effective: EffectiveArguments,
        group: int,
        key: SessionKey,
        *,
        ports: QueuePorts,
        host: QueueHost,
        busy: BusyQueues[QuorumQueue],
        dead_letters_once: DeadLettersOnce,
        lead: Callable[[QuorumQueue, QueueMember], Leading],
        on_refused: Callable[[str], None],
    ) -> None:
        """`lead` makes what the leader's node does for it. `on_refused` is told what was not proposed, and why."""
        self.record = record
        self.group = group
        self.deleted = False
        self._holds = is_holding(record.name)  # delayed messages
        self._keep_to(effective)
        self.session = QueueSession(key, self, None if ports.actor_number is nobody else ports.actor_number)
        self.entries = QueueEntries(group, ports, self.heard, on_refused, is_steady=self._holds)
        self.route = LeaderRoute(group, ports, self.member_nodes, self.entries)
        self.member: QueueMember | None = None
        self.leading: Leading | None = None
        self.remote_serving: RemoteServing | None = None
        self.member_life = MemberLife.ABSENT
        self.quarantined: str | None = None  # why this node's member takes no part, though its group counts on it
        self.news: QueueNews = NO_NEWS  # what a node without a member knows
        self._ports = ports
        self._host = host
        self._busy = busy
        self._dead_letters_once = dead_letters_once
        self._new_leading = lead
        self._effects: deque[Effect] = deque()  # but dead letters, see quorum/dead_letters_once.py
        self._purges = Purges(self, host)
        self._counting: dict[Pending[None], int] = {}  # who waits for figures: of the state at this index at least
        self._failures = 0  # of portions, since the last one that was answered
        self._figures = QueueStatistics()
        self._gets = Gets(self, host, self._figures)
        self.consumers = LocalConsumers(self, ports, host, self._figures)

    def _keep_to(self, effective: EffectiveArguments) -> None:
        self.rules = HOLDING_RULES if self._holds else rules_for(self.record.arguments, effective)
        self._joins = self._holds or (not self.rules.reject_publish and self.rules.max_length_bytes is None)
        self._one_by_one = effective.one_by_one

    # where it is

    def member_nodes(self) -> Sequence[NodeId]:
        return [node_of(member) for member in self.record.members]

    def joined(self, driver: MemberDriver, member: QueueMember) -> None:
        """This node has a member from now on."""
        self.route.driver = driver
        self.member = self.entries.member = member
        self.quarantined = None
        if self.remote_serving is not None:
            self.remote_serving.end()
            self.remote_serving = None
        self.consumers.resync()

    @property
    def readable_member(self) -> QueueMember | None:
        """The one here, when what its machine names can be read."""
        return self.member if self.route.can_read_here else None

    def left(self) -> None:
        """This node has none any more, or none that is of use to clients."""
        self._lead(False)
        self.route.driver = self.member = self.entries.member = None
        self._effects.clear()
        self._count_at_last()
        self.consumers.take_back()
        if self.consumers:
            self.attend()

    def leading_changed(self) -> None:
        """The leadership has come to this node's member, or has left it."""
        self._lead(self.route.leads)
        self.try_again()

    def _lead(self, leads: bool) -> None:
        if self.leading is not None:
            self.leading.end()
            self.leading = None
        if leads and not self.deleted:
            assert self.member is not None, f"{self.record.name} is led from here, without a member"
            self.leading = self._new_leading(self, self.member)
            self.leading.begin()

    def try_again(self) -> None:
        """Somebody may be there to talk to."""
        if self.deleted or not self.route.look_for():
            return
        # It goes to a new version when its nodes do, and they lead no more meanwhile.
        self._purges.once = self.consumers.windows.change = True
        if self.remote_serving is not None:
            self.remote_serving.ask()
        if not self.session.open:
            self.session.open = True
            self.session.flush()

    @property
    def has_leader(self) -> bool:
        """Whether what was said last reached one, as far as is known."""
        return self.session.open and not self._failures

    @property
    def finds_no_leader(self) -> bool:
        """Whether something waits for one to be found."""
        return not self.deleted and (
            not self.session.open or (self.remote_serving is not None and not self.remote_serving.answered)
        )

    # what the contract asks

    @property
    def ready_count(self) -> int:
        return self.member.machine.state.ready.count if self.member is not None else self.news.ready

    @property
    def consumer_count(self) -> int:
        return self.consumers.count_everywhere()

    def consume(self, consumer: Consumer, now: int) -> Pending[None]:
        return self.consumers.consume(consumer)

    def attend(self) -> None:
        """Where this node has no member, have another one read for its consumers, and tell how the queue is."""
        if self.member is None and not self.deleted:
            if self.remote_serving is None:
                look, keep_asking = partial(self._busy.look_for_leader, self), partial(self._busy.serve_remotely, self)
                self.remote_serving = RemoteServing(self, self._ports, look, keep_asking)
            self.remote_serving.want()

    def cancel(self, consumer: Consumer, now: int) -> None:
        self.consumers.cancel(consumer)

    def get(self, no_ack: bool, now: int, by: LogActor | None = None) -> Pending[Got | None]:
        if self.rules.single_active:
            raise self._gets.not_active()
        waiting: ReplyTimeout[Got | None] = ReplyTimeout(self._host, self.took_too_long)
        number = self.session.new_number()
        self.attend()
        self.say_who(number, by)
        self._gets.say(waiting, number, no_ack)
        self.session.flush()
        return waiting.answer

    def say_who(self, number: int, actor: LogActor | None) -> None:
        """For those that ask the log later who was given a message, or purged the queue."""
        named = 0 if actor is None else self._ports.actor_number(actor)
        if named:
            self.session.say(Who(self.session.consumer_key(number), named))

    def not_heard(self) -> ResourceExhausted:
        return ResourceExhausted(
            f"{self.record.label} considers this node dead: see what the cluster knows of it, and restart it"
        )

    def took_too_long(self) -> ResourceExhausted:
        return ResourceExhausted(
            f"{self.record.label} did not answer within {WAIT_MS // 1000} s: "
            + ("too much waits for its leader" if self.route.leader() else "it has no leader")
        )

    def settle(self, piece: Slice, outcome: Outcome, now: int) -> None:
        if self.deleted:
            return
        self.session.settle(piece.handle, piece.sequence, piece.count, outcome)
        if outcome is Outcome.ACKNOWLEDGED:
            self._figures.acknowledged += piece.count

    def settle_all(self, held: Sequence[HeldSlice], outcome: Outcome, now: int) -> None:
        for one in held:
            self.settle(one.slice(), outcome, now)

    def pump(self, now: int) -> None:
        if self.deleted:
            return
        if self.consumers.must_look_up:
            self.consumers.look_up()
        while self._effects:
            self._perform(self._effects.popleft(), now)
        if self._dead_letters_once.waiting:
            self._dead_letters_once.pass_on(self._host)
        self.consumers.pump(now)
        self.session.flush()

    def used(self, now: int) -> Pending[None] | None:
        """What is said here is to be counted before the answer, and what others have said too. Where nobody leads, what is
        known here has to do."""
        if self.leading is not None and self.session.idle:
            self.leading.used(now)
            return None
        if self.deleted or not self.session.open or not self.route.look_for():
            return None
        self.attend()
        answer: Pending[None] = Pending()
        self._counting[answer] = UNKNOWN_INDEX
        self.session.say(Tick(), partial(self._counted, answer))
        self.session.flush()
        return answer

    def _counted(self, answer: Pending[None], _: Any) -> None:
        if answer not in self._counting:
            return
        self._tell_used()
        self._counting[answer] = self.consumers.answered_at()
        self._count_at_last()

    def _tell_used(self) -> None:
        """It was declared again here; its leader has just answered."""
        if self.leading is not None:
            self.leading.used(self._ports.wall_ms())
        else:
            self._ports.calls.tell(self.route.leader(), self._ports.topic, head(LetterKind.USED, self.group))

    def _count_at_last(self, all_of_them: bool = False) -> None:
        """Tell those who wait for figures that the figures are there."""
        applied = self.member.machine.state.applied if self.member is not None else self.news.applied
        for answer, index in list(self._counting.items()):
            if index <= applied or all_of_them:
                del self._counting[answer]
                answer.resolve(None)

    def browse(self, skip: int, limit: int, now: int) -> Pending[list[Browsed]]:
        return browse(self, self._ports, self._host, skip, limit, now)

    def purge(self, now: int, by: LogActor | None = None) -> Pending[int]:
        return self._purges.purge(now, by)

    def waiting(self, order: ListOrder, after: WaitingPlace, limit: int, now: int) -> Pending[list[WaitingMessage]]:
        return list_waiting(self, self._ports, self._host, AskedWaiting(order, limit, after), now)

    def withdraw(self, place: WaitingPlace, now: int, by: LogActor | None = None) -> Pending[int]:
        return self._purges.withdraw(place, now, by)

    def policy_changed(self, effective: EffectiveArguments, now: int) -> None:
        self._keep_to(effective)
        self.consumers.keep_rules()
        if self.leading is not None:
            self.leading.keep_rules()

    @property
    def accounted_here(self) -> bool:
        return self.route.leads

    @property
    def is_starving(self) -> bool:
        if self.leading is None or self.member is None or self.ready_count:
            return False
        priority = self.member.machine.state.consumers.waiting_priority
        return priority is not None and priority >= 0

    def counts(self) -> QueueStatistics:
        return fill_in_counts(self._figures, self)

    def sizes(self) -> QueueStatistics:
        return fill_in_sizes(self._figures, self)

    def statistics(self) -> QueueStatistics:
        return self.sizes().with_details(details(self))

    def figures(self) -> dict[str, Any]:
        return for_operators(self)

    # publishing, as the driver does it

    def publish(self, run: Run, receipt: Receipt | None) -> None:
        """Raises ResourceExhausted when too much waits already and nobody asked for a receipt."""
        if self.deleted:
            self._answer_last([receipt] if receipt is not None else None)
            return
        if len(run.content) > RUN_BYTES_MAX or (self.session.waiting_bytes > WAITING_BYTES_MAX and not self.has_leader):
            if receipt is None:
                raise ResourceExhausted(self._no_room(run))
            receipt.refused()
            return
        self._figures.published += run.count
        if self._holds:
            for one, owed in held(run, receipt, self._ports.wall_ms()):
                self.session.enqueue(one, owed, joined=True, producer=producer_of_single(one))
        elif self._one_by_one or may_be_numbered(run):
            for one, owed in one_by_one(run, receipt, 1):
                self.session.enqueue(one, owed, joined=False, producer=producer_of_single(one))
        else:
            self.session.enqueue(run, receipt, joined=self._joins)
        if self.member is None:
            self.attend()
        self._host.wake(self)

    def _no_room(self, run: Run) -> str:
        if len(run.content) > RUN_BYTES_MAX:
            return f"{self.record.label} takes messages of up to {RUN_BYTES_MAX} bytes, this one has {len(run.content)}"
        return f"{self.record.label} has no leader, and {self.session.waiting_bytes} bytes wait for one already"

    def close(self) -> None:
        """The queue is deleted. What was published to it counts as confirmed."""
        self.deleted = True
        self._lead(False)
        self._count_at_last(all_of_them=True)
        for asker in self.session.close():
            self._answer_last(asker)
        self.consumers.clear()
        self._effects.clear()

    def _answer_last(self, asker: Asker) -> None:
        if isinstance(asker, list):
            for receipt in asker:
                receipt.accepted()
        elif asker is not None:
            asker(None)

    # what the session asks (Owner)

    def send(self, portion: Portion, attempt: int) -> None:
        self._busy.ask(self)
        self.route.propose(portion.ops, partial(self._proposed, portion, attempt))

    def still_asks(self) -> bool:
        """Whether what was said waits for answers. What was said to a leader of old is said again to the next one."""
        if self.session.sent and self.route.leader_moved():
            self.session.failed(self.session.attempt)
        return bool(self.session.sent)

    def _proposed(self, portion: Portion, attempt: int, results: Sequence[Any] | None) -> None:
        if results is None:
            self.session.failed(attempt)
        else:
            self._failures = 0
            self.session.answered(portion, attempt, results)

    def enqueued(self, receipts: list[Receipt], result: Any) -> None:
        if result is ResultCode.ACCEPTED or result is ResultCode.DUPLICATE:
            for receipt in receipts:
                receipt.accepted()
        else:
            for receipt in receipts:
                receipt.refused()

    def lost_touch(self) -> None:
        self._failures += 1
        if self._failures > FAILURES_MAX:
            self._count_at_last(all_of_them=True)
        if not self.deleted:
            self._busy.look_for_leader(self)

    def heard(self, news: QueueNews) -> None:
        """From the leader's node, of a queue that has no member here."""
        self.news = news
        if self.member is None:
            self.consumers.set_active(news.active)

    # what is asked while another node serves it (ServedQueue)

    def has_member(self) -> bool:
        return self.member is not None

    def consumers_here(self) -> Sequence[tuple[int, int]]:
        return self.consumers.with_next_ids()

    def departed_here(self) -> Sequence[int]:
        return [number for number, departed in self.consumers.departed.items() if departed.known_at is not None]

    def forget_departed(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.consumers.departed.pop(number, None)

    def skip_to(self, firsts: Sequence[tuple[int, int]]) -> None:
        self.consumers.skip_to(firsts)

    # what the member asks (Performer)

    def wants(self, node: int, incarnation: int) -> bool:
        return (node, incarnation) == self.session.key or (self.leading is not None and self.leading.serves(node))

    def applied(self, index: int, effects: Sequence[Effect]) -> None:
        self._host.wake(self)
        leading = self.leading
        for effect in effects:
            if type(effect) is DeadLetter:  # its message is to be read now: the log may forget it soon
                body = leading.body_of_dead(index, effect) if leading is not None else None
                if body is not None:
                    self._dead_letters_once.add(self, effect, body)
            else:
                self._effects.append(effect)

    def moved(self) -> None:
        if self.member is not None and not self.consumers.windows.change:
            self.consumers.windows.moved(self.member.machine.version)
        if self.leading is not None:
            self.leading.look_at_deadline()
        if self._counting:
            self._count_at_last()

    def restored(self) -> None:
        self._effects.clear()
        self.consumers.resync()

    # steps

    def _perform(self, effect: Effect, now: int) -> None:
        if type(effect) is Deliver:
            key = effect.consumer
            if key[:2] == self.session.key:
                self.consumers.take(key.number, waiting_delivery(effect))
            elif self.leading is not None:
                self.leading.deliver(effect)
        elif type(effect) is ActiveChanged:
            self.consumers.set_active(effect.consumer)
            if self.leading is not None:
                self.leading.tell_news()
        elif type(effect) is TimedOut:
            if effect.consumer[:2] == self.session.key:
                self.consumers.timed_out(effect.consumer.number)
            elif self.leading is not None:
                self.leading.tell_timed_out(effect.consumer)
        elif self.leading is not None:
            self.leading.perform(effect, now)
