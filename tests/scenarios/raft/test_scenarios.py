"""Plays the scenarios of this folder: members of one group, whose network and disks do what the commands say.

Members are called by their node: 2 is the first replica on node 2, 2b what came after it was wiped.

group VOTER...                 these exist, trust each other, and rest       spare MEMBER  one that belongs to no group yet
elect MEMBER                   its time to stand for election has come       wait SECONDS  time passes; who must act does
propose MEMBER DATA...         read MEMBER TOKEN                             transfer MEMBER TO
learner MEMBER NEW [plain]     promote MEMBER WHO      remove MEMBER WHO     what the member is asked to change
deliver [FROM>TO]              messages that wait now are received, and shown
drop [FROM>TO] / twice [FROM>TO] / reverse                                   they are lost / arrive twice / in the other order
late FROM>TO / arrive          they are kept aside / come after all
hold MEMBER / persist MEMBER [COUNT] / release MEMBER                        its disk waits / writes / goes on
stabilize                      everybody acts until nothing is left to do; time stands still
partition 1 2 | 3              no messages between the sides; all suspect whom they cannot hear       heal
cut FROM>TO                    no messages that way; nobody notices
suspect MEMBER NODE / trust MEMBER NODE                                      what its failure detector says
crash MEMBER / restart MEMBER  what was not written is lost                  wipe MEMBER   it comes back as another member
lose MEMBER LAST               it restarts; what its disk had said to be written behind entry LAST is lost, without a word
halt MEMBER                    its machine cannot go on; said again, it does what is due then
snapshot MEMBER [KEEP]         of all that it applied                        spoil MEMBER  the chunks it has are damaged
state [MEMBER] / log MEMBER / machine MEMBER                                 how things stand
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from raft.core.errors import RaftError
from raft.core.membership import AddLearner, Change, Promote, RemoveMember, decode
from raft.core.messages import (
    Append,
    AppendReply,
    Entry,
    EntryKind,
    LeaderCheck,
    LeaderLookup,
    MatchCheck,
    MemberId,
    Membership,
    Message,
    NodeId,
    NotLeading,
    Replaced,
    SnapshotChunk,
    SnapshotReply,
    TransferDeclined,
    TransferNow,
    VoteReply,
    VoteRequest,
    member_id,
    node_of,
)
from raft.core.ready import Ready
from raft.core.settings import Settings
from tests.scenarios.runner import check
from tests.unit.raft.world import World

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))
SETTINGS = Settings(
    append_bytes_max=120,
    window_bytes_max=400,
    snapshot_chunk_bytes=8,
    snapshot_window_chunks=4,
    promote_lag_entries=2,
    uncommitted_bytes_max=400,
)


def member_of(name: str) -> MemberId:
    """1 is the first replica of node 1, 1b the second."""
    digits = name.rstrip("bcd")
    return member_id(int(digits), 1 + " bcd".index(name[len(digits) :] or " "))


def name_of(member: MemberId) -> str:
    if not member:
        return "nobody"
    replica = member - member_id(node_of(member), 0)
    return f"{node_of(member)}{' bcd'[replica - 1].strip()}"


class Player:
    """One scenario. Whatever a member decides is taken up at once; messages and writes wait for a command."""

    def __init__(self) -> None:
        self.world = World(SETTINGS, Random(1).random, self.post)
        self.network: list[Message] = []
        self.aside: list[Message] = []
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        self.held: set[MemberId] = set()
        self.said: list[str] = []

    def run(self, line: str) -> list[str]:
        words = line.split()
        self.said = []
        try:
            command: Callable[..., None] = getattr(self, f"do_{words[0]}")
            command(*words[1:])
        except RaftError as error:
            self.said.append(f"{type(error).__name__}: {_without_numbers(str(error))}")
        self.take_all()
        return self.said

    # The world acts

    def post(self, message: Message) -> None:
        if (node_of(message.sender), node_of(message.to)) not in self.cuts:
            self.network.append(message)

    def running(self) -> list[MemberId]:
        return [member for member, one in self.world.members.items() if one.core is not None]

    def take_all(self) -> bool:
        took = [self.take(member) for member in self.running()]
        return any(took)

    def take(self, member: MemberId) -> bool:
        took = False
        answered, lost = len(self.world.answered), len(self.world.lost)
        while (ready := self.world.take_ready(member)) is not None:
            took = True
            self.tell(member, ready)
            if ready.forgotten is not None:
                break
        for token, index in self.world.answered[answered:]:
            self.said.append(f"{name_of(member)} answers read {token} as of {index}")
        self.said += [f"{name_of(member)} cannot answer read {token} any more" for token in self.world.lost[lost:]]
        return took

    def tell(self, member: MemberId, ready: Ready) -> None:
        name = name_of(member)
        if ready.forgotten is not None:
            check = ready.forgotten
            self.said.append(
                f"{name} takes part no more: it acknowledged {check.index}/{check.index_term}, and lost it"
            )
            return
        if ready.standing is not None:
            role, term, leader = ready.standing
            self.said.append(f"{name} is {role.value} of term {term}, {name_of(leader)} leads")
        if ready.entries:
            self.said.append(f"{name} writes {_entries(ready.entries)}")
        if ready.committed:
            self.said.append(f"{name} applies {_entries(ready.committed)}")
        if ready.install is not None:
            self.said.append(f"{name} installs snapshot {ready.install.index}")

    def receive(self, message: Message) -> None:
        one = self.world.members.get(message.to)
        if one is None:
            self.answer_for_the_dead(message)
        elif one.core is not None:
            one.core.step(message, self.world.now)
            self.take(message.to)

    def answer_for_the_dead(self, message: Message) -> None:
        for member in self.running():
            if node_of(member) == node_of(message.to) and not isinstance(message, Replaced):
                self.post(Replaced(message.sender, member, 0, message.to))

    def waiting(self, link: str) -> list[Message]:
        """Taken off the network."""
        sender, _, to = link.partition(">")
        found = [
            one for one in self.network if not link or (one.sender == member_of(sender) and one.to == member_of(to))
        ]
        self.network = [one for one in self.network if not any(one is other for other in found)]
        return found

    def tell_trust(self) -> None:
        alive = {node_of(member) for member in self.running()}
        for member in self.running():
            me = node_of(member)
            for node in sorted({node_of(other) for other in self.world.members} - {me}):
                heard = node in alive and (me, node) not in self.cuts and (node, me) not in self.cuts
                core = self.world.members[member].running()
                (core.trust if heard else core.suspect)(node, self.world.now)
            self.take(member)

    # Commands

    def do_group(self, *names: str) -> None:
        members = tuple(map(member_of, names))
        for member in members:
            self.world.add(member, Membership(members))
        self.tell_trust()

    def do_spare(self, name: str) -> None:
        self.world.add(member_of(name), Membership(()))
        self.tell_trust()

    def do_elect(self, name: str) -> None:
        core = self.world.members[member_of(name)].running()
        if core.deadline is None:
            self.said.append(f"{name} has no reason to stand for election")
            return
        self.world.now = max(self.world.now, core.deadline)
        core.tick(self.world.now)

    def do_wait(self, seconds: str) -> None:
        until = self.world.now + float(seconds)
        while True:
            cores = [self.world.members[member].running() for member in self.running()]
            due = [core.deadline for core in cores if core.deadline is not None and core.deadline <= until]
            if not due:
                break
            self.world.now = max(self.world.now, min(due))
            for core in cores:
                if core.deadline is not None and core.deadline <= self.world.now:
                    core.tick(self.world.now)
            self.take_all()
        self.world.now = until

    def do_propose(self, name: str, *commands: str) -> None:
        core = self.world.members[member_of(name)].running()
        core.propose([command.encode() for command in commands], self.world.now)

    def do_read(self, name: str, token: str) -> None:
        core = self.world.members[member_of(name)].running()
        self.world.reads[int(token)] = (member_of(name), self.world.ledger.committed)
        try:
            core.read(int(token), self.world.now)
        except RaftError:
            del self.world.reads[int(token)]
            raise

    def do_transfer(self, name: str, to: str) -> None:
        self.world.members[member_of(name)].running().transfer(member_of(to), self.world.now)

    def change(self, name: str, change: Change) -> None:
        self.world.members[member_of(name)].running().change(change, self.world.now)

    def do_learner(self, name: str, new: str, plain: str = "") -> None:
        self.change(name, AddLearner(member_of(new), promote=not plain))

    def do_promote(self, name: str, who: str) -> None:
        self.change(name, Promote(member_of(who)))

    def do_remove(self, name: str, who: str) -> None:
        self.change(name, RemoveMember(member_of(who)))

    def do_deliver(self, link: str = "") -> None:
        for message in self.waiting(link):
            self.said.append(show(message))
            self.receive(message)

    def do_drop(self, link: str = "") -> None:
        self.said += [f"lost: {show(message)}" for message in self.waiting(link)]

    def do_twice(self, link: str = "") -> None:
        found = self.waiting(link)
        self.network += found + found

    def do_reverse(self) -> None:
        self.network.reverse()

    def do_late(self, link: str) -> None:
        found = self.waiting(link)
        self.said += [f"late: {show(message)}" for message in found]
        self.aside += found

    def do_arrive(self) -> None:
        found, self.aside = self.aside, []
        for message in found:
            self.said.append(show(message))
            self.receive(message)

    def do_hold(self, name: str) -> None:
        self.held.add(member_of(name))

    def do_persist(self, name: str, count: str = "") -> None:
        member = member_of(name)
        writes = self.world.members[member].writes
        for _ in range(min(len(writes), int(count or len(writes)))):
            self.world.write(member)
            self.take(member)

    def do_release(self, name: str) -> None:
        self.held.remove(member_of(name))

    def do_stabilize(self) -> None:
        busy = True
        while busy:
            busy = self.take_all()
            for member in self.running():
                if member not in self.held and self.world.members[member].writes:
                    busy = True
                    self.world.write(member)
                    self.take(member)
            for message in self.waiting(""):
                busy = True
                self.receive(message)

    def do_partition(self, *words: str) -> None:
        sides = [[int(name) for name in side.split()] for side in " ".join(words).split("|")]
        self.cuts = {(a, b) for side in sides for a in side for other in sides if other is not side for b in other}
        self.network = [one for one in self.network if (node_of(one.sender), node_of(one.to)) not in self.cuts]
        self.tell_trust()

    def do_heal(self) -> None:
        self.cuts = set()
        self.tell_trust()

    def do_cut(self, link: str) -> None:
        sender, _, to = link.partition(">")
        self.cuts.add((int(sender), int(to)))

    def do_suspect(self, name: str, node: str) -> None:
        self.world.members[member_of(name)].running().suspect(int(node), self.world.now)

    def do_trust(self, name: str, node: str) -> None:
        self.world.members[member_of(name)].running().trust(int(node), self.world.now)

    def do_crash(self, name: str) -> None:
        self.world.reads = {token: read for token, read in self.world.reads.items() if read[0] != member_of(name)}
        self.world.members[member_of(name)].crash()
        self.tell_trust()

    def do_restart(self, name: str) -> None:
        self.world.start(member_of(name))
        self.tell_trust()

    def do_wipe(self, name: str) -> None:
        old = self.world.members[member_of(name)]
        old.crash()
        self.tell_trust()
        del self.world.members[old.id]
        self.world.add(old.id + 1, Membership(()))
        self.tell_trust()

    def do_lose(self, name: str, last: str) -> None:
        one = self.world.members[member_of(name)]
        self.do_crash(name)
        one.store.lose(int(last))
        self.do_restart(name)

    def do_halt(self, name: str) -> None:
        self.world.members[member_of(name)].running().halt(self.world.now)

    def do_snapshot(self, name: str, keep: str = "0") -> None:
        self.world.save_snapshot(member_of(name), int(keep))

    def do_spoil(self, name: str) -> None:
        """The driver finds that the chunks are no sound snapshot."""
        one = self.world.members[member_of(name)]
        write = one.writes.popleft()
        assert write.install is not None, f"{name} does not install a snapshot"
        one.running().install_failed()

    def do_state(self, *names: str) -> None:
        for member in map(member_of, names) if names else self.running():
            status = self.world.members[member].running().status()
            deadline = "asleep" if self.world.members[member].running().deadline is None else "awake"
            self.said.append(
                f"{name_of(member)} {status.role.value} term {status.term} leader {name_of(status.leader)}: last {status.last}"
                f" durable {status.durable} commit {status.commit} applied {status.applied}; {deadline}"
            )
            for one in status.followers:
                suspected = ", suspected" if one.suspected else ""
                self.said.append(
                    f"   {name_of(one.member)} {one.sending} match {one.match} next {one.next}"
                    f" in flight {one.in_flight_bytes}{suspected}"
                )

    def do_log(self, name: str) -> None:
        store = self.world.members[member_of(name)].store
        snapshot = store.snapshot().index
        self.said.append(f"{f'snapshot {snapshot}; ' if snapshot else ''}{_entries(store.all_entries()) or 'empty'}")

    def do_machine(self, name: str) -> None:
        self.said.append(
            " ".join(data.decode() for _, _, data in self.world.members[member_of(name)].applied) or "empty"
        )


def _without_numbers(text: str) -> str:
    """Members by their short names."""
    words = []
    for word in (
        text.replace("(", "( ").replace(",", " ,").replace(")", " )").replace(";", " ;").replace(":", " :").split()
    ):
        words.append(name_of(int(word)) if word.isdigit() and int(word) > 1 << 32 else word)
    text = " ".join(words)
    return text.replace("( ", "(").replace(" ,", ",").replace(" )", ")").replace(" ;", ";").replace(" :", ":")


def _entries(entries: object) -> str:
    assert isinstance(entries, (list, tuple)), f"no entries: {entries!r}"
    return " ".join(map(_entry, entries))


def _entry(entry: Entry) -> str:
    match entry.kind:
        case EntryKind.NOOP:
            what = "noop"
        case EntryKind.MEMBERSHIP:
            what = _membership(decode(entry.data))
        case _:
            what = entry.data.decode()
    return f"{entry.index}/{entry.term}:{what}"


def _membership(membership: Membership) -> str:
    voters = ",".join(map(name_of, membership.voters))
    learners = ",".join(name_of(one) + ("+" if one in membership.promotable else "") for one in membership.learners)
    return f"({voters}{' learners ' + learners if learners else ''})"


def show(message: Message) -> str:
    """One line."""
    link = f"{name_of(message.sender)}>{name_of(message.to)} {type(message).__name__} {message.term}"
    match message:
        case VoteRequest():
            flags = " pre" * message.pre + " transfer" * message.transfer
            return f"{link}{flags} last {message.last_index}/{message.last_term}"
        case VoteReply():
            return f"{link}{' pre' * message.pre} {'granted' if message.granted else 'refused'}"
        case Append():
            read_round = f" round {message.read_round}" * bool(message.read_round)
            entries = f" [{_entries(message.entries)}]" * bool(message.entries)
            return (
                f"{link} behind {message.prev_index}/{message.prev_term} commit {message.commit}{entries}{read_round}"
            )
        case AppendReply(accepted=True):
            read_round = f" round {message.read_round}" * bool(message.read_round)
            return f"{link} has {message.index} commit {message.commit}{read_round}"
        case AppendReply():
            return f"{link} refuses {message.rejected}, try {message.index}/{message.hint_term}"
        case SnapshotChunk():
            what = (
                f"bytes {message.offset}+{len(message.data)}{' last' * message.last}" if message.data else "from where?"
            )
            return f"{link} of {message.meta.index}/{message.meta.term} {what}"
        case SnapshotReply():
            return f"{link} of {message.index} {'installed' if message.installed else f'from {message.next_offset}'}"
        case TransferNow() | TransferDeclined() | LeaderCheck() | LeaderLookup() | NotLeading():
            return link
        case MatchCheck():
            return f"{link} has it {message.index}/{message.index_term}?"
        case Replaced():
            return f"{link} {name_of(message.old)} is gone"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, rewrite: bool) -> None:
    assert path.read_text().startswith("# "), f"{path.name} does not begin with its story"
    player = Player()
    check(path, player.run, rewrite=rewrite)
    player.world.check_logs()
