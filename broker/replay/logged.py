"""A message as the log has it, and the same marked as one that is published again."""

from __future__ import annotations

from typing import NamedTuple

from broker.messages.expiration import expiration_ms
from broker.messages.message import LOOK_HEADERS, PROPERTIES_BYTES_MAX, Run
from broker.replay.replay_order import ReplayOrder, ReplayPlace, place_text
from native.content import encode, one
from native.frame_split import look_at
from wire.amqp.tables import TableError, encode_value, join_properties, join_table, split_properties, split_table

REPLAY_OF = "x-replay-of"  # the queue from whose log it comes
REPLAY_PLACE = "x-replay-place"  # where it was there
REPLAY_END = "x-replay-end"  # how it had left
REPLAY_ID = "x-replay-id"  # of the replay
KEYS_OF_THE_PUBLISHER = ("CC", "BCC")  # further targets of the first publish, which are none of this one


class LoggedMessage(NamedTuple):
    place: ReplayPlace
    exchange: str
    routing_key: str
    persistent: bool
    priority: int
    end: str
    content: bytes  # empty: the log has it no more


class MarkedMessage(NamedTuple):
    """What is to be published; or why it is not."""

    run: Run | None
    is_replay: bool = False  # it is one itself: what it is of is in the log as well, or was


def marked(order: ReplayOrder, replay_id: str, message: LoggedMessage) -> MarkedMessage:
    """Without a run where its headers cannot be read, or have no room for the marks."""
    props, body, _ = one(message.content, 0)
    try:
        fields = split_properties(props)
        headers = split_table(fields["headers"]) if "headers" in fields else {}
    except TableError:
        return MarkedMessage(None)
    if REPLAY_OF in headers:
        return MarkedMessage(None, is_replay=True)
    marks = {
        REPLAY_OF: order.queue,
        REPLAY_PLACE: place_text(message.place),
        REPLAY_END: message.end,
        REPLAY_ID: replay_id,
    }
    kept = {name: raw for name, raw in headers.items() if name not in KEYS_OF_THE_PUBLISHER}
    table = join_table({**kept, **{name: encode_value(text) for name, text in marks.items()}})
    made = join_properties({**fields, "headers": table})
    if len(made) > PROPERTIES_BYTES_MAX:
        return MarkedMessage(None)
    look = look_at(made)
    run = Run(
        order.exchange,
        message.routing_key if order.routing_key is None else order.routing_key,
        encode(made, body),
        1,
        len(body),
        message.persistent,
        mandatory=True,
        priority=message.priority,
        expiration_ms=None if look.expiration is None else expiration_ms(look.expiration),
        look=look.look & LOOK_HEADERS,
    )
    return MarkedMessage(run)
