"""Every source file of ours, parsed once for the tests of this folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVER = (
    "analytics",
    "broker",
    "classic",
    "front",
    "links",
    "native",
    "node",
    "quorum",
    "raft",
    "replicated",
    "storage",
    "stream",
    "wire",
)
CLIENT = "client/leveret"
GENERATED = re.compile(r"_pb2(_grpc)?\.py$")  # by `make proto`


@cache
def sources() -> dict[str, ast.Module]:
    """Path below the root -> its syntax tree; without what is generated."""
    found = {}
    for folder in (*SERVER, CLIENT):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if not GENERATED.search(name):
                found[name] = ast.parse(path.read_text(), name)
    assert len(found) > 100, f"only {len(found)} files below {ROOT}: is this the root?"
    return found


def folder(name: str) -> str:
    """The root folder of a file."""
    return name.partition("/")[0]


def imported(tree: ast.Module) -> Iterator[str]:
    """Names of modules that are imported anywhere in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def called(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Calls as they are written, `eval` or `yaml.load`, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield ast.unparse(node.func), node.lineno


def defined(tree: ast.Module) -> Iterator[str]:
    """Names of what the file defines: classes, functions, arguments, variables and fields."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr


def words(name: str) -> set[str]:
    """`unroutable_count` and `UnroutableCount` are both made of unroutable and count."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
