"""The entries of groups that were applied or read lately, within a bound for all of a node's queues of one kind."""

from __future__ import annotations

from collections import OrderedDict


class EntryCache:
    """Entries that were applied or read lately, of all queues of the node: the common delivery reads no file."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()  # by group and index; the latest used last
        self._bytes = 0

    def get(self, group: int, index: int) -> bytes | None:
        data = self._kept.get((group, index))
        if data is not None:
            self._kept.move_to_end((group, index))
        return data

    def holds(self, group: int, index: int) -> bool:
        return (group, index) in self._kept

    def keep(self, group: int, index: int, data: bytes) -> None:
        if (group, index) in self._kept:
            return
        self._kept[group, index] = data
        self._bytes += len(data)
        while self._bytes > self._bytes_max and len(self._kept) > 1:
            self._bytes -= len(self._kept.popitem(last=False)[1])

    def forget(self, group: int) -> None:
        """Its entries may be others from now on."""
        for key in [key for key in self._kept if key[0] == group]:
            self._bytes -= len(self._kept.pop(key))
