"""All groups of a node, on one event loop: what they share is asked for once.

A *round* serves every group that has something to do: one batch of messages per peer node, one commit of the node's log (and
of each other one that groups are kept in: raft/store/group_stores.py), one timer for the earliest of all deadlines, one failure
detector per peer. A group that has nothing to do is not looked at, so thousands of idle ones cost memory only.

    letters, timers, proposals -> driver.begin for each -> letters leave -> driver.persist for each -> the log's commit
    the log is durable         -> driver.persisted      -> letters leave, and a round of those whose core has more to say
    meanwhile, or behind it    -> driver.perform for each

A small commit is asked for at once and is durable within the round: a follower answers in the turn in which it has read the
entries, and applies what was committed before behind that. A group of one member commits, applies and answers in one round.

A member whose machine fails is halted by itself (raft/driver.py), if there is somebody to be told (`on_halted`). A node whose
log has failed, or that finds a mistake of its own elsewhere, promises nothing more: `failed` says why, no letter leaves,
pending requests are answered with Unknown, and `on_failed` is called to end the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from raft.core.core import Core, Settings
from raft.core.errors import BadBytes, CannotApply, Damaged, Forgotten, RaftError
from raft.core.membership import Change
from raft.core.messages import MemberId, Message, NodeId, Replaced, SnapshotMeta, node_of
from raft.core.ready import Ready
from raft.core.snapshot_transfer import SnapshotPace
from raft.driver import Driver, GroupId, SnapshotRules
from raft.failure_detector import DetectorSettings, FailureDetector
from raft.faults import StopOnFault
from raft.group_deadlines import GroupDeadlines
from raft.loop import Clock, Loop, Timer
from raft.machine import Machine
from raft.requests import OnRead, OnResults
from raft.stopped_members import StoppedMembers, answer_for_another, old_disk
from raft.store.member_store import Durability, GroupStore
from raft.transport import Net, Sign, decode, encode_sign, letters_of, nothing_to_say
from storage.disk import Buffer
from storage.errors import StorageError

# More groups wait for the next round, while what these have said is on its way. Commits a second of 100 groups, each with 10
# commands in flight: 51,000 without a bound, 54,000 with 50, 66,000 with 25, 52,000 with 12.
ROUND_GROUPS_MAX = 25
SNAPSHOTS_FOR_ROOM_MAX = 4  # begun in one go: the state of a long queue takes milliseconds
TIMER_STEP_S = 0.001  # loops round a time to this; asking for less would turn in circles


class NoSuchGroup(RaftError):
    """Returned when a group is asked for that has no member on this node."""


class Groups:
    """The members of groups that live on this node. Everything belongs to the event loop's thread.

    `on_damaged` is told when a member cannot read what it had stored; the member takes part no more then. Who is told has the
    store repair it and adds the new member, and `on_repaired` is told when that votes again. `on_halted` is told when the
    machine of a member cannot go on, unless that is found in `add`: see Driver.halted there. `incarnation` is this process's
    alone, and above the node's earlier ones. `on_leading` is told when a leadership comes or goes. `around_round` is
    given each round to run: what was told in it need not wait until the loop has looked for more to read.
    """

    def __init__(
        self,
        node: NodeId,
        incarnation: int,
        *,
        loop: Loop,
        clock: Clock,
        net: Net,
        random: Callable[[], float],
        on_failed: Callable[[str], None],
        detector: DetectorSettings | None = None,
        snapshot_bytes_per_s: int = 0,
        on_leading: Callable[[Driver], None] | None = None,
        on_damaged: Callable[[Driver, Damaged], None] | None = None,
        on_repaired: Callable[[Driver], None] | None = None,
        on_halted: Callable[[Driver, CannotApply], None] | None = None,
    ) -> None:
        self.node = node
        self.failed: str | None = None
        self.forgetful_members = 0  # that lost without noticing what they had acknowledged, and became others
        self.around_round: Callable[[Callable[[], None]], None] = lambda run: run()
        self._loop = loop
        self._clock = clock
        self._net = net
        self._random = random
        self._on_failed = on_failed
        self._on_leading = on_leading
        self._on_damaged = on_damaged
        self._on_repaired = on_repaired
        self._on_halted = on_halted
        self._detector = FailureDetector(incarnation, detector or DetectorSettings(), clock.monotonic())
        self._drivers: dict[GroupId, Driver] = {}
        self._round: list[Driver] = []  # who has a turn in this round
        self._round_asked = False
        self._in_round = False
        self._outgoing = nothing_to_say()
        # By what they wait for; then by ticket, ascending.
        self._unfsynced: dict[Durability, dict[int, list[tuple[Driver, Ready]]]] = {}
        self._pace = SnapshotPace(snapshot_bytes_per_s)
        self._deadlines = GroupDeadlines()
        self._stopped = StoppedMembers(node, self._drivers, self.send)
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._closed = False
        self._stop_on_fault = StopOnFault(self.fail)

    # Groups.

    def add(
        self,
        group: GroupId,
        me: MemberId,
        store: GroupStore,
        machine: Machine,
        settings: Settings,
        rules: SnapshotRules | None = None,
    ) -> Driver:
        """Begin to take part in a group, standing where its store says. A driver whose machine cannot do that is halted. Raises
        Damaged."""
        assert group not in self._drivers, f"group {group} is added twice"
        assert node_of(me) == self.node, f"member {me} does not live on node {self.node}"
        now = self._clock.monotonic()
        meta = store.snapshot()
        cannot = self._restore(machine, store, meta) if meta.index else None
        core = Core(me, store, settings, self._random, now, meta.index, self._clock.wall_ms, self._pace)
        driver = Driver(group, me, core, store, machine, rules or SnapshotRules(), self)
        self._drivers[group] = driver
        if driver.durability not in self._unfsynced:
            self._unfsynced[driver.durability] = {}
            driver.durability.when_durable(partial(self._durable, driver.durability))
        for node in self._detector.nodes():
            if self._detector.trusts(node):
                core.trust(node, now)
        self.wake(driver)
        if cannot is not None:
            self._stopped.halt(driver, str(cannot), now)
        return driver

    def _restore(self, machine: Machine, store: GroupStore, meta: SnapshotMeta) -> CannotApply | None:
        try:
            machine.restore(store.load_state(), meta.machine_version)
        except ValueError as error:
            if self._on_halted is None:
                raise
            return CannotApply(f"the machine cannot stand on snapshot {meta.index}: {error}")
        return None

    def remove(self, group: GroupId) -> None:
        """No longer take part. What the store keeps is not touched."""
        driver = self.driver(group)
        driver.close()
        driver.gone = True
        del self._drivers[group]
        self._deadlines.forget(driver)
        self._stopped.removed(group)

    def driver(self, group: GroupId) -> Driver:
        """Raises NoSuchGroup."""
        driver = self._drivers.get(group)
        if driver is None:
            raise NoSuchGroup(f"group {group} has no member on node {self.node}")
        return driver

    def drivers(self) -> Iterable[Driver]:
        return self._drivers.values()

    def give_room(self) -> None:
        """The disk is nearly full: what only snapshots free goes. Those of a few groups at a time; ask again."""
        begun = 0
        for driver in self._drivers.values():
            begun += driver.give_room()
            if begun == SNAPSHOTS_FOR_ROOM_MAX:
                break

    def propose(self, group: GroupId, commands: Sequence[bytes], on_results: OnResults) -> None:
        """Have commands committed by the group, in this order; see raft/driver.py for what may be told. Raises NoSuchGroup."""
        assert commands, f"nothing is proposed to group {group}"
        self.driver(group).propose(commands, on_results)

    def read(self, group: GroupId, on_read: OnRead) -> None:
        """Be told when the group's machine on this node may be asked. Raises NoSuchGroup."""
        self.driver(group).read(on_read)

    def change(self, group: GroupId, change: Change, on_results: OnResults) -> None:
        """Change a group's membership. Raises NoSuchGroup."""
        self.driver(group).change(change, on_results)

    def damaged(self, group: GroupId, error: Damaged) -> None:
        """Somebody else than the group's driver found that its member here cannot read what it had stored: who reads entries
        for the machine's clients, or the store's work beside the loop. The member is given up as soon as the loop is free."""
        driver = self._drivers.get(group)
        if driver is not None:
            self._loop.call_soon(self._found_damaged, driver, error)

    def transfer(self, group: GroupId, to: MemberId) -> None:
        """Hand a group's leadership over. Raises NoSuchGroup, NotLeader and BadChange."""
        self.driver(group).transfer(to, self._clock.monotonic())

    def close(self) -> None:
        """The node stops: no message leaves any more, and pending requests are answered."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for driver in self._drivers.values():
            driver.close()

    # Nodes.

    def add_node(self, node: NodeId) -> None:
        """Another node that may hold members of the same groups: watch it."""
        self._detector.add(node, self._clock.monotonic())
        self._after_detector()

    def remove_node(self, node: NodeId) -> None:
        self._detector.remove(node)
        self._after_detector()

    def trusts(self, node: NodeId) -> bool:
        """Whether this node can be reached, as far as we know."""
        return self._detector.trusts(node)

    def round_trip_s(self, node: NodeId) -> float | None:
        """To this node and back, as last measured; None before the first time."""
        return self._detector.round_trip_s(node)

    def connected(self, node: NodeId) -> None:
        """Letters can be sent there from now on."""
        self._detector.connected(node, self._clock.monotonic())
        self._after_detector()

    def disconnected(self, node: NodeId) -> None:
        """The connection is lost."""
        self._detector.disconnected(node)
        self._after_detector()

    def receive(self, node: NodeId, letter: Buffer) -> None:
        """A letter has come. Raises BadBytes when it is none; what stood before the bad part was taken."""
        if self._closed or self.failed is not None:
            return
        now = self._clock.monotonic()
        content = decode(letter)
        if type(content) is Sign:
            self._detector.heard_sign(node, content, now)
            self._after_detector()
            return
        self._detector.heard(node, now)
        try:
            for group, messages in content:
                driver = self._drivers.get(group)
                for message in messages:
                    if node_of(message.sender) != node or node_of(message.to) != self.node:
                        raise BadBytes(f"node {node} sends what member {message.sender} says to {message.to}")
                    if driver is None:
                        continue
                    if message.to == driver.me or type(message) is Replaced:
                        driver.core.step(message, now)
                    elif message.to < driver.me:
                        self._answer_for_another(driver, message)
                    else:
                        self._give_up(driver, old_disk(driver.me, message.to))
                        driver = None
                if driver is not None:
                    self._go_on(driver)
        except Exception as error:  # without `with` here and in `_durable`: each message passes both
            if not self._stop_on_fault.ends(error):
                raise

    # What drivers ask (raft/driver.py, Host).

    def wake(self, driver: Driver) -> None:
        if not driver.waking:
            driver.waking = True
            self._round.append(driver)
            self._ask_for_round()

    def send(self, group: GroupId, message: Message) -> None:
        self._outgoing[node_of(message.to)][group].append(message)

    def when_durable(self, ticket: int, driver: Driver, ready: Ready) -> None:
        if ticket <= driver.durability.durable:
            driver.persisted(ready, self._clock.monotonic())
        else:
            self._unfsynced[driver.durability].setdefault(ticket, []).append((driver, ready))

    def leading_changed(self, driver: Driver) -> None:
        if self._on_leading is not None:
            self._on_leading(driver)

    # A round.

    def _ask_for_round(self) -> None:
        if not self._round_asked and not self._closed:
            self._round_asked = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.around_round(self._run_round)

    def _run_round(self) -> None:
        self._round_asked = False
        if not self._round or self._closed or self.failed is not None:
            return
        now = self._clock.monotonic()
        due, self._round = self._round[:ROUND_GROUPS_MAX], self._round[ROUND_GROUPS_MAX:]
        if self._round:
            self._ask_for_round()
        self._in_round = True
        try:
            self._serve(due, now)
        except StorageError as error:
            self.fail(str(error))
        except Exception as error:
            self._stop_on_fault.by_mistake(error)
            raise
        finally:
            self._in_round = False
        if self._timer is None or (self._deadlines.heap and self._deadlines.heap[0][0] < self._timer_at):
            self._set_timer()

    def _serve(self, drivers: Sequence[Driver], now: float) -> None:
        work: list[tuple[Driver, Ready]] = []
        for driver in drivers:
            if driver.gone:
                continue
            driver.waking, driver.in_turn = False, True
            try:
                ready = driver.begin(now)
            except Damaged as error:
                self._give_up(driver, error)
            else:
                if ready is not None:
                    work.append((driver, ready))
        if self._outgoing:
            self._send_letters()
        others_follow = bool(self._round)  # and are to share the commit
        for durability in self._unfsynced:
            durability.hold_commit()
        for driver, ready in work:
            driver.persist(ready)
        for durability in self._unfsynced:
            (durability.commit_soon if others_follow else durability.commit_at_once)()
            if self.failed is not None:
                return
        if self._outgoing:  # what `_durable` has added
            self._send_letters()
        for driver, ready in work:
            if not driver.gone:
                try:
                    driver.perform(ready)
                    if driver.timed is not None:
                        driver.take_time(self._clock.monotonic)
                except Damaged as error:
                    self._give_up(driver, error)
                except CannotApply as error:
                    self.cannot_apply(driver, error)
        for driver in drivers:
            driver.in_turn = False
            self._go_on(driver)
        if self._outgoing:
            self._send_letters()

    def _go_on(self, driver: Driver) -> None:
        """Its core was told something: there may be more to do, now or later."""
        if driver.gone or driver.waking:
            return
        if driver.core.has_ready():
            self.wake(driver)  # and its deadline is looked at behind that round
        else:
            self._deadlines.watch(driver)

    def _durable(self, durability: Durability, ticket: int) -> None:
        """A commit is fsynced. What waited for that, and the next round, run at once: what they send should leave before the
        next commit begins. Within a round, that one sends it."""
        unfsynced = self._unfsynced[durability]
        if not unfsynced or self._closed or self.failed is not None:
            return
        now = self._clock.monotonic()
        try:
            for due in [one for one in unfsynced if one <= ticket]:
                for driver, ready in unfsynced.pop(due):
                    if not driver.gone:
                        driver.persisted(ready, now)
                        if not driver.in_turn:
                            self._go_on(driver)
        except Exception as error:
            if not self._stop_on_fault.ends(error):
                raise
        if not self._in_round:
            self._send_letters()
            self._run_round()

    def _send_letters(self) -> None:
        outgoing, self._outgoing = self._outgoing, nothing_to_say()
        for node, groups in outgoing.items():
            for letter in letters_of(groups):
                self._net.send(node, letter)

    def _give_up(self, driver: Driver, error: Damaged) -> None:
        """What a group's core or machine has read is not what was written. The member stops at once, for it cannot vouch for
        what it promised; who looks after the store gives it a new number."""
        if self.failed is not None:
            return  # all of them have stopped
        if self._on_damaged is None:
            raise error
        if not driver.gone:
            self.remove(driver.group)
            self._stopped.give_up(driver)
            self.forgetful_members += isinstance(error, Forgotten)
            self._on_damaged(driver, error)

    def cannot_apply(self, driver: Driver, error: CannotApply) -> None:
        """Its machine fails on what was committed: the member is halted, and this node and its other groups go on."""
        if self._on_halted is None:
            self.fail(str(error))
            raise error
        self._stopped.halt(driver, str(error), self._clock.monotonic())
        self._on_halted(driver, error)

    def _found_damaged(self, driver: Driver, error: Damaged) -> None:
        if self.failed is None and not self._closed:
            with self._stop_on_fault:
                self._give_up(driver, error)

    def _look_after_stopped(self, now: float) -> None:
        for driver in self._stopped.look_after_given_up(self._detector.nodes()):
            if self._on_repaired is not None:
                self._on_repaired(driver)
        self._send_letters()
        self._stopped.look_after_halted(now)

    def fail(self, reason: str) -> None:
        """Promise nothing more."""
        if self.failed is not None:
            return
        self.failed = reason
        self._outgoing.clear()
        for driver in self._drivers.values():
            driver.close()
        self._on_failed(reason)

    def _answer_for_another(self, driver: Driver, message: Message) -> None:
        answer = answer_for_another(driver, message)
        if answer is not None:
            self.send(driver.group, answer)
            self.wake(driver)  # its core was told nothing, and the letter leaves with a round

    # Time.

    def _set_timer(self) -> None:
        earliest, heap = self._detector.deadline, self._deadlines.heap
        if heap and (earliest is None or heap[0][0] < earliest):
            earliest = heap[0][0]
        if earliest is None or self._closed or (self._timer is not None and self._timer_at <= earliest):
            return
        at = max(earliest, self._clock.monotonic() + TIMER_STEP_S)
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._time_passed)

    def _time_passed(self) -> None:
        self._timer = None
        if self._closed or self.failed is not None:
            return
        now = self._clock.monotonic()
        with self._stop_on_fault:
            for driver in self._deadlines.take_due(now):
                deadline = driver.core.deadline
                if deadline is not None and deadline <= now:
                    driver.core.tick(now)
                    self.wake(driver)
                else:
                    self._deadlines.watch(driver)
            deadline = self._detector.deadline
            if deadline is not None and deadline <= now:
                self._detector.tick(now)
                self._after_detector()
                self._look_after_stopped(now)
        self._set_timer()

    def _after_detector(self) -> None:
        for node, sign in self._detector.take_signs():
            self._net.send(node, encode_sign(sign))
        verdicts = self._detector.take_verdicts()
        now = self._clock.monotonic() if verdicts else 0.0
        for node, trusted, restarted, silent in verdicts:
            for driver in self._drivers.values():
                if trusted:
                    driver.core.trust(node, now)
                else:
                    driver.core.suspect(node, now, silent=silent)
                if restarted and driver.leader_node == node:
                    driver.forget_leader(now)
                self.wake(driver)
        self._set_timer()
