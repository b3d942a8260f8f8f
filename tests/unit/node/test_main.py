"""The command `leveret`: options over the file, the doctor, and exit codes that scripts can rely on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.catalog_state import Position, encode_head
from broker.catalog.commands.catalog_commands import encode_record
from node.catalog import catalog_store
from node.config import ClusterSection, Config, check
from node.main import run, with_cluster_options, with_options
from storage import names
from storage.lmdb_store import DATA_FILE, LmdbStore
from storage.os_disk import OsDisk
from storage.wal.facts import load_or_create
from storage.wal.log_core import LOG_ID_BYTES, LogCore, LogEnd
from storage.wal.writer import LogWriter
from tests.running_node import ROOT
from tests.sim.clock import SimLoop

LOG_ID = bytes(range(LOG_ID_BYTES))
KIND = 16


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory as a stopped node leaves it: the lock's file, a log with records, a catalog."""
    directory = tmp_path / "data"
    disk = OsDisk(str(directory))
    disk.lock(names.LOCK)
    facts = load_or_create(disk, LOG_ID)
    core = LogCore(LOG_ID, LogEnd(0, 0, 0), 1 << 20)
    log = LogWriter(core, disk, SimLoop(), facts, on_failed=pytest.fail, commit_inline_bytes_max=None)
    for index in range(1, 6):
        log.append(KIND, 1, index, [bytes([index]) * 300])
        log.commit_now()
    log.close()
    catalog, store = Catalog(), LmdbStore(disk.path(names.CATALOG_DIRECTORY), 1 << 20)
    for command in default_commands("$argon2id$secret"):
        catalog.apply(command)
    rows = {catalog_store.key_of(record): encode_record(record) for record in catalog.records()}
    store.commit([*rows.items(), (catalog_store.HEAD_KEY, encode_head(Position(7), catalog.head))])
    store.close()
    disk.unlock()
    return directory


def doctor(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run(["doctor", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def snapshot(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def test_options_win_over_the_file_and_leave_the_rest_alone() -> None:
    config = with_options(Config(), "n1", Path("/d"), "debug", amqp=["127.0.0.1:1", "[::1]:1"], amqps=None, grpc=None)
    assert (config.node.name, config.node.data_dir, config.logging.level) == ("n1", "/d", "debug")
    assert config.listen.amqp == ("127.0.0.1:1", "[::1]:1")
    assert config.listen.grpc == Config().listen.grpc
    assert with_options(Config(), None, None, None) == Config()


@pytest.mark.parametrize("arguments", [["serve", "--nonsense"], ["nonsense"], []])
def test_a_wrong_command_line_is_64(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 64
    said = capsys.readouterr()
    assert "leveret" in said.out + said.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["serve", "--config", "/nonexistent.toml"], "/nonexistent.toml"),
        (["serve", "--amqp", "5672"], "listen.amqp is '5672'"),
        (["serve", "--amqps", "127.0.0.1:5671"], "needs tls.certificate"),
        (["serve", "--streams", "127.0.0.1:5551"], "listen.streams is ['127.0.0.1:5551']: it needs tls.certificate"),
        (["serve", "--log-level", "loud"], "logging.level is 'loud'"),
    ],
)
def test_a_configuration_that_cannot_work_is_78_and_named(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 78
    assert named in capsys.readouterr().err


def test_the_doctor_alone_tells_how_it_is_built(capsys: pytest.CaptureFixture[str]) -> None:
    code, said, _ = doctor(capsys, "--json")
    assert code == 0
    assert json.loads(said)["kernels"] in ("compiled", "plain")


def test_a_healthy_directory_has_no_findings_and_is_not_changed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(data)
    assert doctor(capsys, data) == (0, "nothing is wrong\n", "")
    assert doctor(capsys, data, "--json") == (0, "", "")
    assert doctor(capsys, data / names.log_file(1))[0] == 0
    assert doctor(capsys, data / names.CATALOG_DIRECTORY / DATA_FILE)[0] == 0
    assert snapshot(data) == before


def test_damage_is_65_and_named_with_its_place(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = data / names.log_file(1)
    flip(log, 700)
    for path in (data, log):
        code, said, complaint = doctor(capsys, path, "--json")
        assert code == 65
        found = json.loads(said)
        assert (found["file"], found["finding"]) == (str(log), "damage")
        assert found["offset"] <= 700 < found["offset"] + found["length"]
        assert "1 findings" in complaint
    code, said, _ = doctor(capsys, log)
    assert code == 65
    assert f"file {log}" in said and "finding damage" in said


def test_a_damaged_or_short_catalog_is_found_and_nobody_crashes(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = data / names.CATALOG_DIRECTORY / DATA_FILE
    whole = path.read_bytes()
    at = whole.index(b"$argon2id$secret")
    flip(path, at)
    code, said, _ = doctor(capsys, data, "--json")
    assert (code, json.loads(said)["file"]) == (65, str(path))
    assert "checksum" in json.loads(said)["reason"]
    path.write_bytes(whole[: len(whole) // 2])
    code, said, _ = doctor(capsys, data, "--json")
    assert (code, json.loads(said)["reason"]) == (65, "the end of the file is missing")
    path.write_bytes(b"")
    assert doctor(capsys, data)[0] == 65


def test_a_dump_shows_records_and_no_password_hash(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, _ = doctor(capsys, data, "--dump", "--json")
    assert code == 0
    rows = [json.loads(line) for line in said.splitlines()]
    assert [row["index"] for row in rows if row.get("kind") == "CLASSIC_PUBLISH"] == [1, 2, 3, 4, 5]
    assert [row["name"] for row in rows if row.get("record") == "user"] == ["guest"]
    assert [row["applied"] for row in rows if row.get("record") == "head"] == [7]
    assert "$argon2id$" not in said


def test_a_dump_goes_on_behind_a_damaged_file(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It ended with a traceback, and showed no finding."""
    catalog = data / names.CATALOG_DIRECTORY / DATA_FILE
    flip(catalog, catalog.read_bytes().index(b"$argon2id$secret"))
    facts = data / names.LOG_FACTS
    flip(facts, 30)
    code, said, complaint = doctor(capsys, data, "--dump", "--json")
    rows = [json.loads(line) for line in said.splitlines()]
    assert (code, "2 findings" in complaint) == (65, True)
    assert {row["file"] for row in rows if "unreadable" in row and "kind" not in row} == {str(catalog), str(facts)}
    assert {row["file"] for row in rows if "finding" in row} == {str(catalog), str(facts)}
    assert [row["index"] for row in rows if row.get("kind") == "CLASSIC_PUBLISH"] == [1, 2, 3, 4, 5]


def test_a_running_node_is_not_examined(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    disk = OsDisk(str(data))
    disk.lock(names.LOCK)
    for path in (data, data / names.log_file(1), data / names.CATALOG_DIRECTORY):
        code, said, complaint = doctor(capsys, path)
        assert (code, said) == (69, "")
        assert f"the data directory {data} is in use by another process: stop the node first" in complaint
    disk.unlock()
    assert doctor(capsys, data)[0] == 0


def test_a_file_that_is_not_there_or_not_ours_is_66(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = data / "notes.txt"
    notes.write_text("hello")
    assert doctor(capsys, notes)[0] == 66
    code, _, complaint = doctor(capsys, data / "missing")
    assert (code, complaint) == (66, f"leveret: {data / 'missing'}: No such file or directory\n")
    assert doctor(capsys, data)[0] == 0


def test_what_a_client_named_cannot_colour_the_terminal(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(data / names.LOG_FACTS, 30)
    named = data.parent / "evil\x1b[31m"
    data.rename(named)
    code, said, _ = doctor(capsys, named)
    assert code == 65
    assert "\x1b" not in said


def test_options_of_the_command_line_win_over_the_file(tmp_path: Path) -> None:
    before = Config(cluster=ClusterSection(secret="x" * 16, peers=("a:1",), zone="old"))
    config = with_cluster_options(before, "0.0.0.0:7", "me:7", None, ["b:1", "c:1"], True, tmp_path / "secret", None)
    config = with_options(config, "n9", None, None)
    check(config)
    assert config.cluster == ClusterSection(
        secret_file=str(tmp_path / "secret"), peers=("b:1", "c:1"), zone="old", ram=True, advertise="me:7"
    )
    assert (config.listen.peer, config.node.name) == ("0.0.0.0:7", "n9")


@pytest.mark.parametrize("closed", ["", "2>&-", "<&- 2>&-"])
def test_what_a_node_opens_never_has_the_number_of_a_standard_stream(closed: str) -> None:
    """Who starts it may have closed them; then a library's error went to the file, or the client, that had its number."""
    program = (
        "import os, sys; import node.main; sys.argv = ['leveret'];"
        "node.main.run = lambda _: print(os.open(os.devnull, os.O_RDONLY)); node.main.main()"
    )
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", program]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert int(said) > 2
