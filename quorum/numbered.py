"""Messages that their client has numbered: with the headers `x-producer` (a name) and `x-seq` (a number that ascends) a message
is stored once, however often it is published, by whatever connection and on whatever node.

Each of them is an operation of its own. A message with only one of the headers, or with values that are no name and number, is
published as if it had neither. So is a dead letter, and what an exchange has delayed: it was stored once where it died or
waited, and may come in any order.
"""

from __future__ import annotations

from broker.messages.message import LOOK_HEADERS, Run
from native.content import one
from quorum.fifo.commands import Producer
from wire.amqp.tables import TableError, decode_properties

PRODUCER = "x-producer"
NUMBER = "x-seq"
DEATHS = "x-death"
NAME_BYTES_MAX = 255
NUMBER_END = 1 << 62

_PRODUCER_FIELD = bytes((len(PRODUCER),)) + PRODUCER.encode()  # as it stands in a table


def may_be_numbered(run: Run) -> bool:
    """False is sure, and cheap. Not so where another queue had it before."""
    return bool(run.look & LOOK_HEADERS) and run.died_in is None and _PRODUCER_FIELD in run.content


def producer_of_single(run: Run) -> Producer | None:
    """What the headers of a run's only message say."""
    return producer_of(one(run.content, 0)[0]) if may_be_numbered(run) else None


def producer_of(props: bytes) -> Producer | None:
    try:
        headers = decode_properties(props).get("headers") or {}
    except TableError:
        return None
    if DEATHS in headers:  # put there by brokers only: clients' own are taken away (broker/session/publish.py)
        return None
    name, number = headers.get(PRODUCER), headers.get(NUMBER)
    if not isinstance(name, str) or not isinstance(number, int) or isinstance(number, bool):
        return None
    encoded = name.encode("utf-8", "surrogateescape")
    if not encoded or len(encoded) > NAME_BYTES_MAX or not 0 <= number < NUMBER_END:
        return None
    return Producer(encoded, number)
