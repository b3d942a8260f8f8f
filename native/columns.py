"""Tables as columns of bytes, laid out as Apache Arrow lays out its arrays, so that a reader takes them over without a copy.

A table is its number of rows and a column for each field. A column is what Arrow calls the buffers of an array:

    INT64, INT32, INT8   validity | values                       little endian
    BINARY               validity | offsets, i32 x (rows + 1) | data

`validity` has a bit for each row, the lowest of a byte first, which is set where there is a value; it is None where no row
is null. Values of null rows are zero. Numbers are signed: what is stored as u64 keeps its bits.

Kernels that make tables have their fields beside them. This module is their plain part: it makes columns of rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

INT64: Final = 8  # bytes of a value
INT32: Final = 4
INT8: Final = 1
BINARY: Final = 0

_LETTERS: Final = {INT64: "Q", INT32: "I", INT8: "B"}
DATA_BYTES_MAX: Final = 2**31 - 1  # of a BINARY column: its offsets have 32 bits

Column: TypeAlias = tuple[bytes | None, ...]
Table: TypeAlias = tuple[int, tuple[Column, ...]]


class Field(NamedTuple):
    """One column of a table."""

    name: str
    kind: int
    nullable: bool = False


def table(fields: Sequence[Field], rows: Sequence[Sequence[Any]]) -> Table:
    """The columns of these rows."""
    turned = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
    return len(rows), tuple(_column(field, values) for field, values in zip(fields, turned, strict=True))


def values(field: Field, rows: int, column: Column) -> list[Any]:
    """The values of a column, None where there is none."""
    valid, first = column[0], column[1]
    assert first is not None, f"column {field.name} has no values"
    if field.kind == BINARY:
        offsets, data = struct.unpack(f"<{rows + 1}i", first), column[2]
        assert data is not None, f"column {field.name} has no data"
        found: list[Any] = [data[start:end] for start, end in pairwise(offsets)]
    else:
        found = list(struct.unpack(f"<{rows}{_LETTERS[field.kind].lower()}", first))
    if valid is None:
        return found
    return [value if valid[row >> 3] >> (row & 7) & 1 else None for row, value in enumerate(found)]


def row_of(fields: Sequence[Field], made: Table, row: int) -> dict[str, Any]:
    """One row of a table, by the names of its fields, none of which is BINARY: without looking at the others."""
    found = {}
    for field, (valid, numbers, *_) in zip(fields, made[1], strict=True):
        is_there = valid is None or valid[row >> 3] >> (row & 7) & 1
        assert numbers is not None, f"column {field.name} has no values"
        found[field.name] = (
            struct.unpack_from(f"<{_LETTERS[field.kind].lower()}", numbers, row * field.kind)[0] if is_there else None
        )
    return found


def rows_at(fields: Sequence[Field], made: Table, rows: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Some rows of such a table, as `row_of` makes one, for a quarter of its time each."""
    views = [(field.name, column[0], numbers(field, column)) for field, column in zip(fields, made[1], strict=True)]
    for row in rows:
        yield {
            name: view[row] if valid is None or valid[row >> 3] >> (row & 7) & 1 else None
            for name, valid, view in views
        }


def picked(fields: Sequence[Field], made: Table, rows: Sequence[int]) -> Table:
    """These rows of a table without BINARY fields, as a table."""
    found = [row_of(fields, made, row) for row in rows]
    return table(fields, [list(row.values()) for row in found])


def numbers(field: Field, column: Column) -> memoryview[int]:
    """The values of a column as they lie there, zeros where there is none: for those who look at one field of many rows."""
    assert field.kind != BINARY and column[1] is not None, f"column {field.name} has no numbers"
    view = memoryview(column[1])
    return view.cast("q") if field.kind == INT64 else view.cast("i") if field.kind == INT32 else view.cast("b")


def rows_of(fields: Sequence[Field], made: Table) -> list[dict[str, Any]]:
    """The rows of a table, by the names of its fields: for those who look at few, and for tests."""
    rows, columns = made
    names = [field.name for field in fields]
    turned = [values(field, rows, column) for field, column in zip(fields, columns, strict=True)]
    return [dict(zip(names, row, strict=True)) for row in zip(*turned, strict=True)]


def _column(field: Field, found: Sequence[Any]) -> Column:
    valid = _validity(found) if field.nullable else None
    if field.kind != BINARY:
        mask = (1 << 8 * field.kind) - 1
        return valid, struct.pack(f"<{len(found)}{_LETTERS[field.kind]}", *((value or 0) & mask for value in found))
    data = b"".join([value or b"" for value in found])
    if len(data) > DATA_BYTES_MAX:
        raise ValueError(f"column {field.name} would have {len(data)} bytes, {DATA_BYTES_MAX} is the most")
    offsets, end = [0], 0
    for value in found:
        end += len(value or b"")
        offsets.append(end)
    return valid, struct.pack(f"<{len(offsets)}I", *offsets), data


def _validity(found: Sequence[Any]) -> bytes | None:
    if all(value is not None for value in found):
        return None
    bits = sum(1 << row for row, value in enumerate(found) if value is not None)
    return bits.to_bytes((len(found) + 7) // 8, "little")
