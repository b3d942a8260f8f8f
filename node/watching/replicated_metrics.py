"""Metrics of quorum queues and streams: sums over those of this node, and what should stay 0."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from node.watching.metric_families import counter, gauge
from quorum.driver import QuorumQueues
from stream.driver import StreamQueues


def of_streams(streams: StreamQueues) -> Iterator[Metric]:
    figures = [queue.reading_figures() for queue in streams.queues.values()]
    yield gauge("leveret_stream_segments", "Segments of streams on this node", sum(one.segments for one in figures))
    yield gauge("leveret_stream_readers", "Consumers that read streams here", sum(one.readers for one in figures))
    yield counter(
        "leveret_stream_reader_bytes_sent",
        "Bytes of messages that they were given",
        sum(one.bytes_sent for one in figures),
    )
    yield counter(
        "leveret_stream_reader_skipped",
        "Messages that retention removed before a reader came to them",
        streams.skipped,
    )
    yield counter(
        "leveret_stream_undecodable",
        "Messages in sub-batches that could not be taken apart for consumers, each time that it was tried",
        streams.undecodable,
    )
    yield gauge(
        "leveret_stream_reader_lag_max",
        "Messages by which the one that is furthest behind lags",
        max((one.lag for one in figures), default=0),
    )


def kind_of_queue(prefix: str, what: str, kind: QuorumQueues | StreamQueues) -> Iterator[Metric]:
    """What should stay 0."""
    yield counter(
        f"leveret_{prefix}_divergences",
        f"Comparisons in which members of {what} led from here had come to different states",
        kind.verdicts.divergences,
    )
    yield gauge(
        f"leveret_{prefix}_quarantined",
        f"Members of {what} on this node that take no part, as their logs hold what this node does not know",
        len(kind.members.quarantined),
    )
    yield counter(
        f"leveret_{prefix}_refusals",
        f"Proposals between nodes for {what} that were refused as they would do harm to every member",
        kind.refusals,
    )
