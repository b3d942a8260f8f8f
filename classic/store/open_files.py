"""Files that are in use, and what was read of them ahead: few handles and a bounded cache for any number of queues."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from native.record_scan import scan
from storage.disk import Disk, File
from storage.errors import Corrupt, NoDescriptors
from storage.record import HEADER_BYTES, PAYLOAD_BYTES_MAX

OPEN_MAX = 128
WINDOW_BYTES = 1 << 20
WINDOWS_MAX = 8


class OpenFiles:
    """All names are those of storage/names.py."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.reads = 0  # calls of the disk
        self.writes = 0
        self._files: OrderedDict[str, File] = OrderedDict()
        # File, offset, content from there on; the one used last is first. A file may have several: two queues, or two
        # consumers of one, read it at different places in turn.
        self._windows: list[tuple[str, int, bytes]] = []

    def get(self, name: str) -> File:
        """An existing file. Raises FileNotFoundError."""
        file = self._files.get(name)
        if file is None:
            file = self._keep(name, self._opened(self.disk.open, name))
        self._files.move_to_end(name)
        return file

    def create(self, name: str) -> File:
        """A new file, in place of one that a crash left behind."""
        self.forget(name)
        if self.disk.exists(name):
            self.disk.delete(name)
        return self._keep(name, self._opened(self.disk.create, name))

    def _opened(self, opening: Callable[[str], File], name: str) -> File:
        """Where the system has no descriptor left, those of files that were not used lately are given up."""
        while True:
            try:
                return opening(name)
            except NoDescriptors:
                if not self._files:
                    raise
                self._files.popitem(last=False)[1].close()

    def _keep(self, name: str, file: File) -> File:
        self._files[name] = file
        while len(self._files) > OPEN_MAX or (len(self._files) > 1 and self.disk.lacks_descriptors()):
            self._files.popitem(last=False)[1].close()
        return file

    def payload(self, name: str, offset: int, size: int) -> bytes:
        """The payload of the record at this place; what lies behind it is read along. Raises Corrupt."""
        start, end = offset - HEADER_BYTES, offset + size
        for at, (of, first, data) in enumerate(self._windows):
            if first <= start and end <= first + len(data) and of == name:
                payload = whole_payload(data, start - first, size)
                if payload is None:
                    break
                if at:
                    self._windows.insert(0, self._windows.pop(at))
                return payload
        self.reads += 1
        data = self.get(name).read_at(start, max(WINDOW_BYTES, HEADER_BYTES + size))
        payload = whole_payload(data, 0, size)
        if payload is None:
            raise Corrupt(name, start, HEADER_BYTES + size, "no whole record lies here")
        if size <= WINDOW_BYTES // 4:
            self._windows.insert(0, (name, start, data))
            del self._windows[WINDOWS_MAX:]
        return payload

    def delete(self, name: str) -> None:
        """Remove a file, if it is there. Its directory is not synced."""
        self.forget(name)
        if self.disk.exists(name):
            self.disk.delete(name)

    def forget(self, name: str) -> None:
        """Let go of a file that will be deleted or renamed."""
        self._windows = [window for window in self._windows if window[0] != name]
        file = self._files.pop(name, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        self._windows.clear()
        for file in self._files.values():
            file.close()
        self._files.clear()


def whole_payload(data: bytes, at: int, size: int) -> bytes | None:
    """The payload of the record that begins here; None when that is no whole record of this size."""
    end = at + HEADER_BYTES + size
    if end > len(data):
        return None
    records, stop, _ = scan(data, at, end, PAYLOAD_BYTES_MAX)
    return data[at + HEADER_BYTES : end] if len(records) == 1 and stop == end else None
