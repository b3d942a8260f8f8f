"""`leveret-analytics queue NAME --at TIME`: which queues are meant, and the figures of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from analytics.coverage import Coverage
from analytics.file_window import coverage_of
from analytics.inputs import LogFile, SnapshotFile
from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN, JobAnswer
from analytics.jobs.figures import FIGURE_COLUMNS, MS, LifeTimes, figures_at
from analytics.past.log_timeline import LogTimeline
from analytics.past.past_classic import ClassicPast
from analytics.past.past_fold import PastReader, QueuePast
from analytics.past.past_group import GroupPast
from analytics.queue_events import CLASSIC, STREAM, QueueName
from analytics.streams.stream_copies import read_streams
from analytics.workers import Workers

COLUMNS = [("name", "string"), *FIGURE_COLUMNS, ("unknown", "string")]


class PastAnswer(NamedTuple):
    """What is known of the queues, and what that stands on."""

    said: JobAnswer
    coverage: Coverage


@dataclass(slots=True)
class QueueAt:
    """One question. `files` and `snapshots`: all that there are."""

    files: Sequence[LogFile]
    snapshots: Sequence[SnapshotFile]
    asked: str
    second: int
    tail: bool = False

    def answer(self) -> PastAnswer:
        with Workers(self.files) as workers:
            reader = PastReader(workers, tail=self.tail)
            rows = list(self._rows(workers, reader))
        read = [file for file in self.files if file in reader.windows]
        coverage = coverage_of(list(reader.windows), list(reader.windows.values()))
        unknown = coverage.is_damaged or not rows or any(row["unknown"] or row["untimed"] for row in rows)
        said = JobAnswer(COLUMNS, rows, EXIT_UNKNOWN if unknown else EXIT_HOLDS)
        return PastAnswer(said, coverage._replace(skipped=len(self.files) - len(read)))

    def _rows(self, workers: Workers, reader: PastReader) -> Iterator[dict[str, Any]]:
        moment = (self.second + 1) * MS * 1_000
        timeline = LogTimeline(workers, self.files, moment, tail=self.tail)
        meant = [one for one in timeline.names().values() if self._is_meant(one.name)]
        for name in sorted(meant, key=lambda one: (one.name, one.queue)):
            past = self._past(workers, reader, timeline, name)
            yield {"name": name.name, **past.figures._asdict(), "unknown": past.unknown}

    def _is_meant(self, name: str) -> bool:
        return name == self.asked or name.endswith(f"/{self.asked}")

    def _past(self, workers: Workers, reader: PastReader, timeline: LogTimeline, name: QueueName) -> QueuePast:
        if name.kind == CLASSIC:
            return ClassicPast(reader, timeline, name.queue, self.second).told()
        if name.kind == STREAM:
            return self._stream_past(workers, reader, timeline, name.queue)
        return GroupPast(reader, timeline, self.snapshots, self.second).of(name.queue)

    def _stream_past(self, workers: Workers, reader: PastReader, timeline: LogTimeline, group: int) -> QueuePast:
        """Chunks may lie in segments, and what retention has cut is told by entries of any time: every file counts."""
        files = [one.file for one in timeline.telling_of(group, len(self.files))]
        read = read_streams(files, workers.each, tail=self.tail, only={group})
        reader.note(read.seen)
        history = next(one.folded().history() for one in read.streams if one.group == group)
        times = [LifeTimes(one.count, one.state, one.publish.at, one.ended_at) for one in history.lives]
        is_past = any(one.published_at is not None and one.published_at >= (self.second + 1) * MS for one in times)
        why = history.unknown or (None if is_past else timeline.cut_short(group))
        return QueuePast(figures_at(times, None, self.second), why)
