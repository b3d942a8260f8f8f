"""The messages of a chunk, all of them at once."""

from __future__ import annotations

from storage.disk import Buffer
from stream.chunks.stored_form import OnUndecodable, StreamMessages, messages_in_steps


def _ignore(messages: int, why: str) -> None: ...


def stream_messages(
    data: Buffer, item_count: int, first_offset: int, on_undecodable: OnUndecodable = _ignore
) -> list[StreamMessages]:
    """See messages_in_steps."""
    steps = messages_in_steps(data, item_count, first_offset, on_undecodable)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            messages: list[StreamMessages] = end.value
            return messages
