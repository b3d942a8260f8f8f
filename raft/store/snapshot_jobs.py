"""The jobs of raft/store/node_log.py for snapshots: those of this member's own machine, and those that are received."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from raft.core.live_entries import LiveEntries
from raft.core.messages import SnapshotMeta
from raft.store import snapshots
from raft.store.group_records import StoredSnapshot
from raft.store.incoming import SnapshotAssembly
from raft.store.moving import StoreOfJobs
from raft.store.wal_log_store import WalLogStore
from storage import names
from storage.disk import Buffer
from storage.errors import Corrupt

NO_ROOM = "there is no room"


class SaveSnapshot:
    """A snapshot of this member's own machine."""

    def __init__(
        self,
        node: StoreOfJobs,
        store: WalLogStore,
        meta: SnapshotMeta,
        state: Sequence[Buffer],
        live: LiveEntries,
        done: Callable[[bool], None],
        *,
        keeps_recent: bool,
    ) -> None:
        self._node = node
        self._store = store
        self._meta = meta
        self._state = state
        self._live = live
        self._done = done
        self._keeps_recent = keeps_recent
        self._begun: str | None = None  # the file that it goes to
        self._stored: StoredSnapshot | None = None

    def plan(self) -> int | None:
        return 0  # what is applied is durable

    def work(self) -> None:
        number = self._node.next_number()
        group = self._store.identity.group
        self._begun = names.group_snapshot(group, number)
        self._stored = snapshots.write(self._node.disk, group, number, self._meta, self._live, self._state)

    def end(self) -> None:
        assert self._stored is not None, "the work was not done"
        self._begun = None  # whatever comes now, it is there
        kept = self._node.snapshot_saved(self._store, self._stored, self._live, keeps_recent=self._keeps_recent)
        self._done(kept)

    def full(self) -> bool:
        if self._begun is not None:  # and perhaps could not be deleted; the next attempt has another number
            self._node.dead_files += [names.temporary(self._begun), self._begun]
        self._done(False)
        return False


class TakePart:
    """A part of a snapshot that is being received goes to the files that the snapshot will be."""

    def __init__(self, node: StoreOfJobs, assembly: SnapshotAssembly, part: str) -> None:
        self._node = node
        self._assembly = assembly
        self._part = part

    def plan(self) -> int | None:
        return 0

    def work(self) -> None:
        self._assembly.take(self._part)
        with suppress(FileNotFoundError):
            self._node.disk.delete(self._part)

    def end(self) -> None:
        """Nothing is left to be done."""

    def full(self) -> bool:
        self._assembly.refuse(NO_ROOM)
        self._node.dead_files.append(self._part)
        return False


class DropSnapshot:
    """What came of a snapshot that is not received any more."""

    def __init__(self, node: StoreOfJobs, assembly: SnapshotAssembly) -> None:
        self._node = node
        self._assembly = assembly

    def plan(self) -> int | None:
        return 0

    def work(self) -> None:
        self._assembly.close()

    def end(self) -> None:
        self._node.dead_files += self._assembly.files

    def full(self) -> bool:
        self.end()
        return False


class Install:
    """A snapshot that was received, all but its last part taken already."""

    def __init__(
        self,
        node: StoreOfJobs,
        store: WalLogStore,
        meta: SnapshotMeta,
        assembly: SnapshotAssembly,
        done: Callable[[bytes | None], None],
    ) -> None:
        self._node = node
        self._store = store
        self._meta = meta
        self._assembly = assembly
        self._done = done
        self._received: tuple[StoredSnapshot, LiveEntries, bytes] | None = None

    def plan(self) -> int | None:
        return 0

    def work(self) -> None:
        assembly = self._assembly
        try:
            if not assembly.why:
                self._received = assembly.finish(self._meta)
        except Corrupt as error:
            assembly.refuse(str(error))
        finally:
            assembly.close()

    def end(self) -> None:
        if self._received is None:
            self._give_up()
            return
        stored, live, state = self._received
        if not self._node.snapshot_received(self._store, stored, live, lambda: self._done(state)):
            self._done(None)

    def full(self) -> bool:
        self._assembly.refuse(NO_ROOM)
        self._give_up()
        return False

    def _give_up(self) -> None:
        self._node.dead_files += self._assembly.files
        self._node.not_installed(self._store, self._assembly.why)
        self._done(None)
