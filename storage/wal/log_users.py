"""Who still needs which of the log's files. The log is one, and several parts of a node keep their records in it: a file may go
only when none of them needs it. A core: it knows the lowest file of each, and releases up to the lowest of them.
"""

from __future__ import annotations

from typing import Protocol


class LogFiles(Protocol):
    """What is shared: storage/wal/writer.py."""

    def files(self) -> range: ...

    def release(self, first_file: int) -> None: ...


class LogUsers:
    """All who keep something in one log. They join before anybody releases."""

    def __init__(self, log: LogFiles) -> None:
        self._log = log
        self._first: dict[str, int] = {}
        self._released = False

    def join(self, name: str) -> LogShare:
        assert name not in self._first, f"{name} uses this log already"
        assert not self._released, f"{name} joins when files that it needs may be gone"
        self._first[name] = self._log.files().start
        return LogShare(self, name)

    def files_of(self, name: str) -> range:
        files = self._log.files()
        return range(max(files.start, self._first[name]), files.stop)

    def release(self, name: str, first_file: int) -> None:
        self._released = True
        self._first[name] = max(self._first[name], first_file)
        self._log.release(min(self._first.values()))

    def needs(self) -> dict[str, int]:
        """The first file that each still needs: who keeps the log long."""
        return dict(self._first)


class LogShare:
    """One user's view: the log as if it were alone."""

    def __init__(self, users: LogUsers, name: str) -> None:
        self._users = users
        self._name = name

    def files(self) -> range:
        """The numbers of the files that this user has not let go, the last one being written."""
        return self._users.files_of(self._name)

    def release(self, first_file: int) -> None:
        """Nothing in files below this number is needed by this user any more."""
        self._users.release(self._name, first_file)
