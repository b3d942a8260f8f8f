"""Commands of one round of the loop travel as few entries: what arrived together is proposed, and answered, together."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from typing import Any

from raft.core.errors import Busy, Damaged, NotLeader, RaftError
from raft.core.messages import node_of
from raft.groups import Groups, NoSuchGroup
from tests.raft_node.register import Register
from tests.raft_node.wire import Said

ENTRY_BYTES = 65_536

Told = Callable[[Said, Any], None]


class Gatherer:
    """The groups, command by command."""

    def __init__(self, groups: Groups, loop: AbstractEventLoop) -> None:
        self._groups = groups
        self._loop = loop
        self._gathered: dict[int, tuple[list[bytes], list[Told]]] = {}

    def command(self, group: int, command: bytes, told: Told) -> None:
        if not self._gathered:
            self._loop.call_soon(self._propose)
        gathered = self._gathered.get(group)
        if gathered is None:
            gathered = self._gathered[group] = ([], [])
        gathered[0].append(command)
        gathered[1].append(told)

    def read(self, group: int, key: bytes, told: Told) -> None:
        def answer(error: RaftError | None) -> None:
            if error is not None:
                told(*said_of(error))
                return
            machine = self._groups.driver(group).machine
            assert isinstance(machine, Register)
            try:
                found = machine.get(key)
            except Damaged as damage:  # another member can read it
                self._groups.damaged(group, damage)
                told(Said.NOT_LEADER, 0)
            else:
                told(Said.OK, found)

        try:
            self._groups.read(group, answer)
        except NoSuchGroup as error:
            answer(error)

    def _propose(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for group, (commands, told) in gathered.items():
            try:
                self._groups.propose(group, packed(commands), answers(told))
            except NoSuchGroup as error:
                answers(told)(None, error)


def packed(commands: Sequence[bytes]) -> list[bytes]:
    """As few entries as possible of about ENTRY_BYTES."""
    entries: list[bytes] = []
    part: list[bytes] = []
    size = 0
    for command in commands:
        if size + len(command) > ENTRY_BYTES and part:
            entries.append(b"".join(part))
            part, size = [], 0
        part.append(command)
        size += len(command)
    entries.append(b"".join(part))
    return entries


def answers(told: Sequence[Told]) -> Callable[[Sequence[Any] | None, RaftError | None], None]:
    def on_results(results: Sequence[Any] | None, error: RaftError | None) -> None:
        if results is None:
            assert error is not None
            said, detail = said_of(error)
            for tell in told:
                tell(said, detail)
            return
        waiting = iter(told)
        for outcomes in results:
            for outcome in outcomes:
                next(waiting)(Said.OK, outcome)

    return on_results


def said_of(error: RaftError) -> tuple[Said, Any]:
    match error:
        case NotLeader(leader=leader):
            return Said.NOT_LEADER, node_of(leader)
        case Busy():
            return Said.BUSY, None
        case NoSuchGroup():
            return Said.NO_GROUP, None
        case _:
            return Said.UNKNOWN, None
