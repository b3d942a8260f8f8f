"""A whole cluster in one thread: the sites of its nodes, the network between them, and what a plan does to them. What the nodes
are for is a layer's matter: registers (tests/sim/engine.py) or a broker (tests/sim/brokers/world.py).

A run has two phases. First anything may happen, and nobody may ever see a promise broken. Then everything is healed, or a
majority and the rest is left dead: what is healed must agree, answer, and come to rest within bounded time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from raft.core.errors import Damaged
from raft.core.membership import members_of
from raft.core.messages import Membership, node_of
from raft.core.ready import Role
from raft.core.status import FollowerStatus
from raft.driver import Driver
from storage.errors import Corrupt, StorageError
from tests.sim import atlas
from tests.sim.clock import SimLoop
from tests.sim.disk import SimDisk
from tests.sim.faults import HAPPENINGS, Faults, Happen
from tests.sim.invariants import Violation
from tests.sim.network import Network
from tests.sim.plan import Ask, Plan
from tests.sim.process import Crash, Process, Site
from tests.sim.references import Reference
from tests.sim.trace import Trace
from tests.sim.watch import Watch, model_of

CONVERGE_WITHIN_S = 30.0  # after the last question of a client
PROGRESS_PROLONGS_TIMES = 10  # it at most: a snapshot that begins anew for ever is a fault, not progress
STEP_S = 0.5
STORM_EVENTS = 20_000  # busy worlds have a tenth of that in a second, besides what is delivered
SERVED_EVENTS = 10  # what a delivery takes, from the commit that gives it out to the one that settles it; or a publish
STORM_S = 1.0
PIECE_EVENTS = 4  # of a snapshot: it is received and answered, and each is a turn


class World:
    """One run of a plan. A layer says what the sites are, who asks them, and what must be so in the end."""

    happenings: Mapping[str, Happen] = HAPPENINGS

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.shape = plan.shape
        self.loop = SimLoop()
        self._clock = self.loop.clock
        self.random = Random(f"{plan.seed} world")
        self.trace = Trace()
        self.watch = Watch(self.reference_of)
        self.sites: dict[int, Site] = {number: self.new_site(number) for number in range(1, self.shape.nodes + 1)}
        self.network = self.new_network(Random(f"{plan.seed} network"))
        self.is_healed = False
        self._is_in_event = False
        self._storm_since, self._storm_at = 0.0, STORM_EVENTS
        self._sent_before: dict[tuple[int, int], int] = {}  # of snapshots, when a storm was looked for last
        self.away: list[int] = []  # sites that are left dead at the end
        self.faults = Faults(self, self.happenings)

    # The layer

    def reference_of(self, group: int) -> Reference:
        raise NotImplementedError

    def new_site(self, number: int) -> Site:
        raise NotImplementedError

    def new_network(self, random: Random) -> Network:
        return Network(self.loop, random, self.shape.net_delay_s, dict(self.sites.items()))

    def form(self) -> None:
        """The cluster, before anything happens to it."""
        raise NotImplementedError

    def ask(self, ask: Ask) -> None:
        """A client asks for this now."""
        raise NotImplementedError

    def process_begins(self, site: Site, process: Process) -> None:
        """It has read its disk."""
        raise NotImplementedError

    def prepare_stop(self, site: Site, process: Process, stop: Callable[[], None]) -> None:
        """What comes before a clean stop, and may take time."""
        stop()

    def may_change_groups(self, name: str) -> bool:
        """Whether the watch is to look after an event of this name."""
        return True

    def is_excused(self, process: Process, error: Exception) -> bool:
        """Whether what ended the process is its disk's fault."""
        return process.failed is not None and isinstance(error, StorageError)

    def unsettled(self) -> str:
        """Why those who ask are not done yet."""
        raise NotImplementedError

    def judge(self) -> None:
        """The histories of those who asked. Raises Violation."""
        raise NotImplementedError

    @property
    def answered(self) -> int:
        """Calls of clients that were told their result."""
        raise NotImplementedError

    @property
    def unknown(self) -> int:
        """Calls of which nobody told."""
        raise NotImplementedError

    # The run

    def run(self) -> None:
        """Raises Violation."""
        self.form()
        began = self.loop.time()
        for fault in self.plan.faults:
            self.loop.call_at(began + fault.at, self.faults.happen, fault)
        for ask in self.plan.asks:
            self.loop.call_at(began + ask.at, self.ask, ask)
        self.loop.run_for(self.shape.seconds - self.shape.healed_s)
        self.heal()
        self.loop.run_for(self.shape.healed_s)
        self._converge()
        self.judge()

    # Events of nodes

    def event(self, site: Site, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        """One call of a process, and a look at what it has changed."""
        assert not self._is_in_event, "an event within another one, whose process may end with it"
        self._is_in_event = True
        self.watch.moment += 1
        if self.trace.events >= self._storm_at:
            self._look_for_storm()
        process = site.process
        assert process is not None, f"node {site.number} is down"
        name: str = getattr(callback, "__name__", "call")
        self.trace.event(self._clock.now, site.number, name)
        try:
            callback(*args)
        except Crash as crash:
            self.watch.count("crash within a call of the disk")
            self._end(site, power=crash.power)
        except Violation:
            raise
        except (Damaged, Corrupt) as error:
            self._damaged(site, error)
        except Exception as error:
            if isinstance(error.__cause__, Violation):  # within the handler of a call
                raise error.__cause__ from None
            if not self.is_excused(process, error):
                raise Violation("no_fault_of_its_own", f"node {site.number}: {error!r}") from error
            self._failed(site)
        else:
            if process.failed is not None or self.may_change_groups(name):
                self._look(site, process)
        finally:
            self._is_in_event = False

    def served(self) -> None:
        """A client was given a message, or the answer to one: who empties a long queue as fast as it can, or sends all that has
        waited for a connection, is no storm."""
        self._storm_at += SERVED_EVENTS

    def _look_for_storm(self) -> None:
        """Nobody answers an answer at once, for ever. Snapshots are sent like that, in small pieces, and come to an end."""
        now = self.loop.time()
        before, self._sent_before = self._sent_before, self._snapshot_bytes_sent()
        sent = sum(max(0, count - before.get(receiver, 0)) for receiver, count in self._sent_before.items())
        pieces = sent // self.shape.snapshot_chunk_bytes
        if now - self._storm_since < STORM_S and pieces * PIECE_EVENTS < STORM_EVENTS // 2:
            raise Violation("no_storm", f"{STORM_EVENTS} events in {now - self._storm_since:.3f} seconds")
        self._storm_since, self._storm_at = now, self.trace.events + STORM_EVENTS

    def _look(self, site: Site, process: Process) -> None:
        if process.failed is not None:
            self._failed(site)
            return
        self.watch.look(process)
        if process.has_stopped_its_jobs and not process.is_given_up:
            process.is_given_up = True
            self.watch.count("store stopped its jobs")
            self.loop.call_later(1.0 + self.random.random() * 5, self._restart, site, site.life)

    def _failed(self, site: Site) -> None:
        if site.process is not None:
            self.watch.failed(site.process)
        self.watch.count("process failed by its disk")
        self._end(site, power=False)

    def _end(self, site: Site, *, power: bool) -> None:
        """Of its own; whatever watches over processes starts it again."""
        site.end(power=power)
        self.start_later(site, site.down_s)

    def _restart(self, site: Site, life: int) -> None:
        """What operators do when a node says that its disk has failed it."""
        if site.life == life and site.process is not None:
            site.end(power=False)
            self.start(site)

    def _damaged(self, site: Site, error: Exception) -> None:
        """A process found while it ran, or started, that what is stored is not what was written."""
        if not site.unsure:
            raise Violation(
                "no_fault_of_its_own", f"node {site.number}: {error!r}, and nothing damaged its disk"
            ) from error
        self.watch.count("damage ends a process")
        if site.process is not None:
            site.end(power=False)
        self.replace_disk(site)
        self.start_later(site, site.down_s)

    def replace_disk(self, site: Site) -> None:
        """What operators do when a node does not start any more."""
        self.watch.count("disk replaced")
        site.disks_replaced += 1
        site.disk = SimDisk()
        site.equip()
        site.rolled_back = True

    def start_later(self, site: Site, after_s: float) -> None:
        self.loop.call_later(after_s, self.start, site)

    def start(self, site: Site) -> None:
        """Unless it runs, or must stay down."""
        if site.process is not None or site.number in self.away or self.loop.time() < site.down_until:
            return
        site.life += 1
        self.trace.event(self.loop.time(), site.number, "start")
        try:
            process = site.new_process()
            self.watch.recovered(process)
            if self.random.random() < 0.15:
                process = self._start_again(site, process)
            site.process = process
            site.was_rolled_back |= site.rolled_back
            site.rolled_back = False
            site.logs_at_rest = None
            self.process_begins(site, process)
        except Crash as crash:
            self.watch.count("crash within a start")
            self._end(site, power=crash.power)
            return
        except Damaged as error:
            self._damaged(site, error)
            return
        except StorageError as error:
            self.watch.count("start failed")
            site.end(power=False)
            if isinstance(error, Corrupt):
                self._damaged(site, error)
            else:
                self.start_later(site, max(site.down_s, 0.5))
            return
        self.connect(site)

    def connect(self, site: Site) -> None:
        """A node that has just been started, with all that run."""
        for other in self.sites.values():
            if other.process is not None and other is not site:
                self.network.connect(site.number, other.number)

    def _start_again(self, site: Site, process: Process) -> Process:
        """It is killed right after it has recovered, and the next start finds the same."""
        first = {}
        faults, site.disk.faults = site.disk.faults, site.no_faults
        for group, store in process.store.stores.items():
            first[group] = model_of(store, self.watch.book(group), may_be_damaged=site.unsure)
        site.disk.kill()
        site.life += 1
        process = site.new_process()
        self.watch.must_be_equal(process, first)
        site.disk.faults = faults
        return process

    def cut_power(self, site: Site) -> None:
        if site.lied:
            if atlas.may_lose(self, site):
                self.watch.count("lies were found out")
                site.rolled_back = site.damaged = True
            else:
                site.disk.settle()
        site.lied = False
        site.disk.crash(self.random)

    def process_ended(self, site: Site, process: Process, *, power: bool) -> None:
        self.watch.ended(site.number)
        for other in self.sites.values():
            if other is not site and self.network.is_connected(site.number, other.number):
                self.network.forget(site.number, other.number)
                if not power:
                    self.loop.call_later(self.shape.net_delay_s, other.disconnected, site.number)

    # Questions

    def is_leaving(self, site: Site, group: int) -> bool:
        """Whether a member's log here is deleted soon, or was deleted and that is not durable yet."""
        return group in site.leaving or self.watch.is_leaving(site.number, group)

    def is_frail(self, node: int) -> bool:
        return node <= self.shape.frail

    def living(self) -> list[int]:
        """Groups that are to be there."""
        return [group for group, book in self.watch.books.items() if not book.is_over]

    def main_leader(self) -> Site | None:
        """Who is hit by faults that are about whoever leads."""
        found = self.leader(1)
        return found[0] if found else None

    def leader(self, group: int) -> tuple[Site, Driver] | None:
        """The site that leads in the highest term."""
        found: tuple[int, Site, Driver] | None = None
        for site in self.sites.values():
            if site.process is not None and not site.stopped:
                for driver in site.process.groups.drivers():
                    if driver.group == group and driver.leads and (found is None or driver.standing.term > found[0]):
                        found = (driver.standing.term, site, driver)
        return (found[1], found[2]) if found else None

    def memberships(self, group: int) -> list[Membership]:
        """The newest that is committed, and all that are in force somewhere."""
        found: dict[Membership, None] = {self.watch.book(group).membership: None}
        for site in self.sites.values():
            if site.process is not None:
                for driver in site.process.groups.drivers():
                    if driver.group == group and driver.core._s.membership.voters:
                        found[driver.core._s.membership] = None
                        committed = driver.core._s.members.committed(driver.core._s.commit)
                        if committed.voters:
                            found[committed] = None
        return list(found)

    # The end

    def heal(self) -> None:
        """No more faults; and whoever is to be there is. What runs goes on as it is."""
        self.is_healed = True
        self.faults.end_all()
        if not self.shape.all_must_heal:
            away = self._who_stays_away()
            self.away += away
            for number in away:
                self.watch.count("node left dead")
                if self.sites[number].process is not None:
                    self.sites[number].end(power=True)
        for site in self.sites.values():
            if site.number not in self.away:
                site.down_until = 0.0
                site.down_s = 0.1
                self.start(site)
        present = [site for site in self.sites.values() if site.process is not None]
        for site in present:
            for other in present:
                if site.number < other.number and not self.network.is_connected(site.number, other.number):
                    self.network.connect(site.number, other.number)

    def _who_stays_away(self) -> list[int]:
        """Some of those without which every group has a majority that never lost anything, also once learners are promoted."""
        away: list[int] = []
        for site in self.sites.values():
            if site.number in self.away:
                continue
            if self.random.random() < 0.5 and self.can_spare([*self.away, *away, site.number]):
                away.append(site.number)
        return away

    def can_spare(self, away: list[int]) -> bool:
        for group in self.living():
            known = [*self.memberships(group), *self._stored_memberships(group)]
            for membership in [*known, *map(_promoted, known)]:
                sound = [
                    voter for voter in membership.voters if node_of(voter) not in away and self._is_alive(group, voter)
                ]
                if len(sound) * 2 <= len(membership.voters):
                    return False
        return True

    def _is_alive(self, group: int, member: int) -> bool:
        """And has lost nothing that nobody has found yet: such a member is to become another one, which takes a majority."""
        twin = self.watch.twin(node_of(member), group)
        site = self.sites[node_of(member)]
        if twin is None or twin.durable.member != member or site.damaged or site.rolled_back:
            return False
        return not self.watch.book(group).forgiven.get(member)

    def _stored_memberships(self, group: int) -> list[Membership]:
        """Those of members that are down, in force or not."""
        return self.watch.memberships_in_logs(group)

    def _converge(self) -> None:
        until = self.loop.time() + CONVERGE_WITHIN_S
        latest = self.loop.time() + CONVERGE_WITHIN_S * PROGRESS_PROLONGS_TIMES
        sent: dict[tuple[int, int], int] = {}
        while True:
            why = self._unsettled()
            if not why:
                break
            before, sent = sent, self._snapshot_bytes_sent()
            if any(count > before.get(receiver, 0) for receiver, count in sent.items()):  # large ones, in small pieces
                until = min(self.loop.time() + CONVERGE_WITHIN_S, latest)
            if self.loop.time() >= until:
                raise Violation("healed_cluster_converges", why)
            self.loop.run_for(STEP_S)
        self._come_to_rest()
        self._judge_agreement()
        for site in self.sites.values():
            if site.process is not None and not site.damaged:
                self.watch.judge_end(site.process)

    def _come_to_rest(self) -> None:
        """Until all jobs are done, and what nobody needs is deleted. Brokers may have said something more meanwhile, and who
        empties a long queue does so for long."""
        stores = [site.process.store for site in self.sites.values() if site.process is not None]
        latest = self.loop.time() + CONVERGE_WITHIN_S * PROGRESS_PROLONGS_TIMES
        applied, until = -1, latest
        while self.loop.time() < min(until, latest):
            before, applied = applied, self._applied()
            if applied != before:
                until = self.loop.time() + CONVERGE_WITHIN_S
            self.loop.run_for(self.shape.compaction_interval_ms / 1000 + 2 * self.shape.tick_s)
            if all(store.idle and not store.dead_files for store in stores) and not self._unsettled():
                return

    def _applied(self) -> int:
        """Entries, by all members."""
        drivers = [self.driver(site, group) for group in self.living() for site in self.sites.values()]
        return sum([driver.applied for driver in drivers if driver is not None])

    def _snapshot_bytes_sent(self) -> dict[tuple[int, int], int]:
        """To each member of each group that receives one. Not the sum: that falls when one of several has ended."""
        return {
            (group, one.member): one.snapshot_sent_bytes
            for group in self.living()
            for one in self._followers(group)
            if one.snapshot_sent_bytes is not None
        }

    def _followers(self, group: int) -> Sequence[FollowerStatus]:
        """As its leader sees them."""
        found = self.leader(group)
        return found[1].core.status().followers if found is not None else ()

    def _unsettled(self) -> str:
        """Why the cluster is not at rest yet."""
        why = self.unsettled()
        if why:
            return why
        for group in self.living():
            found = self.leader(group)
            if found is None:
                return f"group {group} has no leader"
            leader = found[1].core._s
            if leader.commit != leader.log.last:
                return f"group {group}: {leader.me} leads, {leader.commit} of {leader.log.last} are committed"
            for member in members_of(leader.membership):
                site = self.sites[node_of(member)]
                if site.number in self.away:
                    continue
                driver = self.driver(site, group)
                if driver is None:
                    return f"group {group} has no member on node {site.number}"
                s = driver.core._s
                if s.me != member:
                    return f"group {group}: {s.me} lives on node {site.number}, and {member} is a member"
                if s.applied != leader.commit or s.leader != leader.me:
                    return f"group {group}: {member} has applied {s.applied} of {leader.commit}, and follows {s.leader}"
                if member in leader.membership.promotable:
                    return f"group {group}: {member} was not promoted"
        return ""

    def driver(self, site: Site, group: int) -> Driver | None:
        if site.process is None:
            return None
        for driver in site.process.groups.drivers():
            if driver.group == group:
                return driver
        return None

    def _judge_agreement(self) -> None:
        for group in self.living():
            book, found = self.watch.book(group), self.leader(group)
            if found is None or found[1].core.status().role is not Role.LEADER:
                raise Violation("healed_cluster_converges", f"group {group} has lost its leader while at rest")
            if found[1].applied != len(book.committed):
                raise Violation(
                    "healed_cluster_converges", f"group {group}: {found[1].applied} of {len(book.committed)}"
                )


def _promoted(membership: Membership) -> Membership:
    """As it is once those who have caught up vote: the leader may say so before it notices that they are away."""
    return membership._replace(voters=(*membership.voters, *membership.promotable))
