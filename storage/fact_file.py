"""Facts: a few values that a node must never forget or get wrong, such as who it is. JSON inside a snapshot file."""

from __future__ import annotations

from typing import Any

import msgspec

from storage import snapshot_file
from storage.disk import Disk
from storage.errors import Corrupt

Facts = dict[str, Any]


def load(disk: Disk, name: str) -> Facts | None:
    """The facts, None when none were ever saved. Raises Corrupt: the caller must not invent others."""
    try:
        payload = snapshot_file.load(disk, name)
    except FileNotFoundError:
        return None
    return decode(name, payload)


def decode(name: str, payload: bytes) -> Facts:
    """The facts in a snapshot file's payload. Raises Corrupt."""
    try:
        return msgspec.json.decode(payload, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Corrupt(name, 0, len(payload), f"the facts are not JSON: {error}") from error


def save(disk: Disk, name: str, facts: Facts) -> None:
    """Replace all facts of this file, durably."""
    snapshot_file.save(disk, name, [msgspec.json.encode(facts)])
