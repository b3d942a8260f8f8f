"""What a stream has held so far, over all lives of a node, and the judge of what it holds later.

A stream only grows: a message that was once read at an offset is there for ever, so each look begins a little before the end
of the one before, and the last one at the beginning.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pika

from tests.crash.workload import Address, PublisherHistory, identity

OVERLAP = 50  # messages that are read again
PREFETCH = 500


@dataclass
class StreamHistory:
    """Which publishers feed it, and what was read of it: publisher and number, by offset."""

    name: str
    publishers: list[PublisherHistory]
    known: list[tuple[str, int]] = field(default_factory=list)


def read(address: Address, name: str, first: int) -> list[tuple[int, tuple[str, int]]]:
    """Everything from this offset on: offset, publisher and number."""
    found: list[tuple[int, tuple[str, int]]] = []
    connection = pika.BlockingConnection(pika.ConnectionParameters(*address))
    channel = connection.channel()
    count = channel.queue_declare(name, durable=True, passive=True).method.message_count
    channel.basic_qos(prefetch_count=PREFETCH)
    if first < count:
        for method, properties, payload in channel.consume(name, arguments={"x-stream-offset": first}):
            found.append((int(properties.headers["x-stream-offset"]), identity(payload)))
            channel.basic_ack(method.delivery_tag)
            if found[-1][0] >= count - 1:
                break
        channel.cancel()
    connection.close()
    return found


def look(history: StreamHistory, address: Address, *, whole: bool) -> list[str]:
    """What is wrong with the stream now, in sentences; what is new in it is noted."""
    first = 0 if whole else max(0, len(history.known) - OVERLAP)
    found = read(address, history.name, first)
    wrong = []
    offsets = [offset for offset, _ in found]
    if offsets != list(range(first, first + len(found))):
        wrong.append(f"{history.name}: offsets from {first} on have gaps or come twice: {offsets[:5]} ...")
    messages = [message for _, message in found]
    before = history.known[first:]
    if messages[: len(before)] != before:
        wrong.append(f"{history.name}: {len(before)} messages from offset {first} on are not what they were")
    history.known[first:] = messages
    return wrong + judge_messages(history)


def judge_messages(history: StreamHistory) -> list[str]:
    """Whether each confirmed message is there, each once, in the order of its publisher."""
    wrong = []
    for publisher in history.publishers:
        numbers = [number for name, number in history.known if name == publisher.name]
        lost = publisher.confirmed - set(numbers)
        if lost:
            wrong.append(
                f"{history.name}: {len(lost)} confirmed messages of {publisher.name} are lost, {sorted(lost)[:5]}"
            )
        if any(late <= early for early, late in itertools.pairwise(numbers)):
            wrong.append(f"{history.name}: messages of {publisher.name} are out of order or twice")
    strangers = {name for name, _ in history.known} - {publisher.name for publisher in history.publishers}
    if strangers:
        wrong.append(f"{history.name}: holds messages of {sorted(strangers)}, who do not publish to it")
    return wrong
