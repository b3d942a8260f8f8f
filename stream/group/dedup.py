"""Which items of publishers with names are in the stream already.

A publisher numbers its items, and the numbers ascend; some may be left out. What it publishes with a number up to its last one
is known. Two connections that publish under one name at a time drop each other's items.

The leader decides when it seals (stream/group/tail.py), by what it has sealed before, committed or not. The entry says the new
last ids, so members follow without looking into messages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from storage.disk import Buffer
from stream.chunks.chunk import behind_items
from stream.chunks.publish_ops import NamedPart, Publishing
from stream.group.stream_state import PublisherPosition
from wire.stream.publish_frame import unpack_ids


class NewItems(NamedTuple):
    """What is left of what a node says."""

    data: Sequence[Buffer]
    item_count: int
    message_count: int
    publishers: dict[str, int]  # the last ids of those that have something new


def new_items(said: Publishing, known: Mapping[str, PublisherPosition]) -> NewItems:
    if not said.parts:
        return NewItems(said.data, said.item_count, said.message_count, {})
    data: list[Buffer] = []
    items = messages = 0
    latest: dict[str, int] = {}
    for part in said.parts:
        left = _new_of(part, latest.get(part.name), known) if part.name else part
        if left.item_count:
            data.append(left.data)
            items += left.item_count
            messages += left.message_count
            if part.name:
                latest[part.name] = int.from_bytes(part.ids[-8:], "big")
    return NewItems(data, items, messages, latest)


def _new_of(part: NamedPart, latest: int | None, known: Mapping[str, PublisherPosition]) -> NamedPart:
    """`latest`: of what was said before it in the same breath."""
    if latest is None:
        position = known.get(part.name)
        if position is None:
            return part
        latest = position.last_id
    count = _known_count(part, latest)
    if not count:
        return part
    if count == part.item_count:
        return part._replace(item_count=0)
    end, messages = behind_items(memoryview(part.data), count)
    return part._replace(
        item_count=part.item_count - count,
        message_count=part.message_count - messages,
        data=memoryview(part.data)[end:],
    )


def _known_count(part: NamedPart, latest: int) -> int:
    """How many items have ids up to this one."""
    if int.from_bytes(part.ids[:8], "big") > latest:
        return 0
    return bisect_right(unpack_ids(part.ids), latest)
