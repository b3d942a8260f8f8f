"""What a file says of a group that has a snapshot."""

from __future__ import annotations

from analytics.inputs import SnapshotFile
from analytics.queue_events import QueueEvent, snapshot_events
from raft.store.snapshots import read_state
from storage.errors import StorageError
from storage.os_disk import OsDisk


def snapshot_said(file: SnapshotFile) -> tuple[QueueEvent, QueueEvent] | None:
    """That it is there, and the machine's state. None: it cannot be read, or a running node has deleted it. Then the fold says
    what is missing without it."""
    try:
        meta, state = read_state(OsDisk(file.directory, read_only=True), file.name, file.group)
    except (StorageError, FileNotFoundError):
        return None
    said, stood = (one._replace(node=file.node) for one in snapshot_events(file.group, meta, state))
    return said, stood
