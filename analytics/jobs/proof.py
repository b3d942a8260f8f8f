"""Whether every message that a queue has taken is accounted for: what it came to, or that the queue still has it.

    promised = acked + dead + expired + dropped + purged + cut + present + unknown + missing

    acked     taken by a consumer: acknowledged, got, or sent to one that does not acknowledge
    dead      rejected, or given up at the delivery limit
    dropped   too much for the queue's limit
    purged    with a purge, or with the queue
    cut       from a stream, by retention (analytics/streams/stream_proof.py)
    present   ready or out at the end of what was read, and where the node would look for it
    missing   the same, but its content is gone: neither in the log of a node nor in the files of the queue

A proof never holds over a gap: if records are missing that may have told of a queue, or messages of it began before what was
read, or its files have messages that the log does not tell of, it is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from analytics.coverage import CutOff, counted
from analytics.fold.lives import LifeState
from analytics.jobs.answer import EXIT_HOLDS, EXIT_MISSING, EXIT_UNKNOWN
from analytics.jobs.kept_contents import GroupTerm
from analytics.queue_events import CLASSIC, QUORUM
from classic.stored_run import LEVEL_SHIFT
from native.sequence_set import SequenceSet

MISSING_NAMED = 100

COLUMN_OF = {
    LifeState.ACKED: "acked",
    LifeState.GOT: "acked",
    LifeState.NO_ACK: "acked",
    LifeState.REJECTED: "dead",
    LifeState.DELIVERY_LIMIT: "dead",
    LifeState.EXPIRED: "expired",
    LifeState.MAXLEN: "dropped",
    LifeState.PURGED: "purged",
    LifeState.DELETED: "purged",
    LifeState.READY: "present",
    LifeState.OUT: "present",
    LifeState.KEPT: "present",
    LifeState.CUT: "cut",
    LifeState.UNKNOWN: "unknown",
}
UNCOMMITTED = "some entries are not known to be committed: read the logs of more nodes"


class ProofRow(NamedTuple):
    """What a queue's messages have come to."""

    name: str
    queue: int
    promised: int
    acked: int
    dead: int
    expired: int
    dropped: int
    purged: int
    cut: int
    present: int
    unknown: int
    missing: int
    first_missing: list[int]  # their sequences, of a quorum queue their entries, the first of them
    why: str | None  # it is unknown


PROOF_COLUMNS = [
    ("name", "string"),
    *((name, "bigint") for name in ProofRow._fields[1:12]),
    ("first_missing", "array<bigint>"),
    ("why", "string"),
]


@dataclass(slots=True)
class QueueLives:
    """What the lives of one queue come to, as far as a proof looks at it."""

    queue: int
    name: str | None
    kind: str | None
    messages: dict[LifeState, int] = field(default_factory=dict)
    unknown: str | None = None  # why its history is not known as a whole
    begins: dict[int, int] = field(default_factory=dict)  # of a classic queue: the first sequence seen of each priority
    ends: dict[int, int] = field(default_factory=dict)  # and behind the last one
    going_on: SequenceSet = field(default_factory=SequenceSet)  # of a classic queue: ready or out
    # The same of a quorum queue: how many of an entry, and the term that counts where nodes have several; None: any.
    entries: dict[tuple[int, int | None], int] = field(default_factory=dict)


@dataclass(slots=True)
class LogEvidence:
    """What the files say beside the lives."""

    gaps: Sequence[str] = ()  # records of classic queues that are missing
    from_the_first: bool = True  # the first record of each node that speaks of classic queues was read
    changed: bool = False  # files came or went while they were read: what is missing may have moved
    stored: Mapping[int, SequenceSet] = field(default_factory=dict)  # by queue: messages whose content a node has
    exported: Sequence[str] = ()  # nodes without their files of queues: what is in none of the log may be there
    unlisted: Sequence[str] = ()  # nodes that do not say which files of queues they have
    entries: Mapping[GroupTerm, SequenceSet] = field(default_factory=dict)  # of quorum queues, where a start finds them
    unread_voters: Mapping[int, int] = field(default_factory=dict)  # of quorum queues: on nodes that were not read
    cut_off: Sequence[CutOff] = ()  # logs of nodes, of which quorum queues may have had their last entries


def prove(queue: QueueLives, log: LogEvidence) -> ProofRow:
    """See the module."""
    counts = dict.fromkeys(set(COLUMN_OF.values()), 0)
    for state, messages in queue.messages.items():
        counts[COLUMN_OF[state]] += messages
    why = queue.unknown or _unnamed(queue)
    if queue.kind == CLASSIC:
        why = _gap(log) or why or _late(queue, log) or _untold(queue, log)
        places = _missing(queue, log)
        missing = len(places)
    else:
        why = why or next(filter(None, (one.why(queue.queue) for one in log.cut_off)), None)
        places, missing = _missing_entries(queue, log)
    if missing:
        why = why or _elsewhere(queue, log)
        counts["present"] -= missing
    if missing and why is not None:  # what became of them may be told where nothing could be read
        counts["unknown"] += missing
        places, missing = SequenceSet(), 0
    return ProofRow(
        queue.name or str(queue.queue),
        queue.queue,
        sum(queue.messages.values()),
        **counts,
        missing=missing,
        first_missing=[one for start, end in places.copy().pop_first(MISSING_NAMED) for one in range(start, end)],
        why=why,
    )


def code_of(row: ProofRow) -> int:
    if row.missing:
        return EXIT_MISSING
    return EXIT_UNKNOWN if row.why or row.unknown else EXIT_HOLDS


def _unnamed(queue: QueueLives) -> str | None:
    return "the logs do not say which queue this is" if queue.kind is None else None


def _missing(queue: QueueLives, log: LogEvidence) -> SequenceSet:
    missing = queue.going_on.copy()
    for start, end in log.stored.get(queue.queue, SequenceSet()).ranges():
        missing.remove(start, end)
    return missing


def _missing_entries(queue: QueueLives, log: LogEvidence) -> tuple[SequenceSet, int]:
    """Entries of a quorum queue that are in no log and no segment, and how many messages those had that should be there."""
    kept = {term: entries for (group, term), entries in log.entries.items() if group == queue.queue}
    places, messages = SequenceSet(), 0
    for (entry, term), count in queue.entries.items():
        those = kept.values() if term is None else [kept[term]] if term in kept else []
        if not any(entries.intersect(entry, entry + 1) for entries in those):
            places.add(entry, entry + 1)
            messages += count
    return places, messages


def _elsewhere(queue: QueueLives, log: LogEvidence) -> str | None:
    """Why what is not found may be there all the same."""
    if queue.kind == QUORUM and (unread := log.unread_voters.get(queue.queue, 1)):
        return f"the node of {counted(unread, 'member', 'members')} was not read, where these may be"
    if log.exported:
        return f"the export of {log.exported[0]} has no files of queues, where these may be: read its directory"
    if log.unlisted and queue.kind == CLASSIC:
        return f"the list of the files of queues of {log.unlisted[0]} is damaged, and these may be in them"
    return "the node's files changed while they were read: stop it, or read a copy" if log.changed else None


def _gap(log: LogEvidence) -> str | None:
    """Each node counts its records of classic queues, so it is known that some are missing, but not of which queues."""
    return log.gaps[0] if log.gaps else None


def _late(queue: QueueLives, log: LogEvidence) -> str | None:
    if log.from_the_first or not any(first & (1 << LEVEL_SHIFT) - 1 for first in queue.begins.values()):
        return None
    return "there may have been messages before the log that was read"


def _untold(queue: QueueLives, log: LogEvidence) -> str | None:
    """What the queue's files have beyond what the log tells of: the log's end is missing, or its first files are."""
    beyond = log.stored.get(queue.queue, SequenceSet()).copy()
    for level, first in queue.begins.items():
        beyond.remove(first, queue.ends[level])
    if not beyond:
        return None
    return f"the queue has {len(beyond)} messages that the log does not tell of, the first at sequence {beyond.first()}"
