"""The store of the catalog on a simulated disk: all rows in one file that is replaced as a whole.

LMDB does the same to whoever looks from outside: a commit is there as a whole and fsynced, or it is not. So the catalog shares
the fate of the disk: power cuts, room that runs out, rot, an old copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from storage import names, snapshot_file
from storage.disk import Disk
from storage.errors import Corrupt
from storage.lmdb_store import Change

FILE = f"{names.CATALOG_DIRECTORY}/rows"


class CatalogFile:
    """Fulfils storage.lmdb_store.Store. Raises Corrupt when it is made on what is no catalog."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._rows: dict[bytes, bytes] = {}
        disk.make_dir(names.CATALOG_DIRECTORY)
        try:
            payload = snapshot_file.load(disk, FILE)
        except FileNotFoundError:
            return
        try:
            self._rows = msgspec.msgpack.decode(payload, type=dict[bytes, bytes])
        except msgspec.DecodeError as error:
            raise Corrupt(FILE, 0, len(payload), f"these are no rows: {error}") from error

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return iter(sorted(one for one in self._rows.items() if one[0].startswith(prefix)))

    def commit(self, changes: Sequence[Change]) -> None:
        rows = dict(self._rows)
        for key, value in changes:
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
        snapshot_file.save(self._disk, FILE, [msgspec.msgpack.encode(rows)])
        self._rows = rows

    def close(self) -> None:
        """There is nothing to let go of."""
