"""The proof of `leveret-analytics` without Spark: the same rules, over lives that are gathered in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from analytics.file_window import missing_files
from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import LifeState
from analytics.inputs import LogFile, log_files
from analytics.jobs.evidence import file_evidence, log_evidence
from analytics.jobs.kept_contents import quorum_segments, store_files
from analytics.jobs.proof import ProofRow, QueueLives, prove
from analytics.queue_events import CLASSIC, QueueName
from analytics.streams.stream_look import FileStreams
from analytics.streams.stream_proof import stream_proofs
from classic.stored_run import LEVEL_SHIFT
from tests.ledger.told import histories


def proofs(data: Path) -> dict[str, ProofRow]:
    """Of each queue of one data directory, by its name without the virtual host."""
    files = log_files([str(data)])
    directories = {(file.node, file.directory) for file in files}
    looked = [*files, *quorum_segments(directories), *store_files(directories)]
    evidence = log_evidence(
        map(partial(file_evidence, with_groups=True), looked), directories, False, missing_files(files)
    )
    rows = [prove(_lives(named, history), evidence) for named, history in histories([str(data)]).values()]
    rows += stream_proofs(files, looked_at, tail=False)
    return {row.name.rpartition("/")[2]: row for row in rows}


def looked_at(look: Callable[[LogFile], FileStreams], files: Sequence[LogFile]) -> list[FileStreams]:
    """Here, one after the other."""
    return [look(file) for file in files]


def _lives(named: QueueName, history: QueueHistory) -> QueueLives:
    queue = QueueLives(named.queue, named.name, named.kind, unknown=history.unknown)
    for life in history.lives:
        state = life.state if history.is_committed(life) else LifeState.UNKNOWN
        queue.messages[state] = queue.messages.get(state, 0) + life.count
        if named.kind == CLASSIC:
            first, end = life.entry + life.first, life.entry + life.end
            level = first >> LEVEL_SHIFT << LEVEL_SHIFT
            queue.begins[level] = min(first, queue.begins.get(level, first))
            queue.ends[level] = max(end, queue.ends.get(level, end))
            if not life.state.has_ended:
                queue.going_on.add(first, end)
        elif not state.has_ended:
            place = (life.entry, history.overruled.get(life.entry))
            queue.entries[place] = queue.entries.get(place, 0) + life.count
    return queue
