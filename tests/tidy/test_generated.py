"""The committed stubs are what the .proto files say. When this fails: `make proto`, and commit what changed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "proto"
# Folder below proto/ -> the root of its stubs, and their kinds. Applications install the first; the second is between nodes.
STUBS = {
    "leveret/v1": (ROOT / "client", ("python", "pyi", "grpc_python")),
    "node/peers": (ROOT, ("python", "pyi")),
}

# The compilers write their versions into what they make; a newer one that makes the same is no reason to fail.
VERSIONS = re.compile(
    r"# Protobuf Python Version: .*|GRPC_GENERATED_VERSION = .*|Domain\.PUBLIC,\s+\d+,\s+\d+,\s+\d+,", re.MULTILINE
)


def without_versions(text: str) -> str:
    return VERSIONS.sub("", text)


def sources(folder: str) -> list[Path]:
    return sorted((PROTO / folder).glob("*.proto"))


@pytest.mark.parametrize("folder", STUBS)
def test_stubs_are_current(folder: str, tmp_path: Path) -> None:
    target, kinds = STUBS[folder]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", *(f"--{kind}_out={tmp_path}" for kind in kinds)]
    subprocess.run([*command, *map(str, sources(folder))], check=True, timeout=60)
    made = {path.name: path.read_text() for path in (tmp_path / folder).iterdir()}
    kept = {
        path.name: path.read_text()
        for path in (target / folder).iterdir()
        if "_pb2" in path.name and path.suffix != ".pyc"
    }
    assert made.keys() == kept.keys(), "run `make proto`: a .proto file came or went"
    outdated = [name for name in made if without_versions(made[name]) != without_versions(kept[name])]
    assert outdated == [], "run `make proto`"


def test_every_proto_file_has_its_stubs_somewhere() -> None:
    known = {path for folder in STUBS for path in sources(folder)}
    assert set(PROTO.rglob("*.proto")) == known


def test_each_proto_file_says_what_it_is_for() -> None:
    assert [path.name for path in PROTO.rglob("*.proto") if not path.read_text().startswith("// ")] == []


def test_the_client_has_nothing_of_what_nodes_ask_each_other() -> None:
    ours = {path.stem for path in sources("node/peers")}
    assert ours
    assert [path.name for path in (ROOT / "client").rglob("*_pb2*") if path.name.partition("_pb2")[0] in ours] == []
