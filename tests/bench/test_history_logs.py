"""Logs that stand for others, as the benchmark of the history reads them: files that are copied are what they are taken for."""

from __future__ import annotations

from storage.names import log_file
from storage.wal.file_reader import LogFileReader
from tests.bench.history_logs import copied_file
from tests.sim.disk import SimDisk
from tests.unit.storage.log_world import LOG_ID, open_log

OTHER_LOG = bytes(range(16))


def read(disk: SimDisk, number: int, log_id: bytes) -> list[tuple[int, int, bytes]]:
    """Writer, index and payload of all records that are durable by marks of this log."""
    reader = LogFileReader(disk, log_file(number), number, log_id)
    found = []
    for chunk in reader.records(None):
        found += [(record[3], record[4], bytes(chunk.buffer[record[5] : record[6]])) for record in chunk.records]
    return found


def test_a_copied_file_has_all_records_under_its_new_log_and_number() -> None:
    log = open_log()
    for index in range(5):
        log.append(index, LOG_ID + bytes(40))  # a body that holds the log's id stays as it is
        log.loop.run_soon()
    expected = read(log.disk, 1, LOG_ID)
    content = bytes(log.disk.content(log_file(1)))
    copy = SimDisk()
    copy.make_dir("log")
    copy.create(log_file(7)).write_at(0, [copied_file(content, log_id=OTHER_LOG, number=7)])
    assert [one for one in expected if one[0]] == [one for one in read(copy, 7, OTHER_LOG) if one[0]]
    assert [one[2][:16] for one in expected if one[0]] == [LOG_ID] * 5
