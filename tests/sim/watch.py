"""Looks on: tells the invariants (tests/sim/invariants.py) what has changed, and counts what was reached.

It sees what a process hands to its store, what it is about to send, what its log reports fsynced, what its machines become; and
after each event it looks into the cores of that process. It never asks a disk for anything while a process runs, and changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from raft.core.errors import Damaged, Forgotten
from raft.core.membership import decode as decode_membership
from raft.core.membership import members_of
from raft.core.messages import (
    Append,
    AppendReply,
    Entry,
    EntryKind,
    LeaderLookup,
    MemberId,
    Membership,
    Message,
    Replaced,
    SnapshotMeta,
    SnapshotReply,
    TransferDeclined,
    TransferNow,
    VoteReply,
    VoteRequest,
)
from raft.core.ready import Facts, Role
from raft.core.state import State
from raft.driver import Driver
from raft.store.group_log import GroupLog
from raft.store.log_replay import files_of
from raft.store.wal_log_store import WalLogStore
from storage import names
from storage.disk import Buffer
from tests.sim import invariants
from tests.sim.disk import no_faults
from tests.sim.invariants import NOBODY, Book, Violation
from tests.sim.references import Reference
from tests.sim.twin import BecomeAnother, InstallSnapshot, LogModel, Row, TakeSnapshot, Twin

if TYPE_CHECKING:
    from tests.sim.process import Process, Site

ALL_BYTES = 1 << 40
UNCHECKED = (LeaderLookup, Replaced, TransferDeclined, TransferNow)  # they promise nothing


class View(NamedTuple):
    """What was seen of a core when it was looked at last."""

    term: int = 0
    role: Role = Role.FOLLOWER
    commit: int = 0
    membership: Membership = NOBODY
    applied: int = 0
    durable: int = 0
    checked: int = 0  # entries up to here were compared with everybody's
    matches: tuple[int, ...] = ()


class Walk(NamedTuple):
    """Of a leader, back through its log, as a follower hears of it."""

    term: int
    at: int  # how far back
    steps: int


class Glance:
    """What was seen of a member: as long as all of it stays, a look has nothing to find."""

    __slots__ = ("core", "identity", "log", "segments", "snapshot")

    def __init__(self, core: tuple[object, ...], log: GroupLog) -> None:
        self.core = core
        self.log = log
        self.identity, self.segments, self.snapshot = log.identity, log.segments, log.snapshot


class Watch:
    """One run."""

    def __init__(self, reference_of: Callable[[int], Reference]) -> None:
        """`reference_of` a group: what its machines must be."""
        self._reference_of = reference_of
        self.books: dict[int, Book] = {}
        self.checked: dict[str, int] = {}
        self.counted: dict[str, int] = {}
        self.moment = 0  # counts events; what is later has a higher one
        self._views: dict[tuple[int, int], View] = {}  # node, group
        self._glances: dict[Driver, Glance] = {}
        self._twins: dict[tuple[int, int], Twin] = {}  # node, group
        self._voters: dict[
            tuple[int, int], list[tuple[int, tuple[MemberId, ...]]]
        ] = {}  # since which moments, newest last
        self._named: dict[
            tuple[int, int], tuple[object, object]
        ] = {}  # segments and snapshot, when files were looked for
        self._heard: dict[
            tuple[int, MemberId, MemberId], int
        ] = {}  # group, leader, voter: the moment of its last answer
        self._acknowledged: dict[tuple[int, MemberId], tuple[int, int]] = {}  # group, member: index, term
        self._spoke: dict[tuple[int, MemberId], bool] = {}  # group, and who has ever voted or acknowledged anything
        self._walks: dict[tuple[int, MemberId], Walk] = {}  # group, and who installs a snapshot
        self._leaving: dict[tuple[int, int], int] = {}  # the ticket that makes the end of a member durable
        self._predecessors: dict[tuple[int, int], Twin] = {}  # of members whose creation is not durable yet
        self._unborn: dict[tuple[int, int], int] = {}  # the ticket that makes a new group durable

    def count(self, what: str) -> None:
        self.counted[what] = self.counted.get(what, 0) + 1

    def next_moment(self) -> int:
        self.moment += 1
        return self.moment

    def book(self, group: int) -> Book:
        book = self.books.get(group)
        if book is None:
            book = self.books[group] = Book(group, self.checked, self._reference_of(group))
        return book

    def twin(self, node: int, group: int) -> Twin | None:
        return self._twins.get((node, group))

    # What a process tells

    def created(self, process: Process, group: int, member: MemberId, membership: Membership) -> None:
        node, book = process.site.number, self.book(group)
        self._begins(book, member)
        if self._leaving.pop((node, group), None) is not None:
            self._predecessors[node, group] = self._twins[node, group]
        twin = self._twins[node, group] = Twin(node, group, LogModel(member))
        book.twins[member] = twin
        if membership.voters:
            invariants.founders_agree(book, member, membership)
        self._unborn[node, group] = process.store.last_ticket

    def _begins(self, book: Book, member: MemberId) -> None:
        """Under a number that is its own."""
        invariants.a_number_is_given_once(book, member, (book.group, member) in self._spoke)

    def began_in_memory(self, group: int, member: MemberId) -> None:
        """A learner that keeps nothing, whose word nobody counts."""
        self.book(group).in_memory[member] = True

    def removed(self, process: Process, group: int, ticket: int) -> None:
        """Its group has taken it out, and it deletes what it has. Until that is durable a crash may bring it back."""
        key = (process.site.number, group)
        self.count("removed member deletes its log")
        self._leaving[key] = ticket
        self._forget_views(*key)

    def is_leaving(self, node: int, group: int) -> bool:
        return (node, group) in self._leaving

    def appended(self, process: Process, group: int, ticket: int, facts: Facts | None, entries: list[Entry]) -> None:
        node = process.site.number
        twin, book = self._twins[node, group], self.book(group)
        if entries:
            self._judge_entries(process, group, twin, book, entries)
        twin.append(ticket, facts, entries)

    def _judge_entries(self, process: Process, group: int, twin: Twin, book: Book, entries: list[Entry]) -> None:
        s = _state(process, group)
        first, now = entries[0].index, twin.now
        rows = [(entry.term, int(entry.kind), entry.data) for entry in entries]
        before = now.term(first - 1) if first > 1 else 0
        invariants.logs_match(book, s.me, first, before, rows)
        if first <= now.last:
            self.count("conflict truncation")
            if not process.store.idle:
                self.count("compaction race")  # entries go while files are written from what was there
            invariants.truncation_lowers_durable(book, s.me, first, s.log.durable)
            self._lower_acknowledged(group, s.me, first - 1, now.term(first - 1) or 0)
        if s.leadership is not None:
            invariants.leader_only_appends(book, s.me, first, now.last)
        for entry in entries:
            if entry.kind == EntryKind.MEMBERSHIP:
                self._judge_change(s, book, twin, entry)

    def _judge_change(self, s: State, book: Book, twin: Twin, entry: Entry) -> None:
        after = decode_membership(entry.data)
        lead = s.leadership
        if lead is None or entry.term != s.term:
            return
        changed_at, before = 0, None
        for index, membership in s.store.memberships():
            if index < entry.index:
                changed_at, before = index, membership
        assert before is not None, f"no membership before entry {entry.index}"
        invariants.one_change_at_a_time(book, s.me, before, changed_at, after, s.commit, lead.first_index)
        self.count("membership change")
        if [one for one in after.voters if one in before.learners]:
            self.count("learner promotion")
        came = [one for one in after.learners if one not in members_of(before)]
        went = [one for one in members_of(before) if one not in members_of(after)]
        if came and went:
            self.count("damaged member replaced")

    def fsynced(self, process: Process, ticket: int) -> None:
        node = process.site.number
        for (of, group), twin in self._twins.items():
            if of == node:
                twin.fsynced(ticket)
                if self._unborn.get((of, group), ticket + 1) <= ticket:
                    del self._unborn[of, group]
                    self._predecessors.pop((of, group), None)
        for key, gone in list(self._leaving.items()):
            if key[0] == node and gone <= ticket:
                del self._leaving[key], self._twins[key]

    def sending(self, process: Process, group: int, message: Message) -> None:
        book = self.book(group)
        if message.sender in book.in_memory:
            return
        twin = self._twins[process.site.number, group]
        if isinstance(message, UNCHECKED):
            if isinstance(message, TransferNow):
                self.count("transfer")
            return
        invariants.facts_are_durable_before_they_are_told(book, twin, message)
        match message:
            case Append():
                return
            case VoteReply(granted=True, pre=False):
                self._spoke[group, message.sender] = True
                invariants.one_vote_per_term(book, message.sender, message.term, message.to)
            case VoteRequest(pre=False):
                self._spoke[group, message.sender] = True
                invariants.one_vote_per_term(book, message.sender, message.term, message.sender)
            case AppendReply(accepted=True) | SnapshotReply(installed=True):
                index = message.index
                term = twin.now.term(index)
                if term is not None and term > message.term:
                    return  # it waited for the disk while a later leader replaced the entry: the one it tells of is gone
                invariants.match_is_durable(book, message.to, message.sender, index, term)
                if term is not None:
                    self._raise_acknowledged(group, message.sender, index, term)
            case _:
                pass

    def _raise_acknowledged(self, group: int, member: MemberId, index: int, term: int) -> None:
        """Answers to letters that came late, or twice, tell of less than was said before, and take nothing back of it."""
        self._spoke[group, member] = True
        if index >= self._acknowledged.get((group, member), (0, 0))[0]:
            self._acknowledged[group, member] = (index, term)

    def _lower_acknowledged(self, group: int, member: MemberId, last: int, term: int) -> None:
        """A later leader has what was said to an earlier one taken back: its log ends here, with an entry of this term."""
        if self._acknowledged.get((group, member), (0, 0))[0] >= last:
            self._acknowledged[group, member] = (last, term)

    def found_damaged(self, group: int, member: MemberId, damage: Damaged) -> None:
        """A member takes part no more."""
        if isinstance(damage, Forgotten):
            self.count("loss found by the leader")
            invariants.who_is_told_of_a_loss_has_lost(self.book(group), member, damage.acknowledged)

    def heard(self, process: Process, messages: Sequence[tuple[int, Message]]) -> None:
        """These have arrived, each with its group."""
        for group, message in messages:
            if isinstance(message, AppendReply):
                self._heard[group, message.to, message.sender] = self.moment
            elif isinstance(message, Append):
                self._heard_while_installing(process, group, message)

    def _heard_while_installing(self, process: Process, group: int, append: Append) -> None:
        """An append to a member that takes nothing until its snapshot is installed."""
        driver = process.site.world.driver(process.site, group)
        if driver is None or driver.me != append.to or driver.installing is None:
            self._walks.pop((group, append.to), None)
            return
        self.count("append to who installs a snapshot")
        walk = self._walks.get((group, append.to))
        if walk is None or walk.term != append.term:
            walk = Walk(append.term, append.prev_index, 0)
        elif append.prev_index < walk.at:
            walk = Walk(append.term, append.prev_index, walk.steps + 1)
        self._walks[group, append.to] = walk
        invariants.who_installs_is_not_walked_back(self.book(group), append.to, append.sender, walk.steps)

    def snapshot_taken(self, process: Process, group: int, meta: SnapshotMeta, state: Sequence[Buffer]) -> None:
        book, twin = self.book(group), self._twins[process.site.number, group]
        s = _state(process, group)
        self._look_at(process, process.groups.driver(group))
        self.count("snapshot taken")
        digest = book.reference.of_snapshot(meta.machine_version, state)
        stands_on = book.reference.stands_on(meta.index, state)
        invariants.snapshot_is_committed_state(book, s.me, meta.index, meta.term, stands_on, digest)
        invariants.applied_within_durable(book, s.me, meta.index, twin.durable.last)
        invariants.snapshot_has_the_committed_membership(book, s.me, meta.index, meta.membership)

    def applied(self, process: Process, group: int, entries: Sequence[Entry], digest: str) -> None:
        driver = process.groups.driver(group)
        self._look_at(process, driver)
        invariants.machines_agree(self.book(group), driver.me, entries, digest)

    def read_answered(self, process: Process, group: int, asked: int, committed: int) -> None:
        """A read that began at moment `asked`, when `committed` entries were."""
        s = _state(process, group)
        heard = [member for (of, me, member), at in self._heard.items() if (of, me) == (group, s.me) and at >= asked]
        memberships = [s.membership.voters]  # any that was in force meanwhile may have been asked
        for since, voters in reversed(self._voters.get((process.site.number, group), ())):
            memberships.append(voters)
            if since < asked:
                break
        invariants.read_asked_a_majority(self.book(group), s.me, memberships, heard, s.applied, committed)

    def deleted(self, site: Site, name: str) -> None:
        """A file is about to go."""
        process = site.process
        if process is None:
            return
        number = names.number_of(name, names.LOG_SUFFIX)
        for group, store in process.store.stores.items():
            if number is not None:
                rows = store.log.rows
                if rows is not None and number < process.log.files().start:  # others were never used
                    invariants.log_file_is_not_needed(self.book(group), number, rows.file[0])
            elif name in files_of(store.log):
                invariants.named_files_exist(self.book(group), [name], lambda _: False)
        if number is not None:
            self.count("log file released")
        elif name.endswith(names.SEGMENT_SUFFIX):
            self.count("segment deleted")
        elif name.endswith(names.KEPT_SUFFIX):
            self.count("kept log file deleted")

    # After each event

    def look_at(self, process: Process, group: int) -> None:
        """In the middle of one: before entries are applied that may be news."""
        self._look_at(process, process.groups.driver(group))

    def look(self, process: Process) -> None:
        """Most events change nothing of most members, so a glance comes first."""
        glances = self._glances
        for driver in process.groups.drivers():
            s = driver.core._s
            log, lead = s.log, s.leadership
            matches = [one.match for one in lead.progress.values()] if lead is not None else None
            core = (s.commit, s.applied, log.durable, log.handed, matches, s.term, s.role, s.members.current)
            known = glances.get(driver)
            if known is not None and known.core == core:
                kept = known.log
                if (
                    kept.segments is known.segments
                    and kept.snapshot is known.snapshot
                    and kept.identity is known.identity
                ):
                    continue
            self._look_at(process, driver)
            self._remember_glance(process, driver, core)

    def _remember_glance(self, process: Process, driver: Driver, core: tuple[object, ...]) -> None:
        """Unless the next look would find something though nothing has changed: entries that can be compared only then."""
        view = self._views.get((process.site.number, driver.group))
        store = process.store.stores.get(driver.group)
        s = driver.core._s
        if view is not None and store is not None and view.checked == min(s.commit, s.log.handed):
            self._glances[driver] = Glance(core, store.log)

    def _look_at(self, process: Process, driver: Driver) -> None:
        s = driver.core._s
        key = (process.site.number, driver.group)
        twin = self._twins.get(key)
        if twin is None:
            return
        store = process.store.stores.get(driver.group)
        if store is not None:
            self._follow_store(process, key, twin, store)
        lead = s.leadership
        matches = tuple([one.match for one in lead.progress.values()]) if lead is not None else ()
        commit, applied, durable = s.commit, s.applied, s.log.durable
        old = self._views.get(key)
        checked = old.checked if old is not None else 0
        membership = s.members.current
        voters = membership.voters
        seen = (s.term, s.role, commit, membership, applied, durable, checked, matches)
        if old == seen and checked == min(commit, twin.now.last, s.log.handed):
            return
        book = self.book(driver.group)
        if old is None:
            old = View()
        if voters != old.membership.voters:
            self._voters.setdefault(key, []).append((self.moment, voters))
        if lead is not None and (old.role is not Role.LEADER or old.term != s.term):
            self._judge_leader(s, book, twin)
        if commit != old.commit:
            invariants.commit_never_falls(book, s.me, old.commit, commit)
        if applied != old.applied:
            invariants.applied_within_commit(book, s.me, applied, commit)
            invariants.applied_within_durable(book, s.me, applied, twin.durable.last)
        checked = self._judge_committed(s, book, twin, checked)
        if commit and checked == commit and (commit != old.commit or membership != old.membership):
            invariants.membership_in_force_is_committed(book, s.me, commit, s.members.committed(commit))
        if lead is not None:
            if commit > old.commit and old.role is Role.LEADER:
                self._judge_counting(s, book, twin, old.membership.voters)
            if matches != old.matches:
                for one in lead.progress.values():
                    if not book.is_beyond(one.member, s.term) and one.member not in book.in_memory:
                        invariants.match_is_durable(book, s.me, one.member, one.match, twin.now.term(one.match))
        self._views[key] = View(s.term, s.role, commit, membership, applied, durable, checked, matches)

    def _judge_leader(self, s: State, book: Book, twin: Twin) -> None:
        self.count("election won")
        invariants.one_leader_per_term(book, s.me, s.term)
        invariants.leader_is_complete(book, s.me, s.term, s.log.last, twin.now.term)

    def _judge_committed(self, s: State, book: Book, twin: Twin, checked: int) -> int:
        """Compare what this member takes for committed with what everybody does; it may be the first to know."""
        now = twin.now
        until = min(s.commit, now.last, s.log.handed)  # what the core truncated and was not handed out yet is no log
        if until <= checked:
            return checked
        for index in range(max(checked + 1, now.first), until + 1):
            row = now.rows[index]
            if index == len(book.committed) + 1:
                book.commit(row, s.term)
                self._leaders_must_have_it(book)
            invariants.commit_is_agreed(book, s.me, index, row)
        return until

    def _leaders_must_have_it(self, book: Book) -> None:
        """Leaders of later terms than that in which it was committed, if there are any already."""
        for (node, group), view in self._views.items():
            if group == book.group and view.role is Role.LEADER and view.term > book.committed_in[-1]:
                now = self._twins[node, group].now
                invariants.leader_is_complete(book, now.member, view.term, now.last, now.term)

    def _judge_counting(self, s: State, book: Book, twin: Twin, voters: Sequence[MemberId]) -> None:
        """`voters`: those before this event, in which the membership may have changed before the commit or after it."""
        term = twin.now.term(s.commit)
        if term is not None:
            invariants.only_own_term_is_counted(book, s.me, s.term, s.commit, term)
            memberships = (s.membership.voters, voters)
            invariants.commit_is_on_a_majority(book, s.me, memberships, s.commit, term)
            if s.me in s.membership.voters and s.log.durable < s.commit:
                self.count("leader commits before its own disk")

    def _follow_store(self, process: Process, key: tuple[int, int], twin: Twin, store: WalLogStore) -> None:
        """What jobs of the store did: snapshots, and files."""
        log, now = store.log, twin.now
        if log.identity.member != now.member:
            self._renumbered(process, key, twin, store)
        elif log.snapshot.meta.index != now.snapshot:
            meta, ticket = log.snapshot.meta, process.store.last_ticket
            if log.last == meta.index and log.rows is None and meta.index > now.last:
                self.count("snapshot installed")
                twin.take(ticket, InstallSnapshot(meta.index, meta.term))
            elif log.first == meta.index + 1 and log.last == meta.index and now.term(meta.index) != meta.term:
                self.count("snapshot installed over other entries")
                self._lower_acknowledged(key[1], now.member, meta.index, meta.term)
                twin.take(ticket, InstallSnapshot(meta.index, meta.term))
            else:
                twin.take(ticket, TakeSnapshot(meta.index, meta.term, log.first))
        named = (log.segments, log.snapshot)
        known = self._named.get(key)
        if known is None or known[0] is not named[0] or known[1] is not named[1]:
            self._named[key] = named
            self._judge_stored_snapshot(key[1], log)
            invariants.named_files_exist(self.book(key[1]), files_of(log), process.site.disk.exists)

    def failed(self, process: Process) -> None:
        """Its disk has failed it, perhaps in the very event in which a member became another one: the new one reads its
        snapshot at once (seed 17957804785310)."""
        for group, store in process.store.stores.items():
            key = (process.site.number, group)
            twin = self._twins.get(key)
            if twin is not None and store.member != twin.now.member:
                self._renumbered(process, key, twin, store)

    def _judge_stored_snapshot(self, group: int, log: GroupLog) -> None:
        """One that was taken here, installed, or found at a start."""
        meta, book = log.snapshot.meta, self.book(group)
        if 0 < meta.index <= len(book.committed):
            invariants.snapshot_has_the_committed_membership(book, log.identity.member, meta.index, meta.membership)

    def _renumbered(self, process: Process, key: tuple[int, int], twin: Twin, store: WalLogStore) -> None:
        """Damage was found while the process ran."""
        self.count("damaged member becomes another")
        log, book, old = store.log, self.book(key[1]), twin.now
        self._begins(book, log.identity.member)
        dead = Twin(twin.node, twin.group, twin.durable.copy())
        book.twins[old.member] = dead
        rows = {index: row for index, row in old.rows.items() if log.first <= index <= log.last}
        meta = log.snapshot.meta
        state = LogModel(log.identity.member, log.facts, meta.index, meta.term, log.first, log.last, rows)
        twin.take(process.store.last_ticket, BecomeAnother(state))
        book.twins[log.identity.member] = twin
        self._forget_views(*key)

    # Starts and ends

    def ended(self, node: int) -> None:
        for group in self.books:
            self._forget_views(node, group)

    def _forget_views(self, node: int, group: int) -> None:
        self._glances.clear()
        self._views.pop((node, group), None)
        self._named.pop((node, group), None)

    def recovered(self, process: Process) -> None:
        """A start has read its disk, and nothing else has happened yet."""
        site = process.site
        faults, site.disk.faults = site.disk.faults, no_faults
        try:
            for (node, group), twin in list(self._twins.items()):
                if node == site.number:
                    self._judge_start(process, group, twin)
            for group, store in process.store.stores.items():
                self._judge_known(site, group, store)
        finally:
            site.disk.faults = faults
        for message in process.found:
            self.count(f"store says: {message.split(' ')[0]}")

    def _judge_known(self, site: Site, group: int, store: WalLogStore) -> None:
        """Nobody is here who was deleted, unless the disk is an old one."""
        key, book = (site.number, group), self.book(group)
        invariants.who_was_deleted_stays_away(book, site.number, store.member, key in self._twins or site.unsure)
        if key not in self._twins:
            self.count("deleted member is back on an old disk")
            found = model_of(store, book, may_be_damaged=True)
            self._forgive(book, store.member, found)  # seed 5000406 of brokers: it had said more before it was deleted
            book.twins[store.member] = self._twins[key] = Twin(site.number, group, found)

    def _judge_start(self, process: Process, group: int, twin: Twin) -> None:
        site, book = process.site, self.book(group)
        store = process.store.stores.get(group)
        unborn = self._unborn.pop((site.number, group), None) is not None
        before = self._predecessors.pop((site.number, group), None)
        if before is not None and store is not None and store.member == before.durable.member:
            twin = self._twins[site.number, group] = before  # neither its end nor the beginning of the next was durable
        if self._leaving.pop((site.number, group), None) is not None and store is None:
            del self._twins[site.number, group]
            return
        why_not = "its creation was not durable yet" if unborn else "its disk was damaged" if site.unsure else ""
        invariants.nothing_is_deleted_unasked(book, site.number, store is not None, why_not)
        if store is None:
            member = twin.durable.member
            self._forgive(book, member, LogModel(member))
            if unborn and not book.committed and book.membership.voters == (member,):
                book.memberships.clear()  # nobody has heard of this group: its founder begins it again, as another member
            del self._twins[site.number, group]
            return
        found = model_of(store, book, may_be_damaged=site.unsure)
        invariants.no_gaps(book, found)
        invariants.nothing_unwritten_is_recovered(book, found)
        self._judge_recovered(site, book, twin, found)
        self._settle(book, twin, found, self._vouched(site, twin, found))

    def _judge_recovered(self, site: Site, book: Book, twin: Twin, found: LogModel) -> None:
        old = twin.durable.member
        if found.member not in (old, twin.now.member):
            assert site.unsure, f"group {book.group}: node {site.number} gives up member {old}, and nothing was damaged"
            self.count("member found damaged")
            if found.member > old:  # a lower one was given up, and is back on an old disk
                self._begins(book, found.member)
            return
        if site.rolled_back:
            return
        if site.unsure:
            invariants.damage_is_no_tail(book, found, twin.vouched)
        else:
            invariants.recovered_as_it_was(book, found, [state.copy() for state in twin.possible()])
            index, term = self._acknowledged.get((book.group, found.member), (0, 0))
            if index:
                invariants.acknowledged_is_recovered(book, found, index, term)

    @staticmethod
    def _vouched(site: Site, twin: Twin, found: LogModel) -> LogModel:
        """What is surely noticed when it is damaged before the first commit of this start."""
        if found.member not in (twin.durable.member, twin.now.member):
            return found.copy()  # the start has moved all that it kept out of the log, durably
        return LogModel(found.member) if site.rolled_back else twin.vouched

    def _settle(self, book: Book, twin: Twin, found: LogModel, vouched: LogModel) -> None:
        """What was found is what this member is from now on."""
        member = twin.durable.member
        last = twin.durable.last
        # What stands there may be of the same length, and what a later leader had replaced.
        lacks = last > 0 and not found.has(last, twin.durable.term(last) or 0)
        if found.member != member or lacks or found.facts < twin.durable.facts:
            self._forgive(book, member, found)
        if found.member < member:  # who was given up is back on an old disk: seed 6001630 of brokers
            self._forgive(book, found.member, found)
        if found.member != member and twin.now.member != found.member:
            book.twins[member] = Twin(twin.node, twin.group, twin.durable.copy())
        twin.stand_on(found, vouched)
        book.twins[found.member] = twin

    def _forgive(self, book: Book, member: MemberId, found: LogModel) -> None:
        """The atlas has allowed it to lose this."""
        self.count("acknowledged entries lost by a minority")
        index = self._acknowledged.pop((book.group, member), (0, 0))[0]
        book.forgiven[member] = max(book.forgiven.get(member, 0), index)
        term, vote = found.facts
        for voter, voted in [one for one in book.votes if one[0] == member]:
            if voted > term or (voted == term and not vote):
                del book.votes[voter, voted]

    def must_be_equal(self, process: Process, first: dict[int, LogModel]) -> None:
        """It was recovered before, from the same disk."""
        for group, model in first.items():
            second = model_of(process.store.group(group), self.book(group), may_be_damaged=process.site.unsure)
            invariants.recovery_is_idempotent(self.book(group), model, second)

    # At the end

    def judge_end(self, process: Process) -> None:
        """Everything is at rest: from its disk, each member is what it should be, and nothing else lies around."""
        site = process.site
        site.disk.faults = no_faults
        named = list(names.RAFT_GROUPS)
        living, driven = site.world.living(), {driver.group for driver in process.groups.drivers()}
        for group, store in process.store.stores.items():
            if group not in driven and group not in living:
                # It was deleted, and a crash kept its log from being removed.
                named += files_of(store.log)
                continue
            book, s = self.book(group), _state(process, group)
            model = model_of(store, book, may_be_damaged=False)
            snapshot = (store.load_state(), store.snapshot().machine_version) if model.snapshot else None
            behind = [
                Entry(index, *row)
                for index, row in model.rows.items()
                if model.snapshot < index <= s.commit and row[1] == EntryKind.COMMAND
            ]
            digest = book.reference.replayed(snapshot, behind, store.read_entry)
            invariants.snapshot_and_suffix_are_the_log(book, model, digest, s.commit)
            named += files_of(store.log)
        if process.store.failed is None:
            arriving = [
                name for store in process.store.stores.values() if store.incoming for name in store.incoming.files
            ]
            # Of these it has said that the next start will delete them.
            undeletable = [said.split(" ")[0] for said in process.found if " cannot be deleted: " in said]
            waiting = [*process.store.dead_files, *arriving, *undeletable]
            lie = [
                name
                for name in site.disk.files()
                if name.startswith(names.RAFT_DIRECTORY + "/") and name not in named and name not in waiting
            ]
            for book in self.books.values():
                invariants.unnamed_files_go(book, site.number, lie)

    def memberships_in_logs(self, group: int) -> list[Membership]:
        """The newest one in each log, whether its process runs or not."""
        found: dict[Membership, None] = {}
        for (_, of), twin in self._twins.items():
            if of == group:
                for row in reversed(twin.now.rows.values()):
                    if row[1] == EntryKind.MEMBERSHIP:
                        found[decode_membership(row[2])] = None
                        break
        return list(found)


def _state(process: Process, group: int) -> State:
    return process.groups.driver(group).core._s


def model_of(store: WalLogStore, book: Book, *, may_be_damaged: bool) -> LogModel:
    """Everything that a store says of a group. Raises Violation when it cannot read what nothing has damaged; what was
    damaged is taken to be what was written, until the process finds it."""
    first, last = store.first_index(), store.last_index()
    rows: dict[int, Row] = {}
    at = first
    while at <= last:
        term = store.term(at)
        try:
            entries = store.entries(at, last + 1, ALL_BYTES)
        except Damaged as error:
            if not may_be_damaged:
                raise Violation(
                    "no_fault_of_its_own", f"group {book.group}: {error!r}, and nothing is damaged"
                ) from error
            known = book.seen.get((at, term), (0, b"", 0))
            rows[at] = (term, *known[:2])
            at += 1
        else:
            for entry in entries:
                rows[entry.index] = (store.term(entry.index), int(entry.kind), entry.data)
            at += len(entries)
    meta = store.snapshot()
    return LogModel(store.member, store.facts(), meta.index, meta.term, first, last, rows)
