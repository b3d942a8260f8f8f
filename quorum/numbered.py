"""Messages that their client has numbered: with the headers `x-producer` (a name) and `x-seq` (a number that ascends) a message
is stored once, however often it is published, by whatever connection and on whatever node.

Each of them is an operation of its own. A message with only one of the headers, or with values that are no name and number, is
published as if it had neither. So is a dead letter: it was stored once where it died, and dead letters come in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from broker.confirms import Receipt
from broker.message import LOOK_HEADERS, Run
from broker.tables import MalformedTable, decode_properties
from native.content import body_bytes, one, skip
from quorum.commands import Producer

PRODUCER = "x-producer"
NUMBER = "x-seq"
DEATHS = "x-death"
NAME_BYTES_MAX = 255
NUMBER_END = 1 << 62

_PRODUCER_FIELD = bytes((len(PRODUCER),)) + PRODUCER.encode()  # as it stands in a table


def may_be_numbered(run: Run) -> bool:
    """False is sure, and cheap."""
    return bool(run.look & LOOK_HEADERS) and _PRODUCER_FIELD in run.content


def parts(run: Run) -> Iterator[tuple[Run, Producer | None]]:
    """Each message as a run, with what its headers say."""
    position = 0
    for _ in range(run.count):
        end = skip(run.content, position, 1)
        props, _, _ = one(run.content, position)
        content = run.content[position:end]
        yield replace(run, content=content, count=1, body_bytes=body_bytes(content, 0, 1)), producer_of(props)
        position = end


def producer_of(props: bytes) -> Producer | None:
    try:
        headers = decode_properties(props).get("headers") or {}
    except MalformedTable:
        return None
    if DEATHS in headers:  # put there by brokers only: clients' own are taken away (broker/publish.py)
        return None
    name, number = headers.get(PRODUCER), headers.get(NUMBER)
    if not isinstance(name, str) or not isinstance(number, int) or isinstance(number, bool):
        return None
    encoded = name.encode("utf-8", "surrogateescape")
    if not encoded or len(encoded) > NAME_BYTES_MAX or not 0 <= number < NUMBER_END:
        return None
    return Producer(encoded, number)


class AllOf:
    """Answers a run's receipt when each of its messages was answered. Fulfils AnswersTo."""

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt

    def answered(self, receipt: Receipt) -> None:
        if receipt.refusals:
            self._receipt.refused()
        else:
            self._receipt.accepted()

    def given_up(self, receipt: Receipt) -> None:
        raise AssertionError("a quorum queue gives no receipt up")


def receipt_for_all(receipt: Receipt, count: int) -> Receipt:
    """Each of the run's messages answers it once."""
    return Receipt(AllOf(receipt), receipt.first, receipt.last, count)
