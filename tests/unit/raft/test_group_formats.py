"""The doctor knows the files of groups: it shows what is in them, and finds every flipped bit."""

from __future__ import annotations

from pathlib import Path

import raft.store.group_formats  # noqa: F401  registers the formats
from raft.core import packs
from raft.core.messages import Membership
from raft.store import groups_file
from raft.store.group_records import GroupIdentity, encode_identity, encode_member
from storage import doctor, fact_file
from storage.names import LOG_FACTS, RAFT_DIRECTORY, RAFT_GROUPS
from storage.os_disk import OsDisk
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


def test_a_group_that_makes_no_sense_is_found_though_every_checksum_is_right(tmp_path: Path) -> None:
    disk = flushed_world().disk
    file, _ = groups_file.load(disk)
    file.states[7] = b"no state of a group"
    file.save(disk)
    path = tmp_path / Path(RAFT_GROUPS[file.generation % 2]).name
    path.write_bytes(disk.content(RAFT_GROUPS[file.generation % 2]))
    (finding,) = doctor.verify(str(path))
    assert "group 7" in str(finding)


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


def findings(path: Path) -> list[tuple[str, bool, str]]:
    return [(Path(one.path).name, one.damage, one.reason) for one in doctor.verify(str(path))]


def test_a_segment_is_damaged_wherever_it_ends_and_never_an_unfinished_write(tmp_path: Path) -> None:
    """Confirmed messages may be lost with it: it took its name when it was sealed."""
    segments = [file for file in written_out(tmp_path) if file.suffix == ".seg"]
    content = segments[0].read_bytes()
    for damaged in (content + bytes(50), content + b"\xa5" * 50, content[:-1], content[:40], b""):
        segments[0].write_bytes(damaged)
        for place in (segments[0], tmp_path):
            assert findings(place), f"{len(damaged)} bytes"
            assert all(name == segments[0].name and damage for name, damage, _ in findings(place))
    assert any(f"{len(content)} bytes were written, 0 are there" in reason for _, _, reason in findings(tmp_path))


def test_a_segment_that_is_whole_and_of_another_size_than_was_written_is_damaged(tmp_path: Path) -> None:
    segments = [file for file in written_out(tmp_path) if file.suffix == ".seg"]
    other = next(file for file in segments if file.stat().st_size != segments[0].stat().st_size)
    assert other.name.partition("-")[0] == segments[0].name.partition("-")[0], "of the same group"
    segments[0].write_bytes(other.read_bytes())
    assert findings(segments[0]) == []
    assert [(name, damage) for name, damage, _ in findings(tmp_path)] == [(segments[0].name, True)]


def test_each_missing_file_of_a_group_is_named_with_what_is_lost(tmp_path: Path) -> None:
    files = written_out(tmp_path)
    assert findings(tmp_path) == []
    for file in files:
        content = file.read_bytes()
        file.unlink()
        found = findings(tmp_path)
        assert [(name, damage) for name, damage, _ in found] == [(file.name, True)]
        why = found[0][2]
        assert "missing" in why and "lost" in why
        if file.suffix in (".seg", ".snap"):
            assert f"group {int(file.name.partition('-')[0])} ('g" in why
        file.write_bytes(content)
    assert findings(tmp_path) == []


def test_files_of_groups_without_any_file_that_names_them_are_damage(tmp_path: Path) -> None:
    files = written_out(tmp_path)
    lists = [file for file in files if file.name.startswith("groups")]
    for file in lists:
        file.unlink()
    found = findings(tmp_path)
    assert [name for name, damage, _ in found if damage] == [file.name for file in lists]
    assert all("nothing says what the files of 2 groups are" in reason for _, _, reason in found)
    for file in files:
        file.unlink(missing_ok=True)
    assert findings(tmp_path) == [], "a node that never had a group"


def test_a_snapshot_that_the_log_has_a_newer_one_for_is_not_missed(tmp_path: Path) -> None:
    """It goes as soon as the record of the next one is durable; the file of groups tells of it until the log file is let go."""
    (old,) = (file for file in written_out(tmp_path) if file.suffix == ".snap")
    group, number = old.stem.split("-")
    old.rename(old.with_name(f"{group}-{int(number) + 40:0{len(number)}d}.snap"))
    assert findings(tmp_path) == []


def test_a_file_of_groups_that_was_written_once_has_no_second_copy(tmp_path: Path) -> None:
    disk = OsDisk(str(tmp_path))
    disk.make_dir(RAFT_DIRECTORY)
    groups_file.GroupsFile(generation=1).save(disk)
    assert findings(tmp_path) == []
    fact_file.save(disk, LOG_FACTS, {"log_id": bytes(16).hex(), "first_file": 2})
    assert [(name, damage) for name, damage, _ in findings(tmp_path)] == [("groups.0", True)], (
        "the log let go of file 1"
    )


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
