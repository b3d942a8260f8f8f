"""The doctor on files of classic queues: the manifest tells damage from what a crash left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

import classic.file_formats
from storage import doctor, fact_file
from storage.names import CLASSIC_FILES, STORE_PERSISTENT, STORE_TRANSIENT, body_file, index_segment, store_file
from storage.os_disk import OsDisk
from storage.record import Kind, encode

DIRECTORY = "classic/" + "0" * 32
FILES = {
    index_segment(DIRECTORY, 0): Kind.CLASSIC_INDEX,
    body_file(DIRECTORY, 0): Kind.CLASSIC_BODY,
    store_file(STORE_PERSISTENT, 1): Kind.CLASSIC_STORED,
}


def records(kind: Kind) -> bytes:
    """Three records of one kind."""
    return b"".join(part for index in range(3) for part in encode(kind, 7, index, [b"payload"]))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Each kind of file with three records, all noted as synced."""
    assert {"index", "body", "message store", "manifest", "clean stop"} <= set(doctor.formats())
    for name, kind in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(records(kind))
    index, body, store = (len(records(kind)) for kind in FILES.values())
    noted = {"queues": {"7": [DIRECTORY, [[0, index, body, 0, 3, 0]]]}, "store": {"1": store}}
    fact_file.save(OsDisk(str(tmp_path)), CLASSIC_FILES, noted)
    return tmp_path


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def found(path: Path) -> list[tuple[str, bool]]:
    return [(Path(one.path).name, one.damage) for one in doctor.verify(str(path))]


def test_whole_files_have_nothing_wrong_and_show_their_records(root: Path) -> None:
    assert found(root) == []
    for name, kind in FILES.items():
        assert [row["kind"] for row in doctor.dump(str(root / name))] == [kind.name] * 3
    assert next(doctor.dump(str(root / CLASSIC_FILES)))["store"] == {"1": len(records(Kind.CLASSIC_STORED))}


def test_files_that_the_manifest_names_and_that_are_missing_are_damage(root: Path) -> None:
    sizes = {str(root / name): (root / name).stat().st_size for name in FILES}
    for name in FILES:
        (root / name).unlink()
    missing = doctor.verify(str(root))
    assert {one.path: one.length for one in missing} == sizes
    assert all(one.damage and "the file is missing" in one.reason and "lost" in one.reason for one in missing)


def test_a_manifest_that_is_missing_is_damage_once_there_are_files(root: Path) -> None:
    (root / CLASSIC_FILES).unlink()
    missing = doctor.verify(str(root))
    assert [(one.path, one.damage) for one in missing] == [(str(root / CLASSIC_FILES), True)]
    assert "it is missing" in missing[0].reason
    for name in FILES:
        (root / name).unlink()
    assert doctor.verify(str(root)) == []


def test_a_file_that_the_manifest_does_not_name_is_not_missed(root: Path) -> None:
    index, body, store = FILES
    noted = {"queues": {"7": [DIRECTORY, [[0, (root / index).stat().st_size, 0, 0, 3, 0]]]}, "store": {}}
    fact_file.save(OsDisk(str(root)), CLASSIC_FILES, noted)
    for name in (body, store):
        (root / name).unlink()
    assert found(root) == []


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_in_what_was_synced_is_damage(root: Path, name: str) -> None:
    flip(root / name, 50)
    assert found(root) == [(Path(name).name, True)]
    assert found(root / name) == [(Path(name).name, True)]


@pytest.mark.parametrize("name", FILES)
def test_an_end_that_is_missing_is_damage(root: Path, name: str) -> None:
    path = root / name
    path.write_bytes(path.read_bytes()[:-10])
    assert found(root) == [(path.name, True)]


@pytest.mark.parametrize("name", FILES)
def test_an_unfinished_write_behind_what_was_synced_is_none(root: Path, name: str) -> None:
    path = root / name
    path.write_bytes(path.read_bytes() + b"half a record")
    assert found(root) == [(path.name, False)]


def test_a_file_outside_its_directory_is_taken_for_synced(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    name = store_file(STORE_PERSISTENT, 1)
    copy = tmp_path_factory.mktemp("copies") / "a" / "b" / Path(name).name
    copy.parent.mkdir(parents=True)
    copy.write_bytes((root / name).read_bytes()[:-10])
    assert found(copy) == [(copy.name, True)]


def test_the_transient_store_is_never_damaged(root: Path) -> None:
    path = root / store_file(STORE_TRANSIENT, 1)
    path.parent.mkdir(parents=True)
    path.write_bytes(records(Kind.CLASSIC_STORED))
    flip(path, 3)
    assert [damage for _, damage in found(root)] == [False]


def test_a_damaged_manifest_is_found_itself(root: Path) -> None:
    flip(root / CLASSIC_FILES, 30)
    assert ("files", True) in found(root)
    assert classic.file_formats.MANIFEST_NAME == "files"
