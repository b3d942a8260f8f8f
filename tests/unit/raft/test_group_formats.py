"""The doctor knows the files of groups: it shows what is in them, and finds every flipped bit."""

from __future__ import annotations

from pathlib import Path

import raft.store.group_formats  # noqa: F401  registers the formats
from raft.core import packs
from raft.core.messages import Membership
from raft.store.group_records import GroupIdentity, encode_identity, encode_member
from storage import doctor
from storage.names import RAFT_DIRECTORY
from storage.record import Kind
from tests.unit.raft.test_store_damage import flushed_world


def written_out(path: Path) -> list[Path]:
    """The files of a small world, on a real disk."""
    disk = flushed_world().disk
    files = []
    (path / RAFT_DIRECTORY).mkdir()
    for name in disk.list(RAFT_DIRECTORY):
        file = path / RAFT_DIRECTORY / name
        file.write_bytes(disk.content(f"{RAFT_DIRECTORY}/{name}"))
        files.append(file)
    return files


def test_nothing_is_wrong_with_healthy_files_and_all_are_ours(tmp_path: Path) -> None:
    files = written_out(tmp_path)
    assert {file.suffix for file in files} == {".0", ".1", ".seg", ".snap"}
    for file in files:
        assert doctor.is_ours(str(file))
        assert doctor.verify(str(file)) == []
        assert list(doctor.dump(str(file)))


def test_the_groups_of_a_node_are_shown(tmp_path: Path) -> None:
    for file in written_out(tmp_path):
        if file.name.startswith("groups"):
            head, *groups = doctor.dump(str(file))
            assert head["generation"] > 1
            assert [(row["group"], row["name"], row["machine"]) for row in groups] == [
                (7, "g7", "map"),
                (8, "g8", "map"),
            ]


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    for file in written_out(tmp_path):
        content = file.read_bytes()
        for bit in range(0, len(content) * 8, 61):
            twin = bytearray(content)
            twin[bit // 8] ^= 1 << bit % 8
            file.write_bytes(twin)
            findings = doctor.verify(str(file))
            assert findings, f"bit {bit} of {file.name} was flipped, and nobody saw it"
        file.write_bytes(content)


def test_what_records_of_groups_say_is_shown_and_of_damaged_ones_why_not() -> None:
    identity = encode_identity(GroupIdentity(7, 21, "/orders", "quorum", Membership((21,), ())))
    pack = packs.encode([b"one", b"", b"three"])
    assert doctor.described(Kind.RAFT_GROUP, identity) == {
        "says": {"member": 21, "name": "/orders", "machine": "quorum"}
    }
    assert doctor.described(Kind.RAFT_ENTRIES, pack) == {"says": {"entries": 3, "bytes": 8}}
    assert doctor.described(Kind.RAFT_FACTS, encode_member(5)) == {"says": {"vote": 5}}
    assert doctor.described(Kind.RAFT_RENUMBERED, encode_member(6)) == {"says": {"member": 6}}
    for kind, payload in ((Kind.RAFT_GROUP, identity), (Kind.RAFT_ENTRIES, pack), (Kind.RAFT_FACTS, encode_member(5))):
        for length in range(len(payload)):
            assert "unreadable" in doctor.described(kind, payload[:length])
    assert doctor.described(Kind.RAFT_COMMIT, b"") == {}
