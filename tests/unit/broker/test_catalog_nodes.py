"""Nodes in the catalog: their numbers, what goes with a process or a node, and what a cluster may not lose."""

from dataclasses import replace

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import (
    AddNode,
    Bind,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    JoinNode,
    NodeLost,
    NodeStarted,
    PutNode,
    RemoveNode,
    SetClusterId,
    SetQueueMembers,
)
from broker.catalog.parts.catalog_limits import CatalogLimits
from broker.catalog.parts.disk_lives import FIRST_LIFE, LIFE_NUMBERS, LIVES_MAX
from broker.errors import BrokerError, NotFound, PreconditionFailed
from broker.records import BindingRecord, CatalogHead, ExchangeRecord, NodeRecord, QueueRecord


def node(name: str, disk_id: int = 10, kind: str = "disk") -> NodeRecord:
    return NodeRecord(name, 0, disk_id, f"{name}:5681", kind)


def cluster(*names: str) -> Catalog:
    catalog = Catalog()
    for command in (*default_commands("hash"), *(AddNode(node(name)) for name in names)):
        catalog.apply(command)
    return catalog


def refused(catalog: Catalog, command: Command, error: type[BrokerError], text: str) -> None:
    version, head = catalog.version, catalog.head
    with pytest.raises(error) as raised:
        catalog.apply(command)
    assert raised.value.text == text
    assert (catalog.version, catalog.head) == (version, head)


def declare_on(catalog: Catalog, home: str) -> None:
    """A queue of each sort; the last two are to go with the process of their node."""
    for name, command in (
        ("durable", DeclareQueue("/", f"{home}-durable", home=home)),
        ("transient", DeclareQueue("/", f"{home}-transient", durable=False, home=home)),
        ("exclusive", DeclareQueue("/", f"{home}-exclusive", exclusive=True, owner="c1", home=home)),
    ):
        catalog.apply(command)
        catalog.apply(Bind(BindingRecord("/", "amq.fanout", f"{home}-{name}", "queue", ""), owner="c1"))


def names(records: list[QueueRecord]) -> list[str]:
    return [record.name for record in records]


def test_numbers_of_nodes_are_never_given_again() -> None:
    catalog = cluster("a", "b")
    assert [record.number for record in catalog.nodes.values()] == [1, 2]
    catalog.apply(RemoveNode("b"))
    assert catalog.apply(AddNode(node("b"))).number == 3
    assert catalog.node_of_number(3) == catalog.nodes["b"] and catalog.node_of_number(2) is None


def test_a_node_that_lost_its_disk_keeps_its_number_and_one_that_asks_twice_changes_nothing() -> None:
    catalog = cluster("a", "b")
    version = catalog.version
    assert catalog.apply(AddNode(node("b"))).number == 2
    assert catalog.version == version
    assert catalog.apply(AddNode(node("b", disk_id=11))) == replace(catalog.nodes["b"], number=2, disk_id=11)
    assert catalog.next_node_number == 3


def test_a_node_does_not_come_back_on_a_disk_from_before() -> None:
    catalog = cluster("a", "b")
    catalog.apply(AddNode(node("b", disk_id=11)))
    text = (
        "node 'b' wants to come back on a disk that was begun with before the one that it had last: its clock is set back, or "
        "was ahead then, or the directory is an old one; set the clock, and start it with an empty directory, or forget the "
        "node first, and it joins as a new one"
    )
    refused(catalog, AddNode(node("b", disk_id=10)), PreconditionFailed, text)
    assert catalog.nodes["b"].disk_id == 11


def join(catalog: Catalog, name: str, joiner: str) -> NodeRecord:
    """`joiner` is a number, and the incarnation, too."""
    record: NodeRecord = catalog.apply(JoinNode(node(name, disk_id=77), joiner, int(joiner)))
    return record


def test_each_life_of_a_disk_has_numbers_above_all_earlier_ones() -> None:
    catalog = cluster()
    first = join(catalog, "a", "1")
    assert (first.number, first.disk_id) == (1, FIRST_LIFE)
    lives = [join(catalog, "a", str(process)) for process in range(2, 6)]
    assert [one.number for one in lives] == [1] * 4
    assert [one.disk_id for one in lives] == [FIRST_LIFE + life * LIFE_NUMBERS for life in range(1, 5)]
    assert join(catalog, "b", "1").disk_id == FIRST_LIFE, "numbers of another node are others"


def test_who_asks_to_join_again_is_answered_again() -> None:
    catalog = cluster()
    join(catalog, "a", "1")
    first = join(catalog, "b", "1")
    version = catalog.version
    assert join(catalog, "b", "1") == first
    assert catalog.version == version


def test_a_life_begins_above_what_the_disk_before_has_renumbered_itself_to() -> None:
    catalog = cluster()
    join(catalog, "a", "1")
    catalog.apply(NodeStarted("a", FIRST_LIFE + LIFE_NUMBERS - 1, 1_000))
    again = join(catalog, "a", "1001")
    assert (again.disk_id, again.incarnation) == (FIRST_LIFE + LIFE_NUMBERS, 1_000)


def test_a_node_whose_disk_was_numbered_by_the_clock_comes_back_above_the_life_that_it_may_have_had_since() -> None:
    """An update takes it to the first life, of which the catalog does not hear."""
    catalog = cluster("a", "b")
    assert join(catalog, "b", "1").disk_id == FIRST_LIFE + LIFE_NUMBERS


def test_a_node_that_joins_anew_after_it_was_removed_is_another_one() -> None:
    catalog = cluster("a")
    join(catalog, "b", "1")
    catalog.apply(RemoveNode("b"))
    again = join(catalog, "b", "1")
    assert (again.number, again.disk_id) == (3, FIRST_LIFE)


def test_a_node_that_has_used_up_its_lives_is_told_what_to_do() -> None:
    catalog = cluster("a")
    for process in range(1, LIVES_MAX + 1):
        last = join(catalog, "b", str(process))
    assert last.disk_id + LIFE_NUMBERS == 1 << 32
    with pytest.raises(PreconditionFailed, match="forget the node, and it joins as a new one"):
        join(catalog, "b", str(LIVES_MAX + 1))
    assert catalog.nodes["b"] == last


def test_who_does_not_say_which_process_asks_to_join_is_refused() -> None:
    text = "node 'b' does not say which process of it asks to join"
    refused(cluster("a"), JoinNode(node("b"), "", 1), PreconditionFailed, text)


def test_a_process_on_an_old_data_directory_does_not_take_the_nodes_record_back() -> None:
    catalog = cluster("a")
    join(catalog, "b", "1")
    later = join(catalog, "b", "2").disk_id
    catalog.apply(NodeStarted("b", later, 4_000))
    text = "node 'b' started on an old data directory: it was started with a later one since"
    refused(catalog, NodeStarted("b", FIRST_LIFE, 5_000), PreconditionFailed, text)
    assert catalog.nodes["b"].disk_id == later


def test_a_request_of_a_process_that_a_later_one_has_followed_grants_nothing() -> None:
    """It was killed, and what it had submitted is carried out late: the later one would be taken for one on an old disk."""
    catalog = cluster("a")
    join(catalog, "b", "1")
    text = "a later process of node 'b' was started than the one that wants to join"
    used = join(catalog, "b", "3").disk_id
    refused(catalog, JoinNode(node("b"), "2", 2), PreconditionFailed, text)
    catalog.apply(NodeStarted("b", used, 4))
    refused(catalog, JoinNode(node("b"), "4", 4), PreconditionFailed, text)
    assert (catalog.nodes["b"].disk_id, catalog.nodes["b"].incarnation) == (used, 4)


def test_a_cluster_keeps_a_disk_node() -> None:
    catalog = cluster("a")
    catalog.apply(AddNode(node("r", kind="ram")))
    for command in (
        RemoveNode("a"),
        PutNode(node("a", kind="ram")),
        JoinNode(node("a", kind="ram"), "1", 1),
        AddNode(node("a", 11, "ram")),
    ):
        refused(catalog, command, PreconditionFailed, "node 'a' is the last disk node of this cluster")
    catalog.apply(PutNode(node("r", kind="disk")))
    catalog.apply(RemoveNode("a"))
    refused(catalog, RemoveNode("a"), NotFound, "no node 'a' belongs to this cluster")
    text = "node 'b' is of kind 'tape': there are disk, ram"
    refused(catalog, AddNode(node("b", kind="tape")), PreconditionFailed, text)


def test_what_is_said_of_a_node_changes_neither_its_disk_nor_its_process() -> None:
    catalog = cluster("a")
    catalog.apply(NodeStarted("a", 12, 1_000))
    wish = NodeRecord("a", 99, 99, "else:1", zone="west", draining=True)
    assert catalog.apply(PutNode(wish)) == NodeRecord("a", 1, 12, "else:1", "disk", "west", 1_000, True)


def test_a_start_clears_up_after_the_process_before_it_and_once_only() -> None:
    catalog = cluster("a", "b")
    catalog.apply(NodeStarted("a", 10, 1_000))
    declare_on(catalog, "a")
    declare_on(catalog, "b")
    gone = catalog.apply(NodeStarted("a", 11, 1_001))
    assert names(gone) == ["a-transient", "a-exclusive"]
    assert names(list(catalog.queues("/"))) == ["a-durable", "b-durable", "b-transient", "b-exclusive"]
    assert len(list(catalog.bindings("/"))) == 4
    assert (catalog.nodes["a"].disk_id, catalog.nodes["a"].incarnation) == (11, 1_001)
    declare_on(catalog, "a")
    for incarnation in (1_000, 1_001):  # said again, or late
        version = catalog.version
        assert catalog.apply(NodeStarted("a", 10, incarnation)) == []
        assert catalog.version == version


def test_only_a_cluster_of_one_node_was_gone_as_a_whole() -> None:
    for others, left in (([], ["kept"]), (["b"], ["first", "second", "kept"])):
        catalog = cluster("a", *others)
        catalog.apply(DeclareExchange(ExchangeRecord("/", "first", "fanout", durable=False, auto_delete=True)))
        catalog.apply(DeclareExchange(ExchangeRecord("/", "second", "fanout", durable=False)))
        catalog.apply(DeclareExchange(ExchangeRecord("/", "kept", "fanout")))
        catalog.apply(Bind(BindingRecord("/", "first", "second", "exchange", "")))
        catalog.apply(NodeStarted("a", 10, 1))
        assert [one.name for one in catalog.exchanges("/") if not one.name.startswith("amq.")] == left


def test_a_lost_process_is_cleared_up_after_unless_another_one_runs_already() -> None:
    catalog = cluster("a", "b")
    catalog.apply(NodeStarted("b", 10, 1_000))
    declare_on(catalog, "b")
    assert catalog.apply(NodeLost("b", 999)) == []
    assert names(catalog.apply(NodeLost("b", 1_000))) == ["b-transient", "b-exclusive"]
    refused(catalog, NodeLost("c", 1), NotFound, "no node 'c' belongs to this cluster")


def test_a_removed_node_takes_its_classic_queues_along() -> None:
    catalog = cluster("a", "b")
    declare_on(catalog, "a")
    declare_on(catalog, "b")
    catalog.apply(DeclareQueue("/", "q", arguments={"x-queue-type": "quorum"}, home="b", members=(1 << 32, 2 << 32)))
    assert names(catalog.apply(RemoveNode("b"))) == ["b-durable", "b-transient", "b-exclusive"]
    assert names(list(catalog.queues("/"))) == ["a-durable", "a-transient", "a-exclusive", "q"]


def test_members_are_those_of_this_very_queue() -> None:
    catalog = cluster("a")
    first = catalog.apply(DeclareQueue("/", "q", arguments={"x-queue-type": "quorum"}, members=(5, 6)))
    assert first.members == (5, 6)
    seen: list[object] = []
    catalog.observer = lambda record, present: seen.append((record, present))
    changed = catalog.apply(SetQueueMembers("/", "q", first.id, (5, 7)))
    assert first.formed == 0
    assert changed == replace(first, members=(5, 7), formed=1) == catalog.queue("/", "q")
    assert catalog.apply(SetQueueMembers("/", "q", first.id, (5, 7))) == changed
    assert seen == [(changed, True)]
    assert catalog.apply(SetQueueMembers("/", "q", first.id + 1, ())) is None
    catalog.observer = None
    catalog.apply(DeleteQueue("/", "q"))
    assert catalog.apply(SetQueueMembers("/", "q", first.id, ())) is None


def test_who_has_the_members_of_an_earlier_moment_is_not_believed_unless_the_group_begins_anew() -> None:
    catalog = cluster("a")
    first = catalog.apply(DeclareQueue("/", "q", arguments={"x-queue-type": "quorum"}, members=(5, 6)))
    removed = catalog.apply(SetQueueMembers("/", "q", first.id, (5,), formed=40))
    assert (removed.members, removed.formed) == ((5,), 40)
    assert catalog.apply(SetQueueMembers("/", "q", first.id, (5, 6), formed=39)) == removed
    anew = catalog.apply(SetQueueMembers("/", "q", first.id, (7,), formed=3, anew=True))
    assert (anew.members, anew.formed) == ((7,), 3)
    assert catalog.apply(SetQueueMembers("/", "q", first.id, (7, 8), formed=9)).formed == 9


def test_a_cluster_has_one_id() -> None:
    catalog = cluster("a")
    assert catalog.apply(SetClusterId("0123")) == catalog.apply(SetClusterId("0123")) == "0123"
    refused(
        catalog, SetClusterId("4567"), PreconditionFailed, "this cluster has the id 0123, and cannot be 4567"
    )  # fmt: skip


def test_limits_are_those_of_the_node_that_was_started_last() -> None:
    catalog = cluster("a")
    catalog.apply(NodeStarted("a", 10, 1, {"queues": 1, "what a later version limits": 5}))
    assert catalog.limits == replace(CatalogLimits(), queues=1)
    catalog.apply(DeclareQueue("/", "q"))
    refused(catalog, DeclareQueue("/", "r"), PreconditionFailed, "the limit of 1 queues is reached")
    catalog.apply(NodeStarted("a", 10, 2))
    assert catalog.limits.queues == 1


def test_a_catalog_that_is_loaded_in_place_of_another_gives_out_the_numbers_that_follow() -> None:
    catalog = cluster("a", "b")
    catalog.apply(SetClusterId("0123"))
    catalog.apply(NodeStarted("a", 10, 1, {"queues": 3}))
    catalog.apply(DeclareQueue("/", "q"))
    other = cluster("x")
    other.clear()
    assert other.head == CatalogHead(limits=cluster("x").head.limits)
    other.load_head(catalog.head)
    for record in catalog.nodes.values():
        other.load(record)
    assert (other.head, other.nodes) == (catalog.head, catalog.nodes)
    assert other.apply(AddNode(node("c"))).number == 3
