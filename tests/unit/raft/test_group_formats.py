"""The doctor knows the files of groups: it shows what is in them, and finds every flipped bit."""

from __future__ import annotations

from pathlib import Path

import raft.store.group_formats  # noqa: F401  registers the formats
from storage import doctor
from storage.names import RAFT_DIRECTORY
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
