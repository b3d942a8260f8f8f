"""What raftos 0.2.6 does with votes, entries and the disk: the reasons of docs/decisions/0008-our-own-raft.md, to be run again.

    python -m tests.bench.raftos_faults

Its own classes are given what a peer could send or a restart brings, and what they do is printed; `fault` is what Raft forbids.
Ends with 1 when one of them is not there (any more): then the decision has to be looked at.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.bench.raft_rivals import start_raftos

WRITES = 500
Shown = tuple[bool, str]  # whether it is a fault, and what was seen


class Member:
    """What raftos calls a State: files of one node, and what it sends."""

    def __init__(self, name: str) -> None:
        from raftos.storage import FileStorage, Log, StateMachine

        self.id = name
        self.loop = asyncio.get_running_loop()
        self.storage, self.log, self.state_machine = FileStorage(name), Log(name), StateMachine(name)
        self.sent: list[dict[str, Any]] = []
        self.became = "follower"

    async def send(self, data: dict[str, Any], destination: Any) -> None:
        self.sent.append(data)

    def broadcast(self, data: dict[str, Any]) -> None:
        self.sent.append(data)

    def set_leader(self, leader: Any) -> None: ...

    def to_follower(self) -> None:
        self.became = "follower"

    def to_leader(self) -> None:
        self.became = "leader"

    @staticmethod
    def is_majority(count: int) -> bool:
        return count >= 2  # of three


def follower(member: Member) -> Any:
    """As when the process starts."""
    from raftos.state import Follower

    role = Follower(member)
    role.start()
    return role


def asks_for_vote(candidate: str, term: int) -> dict[str, Any]:
    return {
        "type": "request_vote", "term": term, "candidate_id": candidate, "sender": candidate,
        "last_log_index": 0, "last_log_term": 0,
    }  # fmt: skip


def entries(previous: int, term: int, *commands: str) -> dict[str, Any]:
    return {
        "type": "append_entries", "term": term, "leader_id": "a", "sender": "a", "commit_index": 0, "request_id": 1,
        "prev_log_index": previous, "prev_log_term": term if previous else 0,
        "entries": [{"term": term, "command": {"k": command}} for command in commands],
    }  # fmt: skip


async def two_votes_in_one_term() -> Shown:
    granted = []
    for candidate in ("a", "b"):  # the process ends in between
        member = Member("voter")
        member.storage.update({"term": 7})
        role = follower(member)
        role.on_receive_request_vote(asks_for_vote(candidate, 7))
        role.stop()
        await asyncio.sleep(0)
        granted += [candidate for answer in member.sent if answer["vote_granted"]]
    return len(granted) > 1, f"restarted in term 7 it voted for {' and '.join(granted)}"


async def a_vote_of_an_earlier_term_counts() -> Shown:
    from raftos.state import Candidate

    member = Member("candidate")
    member.storage.update({"term": 6})
    role = Candidate(member)
    role.start()
    role.on_receive_request_vote_response(
        {"type": "request_vote_response", "term": 3, "vote_granted": True, "sender": "b"}
    )
    role.stop()
    return (
        member.became == "leader",
        f"in term 7, of three, with its own vote and one of term 3 it became {member.became}",
    )


async def a_late_datagram_takes_back_what_was_acknowledged() -> Shown:
    member = Member("acknowledger")
    role = follower(member)
    for at, command in enumerate(("one", "two", "three")):
        role.on_receive_append_entries(entries(at, 7, command))
    await asyncio.sleep(0)
    acknowledged = member.sent[-1]["last_log_index"]
    role.on_receive_append_entries(entries(1, 7, "two"))  # the second of them, once more
    role.stop()
    left = len(member.log)
    return left < acknowledged, f"{acknowledged} entries were acknowledged; the second came again, and {left} are left"


async def nothing_is_synced() -> Shown:
    synced = []
    real = os.fsync, os.fdatasync
    os.fsync = os.fdatasync = synced.append  # type: ignore[assignment]
    try:
        member = Member("writer")
        role = follower(member)
        role.on_receive_request_vote(asks_for_vote("a", 7))
        role.on_receive_append_entries(entries(0, 7, "one"))
        role.stop()
        await asyncio.sleep(0)
    finally:
        os.fsync, os.fdatasync = real
    return not synced, f"a vote and an entry were answered after {len(synced)} calls of fsync"


async def a_newline_splits_an_entry() -> Shown:
    """Its default serializer is binary (msgpack): 10 is the byte of a newline. JSON stands in for it here, with indents."""
    from raftos.storage import Log

    def packed(entry: Any) -> bytes:
        return json.dumps(entry, indent=1).encode()

    log = Log("splitter", SimpleNamespace(pack=packed, unpack=json.loads))
    try:
        for _ in range(log.UPDATE_CACHE_EVERY):
            log.write(7, {"k": "v"})
    except ValueError as error:
        return True, f"an entry with a newline was written, and the log cannot be read: {error}"
    return False, "entries with newlines are read again"


async def the_log_is_read_again_and_again() -> Shown:
    from raftos.storage import Log

    log = Log("reader")
    read = 0
    unpack = log.serializer.unpack

    def counted(data: Any) -> Any:
        nonlocal read
        read += 1
        return unpack(data)

    log.serializer = SimpleNamespace(pack=log.serializer.pack, unpack=counted)
    for _ in range(WRITES):
        log.write(7, {"k": "v"})
    return read > WRITES, f"{WRITES} writes read {read} entries: each fifth reads all of them"


FAULTS: tuple[Callable[[], Any], ...] = (
    two_votes_in_one_term,
    a_vote_of_an_earlier_term_counts,
    a_late_datagram_takes_back_what_was_acknowledged,
    nothing_is_synced,
    a_newline_splits_an_entry,
    the_log_is_read_again_and_again,
)


async def show() -> int:
    missing = 0
    with tempfile.TemporaryDirectory(prefix="raftos-") as directory:
        start_raftos(Path(directory))
        for fault in FAULTS:
            is_fault, seen = await fault()
            missing += not is_fault
            print(f"{'fault' if is_fault else 'no fault':9} {fault.__name__.replace('_', ' ')}: {seen}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(show()))
