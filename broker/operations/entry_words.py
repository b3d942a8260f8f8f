"""What an entry of the metadata log says, for people: which command, when it was given, and by whom. Never a secret."""

from __future__ import annotations

from typing import Any, NamedTuple

from broker.catalog.catalog_commands import Command, UnknownVersion
from broker.catalog.metadata_entry import Origin, WhenAndWho, decode_whole, head_bytes
from broker.login.audit import description

WITHHELD = "withheld: it holds a secret, and this is from an export without contents"
NAMED_BY = ("vhost", "source", "destination", "name")  # fields of commands and their records


class EntryWords(NamedTuple):
    """One entry."""

    what: str  # the command, or why it is not known
    command: Command | None = None
    origin: Origin | None = None
    said: WhenAndWho | None = None


def words_of(data: bytes) -> EntryWords:
    try:
        origin, said, command = decode_whole(data)
    except UnknownVersion as error:
        rest = data[head_bytes(data) :]
        return EntryWords(WITHHELD if rest and not any(rest) else str(error))  # node/exporting/withheld_contents.py
    return EntryWords(_what(command), command, origin, said)


def _what(command: Command) -> str:
    described = description(command)
    return type(command).__name__ + " " + object_of(command) if described is None else described


def object_of(command: Any) -> str:
    """What it is about."""
    record = getattr(command, "record", command)
    return " ".join([f"{field} '{getattr(record, field)}'" for field in NAMED_BY if hasattr(record, field)])
