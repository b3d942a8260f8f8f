"""Who declared and deleted what, from the metadata log's entries in files of several nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analytics.__main__ import main
from analytics.audit.audit_trail import AuditTrail, trail
from analytics.audit.command_look import look_for_commands
from analytics.audit.command_results import catalog_starts
from analytics.inputs import log_files, snapshot_files
from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN
from broker.actors import ActorKind
from broker.catalog.catalog import Catalog
from broker.catalog.catalog_state import CatalogState, Position
from broker.catalog.commands.catalog_commands import (
    Command,
    DeclareQueue,
    DeleteQueue,
    NodeStarted,
    PutUser,
    PutVhost,
    encode_command,
)
from broker.catalog.commands.metadata_entry import METADATA_GROUP, Origin, WhenAndWho, encode_entry
from broker.records import UserRecord, VhostRecord
from raft.core import packs
from raft.core.live_entries import NONE_LIVE
from raft.core.messages import EntryKind, Membership, SnapshotMeta
from raft.store import snapshots
from raft.store.group_records import GroupIdentity, encode_identity
from storage.history.name_records import ActorRow, encode_actor
from storage.names import RAFT_DIRECTORY
from storage.os_disk import OsDisk
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


def given(command: Command, ms: int = 0, actor: int = CHANNEL, node: int = NODE, number: int = 1) -> bytes:
    origin = Origin(node, INCARNATION, number, number - 1)
    return encode_entry(origin, encode_command(command), WhenAndWho(START + ms, actor))


def numbered(*commands: Command, first: int = 1) -> list[bytes]:
    """One after the other, of one process."""
    return [given(command, number=number) for number, command in enumerate(commands, first)]


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
VHOST = PutVhost(VhostRecord("/"))
DECLARE = DeclareQueue("/", "q", "quorum", arguments={"x-max-length": 5})


def told(data: Path) -> AuditTrail:
    paths = [str(data)]
    seen = [look_for_commands(file, tail=True) for file in log_files(paths)]
    return trail(seen, starts=catalog_starts(snapshot_files(paths)))


def results(data: Path) -> list[tuple[int, str | None, str | None]]:
    return [(row.entry, row.result, row.reason) for row in told(data).rows]


def snapshot(directory: Path, index: int, term: int, catalog: Catalog, applied: int, number: int) -> None:
    """What the node's catalog was behind this entry, when its own commands up to `number` had been carried out."""
    meta = SnapshotMeta(index, term, Membership(voters=(MEMBER,)), 1)
    position = Position(applied, {NODE: (INCARNATION, number)})
    disk = OsDisk(str(directory))
    disk.make_dir(RAFT_DIRECTORY)
    snapshots.write(disk, METADATA_GROUP, index, meta, NONE_LIVE, CatalogState(catalog, position))


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
    declared, deleted = given(DECLARE), given(DeleteQueue("/", "q"))
    log(tmp_path / "n2", 1, member(), ANN, ITS_CHANNEL, entries(1, 1, *[declared] * 3), entries(7, 1, deleted))
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


def test_a_refused_command_is_told_with_what_its_client_was_told(tmp_path: Path) -> None:
    classic, elsewhere = DeclareQueue("/", "q", "classic"), DeclareQueue("other", "q")
    datas = numbered(VHOST, DECLARE, classic, elsewhere, DeleteQueue("/", "q"))
    log(tmp_path / "n2", 1, member(), entries(1, 1, b"", kind=EntryKind.NOOP), entries(2, 1, *datas), committed(5))
    declared, deleted = results(tmp_path)[1], results(tmp_path)[-1]
    assert declared == (3, "done", None)
    assert deleted == (6, None, None), "not known to be committed, so nobody knows"
    (_, changed, why), (_, lost, other_why) = results(tmp_path)[2:4]
    assert (changed, lost) == ("refused", "refused")
    assert why is not None and "x-queue-type" in why and "queue 'q' in vhost '/'" in why
    assert other_why == "no vhost 'other'"


def test_a_command_that_was_sent_twice_was_carried_out_once(tmp_path: Path) -> None:
    vhost, declared, deleted = numbered(VHOST, DECLARE, DeleteQueue("/", "q"))
    log(tmp_path / "n2", 1, member(), entries(1, 1, vhost, deleted, declared, declared, deleted), committed(9))
    assert [one for _, one, _ in results(tmp_path)] == ["done", "missed", "done", "repeated", "done"]


def test_without_the_first_entry_results_are_known_from_a_snapshot_on(tmp_path: Path) -> None:
    first, second, third = numbered(DECLARE, DeleteQueue("other", "q"), DECLARE, first=8)
    log(tmp_path / "n2", 1, member(), entries(20, 3, first, second, third), committed(22))
    assert {one for _, one, _ in results(tmp_path)} == {None}
    catalog = Catalog()
    catalog.apply(VHOST)
    catalog.apply(DECLARE)
    snapshot(tmp_path / "n2", 20, 3, catalog, 20, 8)
    assert results(tmp_path) == [(20, None, None), (21, "refused", "no vhost 'other'"), (22, "done", None)]


def test_a_snapshot_of_what_a_later_leader_has_replaced_tells_no_results(tmp_path: Path) -> None:
    catalog = Catalog()
    catalog.apply(VHOST)
    log(tmp_path / "n2", 1, member(), entries(20, 3, *numbered(DECLARE, DECLARE)), committed(21))
    snapshot(tmp_path / "n2", 20, 2, catalog, 20, 1)
    assert {one for _, one, _ in results(tmp_path)} == {None}


def test_behind_an_entry_that_is_missing_or_cannot_be_read_nothing_is_known_of_results(tmp_path: Path) -> None:
    vhost, declared, deleted = numbered(VHOST, DECLARE, DeleteQueue("/", "q"))
    log(tmp_path / "n2", 1, member(), entries(1, 1, vhost), entries(3, 1, deleted), committed(9))
    assert [one for _, one, _ in results(tmp_path)] == ["done", None]
    log(tmp_path / "n2", 1, member(), entries(1, 1, vhost, bytes(60), declared), committed(9))
    assert [one for _, one, _ in results(tmp_path)] == ["done", None, None]


def test_a_client_whom_no_file_names_is_unknown_and_may_be_the_one_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file of its node that named it is gone. It looked as what the node wants itself, and --user left it out."""
    own = given(NodeStarted("n2", 1, 1), actor=0)
    log(tmp_path / "n2", 1, member(), ANN, ITS_CHANNEL, entries(1, 1, own, given(DECLARE)), committed(2))
    log(tmp_path / "n1", 1, entries(1, 1, own, given(DECLARE)))
    assert said(tmp_path, capsys)[0] == EXIT_HOLDS
    log(tmp_path / "n2", 1, member(), ITS_CHANNEL, committed(2))
    started, declared = told(tmp_path).rows
    assert (started.unknown, declared.unknown) == (None, "no file that was read names actor 7 of process 9")
    log(tmp_path / "n2", 1, member(), committed(2))
    started, declared = told(tmp_path).rows
    assert (started.unknown, declared.unknown) == (None, "no file that was read names actor 8 of process 9")
    assert said(tmp_path, capsys, "--user", "ann") == (EXIT_UNKNOWN, [declared.what])
    assert said(tmp_path, capsys, "--about", "has started") == (EXIT_HOLDS, [started.what])


def test_what_is_missing_before_the_first_entry_is_said_unless_it_is_too_old_to_be_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log(tmp_path / "n2", 1, member(), ANN, ITS_CHANNEL, entries(30, 1, given(DECLARE), given(DECLARE, 60_000)))
    assert main(["--data", str(tmp_path), "--tail", "audit"]) == EXIT_UNKNOWN
    assert "entries 1 to 29 of the metadata log are in no file" in capsys.readouterr().err
    assert said(tmp_path, capsys, "--since", "2023-11-14T22:13:20")[0] == EXIT_UNKNOWN
    assert said(tmp_path, capsys, "--since", "2023-11-14T22:13:21")[0] == EXIT_HOLDS
    log(tmp_path / "n2", 1, member(), committed(30))
    assert main(["--data", str(tmp_path), "--tail", "audit"]) == EXIT_UNKNOWN
    assert "entries 1 to 30 of the metadata log are in no file" in capsys.readouterr().err


def test_an_end_that_was_committed_and_is_in_no_file_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log(tmp_path / "n2", 1, member(), ANN, ITS_CHANNEL, entries(1, 1, given(DECLARE)), committed(3))
    assert main(["--data", str(tmp_path), "--tail", "audit"]) == EXIT_UNKNOWN
    assert "entries 2 to 3 of the metadata log are in no file" in capsys.readouterr().err
