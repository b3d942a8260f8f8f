"""Whether all messages are accounted for, by rules alone."""

from __future__ import annotations

import pytest

from analytics.coverage import CutOff, MissingFiles
from analytics.fold.lives import LifeState
from analytics.jobs.answer import EXIT_HOLDS, EXIT_MISSING, EXIT_UNKNOWN, worst
from analytics.jobs.kept_contents import KnownVoters, unread_voters
from analytics.jobs.proof import COLUMN_OF, LogEvidence, QueueLives, code_of, prove
from analytics.queue_events import CLASSIC, QUORUM
from classic.stored_run import LEVEL_SHIFT
from native.sequence_set import SequenceSet

QUEUE = 7


def sequences(*ranges: tuple[int, int]) -> SequenceSet:
    made = SequenceSet()
    for start, end in ranges:
        made.add(start, end)
    return made


def classic(begin: int = 0) -> QueueLives:
    """Ten messages, of which the last four are still there."""
    messages = {LifeState.ACKED: 3, LifeState.EXPIRED: 2, LifeState.PURGED: 1, LifeState.READY: 3, LifeState.OUT: 1}
    queue = QueueLives(QUEUE, "/q", CLASSIC, messages, begins={0: begin}, ends={0: begin + 10})
    queue.going_on.add(begin + 6, begin + 10)
    return queue


def evidence(*stored: tuple[int, int], **said: object) -> LogEvidence:
    return LogEvidence(stored={QUEUE: sequences(*stored)}, **said)  # type: ignore[arg-type]


COLUMNS = {
    "acked": {LifeState.ACKED, LifeState.GOT, LifeState.NO_ACK},
    "dead": {LifeState.REJECTED, LifeState.DELIVERY_LIMIT},
    "expired": {LifeState.EXPIRED},
    "dropped": {LifeState.MAXLEN},
    "purged": {LifeState.PURGED, LifeState.DELETED},
    "cut": {LifeState.CUT},
    "present": {LifeState.READY, LifeState.OUT, LifeState.KEPT},
    "unknown": {LifeState.UNKNOWN},
}  # as docs/history.md has them


def test_each_state_is_counted_in_its_column_and_no_other() -> None:
    assert {state for states in COLUMNS.values() for state in states} == set(COLUMN_OF) == set(LifeState)
    for column, states in COLUMNS.items():
        for state in states:
            row = prove(QueueLives(QUEUE, "/q", QUORUM, {state: 3}), LogEvidence())
            counts = {name: getattr(row, name) for name in (*COLUMNS, "missing")}
            assert counts == dict.fromkeys(counts, 0) | {column: 3}, state


def test_all_that_was_promised_is_in_one_of_the_columns() -> None:
    row = prove(classic(), evidence((0, 10)))
    assert (row.name, row.queue, prove(QueueLives(QUEUE, None, CLASSIC), evidence()).name) == ("/q", QUEUE, str(QUEUE))
    assert (row.promised, row.acked, row.expired, row.purged, row.present) == (10, 3, 2, 1, 4)
    assert (row.missing, row.first_missing, row.why, code_of(row)) == (0, [], None, EXIT_HOLDS)


def test_a_message_whose_content_is_nowhere_is_missing() -> None:
    row = prove(classic(), evidence((0, 7), (9, 10)))
    assert (row.present, row.missing, row.first_missing) == (2, 2, [7, 8])
    assert code_of(row) == EXIT_MISSING


def test_what_is_missing_while_a_node_works_is_unknown() -> None:
    row = prove(classic(), evidence((0, 7), (9, 10), changed=True))
    assert (row.present, row.missing, row.unknown) == (2, 0, 2)
    assert code_of(row) == EXIT_UNKNOWN


def test_what_an_export_does_not_have_is_unknown() -> None:
    row = prove(classic(), evidence((0, 7), (9, 10), exported=["n1"]))
    assert (row.present, row.missing, row.unknown, code_of(row)) == (2, 0, 2, EXIT_UNKNOWN)
    assert row.why == "the export of n1 has no files of queues, where these may be: read its directory"
    assert code_of(prove(classic(), evidence((0, 10), exported=["n1"]))) == EXIT_HOLDS


def test_what_files_may_have_that_nobody_lists_is_unknown() -> None:
    row = prove(classic(), evidence((0, 7), (9, 10), unlisted=["n1"]))
    assert (row.present, row.missing, row.unknown, code_of(row)) == (2, 0, 2, EXIT_UNKNOWN)
    assert row.why == "the list of the files of queues of n1 is damaged, and these may be in them"
    assert code_of(prove(classic(), evidence((0, 10), unlisted=["n1"]))) == EXIT_HOLDS
    assert code_of(prove(quorum(), entries_in({3: [(9, 10)]}, unlisted=["n1"]))) == EXIT_MISSING


def test_a_node_that_works_does_not_spoil_a_proof() -> None:
    assert code_of(prove(classic(), evidence((0, 10), changed=True))) == EXIT_HOLDS


def test_a_proof_never_holds_over_a_gap() -> None:
    row = prove(classic(), evidence((0, 10), gaps=["records 3 to 4 are missing"]))
    assert row.why == "records 3 to 4 are missing"
    assert code_of(row) == EXIT_UNKNOWN


def test_what_is_not_found_where_records_are_missing_is_not_called_missing() -> None:
    row = prove(classic(), evidence((0, 7), (9, 10), gaps=["records 3 to 4 are missing"]))
    assert (row.present, row.missing, row.unknown, code_of(row)) == (2, 0, 2, EXIT_UNKNOWN)


def test_a_log_that_begins_late_proves_only_queues_that_began_later() -> None:
    assert code_of(prove(classic(), evidence((0, 10), from_the_first=False))) == EXIT_HOLDS
    row = prove(classic(begin=5), evidence((5, 15), from_the_first=False))
    assert (row.why, code_of(row)) == ("there may have been messages before the log that was read", EXIT_UNKNOWN)


@pytest.mark.parametrize("begin", [1, 4, 1 << 20])
def test_one_priority_that_begins_late_is_enough(begin: int) -> None:
    queue = QueueLives(QUEUE, "/q", CLASSIC, {LifeState.ACKED: 4})
    level = 3 << LEVEL_SHIFT
    queue.begins, queue.ends = {0: 0, level: level + begin}, {0: 2, level: level + begin + 2}
    assert code_of(prove(queue, LogEvidence(from_the_first=False))) == EXIT_UNKNOWN
    assert code_of(prove(queue, LogEvidence())) == EXIT_HOLDS


def test_messages_that_are_over_and_nobody_says_how_prove_nothing() -> None:
    row = prove(QueueLives(QUEUE, "/q", CLASSIC, {LifeState.ACKED: 4, LifeState.UNKNOWN: 1}), LogEvidence())
    assert (row.unknown, row.why, code_of(row)) == (1, None, EXIT_UNKNOWN)


def test_priorities_begin_at_their_own_sequences() -> None:
    queue = QueueLives(QUEUE, "/q", CLASSIC, {LifeState.ACKED: 4})
    levels = [level << LEVEL_SHIFT for level in range(3)]
    queue.begins, queue.ends = {one: one for one in levels}, {one: one + 2 for one in levels}
    assert code_of(prove(queue, LogEvidence(from_the_first=False))) == EXIT_HOLDS


def test_messages_that_only_the_queue_knows_make_it_unknown() -> None:
    row = prove(classic(), evidence((0, 10), (12, 15)))
    assert row.why == "the queue has 3 messages that the log does not tell of, the first at sequence 12"
    assert code_of(row) == EXIT_UNKNOWN


@pytest.mark.parametrize("kind", ["quorum", None])
def test_a_history_that_is_not_known_as_a_whole_proves_nothing(kind: str | None) -> None:
    queue = QueueLives(QUEUE, None, kind, {LifeState.ACKED: 1}, "entries 4 to 5 are missing" if kind else None)
    assert code_of(prove(queue, LogEvidence())) == EXIT_UNKNOWN


def test_a_classic_queue_whose_history_is_not_known_as_a_whole_is_unknown_though_all_is_there() -> None:
    queue = classic()
    queue.unknown = "sequence 5 was published twice"
    row = prove(queue, evidence((0, 10)))
    assert (row.present, row.why, code_of(row)) == (4, queue.unknown, EXIT_UNKNOWN)


def test_gaps_of_classic_queues_say_nothing_of_quorum_queues() -> None:
    row = prove(quorum(), entries_in({3: [(5, 6), (9, 10)]}, gaps=["records 3 to 4 are missing"]))
    assert (row.present, code_of(row)) == (4, EXIT_HOLDS)


def quorum() -> QueueLives:
    """Two entries with two messages each that are still there, the second of which two leaders have written."""
    queue = QueueLives(QUEUE, "/q", QUORUM, {LifeState.ACKED: 1, LifeState.READY: 4})
    queue.entries = {(5, None): 2, (9, 3): 2}
    return queue


def entries_in(terms: dict[int, list[tuple[int, int]]], unread: int = 0, **said: object) -> LogEvidence:
    kept = {(QUEUE, term): sequences(*ranges) for term, ranges in terms.items()}
    return LogEvidence(entries=kept, unread_voters={QUEUE: unread}, **said)  # type: ignore[arg-type]


def test_an_entry_that_no_log_and_no_segment_has_is_missing_with_its_messages() -> None:
    row = prove(quorum(), entries_in({3: [(9, 10)]}))
    assert (row.present, row.missing, row.first_missing, code_of(row)) == (2, 2, [5], EXIT_MISSING)


@pytest.mark.parametrize("beside", [(4, 5), (6, 7)])
def test_neither_the_entry_beside_it_nor_that_of_another_queue_stands_for_an_entry(beside: tuple[int, int]) -> None:
    log = entries_in({3: [beside, (9, 10)]})
    log.entries = {**log.entries, (QUEUE + 1, 3): sequences((1, 20))}
    row = prove(quorum(), log)
    assert (row.present, row.missing, row.first_missing, code_of(row)) == (2, 2, [5], EXIT_MISSING)


def test_an_entry_of_a_term_that_was_replaced_is_another_one() -> None:
    row = prove(quorum(), entries_in({2: [(5, 10)]}))
    assert (row.present, row.missing, row.first_missing) == (2, 2, [9])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"unread": 2}, "the node of 2 members was not read, where these may be"),
        ({"exported": ["n1"]}, "the export of n1 has no files of queues, where these may be: read its directory"),
        ({"changed": True}, "the node's files changed while they were read: stop it, or read a copy"),
    ],
)
def test_an_entry_that_another_node_may_have_is_unknown(said: dict[str, object], why: str) -> None:
    row = prove(quorum(), entries_in({}, **said))  # type: ignore[arg-type]
    assert (row.present, row.missing, row.unknown, row.why, code_of(row)) == (0, 0, 4, why, EXIT_UNKNOWN)


def test_of_members_those_count_that_belong_to_the_newest_membership() -> None:
    first, later = KnownVoters(QUEUE, 1, 0, (1, 2, 3)), KnownVoters(QUEUE, 2, 40, (2, 4))
    joined = KnownVoters(QUEUE, 4, 0, ())
    assert unread_voters([first]) == {QUEUE: 2}
    assert unread_voters([first, later]) == {QUEUE: 1}
    assert unread_voters([first, later, joined]) == {QUEUE: 0}
    assert unread_voters([joined]) == {QUEUE: 1}


def test_what_is_missing_counts_more_than_what_is_unknown() -> None:
    assert worst([EXIT_UNKNOWN, EXIT_HOLDS, EXIT_MISSING]) == EXIT_MISSING
    assert worst([EXIT_HOLDS, EXIT_UNKNOWN]) == EXIT_UNKNOWN
    assert worst([]) == EXIT_HOLDS


@pytest.mark.parametrize(
    ("kind", "told_behind", "code"),
    [
        (QUORUM, frozenset({QUEUE}), EXIT_HOLDS),
        (QUORUM, frozenset({QUEUE + 1}), EXIT_UNKNOWN),
        (CLASSIC, frozenset(), EXIT_HOLDS),  # records of these are counted
    ],
)
def test_a_quorum_queue_of_which_nothing_tells_behind_a_missing_file_may_have_ended_in_it(
    kind: str, told_behind: frozenset[int], code: int
) -> None:
    queue = QueueLives(QUEUE, "/q", kind, {LifeState.ACKED: 3}, begins={0: 0}, ends={0: 3})
    row = prove(queue, LogEvidence(cut_off=[CutOff(MissingFiles("n1", 5, 6), told_behind)]))
    why = "files 5 to 6 of the log of n1 are missing, and may have had the last entries"
    assert (code_of(row), row.why) == (code, why if code else None)
