"""Tables of what a log says, as native/log_columns.py makes them: which columns each has, and what numbers in them mean."""

from __future__ import annotations

from typing import Final

from native.columns import BINARY, INT8, INT32, INT64, Field

RECORDS: Final = (
    Field("offset", INT64),  # of the record's head in the file
    Field("kind", INT32),
    Field("version", INT32),
    Field("flags", INT32),
    Field("term", INT64),
    Field("writer", INT64),
    Field("index", INT64),
    Field("size", INT32),  # of the payload
    Field("commit", INT64, nullable=True),  # of the last mark
    Field("time", INT64, nullable=True),  # of the last mark, in microseconds since the epoch
)

PUBLISHES: Final = (
    Field("offset", INT64),
    Field("time", INT64, nullable=True),  # microseconds: of the mark, or of the entry
    Field("queue", INT64),
    Field("pos", INT64),  # sequence of the first message, or index of the entry
    Field("off", INT32),  # of the op in the entry
    Field("count", INT64),
    Field("body_bytes", INT64),
    Field("stored_bytes", INT64),
    Field("exchange", BINARY),
    Field("routing_key", BINARY),
    Field("persistent", INT8),
    Field("priority", INT32),
    Field("expires_at", INT64, nullable=True),  # milliseconds since the epoch
    Field("session_node", INT64, nullable=True),
    Field("session_inc", INT64, nullable=True),
    Field("sequence", INT64, nullable=True),  # of the session
    Field("producer", BINARY, nullable=True),
    Field("producer_no", INT64, nullable=True),
    Field("content_at", INT64),  # in the file
    Field("confirm", INT8, nullable=True),  # whether somebody waited for it; from here on of classic queues only
    Field("src_queue", INT64, nullable=True),  # where a dead letter died
    Field("src_pos", INT64, nullable=True),
    Field("src_off", INT64, nullable=True),
    Field("src_nth", INT64, nullable=True),
    Field("src_reason", INT64, nullable=True),  # one of DEATHS
)

ORIGINS: Final = (
    Field("offset", INT64),
    Field("entry", INT64, nullable=True),  # its index, of a run of a quorum queue
    Field("off", INT32),
    Field("nth", INT64),  # of the part's first message in the run
    Field("count", INT64),
    Field("actor", INT64),
    Field("publish_no", INT64, nullable=True),  # of the part's first message, among all that the actor published
    Field("confirm", INT8),  # whether somebody waited for it
    Field("src_queue", INT64, nullable=True),  # where a dead letter died
    Field("src_pos", INT64, nullable=True),
    Field("src_off", INT64, nullable=True),
    Field("src_nth", INT64, nullable=True),
    Field("src_reason", INT64, nullable=True),  # one of DEATHS
)

SETTLES: Final = (
    Field("offset", INT64),
    Field("time", INT64, nullable=True),
    Field("queue", INT64),
    Field("pos", INT64),  # index of the record, or of the entry
    Field("off", INT32),
    Field("outcome", INT32),  # one of OUTCOMES
    Field("consumer_node", INT64, nullable=True),
    Field("consumer_inc", INT64, nullable=True),
    Field("consumer_no", INT64, nullable=True),
    Field("first", INT64, nullable=True),  # null: everything that was ready
    Field("count", INT64, nullable=True),
    Field("actor", INT64, nullable=True),
)

COUNTS: Final = (
    Field("offset", INT64),
    Field("time", INT64, nullable=True),
    Field("span_ms", INT64),  # they were counted since so long before
    Field("actor", INT64, nullable=True),
    Field("what", INT32),  # one of UNLOGGED
    Field("messages", INT64),
    Field("body_bytes", INT64),
    Field("exchange", BINARY),
    Field("routing_key", BINARY),  # of the last of them
)

READERS: Final = (
    Field("offset", INT64),
    Field("time", INT64, nullable=True),
    Field("actor", INT64),
    Field("stream", INT64),
    Field("next_offset", INT64),  # of the message that it is given next
    Field("has_left", INT8),
)

EVENTS: Final = (
    Field("queue", INT64),
    # Of a classic queue the file's number, and below it FILE_BITS bits of offset; else the entry's index.
    Field("place", INT64),
    Field("term", INT64),  # 0 of classic queues
    Field("kind", INT32),  # of the record
    Field("at", INT64, nullable=True),  # microseconds, of the mark
    Field("first", INT64),  # of a publish to a classic queue the first sequence; of an entry its kind
    Field("data", BINARY),  # the head of a publish, the payload of another classic record, an entry or its skeleton
    Field("size", INT64),  # of an entry whose skeleton this is; 0: this is all of it
    Field("offset", INT64),  # of the record
)
GATHERED: Final = (
    *EVENTS[:-1],
    # Where the record lies in its node's log: the file's number, and below it FILE_BITS bits of offset; 0 of commits.
    Field("written", INT64),
    Field("file", INT64),
)
FILE_BITS: Final = 40  # files have 64 MiB, or one large record more

# What a settle says: the outcomes of a quorum queue's SETTLE; other ops and records; the reasons of CLASSIC_DONE; those of
# CLASSIC_BACK. A reason that is not known here has a number and no name.
DEAD_SETTLED, SETTLED, PURGED, DELETED = 5, 6, 7, 8
DONE, BACK = 256, 512
OUTCOMES: Final = {
    **dict(enumerate((
        "acked", "requeued_failed", "rejected", "never_seen", "requeued", "dead_settled", "settled", "purged", "deleted",
    ))),
    **dict(enumerate(("settled", "acked", "got", "no_ack", "rejected", "expired", "maxlen", "purged"), DONE)),
    **dict(enumerate((
        "returned", "returned_rejected", "returned_nacked", "returned_recovered", "returned_channel_closed",
        "returned_connection_lost", "returned_timeout", "returned_never_seen",
    ), BACK)),
}  # fmt: skip
DEATHS: Final = ("rejected", "expired", "maxlen", "delivery_limit")
# What COUNTS says of messages, from 1 on.
UNLOGGED: Final = (None, "unroutable", "returned", "refused", "transient", "handed_at_once", "dead_unroutable")
