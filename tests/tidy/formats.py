"""Makes docs/formats.md from the tables in the docstrings of the modules that define our formats.

python -m tests.tidy.formats          writes the page; test_formats.py says when that is due
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from storage.record import Kind

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "formats.md"

HEAD = """\
# Formats

What the bytes in a data directory mean. This page is made by `make docs` from the docstrings of the modules that read and
write them; change those. `leveret doctor --dump FILE` shows any of these files.
"""

# A module of a queue kind that packs bytes defines a format.
PACKS = re.compile(r"\bStruct\(|struct\.pack|\.to_bytes\(")


# These read or write what others define.
NO_FORMAT = {"classic/stored_run.py", "storage/wal/file_reader.py", "storage/wal/writer.py"}


def packing(folder: str) -> list[str]:
    """Modules of a folder, and of those in it, that lay out bytes."""
    modules = [path for path in sorted((ROOT / folder).rglob("*.py")) if PACKS.search(path.read_text())]
    return [name for path in modules if (name := str(path.relative_to(ROOT))) not in NO_FORMAT]


# Chapter -> the modules whose docstrings it is made of, from the outermost to the innermost.
CHAPTERS = {
    "Names of files": ["storage/names.py"],
    "Records and the log": [
        "storage/record.py",
        "storage/wal/log_core.py",
        "storage/history/name_records.py",
        "storage/history/count_records.py",
        "storage/history/reader_records.py",
    ],
    "What is archived": ["storage/archive/summary.py"],
    "Files of records that do not change": ["storage/segment.py", "storage/segment_index.py"],
    "Files that are replaced as a whole": ["storage/snapshot_file.py", "storage/fact_file.py"],
    "Messages": ["native/content.py", "wire/amqp/tables.py"],
    "The catalog": [
        "storage/lmdb_store.py",
        "storage/lmdb_pages.py",
        "node/catalog/catalog_store.py",
        "broker/catalog/catalog_state.py",
        "broker/catalog/commands/metadata_entry.py",
        "broker/catalog/commands/catalog_commands.py",
    ],
    "Classic queues": packing("classic"),
    "Replicated logs": [
        "raft/store/group_records.py",
        "raft/core/packs.py",
        "raft/core/leadership.py",
        "raft/store/groups_file.py",
        "raft/store/segments.py",
        "raft/store/kept_logs.py",
        "raft/store/snapshots.py",
        "raft/core/live_entries.py",
    ],
    "Quorum queues": [
        "quorum/fifo/commands.py",
        "quorum/fifo/results.py",
        "quorum/fifo/rules.py",
        "quorum/fifo/snapshot.py",
        "quorum/fifo/ready_rows.py",
    ],
    "Streams": [
        "stream/chunks/chunk.py",
        "stream/chunks/bloom.py",
        "stream/chunks/entries.py",
        "stream/group/stream_state.py",
        "stream/group/chunk_places.py",
        "stream/chunks/publish_ops.py",
        "stream/chunks/store_ops.py",
        "wire/amqp10/sections.py",
        "wire/amqp10/typed_values.py",
        "wire/amqp10/to_amqp10.py",
        "wire/amqp10/from_amqp10.py",
        "wire/amqp10/table_conversion.py",
        "wire/amqp10/deaths.py",
    ],
    "What members of a group say": ["raft/core/codec.py"],
    "What nodes say to each other": [
        "node/peers/frames.py",
        "raft/transport.py",
        "node/peers/calls.py",
        "node/anywhere/wire.py",
        "replicated/letters.py",
        "quorum/letters.py",
        "node/anywhere/replies.py",
        "node/anywhere/stream_groups.py",
    ],
}


def page() -> str:
    parts = [HEAD]
    for chapter, modules in CHAPTERS.items():
        parts.append(f"## {chapter}\n")
        for module in modules:
            parts.append(f"### `{module}`\n\n{docstring(module)}\n")
        if "storage/record.py" in modules:
            parts.append(kinds())
    return "\n".join(parts)


def docstring(module: str) -> str:
    text = ast.get_docstring(ast.parse((ROOT / module).read_text()))
    assert text, f"{module} has no docstring"
    return text


def kinds() -> str:
    rows = "\n".join(f"| {kind.value} | {kind.name} |" for kind in Kind)
    return f"### Kinds of records\n\n| number | kind |\n|---|---|\n{rows}\n"


if __name__ == "__main__":
    PAGE.write_text(page())
