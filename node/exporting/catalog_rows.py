"""The entries of the metadata log that a record of the log has, as rows."""

from __future__ import annotations

from typing import Any

from broker.catalog.commands.metadata_entry import METADATA_GROUP
from broker.operations.entry_words import words_of
from raft.core.errors import BadBytes
from raft.core.messages import EntryKind
from raft.core.packs import decode
from storage.record import Kind


def commands_of(row: dict[str, int], payload: bytes) -> list[dict[str, Any]]:
    """None, if it is no record of that log's commands, or its payload cannot be read."""
    if (row["kind"], row["writer"], row["flags"]) != (Kind.RAFT_ENTRIES, METADATA_GROUP, EntryKind.COMMAND):
        return []
    try:
        entries = decode(row["index"], row["term"], row["flags"], payload)
    except BadBytes:
        return []
    return [{"index": entry.index, **_said(entry.data)} for entry in entries]


def _said(data: bytes) -> dict[str, Any]:
    words = words_of(data)
    if words.origin is None:
        return {"command": words.what}
    when_and_who = {} if words.said is None else words.said._asdict()
    return {"command": words.what, "node": words.origin.node, "incarnation": words.origin.incarnation, **when_and_who}
