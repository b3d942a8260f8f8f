"""A replicated map of registers, to run, measure and check the engine with before queues exist.

An entry holds one command or many, one behind the other, little endian:

    offset  size  field
         0     1  operation     1 put, 2 compare and set, 3 delete, 4 upgrade
         1     1  flags         1: the value stays in the log, the state only says where
         2     8  expected      the version to be found, 0: no value; upgrade: the machine's version to switch to
        10     2  key_len
        12     4  value_len
        16        key, then value

Its result is a list with one `Outcome` for each command. Each value has a version, which only grows:

- machine version 1: a key begins at version 1, also when it was deleted in between;
- machine version 2: versions come from one counter of the whole map, so that no key ever has the same one twice.

A snapshot is `counter u64 | registers u32`, then for each register, by key: `version u64 | index u64 | offset u32 | key_len
u16 | value_len u32 | key | value`. Where `index` is not 0 the value lies in that entry, `offset` bytes into its data, and
is not repeated.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple

from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry
from storage.disk import Buffer

PUT = 1
COMPARE_AND_SET = 2
DELETE = 3
UPGRADE = 4

IN_LOG = 1

VERSION_OLDEST = 1
VERSION_NEWEST = 2
KEY_BYTES_MAX = (1 << 16) - 1

ReadEntry = Callable[[int], bytes]  # an entry's data by its index: bodies lie in the log

_COMMAND = Struct("<BBQHI")
_HEAD_BYTES = _COMMAND.size
_COUNTS = Struct("<QI")
_REGISTER = Struct("<QQIHI")


class Outcome(NamedTuple):
    """What a command did. `version` is the key's afterwards (0: it has no value), or the machine's for an upgrade."""

    done: bool
    version: int


class Found(NamedTuple):
    """A register that was read."""

    version: int
    value: bytes


class _Register(NamedTuple):
    version: int
    value: bytes  # empty when it lies in the log
    entry: int = 0  # that holds the value; 0: it is in the state
    offset: int = 0
    size: int = 0


_NEVER_SET = _Register(0, b"")


def put(key: bytes, value: bytes, *, in_log: bool = False) -> bytes:
    return encode(PUT, key, value, in_log=in_log)


def compare_and_set(key: bytes, expected: int, value: bytes, *, in_log: bool = False) -> bytes:
    """Set if the key is at version `expected`; 0: if it has no value."""
    return encode(COMPARE_AND_SET, key, value, expected, in_log=in_log)


def delete(key: bytes) -> bytes:
    return encode(DELETE, key)


def upgrade(version: int) -> bytes:
    """From this command on all members run the machine at this version."""
    return encode(UPGRADE, b"", expected=version)


def encode(operation: int, key: bytes, value: bytes = b"", expected: int = 0, *, in_log: bool = False) -> bytes:
    """Raises ValueError for a key that is too long."""
    if len(key) > KEY_BYTES_MAX:
        raise ValueError(f"a key of {len(key)} bytes: at most {KEY_BYTES_MAX} are possible")
    head = _COMMAND.pack(operation, IN_LOG if in_log else 0, expected, len(key), len(value))
    return head + key + value


class Register:
    """The machine. `read_entry` gives the data of a live entry; without it, nothing may be left in the log."""

    def __init__(self, read_entry: ReadEntry | None = None) -> None:
        self.version = VERSION_OLDEST
        self._read_entry = read_entry
        self._registers: dict[bytes, _Register] = {}
        self._counter = 0  # the highest version given so far
        self._live: dict[int, int] = {}  # index -> registers whose value lies in that entry

    def apply(self, entries: Sequence[Entry]) -> Sequence[list[Outcome]]:
        return [self._apply_all(entry.index, entry.data) for entry in entries]

    def get(self, key: bytes) -> Found | None:
        """What is there now. Linearizable only behind a read of the group."""
        register = self._registers.get(key)
        if register is None:
            return None
        if not register.entry:
            return Found(register.version, register.value)
        assert self._read_entry is not None, f"the value lies in entry {register.entry}, which cannot be read"
        data = self._read_entry(register.entry)
        return Found(register.version, data[register.offset : register.offset + register.size])

    def __len__(self) -> int:
        return len(self._registers)

    def snapshot(self) -> Sequence[Buffer]:
        parts: list[Buffer] = [_COUNTS.pack(self._counter, len(self._registers))]
        for key, (version, value, index, offset, size) in sorted(self._registers.items()):
            parts.append(_REGISTER.pack(version, index, offset, len(key), size if index else len(value)))
            parts += (key, value)
        return parts

    def restore(self, state: bytes, version: int) -> None:
        if not VERSION_OLDEST <= version <= VERSION_NEWEST:
            raise ValueError(
                f"the snapshot is of version {version}: {VERSION_OLDEST} to {VERSION_NEWEST} are known here"
            )
        try:
            counter, registers = _decode(state)
        except struct.error as error:
            raise ValueError(f"a state of {len(state)} bytes ends within a register: {error}") from error
        self.version = version
        self._counter = counter
        self._registers = registers
        self._live = {}
        for register in registers.values():
            if register.entry:
                self._live[register.entry] = self._live.get(register.entry, 0) + 1

    @property
    def held_bytes(self) -> int:
        return 0

    def live_entries(self) -> LiveEntries:
        return LiveEntries(sorted(self._live))

    def digest(self) -> str:
        """Equal on all members that have applied the same entries."""
        return hashlib.blake2b(b"".join([bytes([self.version]), *self.snapshot()]), digest_size=8).hexdigest()

    def _apply_all(self, index: int, data: bytes) -> list[Outcome]:
        outcomes = []
        position, end = 0, len(data)
        while position + _HEAD_BYTES <= end:
            operation, flags, expected, key_len, value_len = _COMMAND.unpack_from(data, position)
            value_at = position + _HEAD_BYTES + key_len
            position = value_at + value_len
            if position > end:
                break  # not made by us; every member breaks off at the same place
            key = data[value_at - key_len : value_at]
            before = self._registers.get(key, _NEVER_SET)
            if operation == PUT or (operation == COMPARE_AND_SET and before.version == expected):
                version = self._next_version(before)
                if flags & IN_LOG:
                    self._set(key, before, _Register(version, b"", index, value_at, value_len))
                elif before.entry:
                    self._set(key, before, _Register(version, data[value_at:position]))
                else:
                    self._registers[key] = _Register(version, data[value_at:position])
                outcomes.append(Outcome(True, version))
            else:
                outcomes.append(self._apply_rare(operation, key, before, expected))
        return outcomes

    def _apply_rare(self, operation: int, key: bytes, before: _Register, expected: int) -> Outcome:
        if operation == DELETE:
            self._set(key, before, None)
            return Outcome(before is not _NEVER_SET, 0)
        if operation == UPGRADE:
            if expected > VERSION_NEWEST:
                raise ValueError(
                    f"version {expected} of the machine is unknown here, {VERSION_NEWEST} is the newest: update this node"
                )
            self.version = max(self.version, expected)
            return Outcome(self.version == expected, self.version)
        return Outcome(False, before.version)  # compare and set that found another; an operation unknown to all

    def _next_version(self, before: _Register) -> int:
        if self.version == 1:
            self._counter = max(self._counter, before.version + 1)
            return before.version + 1
        self._counter += 1
        return self._counter

    def _set(self, key: bytes, before: _Register, register: _Register | None) -> None:
        if before.entry:
            self._live[before.entry] -= 1
            if not self._live[before.entry]:
                del self._live[before.entry]
        if register is None:
            self._registers.pop(key, None)
            return
        if register.entry:
            self._live[register.entry] = self._live.get(register.entry, 0) + 1
        self._registers[key] = register


def _decode(state: bytes) -> tuple[int, dict[bytes, _Register]]:
    counter, count = _COUNTS.unpack_from(state)
    registers: dict[bytes, _Register] = {}
    position = _COUNTS.size
    for _ in range(count):
        version, index, offset, key_len, size = _REGISTER.unpack_from(state, position)
        position += _REGISTER.size
        key = state[position : position + key_len]
        position += key_len
        if index:
            registers[key] = _Register(version, b"", index, offset, size)
        else:
            registers[key] = _Register(version, state[position : position + size])
            position += size
    if position != len(state):
        raise ValueError(f"a state of {len(state)} bytes does not end behind its {count} registers, at {position}")
    return counter, registers
