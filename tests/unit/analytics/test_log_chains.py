"""Which entries count, where nodes have different ones: analytics/fold/log_chains.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from analytics.fold.log_chains import LogChains
from analytics.queue_events import SEGMENTS_BELOW, QueueEvent
from storage.record import Kind

Entry = tuple[int, int]  # index and term

NODES = ("n1", "n2", "n3")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(NODES),  # who is elected, if it can be
        st.integers(0, 3),  # what it appends
        st.lists(st.tuples(st.sampled_from(NODES), st.integers(0, 6)), max_size=4),  # to whom it sends, and how much
    ),
    max_size=12,
)


def copy(node: str, written: int, index: int, term: int) -> QueueEvent:
    return QueueEvent(1, index, term, Kind.RAFT_ENTRIES, None, 0, b"", written=written, node=node)


def chosen(copies: Sequence[QueueEvent]) -> tuple[list[Entry], dict[int, int]]:
    found: list[Entry] = []
    chains = LogChains(lambda one: found.append((one[0].place, one[0].term)))
    for event in sorted(copies, key=lambda event: (event.place, -event.term)):
        chains.take(event)
    chains.end()
    return found, chains.overruled


def test_an_entry_of_a_lower_term_replaces_one_that_a_leader_without_followers_wrote() -> None:
    """Where links dropped and changed bytes, proofs said of messages that had been taken that they were there."""
    copies = [
        copy("n1", 10, 716, 6), copy("n1", 20, 717, 6), copy("n1", 30, 718, 8),
        copy("n2", 10, 716, 6), copy("n2", 11, 717, 7), copy("n2", 12, 718, 7), copy("n2", 40, 717, 6), copy("n2", 41, 718, 8),
        copy("n3", 10, 716, 6), copy("n3", 20, 717, 6), copy("n3", 30, 718, 8),
    ]  # fmt: skip
    assert chosen(copies) == ([(716, 6), (717, 6), (718, 8)], {717: 6})


def test_a_node_that_never_came_back_has_what_was_replaced_elsewhere() -> None:
    copies = [
        copy("n1", 10, 716, 6), copy("n1", 20, 717, 6), copy("n1", 30, 718, 8),
        copy("n2", 10, 716, 6), copy("n2", 11, 717, 7), copy("n2", 12, 718, 7), copy("n2", 13, 719, 7),
    ]  # fmt: skip
    assert chosen(copies) == ([(716, 6), (717, 6), (718, 8)], {717: 6})


def test_what_stands_behind_a_replaced_entry_is_gone_with_it() -> None:
    copies = [copy("n1", 1, 1, 1), copy("n1", 2, 2, 1), copy("n1", 3, 3, 1), copy("n1", 4, 2, 2)]
    assert chosen(copies) == ([(1, 1), (2, 2)], {})


def test_entries_of_one_record_lie_at_one_place() -> None:
    copies = [copy("n1", 7, index, 1) for index in (1, 2, 3)]
    assert chosen(copies) == ([(1, 1), (2, 1), (3, 1)], {})


def test_what_was_moved_to_segments_is_not_gone_for_what_is_in_the_log_before_it() -> None:
    moved = copy("n1", 5 - SEGMENTS_BELOW, 2, 1)
    assert chosen([copy("n1", 9, 1, 1), moved, copy("n1", 30, 3, 1)]) == ([(1, 1), (2, 1), (3, 1)], {})


def test_what_was_moved_to_segments_stays_where_another_node_has_a_different_end() -> None:
    """And while chains are open, too: the log of n1 begins anew at a lower place than its segments end."""
    moved = [copy("n1", 5 - SEGMENTS_BELOW, 1, 1), copy("n1", 6 - SEGMENTS_BELOW, 2, 1)]
    copies = [*moved, copy("n2", 1, 1, 2), copy("n1", 9, 1, 1), copy("n1", 30, 3, 3)]
    assert chosen(copies) == ([(1, 1), (2, 1), (3, 3)], {1: 1})


def test_what_stands_behind_a_replaced_entry_is_gone_where_the_log_goes_on_without_it() -> None:
    copies = [copy("n1", 1, 1, 1), copy("n1", 2, 2, 1), copy("n1", 3, 3, 1), copy("n1", 4, 2, 2), copy("n1", 9, 4, 2)]
    assert chosen(copies) == ([(1, 1), (2, 2), (4, 2)], {})


def test_a_snapshot_says_which_entry_counts() -> None:
    found: list[Entry] = []
    chains = LogChains(lambda one: found.append((one[0].place, one[0].term)))
    for event in (copy("n1", 1, 1, 1), copy("n2", 1, 1, 1), copy("n1", 2, 2, 3), copy("n2", 2, 2, 2)):
        chains.take(event)
    chains.decide(2, 2)
    assert (found, chains.overruled) == ([(1, 1), (2, 2)], {2: 2})


def test_chains_that_end_before_a_gap_are_chosen_from_there() -> None:
    copies = [copy("n1", 1, 1, 1), copy("n2", 1, 1, 2), copy("n1", 9, 5, 3)]
    assert chosen(copies) == ([(1, 2), (5, 3)], {})


def test_a_snapshot_that_nobody_can_read_leaves_it_to_the_terms() -> None:
    """What was taken up to it would have come behind it."""
    found: list[Entry] = []
    chains = LogChains(lambda one: found.append((one[0].place, one[0].term)))
    for event in (copy("n1", 1, 1, 3), copy("n2", 1, 1, 2)):
        chains.take(event)
    chains.decide(1, 0)
    assert found == [(1, 3)]


def test_what_stands_behind_a_replaced_entry_is_gone_where_only_the_newer_copy_of_that_was_kept() -> None:
    """The file with the older one was deleted, and the next one has the entry that stood behind it."""
    assert chosen([copy("n1", 9, 1, 2), copy("n1", 4, 2, 1)]) == ([(1, 2)], {})


def test_a_log_goes_on_through_any_node_that_had_a_part_of_it() -> None:
    copies = [
        copy("n1", 1, 1, 2), copy("n3", 1, 1, 2), copy("n1", 2, 2, 2), copy("n3", 3, 3, 4),
        copy("n2", 1, 1, 3), copy("n2", 2, 2, 3),
    ]  # fmt: skip
    assert chosen(copies) == ([(1, 2), (2, 2), (3, 4)], {1: 2, 2: 2})


def test_chains_that_part_while_a_third_one_is_open_are_each_of_its_own() -> None:
    """n2 was left behind with what a leader of term 1 wrote, and n3 with what one of term 3 did. The entries of terms 3 and 4
    were taken for copies that lead on one chain, so the first of the two counted, and then a log that nobody has."""
    copies = [
        copy("n1", 10, 1, 2), copy("n1", 11, 2, 2), copy("n1", 30, 3, 4),
        copy("n2", 10, 1, 1), copy("n2", 11, 2, 1), copy("n2", 12, 3, 1),
        copy("n3", 10, 1, 2), copy("n3", 11, 2, 2), copy("n3", 12, 3, 3), copy("n3", 13, 4, 3),
        copy("n4", 20, 1, 2), copy("n4", 20, 2, 2), copy("n4", 31, 3, 4),
        copy("n5", 20, 1, 2), copy("n5", 20, 2, 2), copy("n5", 31, 3, 4),
    ]  # fmt: skip
    assert chosen(copies) == ([(1, 2), (2, 2), (3, 4)], {})


def test_a_log_that_begins_while_chains_are_open_leads_none_of_them_on() -> None:
    """Nothing says which of them its node had before."""
    copies = [copy("n1", 1, 1, 1), copy("n1", 2, 2, 1), copy("n2", 1, 1, 2), copy("n2", 2, 2, 2), copy("n3", 9, 2, 5)]
    assert chosen(copies) == ([(2, 5)], {})


def test_nodes_that_go_on_together_had_before_what_most_of_them_have() -> None:
    """Of n2 the record is damaged that replaced what it had first."""
    for names in (("n1", "n2", "n3"), ("n3", "n1", "n2"), ("n2", "n3", "n1")):
        copies = [copy(name, at, 1, 1 if name == "n2" else 2) for at, name in enumerate(names, 1)]
        copies += [copy(name, 10 + at, 2, 4) for at, name in enumerate(names, 1)]
        assert chosen(copies) == ([(1, 2), (2, 4)], {}), names


@dataclass
class Node:
    """A member's log, and every record that it ever wrote."""

    name: str
    log: list[int] = field(default_factory=list)  # the term of each entry
    copies: list[QueueEvent] = field(default_factory=list)

    @property
    def rank(self) -> tuple[int, int]:
        return (self.log[-1] if self.log else 0), len(self.log)

    def write(self, index: int, term: int) -> None:
        del self.log[index - 1 :]
        self.log.append(term)
        self.copies.append(copy(self.name, len(self.copies) + 1, index, term))

    def follow(self, leader: Node, upto: int) -> None:
        """As a follower does: what is the same stays, and from the first difference on the leader's entries replace its own."""
        theirs = leader.log[:upto]
        same = 0
        while same < min(len(theirs), len(self.log)) and theirs[same] == self.log[same]:
            same += 1
        for index in range(same + 1, len(theirs) + 1):
            self.write(index, theirs[index - 1])


@given(STEPS)
def test_the_log_that_could_win_an_election_counts(
    steps: list[tuple[str, int, list[tuple[str, int]]]],
) -> None:
    nodes = {name: Node(name) for name in NODES}
    term = 0
    for name, appended, sent in steps:
        leader = nodes[name]
        if sum(leader.rank >= other.rank for other in nodes.values()) < 2:
            continue  # no majority votes for it
        term += 1
        for _ in range(appended):
            leader.write(len(leader.log) + 1, term)
        for to, upto in sent:
            if to != name:
                nodes[to].follow(leader, upto)
    best = max(nodes.values(), key=lambda node: node.rank)
    copies = [one for node in nodes.values() for one in node.copies]
    found, overruled = chosen(copies)
    assert found == [(index, one) for index, one in enumerate(best.log, 1)]
    highest = {index: max(one.term for one in copies if one.place == index) for index, _ in found}
    assert overruled == {index: one for index, one in found if highest[index] > one}
