"""A log file goes when the last of those who keep records in it lets it go."""

from __future__ import annotations

import pytest

from storage.wal.log_users import LogUsers


class Log:
    """Files 3 to 9, of which 9 is being written."""

    def __init__(self) -> None:
        self.first = 3

    def files(self) -> range:
        return range(self.first, 10)

    def release(self, first_file: int) -> None:
        self.first = max(self.first, first_file)


def test_a_file_goes_when_nobody_needs_it() -> None:
    log = Log()
    users = LogUsers(log)
    classic, raft = users.join("classic"), users.join("raft")
    classic.release(7)
    assert (log.first, classic.files(), raft.files()) == (3, range(7, 10), range(3, 10))
    raft.release(5)
    assert (log.first, users.needs()) == (5, {"classic": 7, "raft": 5})
    raft.release(8)
    assert (log.first, raft.files()) == (7, range(8, 10))


def test_a_user_who_is_alone_decides() -> None:
    log = Log()
    share = LogUsers(log).join("classic")
    share.release(6)
    assert log.first == 6


def test_nothing_is_needed_again_by_releasing_less() -> None:
    log = Log()
    share = LogUsers(log).join("classic")
    share.release(6)
    share.release(4)
    assert share.files() == range(6, 10)


def test_two_users_of_one_name_are_a_mistake() -> None:
    users = LogUsers(Log())
    users.join("classic")
    with pytest.raises(AssertionError, match="classic uses this log already"):
        users.join("classic")


def test_who_comes_after_a_release_is_refused_as_its_files_may_be_gone() -> None:
    """A node whose groups let go of log files before classic queues had joined lost confirmed messages at its next start."""
    users = LogUsers(Log())
    users.join("raft").release(5)
    with pytest.raises(AssertionError, match="classic joins when files that it needs may be gone"):
        users.join("classic")
