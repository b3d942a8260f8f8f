"""One file of an export, from where its receiver has it up to its durable end. All of it blocks, a small piece at a time.

What the receiver has is compared with what the node has by its checksum: if they differ, as when contents were withheld
that are not any more, the file begins again. The checksum at the end is of the whole file, so a transfer in parts is proved
as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from typing import NamedTuple

from broker.catalog.commands.metadata_entry import METADATA_GROUP
from front.grpc.log_service import LogBegin, LogPart, LogUnread, LogWhole, WantedFile
from node.exporting.file_feed import whole_pieces, withheld_pieces
from node.exporting.log_listing import DurableEnd, current_name, length_of
from storage.disk import Disk
from storage.errors import StorageError
from storage.names import LOG_SUFFIX, SNAPSHOT_SUFFIX, group_file_of, number_of

GONE = "the node has deleted it"
HAS_HASHES = "it holds hashes of passwords, and contents are withheld"


class Step(NamedTuple):
    """What was read for it, and what to send; None: it is there already."""

    read_bytes: int
    part: LogPart | None


def transfer(disk: Disk, wanted: WantedFile, durable: DurableEnd, *, without_bodies: bool) -> Iterator[Step]:
    """Ends with LogWhole or LogUnread."""
    try:
        for _ in range(2):  # it may move to the archive between two looks
            name = current_name(disk, wanted.name)
            if name is None:
                break
            try:
                yield from _steps(disk, name, wanted, durable, without_bodies)
                return
            except FileNotFoundError:
                continue
        yield Step(0, LogUnread(wanted.name, GONE, gone=True))
    except StorageError as error:
        yield Step(0, LogUnread(wanted.name, str(error)))


def _steps(disk: Disk, name: str, wanted: WantedFile, durable: DurableEnd, without_bodies: bool) -> Iterator[Step]:
    snapshot, number = group_file_of(name, SNAPSHOT_SUFFIX), number_of(name, LOG_SUFFIX)
    if without_bodies and snapshot is not None and snapshot[0] == METADATA_GROUP:
        yield Step(0, LogUnread(wanted.name, HAS_HASHES))
        return
    end = length_of(disk, name, durable)
    read = withheld_pieces if without_bodies and snapshot is None else whole_pieces
    pieces, digest, at, rest = read(disk, name, end), sha256(), 0, b""
    while at < wanted.offset and (data := next(pieces, b"")):
        known = data[: wanted.offset - at]
        digest.update(known)
        at, rest = at + len(known), data[len(known) :]
        yield Step(len(data), None)
    if at != wanted.offset or (at and digest.digest() != wanted.sha256):
        pieces, digest, at, rest = read(disk, name, end), sha256(), 0, b""
    yield Step(0, LogBegin(name, at))
    for data in chain((rest,) if rest else (), pieces):
        digest.update(data)
        at += len(data)
        yield Step(0 if data is rest else len(data), data)
    yield Step(0, LogWhole(at, digest.digest(), open=number == durable.file))
