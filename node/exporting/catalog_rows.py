"""What the entries of the metadata log say, for people: which command, when it was given, and by whom. Never a secret."""

from __future__ import annotations

from typing import Any

from broker.catalog.catalog_commands import Command, UnknownVersion
from broker.login.audit import description
from node.catalog.group import METADATA_GROUP
from node.catalog.metadata_entry import decode_whole, head_bytes
from raft.core.errors import BadBytes
from raft.core.messages import EntryKind
from raft.core.packs import decode
from storage.record import Kind

WITHHELD = "withheld: it holds a secret, and this is from an export without contents"
NAMED_BY = ("vhost", "source", "destination", "name")  # fields of commands and their records


def commands_of(row: dict[str, int], payload: bytes) -> list[dict[str, Any]]:
    """Those of a record of the log; none, if it is no record of that log's commands, or its payload cannot be read."""
    if (row["kind"], row["writer"], row["flags"]) != (Kind.RAFT_ENTRIES, METADATA_GROUP, EntryKind.COMMAND):
        return []
    try:
        entries = decode(row["index"], row["term"], row["flags"], payload)
    except BadBytes:
        return []
    return [{"index": entry.index, **_said(entry.data)} for entry in entries]


def _said(data: bytes) -> dict[str, Any]:
    try:
        origin, said, command = decode_whole(data)
    except UnknownVersion as error:
        rest = data[head_bytes(data) :]
        return {"command": WITHHELD if rest and not any(rest) else str(error)}  # node/exporting/withheld_contents.py
    when_and_who = {} if said is None else {"time_ms": said.time_ms, "actor": said.actor}
    return {"command": _what(command), "node": origin.node, "incarnation": origin.incarnation, **when_and_who}


def _what(command: Command) -> str:
    described = description(command)
    if described is not None:
        return described
    record = getattr(command, "record", command)
    names = [f"{field} '{getattr(record, field)}'" for field in NAMED_BY if hasattr(record, field)]
    return " ".join([type(command).__name__, *names])
