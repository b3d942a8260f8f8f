"""The catalog on several nodes: equal everywhere, each command once and in order, a clear word when nothing can be decided."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from struct import Struct
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from broker.background_work import BackgroundWork
from broker.catalog.catalog import Catalog
from broker.catalog.catalog_state import CatalogState, Position, decode_state
from broker.catalog.commands.catalog_commands import (
    AddNode,
    Bind,
    Command,
    DeclareQueue,
    DeleteQueue,
    DeleteVhost,
    PutPolicy,
    PutUser,
    PutVhost,
    SetQueueMembers,
    UnknownVersion,
    encode_command,
)
from broker.catalog.commands.metadata_entry import Origin, encode_entry
from broker.errors import NotFound, PreconditionFailed, ResourceExhausted
from broker.records import BindingRecord, NodeRecord, PolicyRecord, UserRecord, VhostRecord
from node.catalog import metadata_machine
from node.catalog import pieces as catalog_pieces
from node.catalog.cluster_metadata import ClusterMetadata
from node.catalog.courier import FOLLOWS, NOT_TAKEN, TAKEN, TIMEOUT_S, encode_submit
from node.catalog.followers import WAIT_S
from node.catalog.group import MetadataGroup
from node.catalog.metadata_machine import CatalogMachine
from node.catalog.pieces import IncomingCopy
from node.peers.calls import METADATA
from raft.core.errors import BadBytes
from raft.core.messages import Entry, EntryKind
from raft.core.ready import Role
from raft.driver import SnapshotRules
from raft.requests import OnResults
from storage.errors import DiskFull
from storage.lmdb_store import MemoryStore
from tests.unit.node.metadata_world import CALL_S, MetadataNode, MetadataWorld, Told, described


@pytest.fixture
def world() -> MetadataWorld:
    return MetadataWorld()


def agreed(world: MetadataWorld) -> None:
    """All nodes hold the same, and have kept it."""
    world.run(2.0)
    catalogs = [described(node.metadata.catalog) for node in world.alive()]
    assert all(catalog == catalogs[0] for catalog in catalogs)
    for node in world.alive():
        assert described(world.stored(node.number)) == catalogs[0], f"node {node.number} has kept something else"
        assert node.metadata.status().waiting == 0


def test_a_command_is_answered_where_it_was_submitted_and_followed_everywhere(world: MetadataWorld) -> None:
    for node in (world.leader_node(), world.follower()):
        told = node.submit(DeclareQueue("/", f"of {node.number}"))
        assert not told.answered
        world.run(0.1)
        assert told.value == node.metadata.catalog.queue("/", f"of {node.number}")
        assert all(one.heard[-1] == (DeclareQueue("/", f"of {node.number}"), told.value) for one in world.alive())
    agreed(world)


def test_a_deletion_for_lack_of_use_that_comes_late_spares_a_queue_that_was_declared_again(
    world: MetadataWorld,
) -> None:
    """The queue's node was cut off when it had just sent the command. It is told that nobody knows what becomes of it, and
    sends it again as soon as it reaches a leader."""
    home, other = world.follower(), world.leader_node()
    expiring = DeclareQueue("/", "q", arguments={"x-expires": 1_000}, home=f"n{home.number}", counted=True)
    home.submit(expiring)
    world.run(0.1)
    record = home.metadata.catalog.queue("/", "q")
    assert record is not None
    deletion = home.submit(DeleteQueue("/", "q", record.id, record.uses))
    world.cut = lambda one, two: home.number in (one, two)
    again = other.submit(expiring)
    world.run(TIMEOUT_S + 1)
    assert isinstance(deletion.error, ResourceExhausted)
    before = again.value
    world.cut = lambda one, two: False
    world.run(2.0)
    assert home.metadata.catalog.queue("/", "q") == before and before.uses == record.uses + 1
    agreed(world)


def test_a_refusal_is_the_catalogs_own(world: MetadataWorld) -> None:
    node = world.follower()
    told = node.submit(Bind(BindingRecord("/", "nope", "q", "queue", "")))
    world.run(0.1)
    assert isinstance(told.error, NotFound) and "no exchange 'nope'" in told.error.text


def test_what_is_submitted_together_is_decided_in_this_order(world: MetadataWorld) -> None:
    node = world.follower()
    told = [
        node.submit(DeclareQueue("/", "q")),
        node.submit(DeleteQueue("/", "q")),
        node.submit(DeclareQueue("/", "q")),
    ]
    world.run(0.1)
    assert [one.value.id for one in told] == [1, 1, 2]


def test_followers_are_told_after_it_is_kept(world: MetadataWorld) -> None:
    node = world.leader_node()
    kept: list[bool] = []
    node.metadata.subscribe(lambda command, result: kept.append(world.stored(node.number).queue("/", "q") is not None))
    node.submit(DeclareQueue("/", "q"))
    world.run(0.1)
    assert kept == [True]


def test_an_answer_comes_when_every_node_that_can_be_reached_follows(world: MetadataWorld) -> None:
    def declared(node: MetadataNode, name: str) -> list[bool]:
        """Which nodes knew the queue when this one answered."""
        command, known = DeclareQueue("/", name), []
        node.metadata.submit(command).then(
            lambda _: known.extend(any(heard == command for heard, _ in one.heard) for one in world.alive()),
            pytest.fail,
        )
        world.run(0.05)
        return known

    for node in world.alive():
        for number in range(20):
            assert declared(node, f"{node.number}.{number}") == [True, True, True]


def test_a_node_that_is_lost_or_keeps_nothing_holds_up_no_answers_for_long(world: MetadataWorld) -> None:
    submitter, stuck = world.leader_node(), world.follower()
    world.stores[stuck.number].full = DiskFull("no room")
    first = submitter.submit(DeclareQueue("/", "first"))
    world.run(WAIT_S - 0.2)
    assert not first.answered
    world.run(0.4)
    assert first.value is not None
    second = submitter.submit(DeclareQueue("/", "second"))
    world.run(0.1)
    assert second.value is not None
    world.stores[stuck.number].full = None
    world.run(1.0)
    assert stuck.heard[-1][0] == DeclareQueue("/", "second")
    stuck.kill()
    world.run(0.1)
    third = submitter.submit(DeclareQueue("/", "third"))
    world.run(0.1)
    assert third.value is not None


def test_that_a_node_follows_is_said_again_when_the_link_that_lost_it_is_back() -> None:
    world = MetadataWorld(size=2)
    submitter, other = world.leader_node(), world.follower()
    command = DeclareQueue("/", "q")
    told = submitter.submit(command)
    while other.heard[-1][0] != command:
        world.run_between_ticks(CALL_S / 4)
    world.cut = lambda one, two: {one, two} == {submitter.number, other.number}
    world.run_between_ticks(CALL_S * 2)  # so that nobody looks who can be reached
    world.cut = lambda one, two: False
    assert not told.answered, "the link has lost nothing"
    world.link_came(submitter.number, other.number)
    world.run_between_ticks(CALL_S * 2)
    assert told.value is not None


def test_many_commands_share_a_commit_of_the_store(world: MetadataWorld) -> None:
    node = world.follower()
    commits = node.metadata.commits
    told = [node.submit(DeclareQueue("/", f"q{number}")) for number in range(500)]
    world.run(0.5)
    assert all(one.value is not None for one in told)
    assert node.metadata.commits - commits <= 5


def test_without_a_majority_the_missing_nodes_are_named_at_once(world: MetadataWorld) -> None:
    world.node(2).kill()
    world.node(3).kill()
    world.run(1.0)
    told = world.node(1).submit(DeclareQueue("/", "q"))
    assert told.answered and isinstance(told.error, ResourceExhausted)
    assert told.error.text == (
        "nothing can be declared or changed without a majority of the disk nodes, and 'n2', 'n3' cannot be reached"
    )
    assert world.node(1).metadata.status().missing == ("n2", "n3")
    assert world.node(1).metadata.catalog.vhosts  # what is there is still there
    world.restart(2)
    world.run(2.0)
    told = world.node(1).submit(DeclareQueue("/", "q"))
    world.run(0.5)
    assert told.value is not None


def test_who_waits_when_the_majority_is_lost_is_told_that_the_outcome_is_unknown(world: MetadataWorld) -> None:
    node = world.leader_node()
    others = [one for one in world.alive() if one is not node]
    told = node.submit(DeclareQueue("/", "q"))
    for other in others:
        other.kill()
    world.run(1.0)
    assert told.error is not None and told.error.text.endswith("what was asked for may still be carried out")
    for other in others:
        world.restart(other.number)
    world.run(3.0)
    assert node.metadata.catalog.queue("/", "q") is not None  # and it was, once
    agreed(world)


def test_a_patient_command_waits_and_others_come_behind_it(world: MetadataWorld) -> None:
    world.node(2).kill()
    world.node(3).kill()
    world.run(1.0)
    node = world.node(1)
    told = Told(node.metadata.insist(PutVhost(VhostRecord("v"))))
    world.run(2 * TIMEOUT_S)
    assert not told.answered
    world.restart(3)
    world.run(2.0)
    assert told.value == VhostRecord("v")


def test_a_leader_that_is_lost_under_a_command_leaves_it_to_the_next(world: MetadataWorld) -> None:
    leader, node = world.leader_node(), world.follower()
    told = [node.submit(DeclareQueue("/", f"q{number}")) for number in range(10)]
    world.run(0.0025)
    leader.kill()
    world.run(3.0)
    assert [one.value.id for one in told] == list(range(1, 11))
    world.restart(leader.number)
    agreed(world)


def test_a_command_that_was_sent_twice_is_carried_out_once(world: MetadataWorld) -> None:
    node = world.leader_node()
    told = node.submit(DeclareQueue("/", "q"))
    courier = node.metadata._courier
    assert courier is not None
    courier.send_again()
    courier.pump()
    world.run(0.5)
    assert told.value.id == 1 and len([one for one in node.heard if isinstance(one[0], DeclareQueue)]) == 1
    agreed(world)


def test_a_node_that_skips_entries_tells_the_difference(world: MetadataWorld) -> None:
    world = MetadataWorld(rules=SnapshotRules(entries_max=20))
    node = world.follower()
    for command in (
        PutVhost(VhostRecord("gone")),
        DeclareQueue("gone", "q"),
        DeclareQueue("/", "kept"),
        DeclareQueue("/", "again"),
    ):
        node.submit(command)
    world.run(0.5)
    heard = len(node.heard)
    others = {one.number for one in world.alive() if one is not node}
    world.cut = lambda sender, receiver: node.number in (sender, receiver)
    world.run(1.0)
    leader = world.node(min(others)) if world.node(min(others)).metadata.status().leader else world.node(max(others))
    commands: list[Command] = [
        DeleteVhost("gone"),
        DeleteQueue("/", "again"),
        DeclareQueue("/", "again"),
        PutUser(UserRecord("u", None)),
        PutPolicy(PolicyRecord("/", "p", ".*", "all", 0, {"max-length": 5})),
        *[DeclareQueue("/", f"q{number}") for number in range(100)],
    ]
    for command in commands:
        leader.submit(command)
        world.run(0.01)
    world.run(5.0)
    world.cut = lambda sender, receiver: False
    world.connect_all()
    world.run(5.0)
    names = [(type(command).__name__, getattr(command, "name", "")) for command, _ in node.heard[heard:]]
    assert names.index(("DeleteQueue", "q")) < names.index(("DeleteVhost", "gone"))
    assert names.index(("DeleteQueue", "again")) < names.index(("DeclareQueue", "again"))
    assert ("DeclareQueue", "kept") not in names
    assert {"PutUser", "PutPolicy"} <= {kind for kind, _ in names}
    agreed(world)


class Alone:
    """A node whose group is played by hand: what it proposes is noted, and what it keeps waits for `kept`."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._jobs: list[Callable[[], None]] = []
        self.metadata = ClusterMetadata(Catalog(), MemoryStore(), self)
        self.group, self.calls = Mock(leader=lambda: (1, 1), missing=tuple, propose=self._propose), Mock()
        self.metadata.attach(1, 1, self.group, self.calls, lambda: 0.0)

    def _propose(self, commands: Sequence[bytes], _: OnResults) -> None:
        for command in commands:
            self.entries.append(Entry(len(self.entries) + 1, 1, EntryKind.COMMAND, command))

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        self._jobs.append(lambda: done(work(), None))

    def close(self) -> None:
        pass

    def kept(self) -> None:
        while self._jobs:
            self._jobs.pop(0)()


def test_a_snapshot_that_comes_while_a_command_is_being_kept_answers_nothing_before_its_turn() -> None:
    node = Alone()
    told = [Told(node.metadata.submit(PutVhost(VhostRecord(name)))) for name in ("one", "two", "three")]
    others = CatalogMachine(Catalog(), Position())
    others.apply(node.entries[:2])
    node.metadata.machine.apply(node.entries[:1])
    node.metadata.machine.restore(b"".join(others.snapshot()), others.version)
    node.metadata.machine.apply(node.entries[2:])
    assert not any(one.answered for one in told)
    node.kept()
    assert [one.error is None for one in told] == [True, False, True]
    assert "too far behind to see its result" in str(told[1].error)
    assert {"one", "two", "three"} <= node.metadata.catalog.vhosts.keys()


def test_only_who_leads_a_majority_gives_the_catalog_away(world: MetadataWorld) -> None:
    leader, node = world.leader_node(), world.follower()
    node.submit(DeclareQueue("/", "q"))
    world.run(0.1)
    answers: list[bytes | None] = []
    for asked in world.alive():
        node.calls.ask(asked.number, METADATA, IncomingCopy().request(), answers.append)
        world.run(0.2)
    taken = [answer for answer in answers if answer is not None and answer[:1] == TAKEN]
    assert len(taken) == 1 and answers.count(NOT_TAKEN) == 2
    state = IncomingCopy().take(taken[0])
    assert state is not None
    position, head, records = decode_state(state)
    assert (position, head) == (leader.metadata.machine.position, leader.metadata.catalog.head)
    assert sorted(map(repr, records)) == described(leader.metadata.catalog)["records"]
    for other in world.alive():
        if other is not leader and other is not node:
            other.kill()
    world.cut = lambda sender, receiver: True
    node.calls.ask(leader.number, METADATA, IncomingCopy().request(), answers.append)
    world.run(2.0)
    assert answers[-1] is None


def test_a_catalog_larger_than_an_answer_comes_in_pieces_of_one_moment(
    world: MetadataWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was one answer: above 128 MiB the leader failed on it whenever a node without a catalog asked."""
    monkeypatch.setattr(catalog_pieces, "PIECE_BYTES", 100)
    leader, node = world.leader_node(), world.follower()
    incoming = IncomingCopy()
    answers: list[bytes | None] = []
    state = None
    expected = b"".join(CatalogState(leader.metadata.catalog, leader.metadata.machine.position))
    asked = 0
    while state is None:
        node.calls.ask(leader.number, METADATA, incoming.request(), answers.append)
        world.run(0.1)
        answer = answers.pop()
        assert answer is not None and len(answer) <= 100 + 17
        state = incoming.take(answer)
        leader.submit(DeclareQueue("/", f"meanwhile {asked}"))
        asked += 1
    assert asked == -(-len(expected) // 100) > 2
    assert state == expected
    node.calls.ask(leader.number, METADATA, incoming.request(), answers.append)
    world.run(0.1)
    assert answers == [NOT_TAKEN], "a copy that was given away whole is kept"


def test_pieces_of_two_copies_are_not_put_together() -> None:
    copies, incoming = catalog_pieces.Copies(), IncomingCopy()
    data = bytes(catalog_pieces.PIECE_BYTES + 1)
    assert incoming.take(b"".join(copies.begin(7, [data]))) is None
    copies.begin(7, [data])
    assert copies.piece(7, *catalog_pieces.decode_request(incoming.request())) == [NOT_TAKEN]
    with pytest.raises(BadBytes, match="do not go on with copy 1"):
        incoming.take(b"".join(copies.piece(7, 2, catalog_pieces.PIECE_BYTES)))
    copies.begin(7, [data])
    copies.forget(7)
    assert copies.piece(7, 3, 0) == [NOT_TAKEN]


def test_a_command_too_large_for_an_entry_is_refused(world: MetadataWorld) -> None:
    told = world.leader_node().submit(PutVhost(VhostRecord("v", "d" * (9 << 20))))
    assert isinstance(told.error, PreconditionFailed) and "at most 8388608 can be kept" in told.error.text


def test_a_node_alone_is_a_cluster(world: MetadataWorld) -> None:
    world = MetadataWorld(1)
    told = world.node(1).submit(DeclareQueue("/", "q"))
    world.run(0.1)
    assert told.value.name == "q"
    status = world.node(1).metadata.status()
    assert (status.role, status.leader, status.voters, status.missing) == (Role.LEADER, "n1", ("n1",), ())
    world.node(1).kill()
    world.restart(1)
    world.run(1.0)
    agreed(world)
    assert world.node(1).metadata.catalog.queue("/", "q") == told.value


def test_a_store_that_is_behind_the_log_is_brought_up_to_it(world: MetadataWorld) -> None:
    node = world.leader_node()
    node.submit(DeclareQueue("/", "q"))
    while node.metadata.catalog.queue("/", "q") is None:
        world.loop.run_for(0.0005)
    assert world.stored(node.number).queue("/", "q") is None
    node.kill()
    again = world.restart(node.number)
    assert isinstance(again, MetadataNode) and again.metadata.catalog.queue("/", "q") is None
    world.run(2.0)
    agreed(world)
    assert again.metadata.catalog.queue("/", "q") is not None


def submitted(world: MetadataWorld, node: MetadataNode, entries: Sequence[bytes]) -> list[bytes | None]:
    """What the leader answers to a node that submits these."""
    answers: list[bytes | None] = []
    node.calls.ask(world.leader_node().number, METADATA, encode_submit(entries), answers.append)
    world.run(0.5)
    return answers


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (b"\x63" + bytes(28) + encode_command(DeleteQueue("/", "q")), "version 63 of the metadata log"),
        (encode_entry(Origin(0, 1, 1, 0), b"\x09"), "version 09 of the catalog's format"),
        (encode_entry(Origin(0, 1, 1, 0), b"\1" + msgspec.msgpack.encode([999])), "no command has the number 999"),
        (encode_entry(Origin(0, 1, 1, 0), b"\1" + msgspec.msgpack.encode([21, "/", "q", 1, 5])), "cannot be read"),
        (encode_entry(Origin(0, 1, 1, 0), encode_command(DeleteQueue("/", 7))), "DeleteQueue.name is '7' of type int"),  # type: ignore[arg-type]
        (encode_entry(Origin(0, 1, 1, 0), encode_command(SetQueueMembers("/", "q", 1, ("a",)))), "is due"),  # type: ignore[arg-type]
        (encode_entry(Origin(77, 1, 1, 0), encode_command(DeleteQueue("/", "q"))), "a DeleteQueue of node 77"),
        (encode_entry(Origin(0, 1, 1, 0), bytes((8 << 20) + 13)), "at most 8388608 can be kept"),
    ],
    ids=lambda one: one if isinstance(one, str) else "entry",  # whatever it looks like in this version
)
def test_a_command_that_not_every_node_could_carry_out_is_not_taken(
    world: MetadataWorld, entry: bytes, why: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would stop every node, at each start. The link goes on, and who submitted it is told that it was not taken."""
    node = world.follower()
    if entry[1:5] == bytes(4):
        entry = entry[:1] + node.number.to_bytes(4, "little") + entry[5:]
    fine = encode_entry(Origin(node.number, node.incarnation, 1, 0), encode_command(DeclareQueue("/", "fine")))
    proposed: list[bytes] = []
    with monkeypatch.context() as patch:
        patch.setattr(MetadataGroup, "propose", lambda group, commands, on_results: proposed.extend(commands))
        answers = submitted(world, node, [fine, entry])
    assert proposed == [], "what no node can carry out is on its way into every node's log"
    assert answers == [NOT_TAKEN]
    assert why in caplog.text
    assert world.leader_node().metadata.refusals == 1
    assert (
        world.leader_node().metadata.catalog.queue("/", "fine") is None
    )  # of what came with it nothing is done either
    told = node.submit(DeclareQueue("/", "q"))
    world.run(0.5)
    assert told.value.name == "q"
    agreed(world)


def test_a_node_that_does_not_know_an_entry_stands_still_and_says_so(
    world: MetadataWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older one in a rolling upgrade. It ended, at each start too. The others go on, and do not wait for it."""
    older = world.follower()
    real = metadata_machine.decode_entry
    later = encode_command(DeclareQueue("/", "later"))

    def knows_less(data: bytes) -> Any:
        if data.endswith(later):
            raise UnknownVersion("no command has the number 99: a later version wrote it")
        return real(data)

    apply = CatalogMachine.apply

    def apply_here(machine: CatalogMachine, entries: Sequence[Entry]) -> Any:
        with monkeypatch.context() as patch:
            if machine is older.metadata.machine:
                patch.setattr(metadata_machine, "decode_entry", knows_less)
            return apply(machine, entries)

    monkeypatch.setattr(CatalogMachine, "apply", apply_here)
    leader = world.leader_node()
    waits = older.submit(DeclareQueue("/", "before"))
    world.run(0.5)
    assert waits.value.name == "before"
    assert leader.submit(DeclareQueue("/", "later")) is not None
    world.run(1.0)
    status = older.metadata.status()
    assert status.halted is not None and "a later version wrote it" in status.halted
    told = older.submit(DeclareQueue("/", "of the older one"))
    assert isinstance(told.error, ResourceExhausted)
    assert "this node does not follow the catalog any more" in str(told.error) and "Update it" in str(told.error)
    for name in ("one", "two"):
        others = leader.submit(DeclareQueue("/", name))
        world.run(2.0)
        assert others.value.name == name
    catalog = older.metadata.catalog
    assert catalog.queue("/", "before") is not None and catalog.queue("/", "one") is None
    assert world.stored(older.number).queue("/", "before") is not None
    third = next(node for node in world.alive() if node not in (leader, older))
    third.kill()  # the older one still votes
    others = leader.submit(DeclareQueue("/", "three"))
    world.run(2.0)
    assert others.value.name == "three"
    monkeypatch.undo()  # it is updated
    older.kill()
    again = world.restart(older.number)
    world.restart(third.number)
    world.run(3.0)
    assert isinstance(again, MetadataNode) and again.metadata.halted is None
    agreed(world)


def drawn(random: Random, node: MetadataNode) -> Command:
    name = f"q{random.randrange(8)}"
    return random.choice(
        [
            DeclareQueue("/", name, home=f"n{node.number}", durable=random.random() < 0.7),
            DeclareQueue("/", name, home=f"n{node.number}", exclusive=True, owner=f"c{random.randrange(2)}"),
            DeleteQueue("/", name),
            Bind(BindingRecord("/", random.choice(["amq.fanout", "amq.topic"]), name, "queue", random.choice("ab"))),
            PutPolicy(
                PolicyRecord("/", f"p{random.randrange(3)}", ".*", "all", 0, {"max-length": random.randrange(9)})
            ),
            PutVhost(VhostRecord(f"v{random.randrange(3)}")),
            DeleteVhost(f"v{random.randrange(3)}"),
        ]
    )


@pytest.mark.parametrize("seed", range(25))
def test_whatever_is_killed_when_all_nodes_end_with_the_same_catalog_and_store(seed: int) -> None:
    random = Random(seed)
    rules = SnapshotRules(entries_max=random.choice([10, 40, 1_000]))
    world = MetadataWorld(3, seed, rules=rules)
    answered: list[Told] = []
    for _ in range(60):
        alive = world.alive()
        choice = random.random()
        if choice < 0.08 and len(alive) > 1:
            random.choice(alive).kill()
        elif choice < 0.2 and len(alive) < 3:
            dead = next(number for number in world.nodes if not world.nodes[number].alive)
            world.restart(dead)
        else:
            node = random.choice(alive)
            answered += [node.submit(drawn(random, node)) for _ in range(random.randrange(1, 6))]
        world.run(random.choice([0.0005, 0.002, 0.01, 0.3]))
    for number in world.nodes:
        if not world.nodes[number].alive:
            world.restart(number)
    world.run(3.0)
    agreed(world)
    assert sum(told.answered for told in answered) > len(answered) / 2
    before = described(world.node(1).metadata.catalog)
    for node in world.alive():
        node.kill()
    for number in world.nodes:
        world.restart(number)
        assert described(world.node(number).metadata.catalog) == before
    world.run(2.0)
    agreed(world)
    assert described(world.node(1).metadata.catalog) == before


def test_what_one_commit_carries_is_told_over_many_turns_in_order_and_before_it_counts_as_flushed() -> None:
    node, turns, heard = Alone(), deque[Callable[[], None]](), list[str]()
    node.metadata.work = BackgroundWork(turns.append, lambda: 0.0, steps_max=2)
    node.metadata.subscribe(lambda command, _: heard.append(command.record.name))
    names = [str(number) for number in range(7)]
    told = [Told(node.metadata.submit(PutVhost(VhostRecord(name)))) for name in names]
    node.metadata.machine.apply(node.entries)  # the first is kept alone, and the others meanwhile gather
    node.kept()
    flushed = Told(node.metadata.flushed())
    assert len(heard) <= 3 and not flushed.answered
    later = Told(node.metadata.submit(PutVhost(VhostRecord("later"))))
    node.metadata.machine.apply(node.entries[-1:])
    node.kept()
    lengths = []
    while turns:
        lengths.append(-len(heard))
        turns.popleft()()
        lengths[-1] += len(heard)
    assert heard == [*names, "later"] and max(lengths) <= 2
    assert all(one.answered for one in told) and later.answered and flushed.answered


FOLLOWS_LETTER = Struct("<BQQ")


def with_neighbour() -> Alone:
    """Its catalog knows node 2 too, which can be reached."""
    node = Alone()
    for number in (1, 2):
        node.metadata.catalog.apply(AddNode(NodeRecord(f"n{number}", 0, 1, f"n{number}:1")))
    return node


def vhosts_of_node_2(*names: str) -> list[Entry]:
    """What its process 7 submits."""
    commands = [encode_command(PutVhost(VhostRecord(name))) for name in names]
    origins = [Origin(2, 7, number, number - 1) for number in range(1, len(names) + 1)]
    return [
        Entry(origin.number, 1, EntryKind.COMMAND, encode_entry(origin, command))
        for origin, command in zip(origins, commands, strict=True)
    ]


def test_a_refused_command_is_answered_and_no_subscriber_hears_of_it() -> None:
    node, heard = Alone(), list[Command]()
    node.metadata.subscribe(lambda command, _: heard.append(command))
    told = Told(node.metadata.submit(DeleteVhost("none")))
    node.metadata.machine.apply(node.entries)
    node.kept()
    assert isinstance(told.error, NotFound) and heard == []


def test_another_node_hears_that_this_one_follows_only_after_the_subscribers_were_told() -> None:
    node, turns, order = Alone(), deque[Callable[[], None]](), list[str]()
    node.metadata.work = BackgroundWork(turns.append, lambda: 0.0, steps_max=1)
    node.metadata.subscribe(lambda command, _: order.append(command.record.name))
    node.calls.tell.side_effect = lambda to, topic, letter: order.append(f"node {to} is told")
    node.metadata.machine.apply(vhosts_of_node_2("a", "b", "c"))
    node.kept()
    while turns:
        turns.popleft()()
    assert order == ["a", "b", "c", "node 2 is told"]


def test_what_is_said_of_an_earlier_process_of_this_node_answers_none_of_this_one_s_commands() -> None:
    node = with_neighbour()
    _, serve = node.calls.serve.call_args.args
    told = Told(node.metadata.submit(PutVhost(VhostRecord("v"))))
    node.metadata.machine.apply(node.entries)
    node.kept()
    serve(2, FOLLOWS_LETTER.pack(FOLLOWS, 9, 1), None)
    assert not told.answered
    serve(2, FOLLOWS_LETTER.pack(FOLLOWS, 1, 1), None)
    assert told.answered


def test_a_command_that_got_lost_before_another_is_submitted_again_with_that_one() -> None:
    node = Alone()
    told = [Told(node.metadata.submit(PutVhost(VhostRecord(name)))) for name in "abc"]
    first, _, last = node.entries
    node.metadata.machine.apply([first, last])
    node.kept()
    assert [one.answered for one in told] == [True, False, False]
    node.metadata.tick()
    node.metadata.machine.apply(node.entries[3:])
    node.kept()
    assert all(one.answered and one.error is None for one in told)


def test_while_the_store_is_full_a_command_is_refused_at_once() -> None:
    world = MetadataWorld(size=1)
    node = world.leader_node()
    world.stores[node.number].full = DiskFull("no room")
    first = node.submit(DeclareQueue("/", "first"))
    world.run(1.0)
    assert not first.answered
    second = node.submit(DeclareQueue("/", "second"))
    assert second.answered and "what was declared cannot be kept now: no room" in str(second.error)
    world.stores[node.number].full = None
    world.run(1.0)
    assert first.value is not None


def test_a_node_whose_commands_a_snapshot_brought_is_told_that_they_are_followed() -> None:
    node, others = Alone(), CatalogMachine(Catalog(), Position())
    others.apply(vhosts_of_node_2("a", "b"))
    node.metadata.machine.restore(b"".join(others.snapshot()), others.version)
    node.kept()
    node.calls.tell.assert_called_once_with(2, METADATA, FOLLOWS_LETTER.pack(FOLLOWS, 7, 2))


def test_an_answer_does_not_wait_for_a_node_that_says_nothing_though_its_link_is_there() -> None:
    node = with_neighbour()
    node.group.trusts = lambda number: False
    told = Told(node.metadata.submit(PutVhost(VhostRecord("v"))))
    node.metadata.machine.apply(node.entries)
    node.kept()
    assert told.answered


def test_who_waits_until_others_follow_is_answered_when_the_node_stops() -> None:
    node = with_neighbour()
    told = Told(node.metadata.submit(PutVhost(VhostRecord("v"))))
    node.metadata.machine.apply(node.entries)
    node.kept()
    assert not told.answered
    node.metadata.close()
    assert told.answered and told.error is None


def test_a_node_that_stands_still_submits_nothing_again() -> None:
    node = Alone()
    told = Told(node.metadata.submit(PutVhost(VhostRecord("v"))))
    node.metadata.stand_still("an entry of a later version")
    node.group.leader = lambda: (1, 2)
    node.metadata.tick()
    node.metadata.leading_changed()
    assert told.error is not None and len(node.entries) == 1


def test_after_a_subscriber_failed_the_node_can_still_stop() -> None:
    """A stop waits until everything that was applied is told; what cannot be followed is not told any more."""
    node, failures = Alone(), list[str]()
    node.metadata.on_failed = failures.append
    node.metadata.subscribe(Mock(side_effect=ZeroDivisionError("a mistake")))
    node.metadata.submit(PutVhost(VhostRecord("v")))
    node.metadata.machine.apply(node.entries)
    waits = Told(node.metadata.flushed())
    assert not waits.answered
    with pytest.raises(ZeroDivisionError):
        node.kept()
    assert len(failures) == 1 and "a mistake" in failures[0]
    assert waits.answered and Told(node.metadata.flushed()).answered


def test_a_copy_of_the_catalog_is_given_up_with_the_link_of_who_fetched_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stay in memory for ever."""
    monkeypatch.setattr(catalog_pieces, "PIECE_BYTES", 10)
    node, incoming, answers = with_neighbour(), IncomingCopy(), list[list[bytes]]()
    node.group.read = lambda on_read: on_read(None)
    _, serve = node.calls.serve.call_args.args
    (link_changed,) = node.calls.on_link.call_args.args
    serve(2, incoming.request(), answers.append)
    assert incoming.take(b"".join(answers[0])) is None
    serve(2, incoming.request(), answers.append)
    assert incoming.take(b"".join(answers[1])) is None
    link_changed(2, False)
    serve(2, incoming.request(), answers.append)
    assert answers[2] == [NOT_TAKEN]
