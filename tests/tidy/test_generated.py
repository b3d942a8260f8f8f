"""The committed stubs are what the .proto files say. When this fails: `make proto`, and commit what changed.

python -m grpc_tools.protoc -Iproto --python_out=client --pyi_out=client --grpc_python_out=client proto/leveret/v1/*.proto
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "proto/leveret/v1").glob("*.proto"))
STUBS = ROOT / "client/leveret/v1"

# The compilers write their versions into what they make; a newer one that makes the same is no reason to fail.
VERSIONS = re.compile(
    r"# Protobuf Python Version: .*|GRPC_GENERATED_VERSION = .*|Domain\.PUBLIC,\s+\d+,\s+\d+,\s+\d+,", re.MULTILINE
)


def without_versions(text: str) -> str:
    return VERSIONS.sub("", text)


def test_stubs_are_current(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}"]
    command += [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run([*command, *map(str, SOURCES)], check=True, timeout=60)
    made = {path.name: path.read_text() for path in (tmp_path / "leveret/v1").iterdir()}
    kept = {path.name: path.read_text() for path in STUBS.iterdir() if "_pb2" in path.name and path.suffix != ".pyc"}
    assert made.keys() == kept.keys(), "run `make proto`: a .proto file came or went"
    outdated = [name for name in made if without_versions(made[name]) != without_versions(kept[name])]
    assert outdated == [], "run `make proto`"


def test_each_proto_file_says_what_it_is_for() -> None:
    assert [path.name for path in SOURCES if not path.read_text().startswith("// ")] == []
