"""Whether all messages are accounted for, by rules alone."""

from __future__ import annotations

import pytest

from analytics.fold.lives import LifeState
from analytics.jobs.answer import EXIT_HOLDS, EXIT_MISSING, EXIT_UNKNOWN, worst
from analytics.jobs.proof import COLUMN_OF, LogEvidence, QueueLives, code_of, prove
from analytics.queue_events import CLASSIC
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


def test_each_state_has_its_column() -> None:
    assert set(COLUMN_OF) == set(LifeState)


def test_all_that_was_promised_is_in_one_of_the_columns() -> None:
    row = prove(classic(), evidence((0, 10)))
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


def test_priorities_begin_at_their_own_sequences() -> None:
    queue = QueueLives(QUEUE, "/q", CLASSIC, {LifeState.ACKED: 4})
    queue.begins = {0: 0, 2 << LEVEL_SHIFT: 2 << LEVEL_SHIFT}
    queue.ends = {0: 2, 2 << LEVEL_SHIFT: (2 << LEVEL_SHIFT) + 2}
    assert code_of(prove(queue, LogEvidence(from_the_first=False))) == EXIT_HOLDS


def test_messages_that_only_the_queue_knows_make_it_unknown() -> None:
    row = prove(classic(), evidence((0, 10), (12, 15)))
    assert row.why == "the queue has 3 messages that the log does not tell of, the first at sequence 12"
    assert code_of(row) == EXIT_UNKNOWN


@pytest.mark.parametrize("kind", ["quorum", None])
def test_a_history_that_is_not_known_as_a_whole_proves_nothing(kind: str | None) -> None:
    queue = QueueLives(QUEUE, None, kind, {LifeState.ACKED: 1}, "entries 4 to 5 are missing" if kind else None)
    assert code_of(prove(queue, LogEvidence())) == EXIT_UNKNOWN


def test_gaps_of_classic_queues_say_nothing_of_quorum_queues() -> None:
    queue = QueueLives(QUEUE, "/q", "quorum", {LifeState.ACKED: 1, LifeState.READY: 2})
    row = prove(queue, evidence(gaps=["records 3 to 4 are missing"]))
    assert (row.present, code_of(row)) == (2, EXIT_HOLDS)


def test_what_is_missing_counts_more_than_what_is_unknown() -> None:
    assert worst([EXIT_UNKNOWN, EXIT_HOLDS, EXIT_MISSING]) == EXIT_MISSING
    assert worst([EXIT_HOLDS, EXIT_UNKNOWN]) == EXIT_UNKNOWN
    assert worst([]) == EXIT_HOLDS
