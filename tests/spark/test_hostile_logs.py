"""Logs whose records are whole and say nonsense: rows of all tables can be made of them, and carried to any tool."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from analytics.inputs import LogFile, log_files
from storage.record import FIRST_KIND_OF_WRITERS, HEADER_BYTES, PAYLOAD_BYTES_MAX, Record, encode, scan
from tests.ledger.told import histories

pytestmark = pytest.mark.spark
LOGS = 6  # for each seed
RECORDS_SPOILED = (1, 1, 3, 20)
LARGE = (0, 1, 1 << 63, (1 << 64) - 1)


class SpoiledLog:
    """A log of which some records say something else, each with a checksum that is right."""

    def __init__(self, data: Path, random: Random) -> None:
        self.file: LogFile = log_files([str(data)])[-1]
        self._path = Path(self.file.directory) / self.file.name
        self._whole = self._path.read_bytes().rstrip(b"\0")
        found, _, _ = scan(self._whole, 0, len(self._whole), PAYLOAD_BYTES_MAX)
        self._records = [one for one in found if one[0] >= FIRST_KIND_OF_WRITERS and one[5] < one[6]]
        self._random = random

    def spoil(self) -> None:
        data = bytearray(self._whole)
        for _ in range(self._random.choice(RECORDS_SPOILED)):
            self._spoil_one(data, self._random.choice(self._records))
        self._path.write_bytes(data)

    def _spoil_one(self, data: bytearray, record: Record) -> None:
        kind, flags, term, writer, index, start, end = record
        payload = bytearray(data[start:end])
        for _ in range(self._random.choice((1, 2, 8))):
            at = self._random.randrange(len(payload))
            value = self._random.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * self._random.choice((1, 4, 8))
            payload[at : at + len(value)] = value[: len(payload) - at]
        kind = self._random.choice([kind, kind, self._random.choice(self._records)[0]])
        writer, index = (self._random.choice((one, one, one, self._random.choice(LARGE))) for one in (writer, index))
        data[start - HEADER_BYTES : end] = b"".join(encode(kind, writer, index, [bytes(payload)], flags, term))


@pytest.mark.parametrize("seed", range(8))
def test_nonsense_in_records_ends_no_question(logs: Path, tmp_path: Path, seed: int) -> None:
    """Numbers beyond 63 bits, years beyond the calendar, names that are no UTF-8: one of them ended whatever was asked."""
    shutil.copytree(logs / "n1", tmp_path / "n1")
    log = SpoiledLog(tmp_path / "n1", Random(f"hostile.{seed}"))
    for _ in range(LOGS):
        log.spoil()
        assert rows_made(log.file, str(tmp_path)) > 0


def rows_made(file: LogFile, path: str) -> int:
    """Of all tables; each value as a program would get it."""
    from analytics.spark.event_source import batches_of
    from analytics.spark.life_columns import lives_batch
    from analytics.spark.table_source import TABLES, table_batches

    batches = list(batches_of(file, tail=True))
    for name, table in TABLES.items():
        batches += table_batches(name, list(table.columns), file, tail=True)
    for queue, (_, history) in histories([path]).items():
        batches.append(lives_batch(queue, history.lives, history))
    for batch in batches:
        batch.validate(full=True)
        batch.to_pylist()
    return sum(batch.num_rows for batch in batches)


def test_a_name_that_is_no_utf8_and_a_number_of_64_bits_are_told() -> None:
    import pyarrow as pa

    from analytics.spark.event_source import arrow_batch
    from analytics.spark.life_columns import YEAR_10000_MS, micros

    schema = pa.schema([("name", pa.string()), ("number", pa.int64())])
    rows = [(b"key\xff".decode("utf-8", "surrogateescape"), (1 << 64) - 1), ("key", 1)]
    assert arrow_batch(schema, rows).to_pylist() == [{"name": "key\\xff", "number": -1}, {"name": "key", "number": 1}]
    assert (micros(YEAR_10000_MS), micros(1), micros(None)) == (None, 1_000, None)
