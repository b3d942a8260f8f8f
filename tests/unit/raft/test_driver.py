"""A driver's duties, one by one, with a core that says what the test wants said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from raft.core.errors import Busy, CannotApply, NotLeader, RaftError, Unknown
from raft.core.live_entries import LiveEntries
from raft.core.membership import AddLearner, Change
from raft.core.messages import Append, Entry, EntryKind, Membership, Message, SnapshotMeta, member_id
from raft.core.ready import Facts, ReadPoint, Ready, Role, Standing
from raft.driver import ROOM_BYTES_MIN, ROOM_SHARE_OF_HELD, SNAPSHOT_HELD_BACK_TIMES, Driver, SnapshotRules
from raft.requests import AwaitedEntries, Proposers
from raft.store.member_store import GroupStore
from raft.store.memory_log_store import NOWHERE
from storage.errors import DiskFailed

LIVE = LiveEntries([2])
ME, OTHER = member_id(1, 0), member_id(2, 0)
FIRST = Membership((ME, OTHER))
LEADING = Standing(Role.LEADER, 3, ME)
FOLLOWING = Standing(Role.FOLLOWER, 4, OTHER)


class ScriptedCore:
    """Takes proposals while `refusal` is None, and hands out the Readies that were put in."""

    deadline = None

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.readies: list[Ready] = []
        self.committed: list[Entry] = []  # since the last Ready was taken
        self.last = 0
        self.refusal: RaftError | None = None
        self.numbers = 0
        self.snapshot_received: int | None = None

    def _index(self, count: int) -> int:
        if self.refusal is not None:
            raise self.refusal
        self.last += count
        return self.last - count + 1

    def propose(self, commands: Sequence[bytes], now: float) -> range:
        first = self._index(len(commands))
        return range(first, first + len(commands))

    def change(self, change: Change, now: float) -> int:
        return self._index(1)

    def read(self, token: int, now: float) -> None:
        self._index(0)
        self.calls.append(f"read {token}")

    def has_ready(self) -> bool:
        return bool(self.readies)

    def ready(self, now: float) -> Ready | None:
        return self.readies.pop(0) if self.readies else None

    def take_committed(self) -> Sequence[Entry]:
        committed, self.committed = self.committed, []
        return committed

    def persisted(self, number: int, now: float) -> None:
        self.calls.append(f"persisted {number}")

    def snapshot_received_bytes(self) -> int | None:
        return self.snapshot_received

    def applied(self, index: int) -> None:
        self.calls.append(f"applied {index}")

    def installed(self, meta: SnapshotMeta) -> None:
        self.calls.append(f"installed {meta.index}")

    def install_failed(self) -> None:
        self.calls.append("install failed")

    def halt(self, now: float) -> None:
        self.calls.append("halt")


class ScriptedStore:
    """Notes what is appended under ticket 7, and remembers who waits for a snapshot."""

    durability = NOWHERE

    def __init__(self) -> None:
        self.founders = FIRST
        self.saved: list[tuple[SnapshotMeta, Any, Any]] = []
        self.done: list[Any] = []

    def snapshot(self) -> SnapshotMeta:
        return SnapshotMeta(0, 0, FIRST, 0)

    def memberships(self) -> Sequence[tuple[int, Membership]]:
        return [(0, self.founders), (4, Membership((ME,)))]

    def term(self, index: int) -> int:
        return 3

    def append(self, facts: Facts | None, entries: Sequence[Entry]) -> int:
        return 7

    def save_snapshot(self, meta: SnapshotMeta, state: Any, live: Any, done: Any, *, keeps_recent: bool = True) -> None:
        self.saved.append((meta, state, live))
        self.kept_recent = keeps_recent
        self.done.append(done)

    def note_committed(self, index: int) -> None:
        self.committed = index

    def install(self, meta: SnapshotMeta, done: Any) -> None:
        self.done.append(done)


class EchoMachine:
    version = 5
    held_bytes = 0

    def __init__(self) -> None:
        self.restored: list[tuple[bytes, int]] = []
        self.fails_on: bytes | None = None

    def apply(self, entries: Sequence[Entry]) -> Sequence[bytes]:
        if self.fails_on in [entry.data for entry in entries]:
            raise ValueError(f"{self.fails_on!r} is unknown")
        return [b"did " + entry.data for entry in entries]

    def snapshot(self) -> Sequence[bytes]:
        return [b"state"]

    def restore(self, state: bytes, version: int) -> None:
        if version > self.version:
            raise ValueError(f"version {version} is unknown")
        self.restored.append((state, version))

    def live_entries(self) -> LiveEntries | None:
        return LIVE


class World:
    """The host of one driver."""

    def __init__(self, rules: SnapshotRules | None = None) -> None:
        self.core, self.store, self.machine = ScriptedCore(), ScriptedStore(), EchoMachine()
        self.sent: list[Message] = []
        self.waiting: list[tuple[int, Ready]] = []
        self.told: list[Any] = []
        self.led: list[bool] = []
        store: GroupStore = self.store  # type: ignore[assignment]
        self.driver = Driver(9, ME, self.core, store, self.machine, rules or SnapshotRules(), self)  # type: ignore[arg-type]

    def wake(self, driver: Driver) -> None:
        pass

    def send(self, group: int, message: Message) -> None:
        self.sent.append(message)

    def when_durable(self, ticket: int, driver: Driver, ready: Ready) -> None:
        self.waiting.append((ticket, ready))

    def cannot_apply(self, driver: Driver, error: CannotApply) -> None:
        self.told.append(str(error))

    def leading_changed(self, driver: Driver) -> None:
        self.led.append(driver.leads)

    def on_results(self, results: Sequence[Any] | None, error: RaftError | None) -> None:
        self.told.append(list(results) if results is not None else type(error))

    def on_read(self, error: RaftError | None) -> None:
        self.told.append("read" if error is None else type(error))

    def turn(self, **fields: Any) -> None:
        self.core.numbers += 1
        lists = ("messages", "entries", "messages_after", "chunks", "committed", "reads", "lost_reads")
        none = ("standing", "facts", "install", "forgotten")
        nothing: dict[str, Any] = dict.fromkeys(none) | {name: [] for name in lists}
        self.core.readies.append(Ready(number=self.core.numbers, **(nothing | fields)))
        ready = self.driver.begin(0.0)
        assert ready is not None
        self.driver.persist(ready)
        self.driver.perform(ready)

    def lead(self) -> None:
        self.turn(standing=LEADING)

    def propose(self, *commands: bytes) -> None:
        self.driver.propose(commands, self.on_results)


def entry(index: int, data: bytes = b"", term: int = 3, kind: EntryKind = EntryKind.COMMAND) -> Entry:
    return Entry(index, term, kind, data)


def message(commit: int) -> Append:
    return Append(OTHER, ME, 3, 0, 0, commit)


def test_results_go_to_who_proposed_in_order_though_other_entries_lie_between() -> None:
    world = World()
    world.lead()
    world.propose(b"a", b"b")
    world.driver.change(AddLearner(OTHER), world.on_results)
    world.turn()
    world.propose(b"c")
    world.turn(committed=[entry(1, b"a")])
    assert world.told == []
    world.turn(committed=[entry(2, b"b"), entry(3, kind=EntryKind.MEMBERSHIP), entry(4, b"c")])
    assert world.told == [[b"did a", b"did b"], [None], [b"did c"]]
    assert world.core.calls == ["applied 1", "applied 4"]


def test_what_becomes_committed_while_a_turn_persists_is_applied_in_that_turn() -> None:
    world = World()
    world.lead()
    world.propose(b"a")
    world.turn()
    world.propose(b"b")
    world.core.committed = [entry(2, b"b")]
    world.turn(committed=[entry(1, b"a")], entries=[entry(2, b"b")])
    assert world.told == [[b"did a"], [b"did b"]]
    assert world.core.calls == ["applied 1", "applied 2"]


def test_entries_of_another_leader_in_their_place_leave_proposals_unknown() -> None:
    world = World()
    world.lead()
    world.propose(b"a")
    world.propose(b"b", b"c")
    world.turn()
    world.turn(standing=FOLLOWING, committed=[entry(1, b"a"), entry(2, b"x", term=4)])
    assert world.told == [[b"did a"], Unknown]


def test_a_proposal_of_which_a_part_was_committed_is_unknown() -> None:
    """The first of two commands was applied, an entry of another leader took the place of the second: to say that they were
    not committed would have the first one done again."""
    world = World()
    world.lead()
    world.propose(b"a", b"b")
    world.turn()
    world.turn(standing=FOLLOWING, committed=[entry(1, b"a"), entry(2, b"x", term=4)])
    assert world.told == [Unknown]


def test_a_proposal_is_answered_once_when_another_leaders_entry_took_its_place() -> None:
    world = World()
    world.lead()
    world.propose(b"a")
    world.turn()
    world.turn(standing=FOLLOWING, committed=[entry(1, b"x", term=4)])
    assert world.told == [Unknown]


def test_what_was_proposed_under_a_lost_leadership_is_unknown() -> None:
    world = World()
    world.lead()
    world.propose(b"a")
    world.turn()
    world.turn(standing=FOLLOWING)
    assert world.told == [Unknown]
    world.turn(committed=[entry(1, b"a")])
    assert world.told == [Unknown]
    assert world.led == [True, False]


@pytest.mark.parametrize(
    "standing",
    [Standing(Role.FOLLOWER, 3, 0), Standing(Role.LEADER, 5, ME)],
    ids=["it stepped down in its term", "it leads in a later one"],
)
def test_what_was_proposed_is_unknown_whichever_way_its_leadership_ended(standing: Standing) -> None:
    """Who has no majority any more steps down and stays in its term. Who waited for it would wait for ever."""
    world = World()
    world.lead()
    world.propose(b"a")
    world.turn()
    world.turn(standing=standing)
    assert world.told == [Unknown]
    if standing.role is Role.LEADER:
        world.core.last = 5
        world.propose(b"b")
        world.turn()
        world.turn(
            committed=[entry(1, b"other", 4), *(entry(index, term=5) for index in range(2, 6)), entry(6, b"b", 5)]
        )
        assert world.told == [Unknown, [b"did b"]]


def test_a_proposal_of_the_round_in_which_the_leadership_came_belongs_to_it() -> None:
    world = World()
    world.propose(b"a")
    world.turn(standing=LEADING)
    assert world.told == []
    world.turn(committed=[entry(1, b"a")])
    assert world.told == [[b"did a"]]


@pytest.mark.parametrize("refusal", [NotLeader(OTHER), Busy("too much")])
def test_what_the_core_refuses_is_told_at_once(refusal: RaftError) -> None:
    world = World()
    world.core.refusal = refusal
    world.propose(b"a")
    world.driver.change(AddLearner(OTHER), world.on_results)
    world.driver.read(world.on_read)
    assert world.driver.begin(0.0) is None
    assert world.told == [type(refusal)] * 3


def test_messages_go_at_once_or_behind_the_fsync_also_when_there_is_nothing_new_to_persist() -> None:
    world = World()
    world.turn(messages=[message(1)], entries=[entry(1)], messages_after=[message(2)])
    world.turn(messages_after=[message(3)])
    assert world.sent == [message(1)]
    assert [ticket for ticket, _ in world.waiting] == [7, 7]
    for _, ready in world.waiting:
        world.driver.persisted(ready, 0.0)
    assert world.sent == [message(1), message(2), message(3)]
    assert world.core.calls == ["persisted 1"]


def test_reads_of_one_round_share_a_token_and_wait_until_their_index_is_applied() -> None:
    world = World()
    world.lead()
    world.driver.read(world.on_read)
    world.driver.read(world.on_read)
    world.turn(reads=[ReadPoint(1, 2)])
    assert world.core.calls == ["read 1"]
    world.turn(committed=[entry(1)])
    assert world.told == []
    world.turn(committed=[entry(2)])
    assert world.told == ["read", "read"]
    world.driver.read(world.on_read)
    world.turn(lost_reads=[2])
    assert world.told[2:] == [NotLeader]


def test_a_read_is_answered_once_however_much_is_applied_behind_it() -> None:
    world = World()
    world.lead()
    world.driver.read(world.on_read)
    world.turn(reads=[ReadPoint(1, 1)])
    world.turn(committed=[entry(1)])
    world.driver.read(world.on_read)
    world.turn(reads=[ReadPoint(2, 5)])
    world.turn(committed=[entry(2)])
    assert world.told == ["read"]
    world.driver.read(world.on_read)
    world.turn(reads=[ReadPoint(3, 2)])
    assert world.told == ["read", "read"], "all that it is to see is applied already"


@pytest.mark.parametrize("end", ["closed", "halted"])
def test_a_read_that_waits_for_what_is_not_applied_is_answered_when_the_member_ends(end: str) -> None:
    world = World()
    world.lead()
    world.driver.read(world.on_read)
    world.turn(reads=[ReadPoint(1, 2)])
    if end == "closed":
        world.driver.close()
    else:
        world.driver.halt("no more", 0.0)
    assert world.told == [NotLeader]


def test_a_read_that_the_core_refused_is_told_so_once() -> None:
    world = World()
    world.core.refusal = NotLeader(OTHER)
    world.driver.read(world.on_read)
    world.driver.begin(0.0)
    world.driver.close()
    assert world.told == [NotLeader]


@pytest.mark.parametrize("asked", ["propose", "change", "read"])
def test_whatever_is_asked_of_a_member_wakes_it(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[Driver] = []
    monkeypatch.setattr(World, "wake", lambda _, driver: woken.append(driver))
    world = World()
    if asked == "propose":
        world.propose(b"a")
    elif asked == "change":
        world.driver.change(AddLearner(OTHER), world.on_results)
    else:
        world.driver.read(world.on_read)
    assert woken == [world.driver]


def test_a_snapshot_is_taken_every_so_many_entries_and_one_at_a_time() -> None:
    world = World(SnapshotRules(entries_max=3))
    world.turn(committed=[entry(1), entry(2)])
    assert world.store.saved == []
    world.turn(committed=[entry(3), entry(4), entry(5)])
    world.turn(committed=[entry(6), entry(7), entry(8)])
    assert world.store.saved == [(SnapshotMeta(5, 3, Membership((ME,)), 5), [b"state"], LIVE)]
    world.store.done[0](True)
    world.turn(committed=[entry(9)])
    assert [meta.index for meta, _, _ in world.store.saved] == [5, 9]


def test_a_snapshot_is_taken_every_so_many_bytes() -> None:
    world = World(SnapshotRules(bytes_max=100))
    world.turn(committed=[entry(1, bytes(60))])
    assert world.store.saved == []
    world.turn(committed=[entry(2, bytes(60))])
    assert [meta.index for meta, _, _ in world.store.saved] == [2]
    world.store.done[0](True)
    world.turn(committed=[entry(3, bytes(60))])
    assert len(world.store.saved) == 1, "bytes before the last one count no more"
    world.turn(committed=[entry(4, bytes(40))])
    assert [meta.index for meta, _, _ in world.store.saved] == [2, 4]


def test_a_snapshot_is_taken_when_much_is_dead_and_less_is_alive() -> None:
    """What consumers settle is little. The messages that are gone with it were not counted, and stayed in the log."""
    world = World(SnapshotRules(bytes_max=100))
    world.machine.held_bytes = 1_000
    world.turn(committed=[entry(1, bytes(100))])
    world.store.done[0](True)
    for index, held in ((2, 950), (3, 850), (4, 501)):
        world.machine.held_bytes = held
        world.turn(committed=[entry(index)])
        assert [meta.index for meta, _, _ in world.store.saved] == [1]
    world.machine.held_bytes = 500
    world.turn(committed=[entry(5)])
    assert [meta.index for meta, _, _ in world.store.saved] == [1, 5]
    world.store.done[1](True)
    world.machine.held_bytes = 401
    world.turn(committed=[entry(6)])
    assert [meta.index for meta, _, _ in world.store.saved] == [1, 5]


def test_a_full_disk_is_given_what_is_dead_and_what_slow_followers_may_want() -> None:
    world = World()
    world.turn(committed=[entry(1, bytes(ROOM_BYTES_MIN - 1))])
    assert not world.driver.give_room()
    world.turn(committed=[entry(2, b"x")])
    world.core.snapshot_received = 10
    assert not world.driver.give_room(), "a follower would begin again"
    world.core.snapshot_received = None
    assert world.driver.give_room()
    assert not world.driver.give_room(), "one at a time"
    assert [(meta.index, world.store.kept_recent) for meta, _, _ in world.store.saved] == [(2, False)]
    world.store.done[0](False)
    assert world.driver.give_room(), "the first was not kept: all of it is still there"
    world.store.done[1](True)
    world.turn(committed=[entry(3)])
    assert not world.driver.give_room()
    world.driver.take_snapshot()
    world.store.done[2](True)
    assert world.store.kept_recent


def test_a_full_disk_is_given_what_was_kept_below_the_newest_snapshot() -> None:
    world = World()
    world.turn(committed=[entry(1, bytes(ROOM_BYTES_MIN))])
    world.driver.take_snapshot()
    world.store.done[0](True)
    world.turn(committed=[entry(2)])
    world.machine.held_bytes = ROOM_SHARE_OF_HELD * (ROOM_BYTES_MIN + 1)
    assert not world.driver.give_room(), "its state is long, beside what would be freed"
    world.machine.held_bytes = 0
    assert world.driver.give_room()


def test_a_snapshot_that_a_follower_receives_holds_the_next_one_back_for_a_while() -> None:
    world = World(SnapshotRules(entries_max=3))
    world.turn(committed=[entry(1), entry(2), entry(3)])
    world.store.done[0](True)
    world.core.snapshot_received = 0
    last = 3 + 3 * SNAPSHOT_HELD_BACK_TIMES
    world.turn(committed=[entry(index) for index in range(4, last)])
    assert [meta.index for meta, _, _ in world.store.saved] == [3]
    world.turn(committed=[entry(last)])
    assert [meta.index for meta, _, _ in world.store.saved] == [3, last]


def test_a_follower_that_gets_a_snapshot_faster_than_the_log_grows_is_not_sent_back() -> None:
    world = World(SnapshotRules(entries_max=3))
    world.turn(committed=[entry(1), entry(2), entry(3)])
    world.store.done[0](True)
    last = 3 + 3 * SNAPSHOT_HELD_BACK_TIMES
    world.core.snapshot_received = 101
    world.turn(committed=[entry(4, bytes(100)), *(entry(index, b"") for index in range(5, last + 1))])
    assert [meta.index for meta, _, _ in world.store.saved] == [3]
    world.turn(committed=[entry(last + 1, bytes(1))])
    assert [meta.index for meta, _, _ in world.store.saved] == [3, last + 1]


def test_an_installed_snapshot_is_what_the_machine_stands_on() -> None:
    world = World()
    world.turn(install=SnapshotMeta(40, 3, FIRST, 5))
    assert world.core.calls == []
    world.store.done[0](b"state of the leader")
    assert world.machine.restored == [(b"state of the leader", 5)]
    assert world.core.calls == ["installed 40"]
    world.turn(committed=[entry(41)])
    assert world.driver.applied == 41


def test_a_read_that_waits_for_what_a_snapshot_brings_is_answered_when_that_is_installed() -> None:
    """It was confirmed while this member led, and what it waits for comes from the next leader, with no entry behind it."""
    world = World()
    world.lead()
    world.driver.read(world.on_read)
    world.turn(reads=[ReadPoint(1, 40)])
    world.turn(standing=FOLLOWING, install=SnapshotMeta(40, 3, FIRST, 5))
    assert world.told == []
    world.store.done[0](b"state of the leader")
    assert world.told == ["read"]


def test_no_snapshot_is_taken_while_one_takes_the_place_of_the_log() -> None:
    world = World()
    world.turn(committed=[entry(1)])
    world.turn(install=SnapshotMeta(40, 3, FIRST, 5))
    assert not world.driver.take_snapshot()
    assert world.store.saved == []


def test_a_snapshot_that_did_not_arrive_whole_changes_nothing() -> None:
    world = World()
    world.turn(install=SnapshotMeta(40, 3, FIRST, 5))
    world.store.done[0](None)
    assert world.core.calls == ["install failed"]
    assert (world.driver.applied, world.machine.restored) == (0, [])


def test_a_snapshot_that_this_code_does_not_know_halts_the_member() -> None:
    """It ended the node, and each start of it. The log begins behind the snapshot by then, so the core is told of it."""
    world = World()
    world.turn(install=SnapshotMeta(40, 3, FIRST, 6))
    world.store.done[0](b"state of a newer version")
    assert world.told == ["the machine cannot stand on snapshot 40: ValueError: version 6 is unknown"]
    assert world.core.calls == ["installed 40"]


def test_a_halted_member_tells_who_waits_takes_no_snapshot_and_restores_nothing() -> None:
    world = World()
    world.lead()
    world.propose(b"a")
    world.turn()
    world.driver.halt("version 6 is unknown", now=0.0)
    assert world.told == [Unknown]
    assert world.core.calls == ["halt"]
    world.turn(install=SnapshotMeta(40, 3, FIRST, 5))
    world.store.done[0](b"state of the leader")
    assert world.machine.restored == []
    world.driver.take_snapshot()
    assert world.store.saved == []


def test_a_snapshot_for_room_waits_for_who_receives_one_and_is_taken_again_if_it_was_not_kept() -> None:
    world = World()
    world.turn(committed=[entry(1)])
    world.core.snapshot_received = 10
    world.driver.take_snapshot_for_room()
    assert world.store.saved == []
    world.core.snapshot_received = None
    for attempt in (1, 2):
        world.driver.take_snapshot_for_room()
        world.driver.take_snapshot_for_room()  # one at a time
        assert len(world.store.saved) == attempt
        world.store.done[-1](False)


def test_reads_are_answered_when_the_machine_fails_in_the_turn_that_would_have_confirmed_them() -> None:
    """They were in that turn behind what failed, and waited for ever: a halted member applies nothing more."""
    world = World()
    world.lead()
    for _ in range(3):  # confirmed in that turn, lost in it, and still asked
        world.driver.read(world.on_read)
        world.turn()
    world.machine.fails_on = b"poison"
    world.driver.read(world.on_read)
    with pytest.raises(CannotApply):
        world.turn(committed=[entry(1, data=b"poison")], reads=[ReadPoint(1, 1)], lost_reads=[2])
    world.driver.read(world.on_read)  # not handed over yet
    world.driver.halt("b'poison' is unknown", now=0.0)
    assert world.told == [NotLeader] * 5
    world.turn(reads=[ReadPoint(3, 1)], lost_reads=[4])
    assert world.told == [NotLeader] * 5, "each is answered once"


def test_a_disk_that_fails_below_the_machine_does_not_count_as_its_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node ends for it: a member that only halts would go on voting with a disk that is not to be trusted."""
    world = World()

    def fail(entries: Sequence[Entry]) -> Sequence[bytes]:
        raise DiskFailed("read: Input/output error")

    monkeypatch.setattr(world.machine, "apply", fail)
    with pytest.raises(DiskFailed):
        world.turn(committed=[entry(1)])


def test_an_entry_that_the_machine_fails_on_is_no_fault_of_the_node() -> None:
    world = World()
    world.machine.fails_on = b"poison"
    world.turn(committed=[entry(1, data=b"fine")])
    with pytest.raises(CannotApply, match="entries 2 to 3 cannot be applied: ValueError: b'poison' is unknown"):
        world.turn(committed=[entry(2, data=b"poison"), entry(3)])
    assert world.driver.applied == 1


def test_when_it_closes_everybody_is_told() -> None:
    world = World()
    world.lead()
    world.propose(b"a")
    world.driver.read(world.on_read)
    world.turn()
    world.propose(b"b")
    world.driver.change(AddLearner(OTHER), world.on_results)
    world.driver.read(world.on_read)
    world.driver.close()
    assert world.told == [Unknown, NotLeader, NotLeader, NotLeader, NotLeader]


def test_a_snapshot_of_the_entry_that_changed_the_membership_carries_that_change() -> None:
    world = World(SnapshotRules(entries_max=4))
    world.turn(committed=[entry(1), entry(2), entry(3), entry(4, kind=EntryKind.MEMBERSHIP)])
    assert [(meta.index, meta.membership) for meta, _, _ in world.store.saved] == [(4, Membership((ME,)))]


def test_a_snapshot_carries_the_membership_of_its_index_and_not_a_later_one() -> None:
    """A change behind it may never be committed."""
    world = World(SnapshotRules(entries_max=3))
    world.turn(committed=[entry(1), entry(2), entry(3)])
    assert [(meta.index, meta.membership) for meta, _, _ in world.store.saved] == [(3, FIRST)]


def test_a_member_that_has_yet_to_hear_who_belongs_to_its_group_takes_no_snapshot() -> None:
    """A log that begins there would never say it."""
    world = World(SnapshotRules(entries_max=3))
    world.store.founders = Membership(())
    world.turn(committed=[entry(1), entry(2), entry(3)])
    assert world.store.saved == []
    world.turn(committed=[entry(4, kind=EntryKind.MEMBERSHIP)])
    assert [(meta.index, meta.membership) for meta, _, _ in world.store.saved] == [(4, Membership((ME,)))]


def test_what_is_applied_in_front_of_a_proposal_is_none_of_its_results() -> None:
    """A leader's first entry has the term of what is proposed behind it, and is applied with it."""
    told: list[Any] = []
    asked = AwaitedEntries(6, 7, lambda results, error: told.append((results, error)))
    asked.term = 3
    entries = [Entry(index, 3, EntryKind.COMMAND, b"") for index in (5, 6, 7)]
    Proposers([asked]).tell(entries, ["another's", "first", "second"])
    assert told == [(["first", "second"], None)]
