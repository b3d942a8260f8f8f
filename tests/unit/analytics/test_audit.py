"""Who declared and deleted what, from the metadata log's entries in files of several nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analytics.__main__ import main
from analytics.audit.audit_trail import AuditTrail, trail
from analytics.audit.command_look import look_for_commands
from analytics.inputs import log_files
from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN
from broker.actors import ActorKind
from broker.catalog.catalog_commands import Command, DeclareQueue, DeleteQueue, NodeStarted, PutUser, encode_command
from broker.catalog.metadata_entry import METADATA_GROUP, Origin, WhenAndWho, encode_entry
from broker.records import UserRecord
from raft.core import packs
from raft.core.messages import EntryKind, Membership
from raft.store.group_records import GroupIdentity, encode_identity
from storage.history.name_records import ActorRow, encode_actor
from storage.record import Kind
from storage.record import encode as encode_record
from tests.unit.analytics.test_pursuit import log

START = 1_700_000_000_000
NODE, INCARNATION = 2, 9
CONNECTION, CHANNEL = 7, 8
MEMBER = NODE << 32


def record(
    kind: Kind, index: int, *parts: bytes, writer: int = METADATA_GROUP, term: int = 0, flags: int = 0
) -> list[bytes]:
    return [bytes(part) for part in encode_record(kind, writer, index, list(parts), flags=flags, term=term)]


def entries(index: int, term: int, *datas: bytes, kind: EntryKind = EntryKind.COMMAND) -> list[bytes]:
    return record(Kind.RAFT_ENTRIES, index, packs.encode(datas), term=term, flags=kind)


def given(command: Command, ms: int = 0, actor: int = CHANNEL, node: int = NODE) -> bytes:
    return encode_entry(Origin(node, INCARNATION, 1, 0), encode_command(command), WhenAndWho(START + ms, actor))


def actor(number: int, row: ActorRow) -> list[bytes]:
    return record(Kind.ACTOR, number, encode_actor(row), writer=0)


def member() -> list[bytes]:
    """The node says who its member is."""
    membership = Membership(voters=(MEMBER,))
    identity = GroupIdentity(METADATA_GROUP, MEMBER, "metadata", "catalog", membership)
    return record(Kind.RAFT_GROUP, 0, encode_identity(identity))


def committed(index: int) -> list[bytes]:
    return record(Kind.RAFT_COMMIT, index)


ANN = actor(CONNECTION, ActorRow(ActorKind.CONNECTION, INCARNATION, 0, "ann", "/", "10.0.0.7:1", "app", "pika"))
ITS_CHANNEL = actor(CHANNEL, ActorRow(ActorKind.CHANNEL, INCARNATION, CONNECTION))
DECLARE = DeclareQueue("/", "q", "quorum", arguments={"x-max-length": 5})


def told(data: Path) -> AuditTrail:
    return trail([look_for_commands(file, tail=True) for file in log_files([str(data)])])


def said(data: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[str]]:
    code = main(["--data", str(data), "--json", "--tail", "audit", *options])
    return code, [row["what"] for row in json.loads(capsys.readouterr().out)["rows"]]


def test_a_command_is_told_with_its_client(tmp_path: Path) -> None:
    log(tmp_path / "n2", 1, member(), ANN, ITS_CHANNEL, entries(4, 1, given(DECLARE, 250)), committed(4))
    (row,) = told(tmp_path).rows
    assert (row.entry, row.at, row.node, row.committed) == (4, "2023-11-14T22:13:20.250+00:00", "n2", True)
    assert (row.user, row.address, row.connection, row.product) == ("ann", "10.0.0.7:1", "app", "pika")
    assert (row.command, row.object) == ("DeclareQueue", "vhost '/' name 'q'")
    assert row.what == "declare quorum queue 'q' in vhost '/', durable, arguments {'x-max-length': 5}"


def test_a_secret_is_never_told(tmp_path: Path) -> None:
    log(tmp_path / "n2", 1, member(), entries(1, 1, given(PutUser(UserRecord("bob", "SECRET")))))
    (row,) = told(tmp_path).rows
    assert row.what == "put user 'bob' with a password, tags: none"
    assert "SECRET" not in str(row)


def test_who_it_was_is_looked_up_in_the_log_of_the_node_that_took_it(tmp_path: Path) -> None:
    """Another node gives the same numbers to others; an entry lies in the logs of all."""
    eve = ActorRow(ActorKind.CONNECTION, INCARNATION, user="eve")
    log(tmp_path / "n1", 1, actor(CONNECTION, eve), entries(1, 1, given(DECLARE, actor=CONNECTION)))
    log(tmp_path / "n2", 1, member(), ANN, entries(1, 1, given(DECLARE, actor=CONNECTION)))
    (row,) = told(tmp_path).rows
    assert (row.node, row.user) == ("n2", "ann")
    log(tmp_path / "n2", 1)
    (row,) = told(tmp_path).rows
    assert (row.node, row.user) == ("node 2", None)


def test_what_a_node_wants_itself_and_what_is_older_has_no_client(tmp_path: Path) -> None:
    old = encode_entry(Origin(NODE, INCARNATION, 1, 0), encode_command(DECLARE))
    log(tmp_path / "n2", 1, member(), ANN, entries(1, 1, given(NodeStarted("n2", 1, 1), actor=0), old))
    started, declared = told(tmp_path).rows
    assert (started.user, started.what) == (None, "node 'n2' has started")
    assert (declared.at, declared.user, declared.command) == (None, None, "DeclareQueue")


def test_copies_are_told_once_and_what_a_later_leader_has_replaced_is_not(tmp_path: Path) -> None:
    first, lost, other = (given(DeleteQueue("/", name)) for name in ("first", "lost", "other"))
    log(tmp_path / "n1", 1, entries(1, 1, first), entries(2, 1, lost, lost))
    log(tmp_path / "n2", 1, entries(1, 1, first), entries(2, 2, b"", kind=EntryKind.NOOP), entries(3, 2, other))
    found = told(tmp_path)
    assert [(row.entry, row.object) for row in found.rows] == [
        (1, "vhost '/' name 'first'"),
        (3, "vhost '/' name 'other'"),
    ]
    assert found.missing == []
    assert [row.committed for row in found.rows] == [None, None], "no node said so"


def test_what_is_missing_in_between_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path / "n2", 1, member(), entries(3, 1, given(DECLARE)), entries(7, 1, given(DeleteQueue("/", "q"))))
    assert told(tmp_path).missing == [(4, 6)]
    assert main(["--data", str(tmp_path), "--tail", "audit"]) == EXIT_UNKNOWN
    assert "entries 4 to 6 of the metadata log are in no file" in capsys.readouterr().err


def test_an_entry_of_a_later_version_is_told_as_one(tmp_path: Path) -> None:
    log(tmp_path / "n2", 1, entries(1, 1, b"\x09" * 60))
    (row,) = told(tmp_path).rows
    assert row.command is None and "version 09" in row.what


def test_commands_are_chosen_by_user_words_and_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deletion, own = given(DeleteQueue("/", "q"), 60_000), given(NodeStarted("n2", 1, 1), actor=0)
    log(tmp_path / "n2", 1, member(), ANN, ITS_CHANNEL, entries(1, 1, own, given(DECLARE), deletion))
    started, declared, deleted = (row.what for row in told(tmp_path).rows)
    assert said(tmp_path, capsys) == (EXIT_HOLDS, [started, declared, deleted])
    assert said(tmp_path, capsys, "--user", "ann")[1] == [declared, deleted]
    assert said(tmp_path, capsys, "--about", "DeleteQueue")[1] == [deleted]
    assert said(tmp_path, capsys, "--about", "max-length")[1] == [declared]
    assert said(tmp_path, capsys, "--since", "2023-11-14T22:14:20")[1] == [deleted]
