"""What ends a node's part in all its groups: a disk that failed, or a mistake of ours."""

from __future__ import annotations

from collections.abc import Callable

from raft.core.errors import BadBytes
from storage.errors import StorageError


class StopOnFault:
    """What this node holds in memory is not to be built upon any further: `fail` is called with the reason. Entered for every
    letter, so it is one object that costs next to nothing."""

    __slots__ = ("_fail",)

    def __init__(self, fail: Callable[[str], None]) -> None:
        self._fail = fail

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> bool:
        return error is not None and self.ends(error)

    def ends(self, error: BaseException) -> bool:
        """The node's part, unless the error is a peer's fault. Whether it is dealt with by that; else it is to be raised on."""
        if isinstance(error, StorageError):
            self._fail(str(error))
            return True
        if isinstance(error, Exception) and not isinstance(error, BadBytes):  # those are the peer's fault, and told to
            self.by_mistake(error)  # whoever brought the letter
        return False

    def by_mistake(self, error: Exception) -> None:
        self._fail(f"a fault of this node: {error!r}")
