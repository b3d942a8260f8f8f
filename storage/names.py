"""Every file name in a node's data directory is made, and parsed, here and nowhere else.

    lock                                        held by the process that uses the directory
    node.facts                                  who this node is
    log.facts                                   the log's id, and which of its files is the first that still counts
    log/00000000000000000001.log                the node's log
    catalog/                                    the metadata store (LMDB)
    classic/clean-stop                          written last at a clean stop, removed first at the next start
    classic/files                               which of the files below are durable, and up to where
    classic/<hash>/00000000000000000000.idx     a queue's index segment; its number is that of its first entry's segment
    classic/<hash>/00000000000000000000.body    bodies embedded beside that segment
    store/persistent/00000000000000000001.rdq   bodies shared by queues
    store/transient/00000000000000000001.rdq    spilled bodies of non-persistent messages; emptied at start
    raft/groups.0, raft/groups.1                what all groups on this node are, as of a log file's end; the newer one counts
    raft/<group>-<number>.seg                   entries of one replicated log
    raft/<group>-<number>.snap                  a snapshot of one group's machine
    raft/<group>-<number>.kept                  a file of the log, which has the entries of that segment
    raft/<group>-<part>.incoming                of a snapshot that is being received
    archive/00000000000000000001.log            a file of the log that nothing needs any more, kept for readers
    archive/<group>-<number>.snap               a snapshot of a group that a newer one has replaced, kept for them too
    archive/<name>.sum                          what the file of that name holds, in short
    survival.json                               what was lost when an operator had this node go on alone
    quarantine/                                 damaged files, kept for a human

Numbers have 20 digits, enough for 64 bits, so that names sort as numbers do. A queue's directory is a hash of who it
is: no string of a user becomes a file name.
"""

from __future__ import annotations

import hashlib

LOCK = "lock"
NODE_FACTS = "node.facts"
LOG_FACTS = "log.facts"
SURVIVAL_REPORT = "survival.json"
LOG_DIRECTORY = "log"
ARCHIVE_DIRECTORY = "archive"  # files of the log that count no more, kept to be read: same names
CATALOG_DIRECTORY = "catalog"
CLASSIC_DIRECTORY = "classic"
CLASSIC_CLEAN_STOP = "classic/clean-stop"
CLASSIC_FILES = "classic/files"
STORE_PERSISTENT = "store/persistent"
STORE_TRANSIENT = "store/transient"
RAFT_DIRECTORY = "raft"
RAFT_GROUPS = ("raft/groups.0", "raft/groups.1")
ARCHIVE_DIRECTORY = "archive"
QUARANTINE_DIRECTORY = "quarantine"

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".idx"
BODY_SUFFIX = ".body"
STORE_SUFFIX = ".rdq"
SEGMENT_SUFFIX = ".seg"
SNAPSHOT_SUFFIX = ".snap"
KEPT_SUFFIX = ".kept"
INCOMING_SUFFIX = ".incoming"
SUMMARY_SUFFIX = ".sum"
TEMPORARY_SUFFIX = ".tmp"

DIGITS = 20
NUMBER_MAX = 2**64 - 1


def numbered(directory: str, number: int, suffix: str) -> str:
    """The file of this number in a directory."""
    assert 0 <= number <= NUMBER_MAX, f"file number {number} does not fit 64 bits"
    return f"{directory}/{number:0{DIGITS}d}{suffix}"


def number_of(name: str, suffix: str) -> int | None:
    """The number in a file name, with or without its path; None for a file that is not one of these."""
    base = name.rpartition("/")[2]
    digits = base.removesuffix(suffix)
    if len(base) != DIGITS + len(suffix) or len(digits) != DIGITS or not (digits.isascii() and digits.isdecimal()):
        return None
    return int(digits)


def numbers_in(names: list[str], suffix: str) -> list[int]:
    """The numbers of those names that carry this suffix, ascending."""
    return sorted(number for name in names if (number := number_of(name, suffix)) is not None)


def log_file(number: int) -> str:
    return numbered(LOG_DIRECTORY, number, LOG_SUFFIX)


def archived(name: str) -> str:
    """Where a file of the log, or a snapshot of a group, is kept once nothing needs it."""
    return f"{ARCHIVE_DIRECTORY}/{name.rpartition('/')[2]}"


def archived_summary(name: str) -> str:
    """Beside the archived file of this name."""
    return f"{archived(name).rpartition('.')[0]}{SUMMARY_SUFFIX}"


def queue_directory(vhost: str, name: str, queue_id: int) -> str:
    """The directory of one classic queue. A queue declared again under the same name has another id, and another one."""
    identity = f"{vhost}\0{name}\0{queue_id}".encode()
    return f"{CLASSIC_DIRECTORY}/{hashlib.blake2b(identity, digest_size=16).hexdigest()}"


def is_queue_directory(name: str) -> bool:
    """Whether this entry of `classic/` is named as a queue's directory is."""
    return len(name) == 32 and all(character in "0123456789abcdef" for character in name)


def index_segment(directory: str, number: int) -> str:
    return numbered(directory, number, INDEX_SUFFIX)


def body_file(directory: str, number: int) -> str:
    return numbered(directory, number, BODY_SUFFIX)


def store_file(directory: str, number: int) -> str:
    """A file of the shared store; `directory` is STORE_PERSISTENT or STORE_TRANSIENT."""
    return numbered(directory, number, STORE_SUFFIX)


def group_segment(group: int, number: int) -> str:
    return f"{RAFT_DIRECTORY}/{group:0{DIGITS}d}-{number:0{DIGITS}d}{SEGMENT_SUFFIX}"


def group_kept_log(group: int, number: int) -> str:
    """The log file that has the entries of the segment of this number."""
    return f"{RAFT_DIRECTORY}/{group:0{DIGITS}d}-{number:0{DIGITS}d}{KEPT_SUFFIX}"


def group_snapshot(group: int, number: int) -> str:
    return f"{RAFT_DIRECTORY}/{group:0{DIGITS}d}-{number:0{DIGITS}d}{SNAPSHOT_SUFFIX}"


def group_incoming(group: int, part: int) -> str:
    return f"{RAFT_DIRECTORY}/{group:0{DIGITS}d}-{part:0{DIGITS}d}{INCOMING_SUFFIX}"


def group_file_of(name: str, suffix: str) -> tuple[int, int] | None:
    """Group and number of a segment, its log file, or a snapshot of a group; None for a file that is not one of these."""
    base = name.rpartition("/")[2]
    group, number = number_of(base[: DIGITS + 1], "-"), number_of(base[DIGITS + 1 :], suffix)
    return None if group is None or number is None else (group, number)


def temporary(name: str) -> str:
    """Where a file is written before it takes its name."""
    return name + TEMPORARY_SUFFIX


def quarantined(name: str, number: int) -> str:
    """Where the copy of a damaged file is kept; `number` keeps copies of the same name apart."""
    return f"{QUARANTINE_DIRECTORY}/{number}-{name.replace('/', '-')}"
