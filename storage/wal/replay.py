"""What a crash leaves of the log, and what we make of it.

Replay gives back the records of all files in order, in chunks of many at once. Where the bytes are not a record, the
marks (see storage/record.py) decide what that means:

- A valid mark, further on in this file or in a later one, says that everything up to beyond this place had been fsynced:
  then these bytes are *damage*. They were promised to somebody. Replay raises Corrupt, or, to salvage, notes the damaged
  range and goes on at the next valid mark, for only there it is certain that a record begins: everything else could
  be a payload that looks like one.
- No mark says so: then this is the *torn tail*. The crash came before its fsync had returned, nobody was promised it, and
  `finish` cuts it off. Whole records before that point are kept: they were written by us, at this place.

Three limits of what can be known. The last commit before a crash has no later mark, so its damage looks torn; the writer
therefore adds a mark soon after it falls idle, when it closes, and, where a start finds the end of the log without one, soon
after that start. Files that are missing at the end of the log leave no trace in it. And a whole record that the device wrote
in the place of others, ending where they do, is still a record: whoever replays checks that the indexes of each writer go on
as they should.

After `finish` the last file ends exactly behind its last record, durably, and the log goes on in a new file. So old bytes
never stand behind new ones, and a crash during any of this changes nothing: replay again gives the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from storage.disk import Disk
from storage.errors import Corrupt
from storage.names import LOG_DIRECTORY, LOG_SUFFIX, log_file, numbers_in
from storage.wal.facts import LogFacts
from storage.wal.file_reader import CHUNK_BYTES, Chunk, LogFileReader
from storage.wal.files import LogKeeper
from storage.wal.log_core import LogEnd

Readers = dict[int, LogFileReader]


@dataclass(slots=True, frozen=True)
class Damage:
    """Bytes that had been durable and are not what was written."""

    file_number: int
    offset: int
    length: int
    reason: str


class Replay:
    """One pass over the log of a directory: `chunks` to its end, then `finish`."""

    damage: list[Damage]  # what was found so far; only when salvaging
    torn_bytes: int  # how much of an unfinished commit stands behind the end
    nothing_is_left: (
        bool  # of a log that had something; the damage is noted at its first file, and may reach any further
    )

    def __init__(self, disk: Disk, facts: LogFacts, *, salvage: bool = False, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.damage = []
        self.torn_bytes = 0
        self.nothing_is_left = False
        self._disk = disk
        self._facts = facts
        self._salvage = salvage
        self._chunk_bytes = chunk_bytes
        self._end: LogEnd | None = None

    def chunks(self) -> Iterator[Chunk]:
        """The records of writers, in the order in which they were appended. Raises Corrupt on damage, after everything
        before it was given, unless salvaging."""
        readers: Readers = {}
        try:
            for number in self._numbers():
                if number >= self._facts.first_file:
                    name = log_file(number)
                    readers[number] = LogFileReader(self._disk, name, number, self._facts.log_id, self._chunk_bytes)
            yield from self._read(readers)
        finally:
            for reader in readers.values():
                reader.close()

    def finish(self, keeper: LogKeeper | None = None) -> LogEnd:
        """Cut the torn tail, and delete what was released or never used; durably. Returns where the log ended. `keeper`: is
        given what was released before it is deleted, as it would have been by the process that released it."""
        assert self._end is not None, "the log can be finished only after its last chunk was taken"
        end = self._end
        if end.offset:
            file = self._disk.open(log_file(end.file_number))
            try:
                file.truncate(end.offset)
                file.sync()  # also what a killed process wrote and never fsynced: from here on we rely on it
            finally:
                file.close()
        for number in self._numbers():
            if not self._facts.first_file <= number <= end.file_number:
                if keeper is not None and number < self._facts.first_file:
                    keeper.keep(number)
                with suppress(FileNotFoundError):
                    self._disk.delete(log_file(number))
        self._disk.sync_dir(LOG_DIRECTORY)
        return end

    def _numbers(self) -> list[int]:
        return numbers_in(self._disk.list(LOG_DIRECTORY), LOG_SUFFIX)

    def _read(self, readers: Readers) -> Iterator[Chunk]:
        first = self._facts.first_file
        last = max((number for number, reader in readers.items() if reader.started), default=0)
        self.torn_bytes = sum(reader.used_bytes() for number, reader in readers.items() if number > last)
        commit: int | None = None
        for number in range(first, last + 1):
            reader = readers.get(number)
            following = readers.get(number + 1) if number < last else None
            end = following.previous_end if following is not None else None
            if reader is None:
                self._note(number, 0, end or 0, "the file is missing")
                commit = None
            else:
                reader.commit = commit
                yield from self._read_file(reader, end, durable=number < last)
                commit = reader.commit
        if last:
            self._end = LogEnd(last, readers[last].position, commit or 0, readers[last].unmarked)
            self.torn_bytes += readers[last].used_bytes()
        elif first == 1:
            self._end = LogEnd(0, 0, 0)  # nothing was ever promised here
        else:
            self.nothing_is_left = True
            self._note(first, 0, self.torn_bytes, "nothing is left of the log from this file on")
            self._end = LogEnd(max([first, *readers]), 0, 0)

    def _read_file(self, reader: LogFileReader, end: int | None, durable: bool) -> Iterator[Chunk]:
        """One file. `end` is where the next file says that it ends, if that can be known; `durable` that there is a
        next file, so that all of this one had been fsynced."""
        while True:
            yield from reader.records(end)
            start = reader.position
            if start == end:
                return
            mark = reader.next_mark(end, durable)
            if mark is not None:
                self._note(reader.number, start, mark.offset - start, reader.why)
                reader.resume_at(mark)
                continue
            if durable:
                length = reader.used_bytes() if end is None else end - start
                if length:
                    self._note(reader.number, start, length, reader.why)
                    reader.commit = None  # what is gone may have held further commits
            return

    def _note(self, number: int, offset: int, length: int, reason: str) -> None:
        if not self._salvage:
            raise Corrupt(log_file(number), offset, length, reason)
        self.damage.append(Damage(number, offset, length, reason))
