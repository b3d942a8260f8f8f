"""Tables of columns, read row by row."""

from __future__ import annotations

from native.columns import INT8, INT32, INT64, Field, row_of, rows_at, table

FIELDS = (
    Field("offset", INT64),
    Field("time", INT64, nullable=True),
    Field("size", INT32),
    Field("flag", INT8, nullable=True),
)
ROWS = [(1 << 40, None, -1, 1), (2, 5, 7, None), (-3, -(1 << 62), 1 << 20, 0), *((at, at, at, None) for at in range(9))]


def test_some_rows_are_read_as_one_is_read() -> None:
    made = table(FIELDS, ROWS)
    asked = [8, 0, 11, 2]
    assert list(rows_at(FIELDS, made, asked)) == [row_of(FIELDS, made, row) for row in asked]
    assert next(iter(rows_at(FIELDS, made, [0]))) == {"offset": 1 << 40, "time": None, "size": -1, "flag": 1}


def test_no_rows_of_an_empty_table_are_none() -> None:
    assert list(rows_at(FIELDS, table(FIELDS, []), [])) == []
