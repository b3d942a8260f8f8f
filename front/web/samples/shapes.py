"""Which counts an object is sampled with, and what is shown of them.

Only what cannot be reckoned from the rest is kept: `messages` is the sum of two other counts, and so is `deliver_get`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Row = Sequence[int]  # the counts of a shape, in its order

LENGTHS, MESSAGE_RATES, DATA_RATES, NODE_STATS = (
    "lengths",
    "msg_rates",
    "data_rates",
    "node_stats",
)  # as ranges are asked for
MAY_SHRINK = (LENGTHS, NODE_STATS)

MESSAGES = ("messages_ready", "messages_unacknowledged")
OF_MESSAGES: dict[str, tuple[str, ...]] = {"messages": MESSAGES}
HANDED_OUT: dict[str, tuple[str, ...]] = {"deliver_get": ("deliver", "deliver_no_ack", "get", "get_no_ack")}
SESSION = (
    "publish",
    "confirm",
    "return_unroutable",
    "drop_unroutable",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "get_empty",
    "redeliver",
    "ack",
)
DATA = ("recv_oct", "send_oct")
CHURN = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)
DISK = ("disk_reads", "disk_writes")


@dataclass(slots=True, frozen=True)
class SampleShape:
    """`parts`: which of its counts are asked for with which range. `sums`: figures that are sums of counts."""

    parts: Mapping[str, tuple[str, ...]]
    sums: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts.values() for name in part)

    def shown(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name of each figure -> the range it is asked for with, and the places of the counts that it is the sum of."""
        at = {name: place for place, name in enumerate(self.names)}
        found: dict[str, tuple[str, tuple[int, ...]]] = {
            name: (part, (at[name],)) for part, names in self.parts.items() for name in names
        }
        ranges = {name: part for part, names in self.parts.items() for name in names}
        for name, of in self.sums.items():
            found[name] = ranges[of[0]], tuple(at[one] for one in of if one in at)
        return found


QUEUE = SampleShape(
    {LENGTHS: MESSAGES, MESSAGE_RATES: ("publish", "deliver", "deliver_no_ack", "get", "redeliver", "ack")},
    OF_MESSAGES | HANDED_OUT,
)
CHANNEL = SampleShape({MESSAGE_RATES: SESSION}, HANDED_OUT)
CONNECTION = SampleShape({DATA_RATES: DATA}, {})
ROUTE = SampleShape({MESSAGE_RATES: ("publish",)}, {})
DELIVERIES = SampleShape({MESSAGE_RATES: ("deliver", "deliver_no_ack")}, {"deliver_get": ("deliver", "deliver_no_ack")})
EXCHANGE = SampleShape({MESSAGE_RATES: ("publish_in", "publish_out")}, {})
VHOST = SampleShape({LENGTHS: MESSAGES, MESSAGE_RATES: SESSION, DATA_RATES: DATA}, OF_MESSAGES | HANDED_OUT)
# RabbitMQ's page asks for what came and went with the range of lengths.
OVERVIEW = SampleShape({LENGTHS: (*MESSAGES, *CHURN), MESSAGE_RATES: (*SESSION, *DISK)}, OF_MESSAGES | HANDED_OUT)
OF_PROCESS = ("io_read_bytes", "io_write_bytes", "gc_num", "context_switches")
NODE = SampleShape(
    {NODE_STATS: ("mem_used", "fd_used", "sockets_used", "proc_used", "disk_free", *OF_PROCESS, *CHURN)}, {}
)
