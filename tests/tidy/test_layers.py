"""Imports point downward, cores do no I/O, and the client stands alone: pyproject.toml says it, and this runs it."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.tidy.sources import CLIENT, ROOT, SERVER, imported, sources

# From the top; a folder imports from those after it only. Written again, so that a contract cannot be lost by an edit.
# Siblings are analytics, front and links; classic, quorum and stream; broker and raft.
ORDER = (
    "node",
    "analytics",
    "front",
    "links",
    "classic",
    "quorum",
    "stream",
    "replicated",
    "broker",
    "raft",
    "storage",
    "wire",
    "native",
)
CONTRACTS = {
    "imports point downward",
    "rooms of the broker import downward",
    "rooms of classic queues import downward",
    "rooms of the catalog import downward",
    "rooms of consensus import downward",
    "rooms of the node import downward",
    "rooms of the fronts import downward",
    "rooms of the web front import downward",
    "rooms of streams import downward",
    "fronts see the broker only",
    "links see the broker only",
    "cores do no I/O",
    "the client imports no server folder",
}
CORES = {
    "broker",
    "classic.variable_queue",
    "quorum.fifo",
    "raft.core",
    "replicated",
    "front.amqp.connection",
    "front.amqp.channel",
    "links.amqp",
    "storage.wal.log_core",
    "storage.wal.group_commit",
    "stream",
    "wire",
}


def project() -> list[dict[str, object]]:
    contracts: list[dict[str, object]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    return contracts


def test_the_contracts_are_kept() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_no_contract_was_taken_away() -> None:
    assert {contract["name"] for contract in project()} >= CONTRACTS
    cores = next(contract for contract in project() if contract["name"] == "cores do no I/O")
    assert set(cores["source_modules"]) >= CORES  # type: ignore[call-overload]
    assert cores["ignore_imports"] == ["native -> os"]


def test_every_folder_is_a_layer() -> None:
    assert set(ORDER) == set(SERVER)
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert packages == set(SERVER), "a new folder needs its place in the order, here and in pyproject.toml"


def test_each_package_is_installed() -> None:
    """One that is missing in the list is found in a checkout, and not where Leveret was installed."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    inits = [path for root in (*SERVER, "client/leveret") for path in (ROOT / root).rglob("__init__.py")]
    names = {".".join(path.parent.relative_to(ROOT).parts).removeprefix("client.") for path in inits}
    assert set(declared) == names


def test_imports_within_functions_point_downward_too() -> None:
    upward = []
    for name, tree in sources().items():
        folder = name.partition("/")[0]
        allowed = set(ORDER[ORDER.index(folder) :]) if folder in ORDER else set()
        for module in imported(tree):
            top = module.partition(".")[0]
            if top in ORDER and top not in allowed:
                upward.append(f"{name} imports {module}")
    assert upward == []


def test_the_server_imports_nothing_of_the_client_but_the_stubs() -> None:
    wrong = []
    for name, tree in sources().items():
        if not name.startswith(CLIENT):
            wrong += [f"{name}: {module}" for module in imported(tree) if module.startswith("leveret") and
                      not module.startswith("leveret.v1") and module != "leveret"]  # fmt: skip
    assert wrong == []


def test_the_broker_knows_nothing_that_waits() -> None:
    waiting = [
        f"{name}:{node.lineno}"
        for name, tree in sources().items()
        if name.startswith("broker/")
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    ]
    assert waiting == []
